"""Is a converted model the model it came from? Both run on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto, helper

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow.by_design import Design, first_line
from onnx_sparse.converters.tensorflow.quiet import quietly, require
from onnx_sparse.converters.tensorflow.sample_inputs import KINDS, sample
from onnx_sparse.converters.tensorflow.source import Array, Source

#: Half floats differ by a few units in the last place, for TensorFlow rounds at every step.
_RELATIVE = {"float16": 4e-3, "bfloat16": 3e-2}


@dataclass(frozen=True)
class Record:
    """The comparison of one output over all rounds.

    Attributes:
        output: The output's name.
        dtype: numpy's name of TensorFlow's element type; `"string"` for strings.
        shape: Its shape in the first round.
        max_abs: The largest absolute difference; 0 for anything but numbers.
        max_rel: The largest relative difference.
        ok: Whether dtype, shape and values agreed in every round, and there was one.
        note: What differed, what differs by design, or why a round was skipped.
        worst: The batch with the largest difference; empty where there is none.
    """

    output: str
    dtype: str
    shape: tuple[int, ...]
    max_abs: float = 0.0
    max_rel: float = 0.0
    ok: bool = True
    note: str = ""
    worst: str = ""


def verify(
    source: Any,
    model: ModelProto,
    *,
    signature: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    feeds: Mapping[str, Array] | None = None,
    seed: int = 0,
    rounds: int = len(KINDS),
    tables: Mapping[str, Array] | None = None,
) -> list[Record]:
    """Run a source in TensorFlow and its model in ONNX Runtime on the same inputs and compare the outputs.

    Data types and shapes must be equal, and so must integers, booleans and strings. Floats may differ by 1e-5 of their
    value (4e-3 for float16, 3e-2 for bfloat16) or a tenth of that of the output's largest value. NaN equals NaN. What
    the operators' law has different from TensorFlow (see `by_design`) is said in a note and is no difference.

    Args:
        source, signature, inputs, outputs: As given to `convert`. What `load` returned is not loaded again.
        model: What `convert` returned.
        feeds: The inputs of the only round. Generated when left off: an ordinary batch, one with empty rows, one
            without any entries, one of one row, one of none, and so on in turn.
        seed: The same seed gives the same inputs.
        rounds: How many rounds to run on generated inputs.
        tables: The tables that `convert` left beside the model.

    Returns:
        One record per output.

    Raises:
        ConversionError: If the source cannot be read, or `feeds` lacks an input.
    """
    require("tensorflow")
    from onnx_sparse import InferenceSession
    from onnx_sparse.converters.tensorflow.load import load

    with quietly():
        loaded = load(source, signature=signature, inputs=inputs, outputs=outputs)
        session = InferenceSession(_with_inputs(model, tables) if tables else model)
        if feeds is not None:
            missing = [port.name for port in loaded.inputs if port.name not in feeds]
            if missing:
                raise ConversionError(f"no value is given for input {', '.join(missing)}")
            batches = [("given", dict(feeds))]
        else:
            kinds = [KINDS[k % len(KINDS)] for k in range(rounds)]
            batches = [(kind, _batch(loaded, model, kind, seed + k)) for k, kind in enumerate(kinds)]
        return _compare_rounds(loaded, session, batches, Design.of(model), tables or {})


def _with_inputs(model: ModelProto, tables: Mapping[str, Array]) -> ModelProto:
    """The model with inputs for initializers whose data is not in it: a session copies initializers, not inputs."""
    fed = ModelProto()
    fed.CopyFrom(model)
    initializers = {tensor.name: tensor for tensor in fed.graph.initializer}
    for name in tables:
        tensor = initializers[name]
        fed.graph.input.append(helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))
        fed.graph.initializer.remove(tensor)
    return fed


def _batch(loaded: Source, model: ModelProto, kind: str, seed: int) -> dict[str, Array]:
    return sample(model, seed=seed, kind=kind, specs=loaded.specs)


def _compare_rounds(
    loaded: Source,
    session: Any,
    batches: list[tuple[str, dict[str, Array]]],
    design: Design,
    tables: Mapping[str, Array],
) -> list[Record]:
    records: dict[str, Record] = {}
    skipped = []
    names = [port.name for port in loaded.outputs]
    for kind, feeds in batches:
        try:
            expected = [_normal(value) for value in loaded.run(feeds)]
        except Exception as error:  # whatever TensorFlow's kernels raise
            skipped.append(f"TensorFlow refuses the batch {kind!r}: {first_line(error)}{design.of_error(error)}")
            continue
        try:
            actual = [_normal(value) for value in session.run(names, {**feeds, **tables})]
        except Exception as error:  # whatever ONNX Runtime raises
            note = f"ONNX Runtime refuses the batch {kind!r}: {first_line(error)}"
            found = [
                Record(port.name, _dtype_name(want), want.shape, ok=False, note=note)
                for port, want in zip(loaded.outputs, expected, strict=True)
            ]
        else:
            found = [
                _compare_by(design, port.name, want, got, feeds, kind)
                for port, want, got in zip(loaded.outputs, expected, actual, strict=True)
            ]
        for record in found:
            records[record.output] = _merge(records.get(record.output), record)
    note = "; ".join(skipped)
    if not records:
        return [Record(port.name, port.dtype, (), ok=False, note=note) for port in loaded.outputs]
    return [replace(record, note="; ".join(filter(None, (record.note, note)))) for record in records.values()]


def _compare_by(design: Design, output: str, want: Array, got: Array, feeds: Mapping[str, Array], kind: str) -> Record:
    want, got, note = design.without_nan(want, got, feeds)
    return compare(output, want, got, kind, note)


def compare(output: str, want: Array, got: Array, kind: str, note: str = "") -> Record:
    """Compare TensorFlow's value of an output with ONNX Runtime's in the batch `kind`; `note` is put to it."""
    record = Record(output, _dtype_name(want), want.shape, note=note)
    if _dtype_name(want) != _dtype_name(got):
        return replace(record, ok=False, note=f"dtype is {_dtype_name(got)} in the batch {kind!r}")
    if want.shape != got.shape:
        return replace(record, ok=False, note=f"shape is {got.shape}, not {want.shape}, in the batch {kind!r}")
    if not _is_float(want):
        equal = bool(np.array_equal(want, got))
        return replace(record, ok=equal, note="" if equal else f"values differ in the batch {kind!r}")
    relative = _RELATIVE.get(_dtype_name(want), 1e-5)
    wide_want, wide_got = want.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(wide_want)
    same = np.array_equal(wide_want[~finite], wide_got[~finite], equal_nan=True) and np.isfinite(wide_got[finite]).all()
    error = np.abs(wide_want[finite] - wide_got[finite])
    size = np.abs(wide_want[finite])
    largest = max(1.0, size.max(initial=0))
    ok = bool(same and (error <= relative * (size + 0.1 * largest)).all())
    return replace(
        record,
        max_abs=float(error.max(initial=0)),
        max_rel=float((error / np.where(size == 0, 1, size)).max(initial=0)),
        ok=ok,
        note=note if ok else f"values differ in the batch {kind!r}",
        worst=kind if error.max(initial=0) > 0 else "",
    )


def _normal(value: Array) -> Array:
    """Strings as text: TensorFlow gives bytes."""
    if value.dtype != object and value.dtype.kind not in "SU":
        return value
    text = [item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item) for item in value.ravel()]
    array = np.empty(value.size, object)
    array[:] = text
    return array.reshape(value.shape)


def _dtype_name(array: Array) -> str:
    return "string" if array.dtype == object else array.dtype.name


def _is_float(array: Array) -> bool:
    return array.dtype.name in _RELATIVE or array.dtype.kind == "f"


def _merge(before: Record | None, after: Record) -> Record:
    if before is None:
        return after
    worse = after.max_abs > before.max_abs
    return replace(
        before,
        worst=after.worst if worse else before.worst,
        max_abs=max(before.max_abs, after.max_abs),
        max_rel=max(before.max_rel, after.max_rel),
        ok=before.ok and after.ok,
        note="; ".join(filter(None, (before.note, after.note))),
    )
