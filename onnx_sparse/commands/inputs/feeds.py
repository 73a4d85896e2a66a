"""Inputs from the command line: read, checked against what the model expects, and converted for ONNX Runtime.

- Files are read without pickles. Strings are numpy's fixed-width strings (`U`) or bytes (`S`, as UTF-8; `V`, as they
  are).
- tf.Example messages are also taken as JSON objects, with the values of features by key, and from TFRecord files and
  files of JSON lines.
- A feature of several inputs that the model records is also taken as JSON, as lists of its rows.
- An element type must be the model's own: a cast would hide a mistake. JSON values take the model's.
- numpy has no bfloat16: float32 is rounded to it, and files that `np.save` wrote from `ml_dtypes.bfloat16` are taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto

from onnx_sparse.commands.inputs.messages import json_leaves, messages_of_file, messages_of_json
from onnx_sparse.commands.inputs.model_graph import required_inputs, shape_of, type_name, type_text
from onnx_sparse.errors import CommandError, UsageError, meant, printable
from onnx_sparse.files.array_file import Array, read_npy, read_npz
from onnx_sparse.rows.columns import typed
from onnx_sparse.rows.input_roles import find_roles
from onnx_sparse.rows.model_features import Features, check_counts, features
from onnx_sparse.rows.tf_examples import ParsedFeature
from onnx_sparse.schemas.declaration import numpy_dtype
from onnx_sparse.schemas.features import Feature
from onnx_sparse.schemas.states import State, states_of
from onnx_sparse.settings import local_path

#: An error message lists no more inputs than this: it stays one readable line.
_MOST_LISTED = 12
#: How numpy's own file format writes bfloat16, a type that it does not know.
_BFLOAT16_BYTES = np.dtype("V2")


def read_feeds(
    model: ModelProto,
    sources: Sequence[str],
    *,
    before: Mapping[str, Array] = MappingProxyType({}),
    option: str = "--input",
) -> dict[str, Array]:
    """The feeds of one run. The inputs of states, which have a value before the first run, may be missing.

    Args:
        model: The model that is fed.
        sources: Each is `FILE.npz`, `FILE.json` (an object with the inputs by name), `NAME=FILE.npy`, `NAME=FILE` (of
            messages) or `NAME=JSON`.
        before: Feeds that stay where the sources give none.
        option: What the sources are given by, for messages.

    Raises:
        CommandError: A file cannot be read, or an input is missing, unknown or not of the model's type or shape.
        UsageError: A source is none of these forms, or an input is given twice.
    """
    declared = {value.name: value for value in model.graph.input}
    parsed = find_roles(model).examples
    given: dict[str, Array | _Json] = {}
    known = _features(model)
    composed = {name: feature for name, feature in known.items() if len(feature.inputs) > 1}
    for source in sources:
        for name, value in _read(source, option):
            if name not in declared and name not in composed:
                near = meant(name, [*composed, *declared])
                raise CommandError(f"the model has no input {name}{near}; {_expected(model, composed)}")
            if name in given:
                raise UsageError(f"input {name} is given twice")
            if name in parsed:
                value = _messages(declared[name], parsed[name], value)
            if isinstance(value, Path):
                raise UsageError(
                    f"{option} {source}: {value} is not a .npy file, the only one that `run` reads for "
                    "this input; `onnx-sparse score` reads files of rows"
                )
            given[name] = value
    feeds: dict[str, Array] = dict(before)
    by_rows = False
    for name, value in given.items():
        by_rows = by_rows or (name in known and known[name].kind == "example")
        parts = {*composed[name].inputs.values()} - {name} if name in composed else set()
        if parts and _are_rows(value) and given.keys().isdisjoint(parts):
            feeds |= _feeds_of(known, name, value)
            by_rows = True
        elif name in declared:
            feeds[name] = _checked(declared[name], value)
        else:
            raise CommandError(f"feature {name} is passed together with its inputs, or not as rows: pass rows as JSON")
    begun = {state.past for state in states(model)}  # has a value before the first run
    missing = [value.name for value in required_inputs(model) if value.name not in feeds and value.name not in begun]
    if missing:
        whole = [name for name, feature in composed.items() if feeds.keys().isdisjoint(feature.inputs.values())]
        holders = {part: name for name in whole for part in composed[name].inputs.values()}
        lacking = dict.fromkeys(f"feature {holders[name]}" for name in missing if name in holders)
        others = [name for name in missing if name not in holders]
        words = [*lacking, *([f"input{'s' * (len(others) > 1)} {', '.join(others)}"] if others else [])]
        raise CommandError(f"{printable(', '.join(words))} not given; {_expected(model, composed)}")
    if by_rows:
        _check_rows(known, feeds)
    return feeds


def read_files(sources: Iterable[str]) -> Iterator[str]:
    """The paths that sources may name; those that stem from JSON texts name no file."""
    for source in sources:
        yield source
        yield source.partition("=")[2]


def _expected(model: ModelProto, composed: Mapping[str, Feature]) -> str:
    rows = f"its features are {', '.join(map(printable, composed))}, whose rows are JSON; " if composed else ""
    declared = [f"{printable(v.name)}: {type_text(v)}" for v in model.graph.input]
    if len(declared) > _MOST_LISTED:
        declared[_MOST_LISTED:] = [f"{len(declared) - _MOST_LISTED} more (onnx-sparse inspect lists all)"]
    inputs = ", ".join(declared)
    return f"{rows}its inputs are {inputs}" if inputs else "it has no inputs"


def _features(model: ModelProto) -> Features:
    """What the model records of its features."""
    try:
        return features(model)
    except ValueError as error:
        raise CommandError(str(error)) from None


def states(model: ModelProto) -> tuple[State, ...]:
    """The states that the model records.

    Raises:
        CommandError: Its record is not valid.
    """
    try:
        return states_of(model)
    except ValueError as error:
        raise CommandError(str(error)) from None


def _check_rows(known: Features, feeds: dict[str, Array]) -> None:
    """Compare the numbers of rows; a dense input of fixed size may be something else than rows."""
    counts = {
        name: count
        for name, count in known.counts(feeds).items()
        if known[name].kind != "dense" or not _is_fixed(known.inputs[known[name].inputs["values"]].shape)
    }
    try:
        check_counts(counts)
    except ValueError as error:
        raise CommandError(str(error)) from None


def _is_fixed(shape: tuple[int | None, ...] | None) -> bool:
    return bool(shape) and shape is not None and shape[0] is not None


def _are_rows(value: Array | _Json) -> bool:
    """Whether a value can be the rows of a feature; a matrix may be one of its inputs."""
    return isinstance(value, _Json) or (isinstance(value, np.ndarray) and value.dtype == object)


def _feeds_of(known: Features, name: str, value: Array | _Json) -> dict[str, Array]:
    try:
        return known.feeds_of(name, value.value if isinstance(value, _Json) else value)[0]
    except (TypeError, ValueError) as error:
        raise CommandError(str(error)) from None


class _Json:
    """A value that was given as JSON: its types are the model's."""

    def __init__(self, value: Any) -> None:
        self.value = value


#: What a source gives: an array, JSON, or a file that is not numpy's.
_Given = Array | _Json | Path


def _read(source: str, option: str) -> Iterator[tuple[str, _Given]]:
    name, equals, text = source.partition("=")
    if given := text if equals else source:
        try:
            local_path(given)
        except ValueError as error:
            raise UsageError(f"{option} {source}: {error}") from None
    if source.lower().endswith(".json") and (not equals or Path(source).exists()):
        yield from _read_json(Path(source))
        return
    if source.lower().endswith(".npz") and (not equals or Path(source).exists()):
        yield from read_npz(Path(source))
        return
    if not equals or not name:
        raise UsageError(f"{option} {source}: expected FILE.npz, FILE.json, NAME=FILE or NAME=JSON")
    if text.lower().endswith(".npy"):
        yield name, read_npy(Path(text))
        return
    try:
        yield name, _Json(json.loads(text))
    except ValueError as error:
        if not _exists(text):
            raise UsageError(f"{option} {source}: {text or repr(text)} is neither a file nor JSON ({error})") from error
        yield name, Path(text)
    except RecursionError as error:
        raise UsageError(f"{option} {name}: the JSON is nested too deeply") from error


def _read_json(path: Path) -> Iterator[tuple[str, _Given]]:
    """The inputs that an object in a file has by name."""
    try:
        given = json.loads(path.read_bytes())
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(given, dict):
        raise CommandError(f"{path} is not a JSON object with the inputs by name")
    for name, value in given.items():
        yield name, _Json(value)


def _exists(text: str) -> bool:
    try:
        return bool(text) and Path(text).exists()
    except (OSError, ValueError):  # a text that is too long for a name, or has a NUL
        return False


def _checked(declared: ValueInfoProto, given: Array | _Json) -> Array:
    name = printable(declared.name)
    if declared.type.WhichOneof("value") != "tensor_type":
        raise CommandError(f"input {name} is a {type_text(declared)}; only tensors can be given")
    dtype = declared.type.tensor_type.elem_type
    if dtype not in TensorProto.DataType.values() or dtype == TensorProto.UNDEFINED:
        raise CommandError(f"input {name} has an unknown element type")
    array = _from_json(declared, given.value) if isinstance(given, _Json) else _of_type(name, dtype, given)
    _check_shape(declared, array)
    # ONNX Runtime reads the memory as it is: in C order and this machine's byte order.
    return np.require(array.astype(array.dtype.newbyteorder("="), copy=False), requirements="C")


def _of_type(name: str, dtype: int, array: Array) -> Array:
    wanted = numpy_dtype(dtype)
    if dtype == TensorProto.STRING:
        return _strings(name, array)
    if dtype == TensorProto.BFLOAT16 and array.dtype == _BFLOAT16_BYTES:
        return array.view(wanted)
    if dtype == TensorProto.BFLOAT16 and array.dtype.newbyteorder("=") == np.float32:
        return array.astype(wanted)
    if array.dtype.newbyteorder("=") != wanted:
        way = "give float32, it is rounded" if dtype == TensorProto.BFLOAT16 else f"array.astype(np.{wanted.name})"
        raise CommandError(f"input {name} is {array.dtype.name}; the model expects {type_name(dtype)} ({way})")
    return array


def _messages(declared: ValueInfoProto, features: Sequence[ParsedFeature], given: _Given) -> _Given:
    """Messages where a file of them is given, or JSON objects; else what is given."""
    if isinstance(given, Path):
        return messages_of_file(features, given, is_single=shape_of(declared) == [])
    if isinstance(given, _Json) and any(isinstance(leaf, dict) for leaf in json_leaves(given.value)):
        return messages_of_json(declared.name, features, given.value)
    return given


def _strings(name: str, array: Array) -> Array:
    if array.dtype.type is np.void:
        return array
    if array.dtype.kind not in "US":
        raise CommandError(f"input {name} is {array.dtype.name}; the model expects strings (array.astype(str))")
    try:
        return (np.strings.decode(array, "utf-8") if array.dtype.kind == "S" else array).astype(object)
    except UnicodeDecodeError as error:
        raise CommandError(f"input {name} holds bytes that are not UTF-8: {error}") from error


def _from_json(declared: ValueInfoProto, value: Any) -> Array:
    try:
        return typed(f"input {printable(declared.name)}", value, declared.type.tensor_type.elem_type, ())
    except ValueError as error:
        raise CommandError(str(error)) from error


def _check_shape(declared: ValueInfoProto, array: Array) -> None:
    shape = shape_of(declared)
    if shape is None:
        return
    same = len(shape) == array.ndim and all(
        want == have for want, have in zip(shape, array.shape, strict=True) if isinstance(want, int)
    )
    if not same:
        given = ", ".join(map(str, array.shape))
        raise CommandError(
            f"input {printable(declared.name)} has shape [{given}]; the model expects {type_text(declared)}"
        )
