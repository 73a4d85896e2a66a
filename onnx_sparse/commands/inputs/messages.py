"""tf.Example and tf.SequenceExample messages from the command line: as JSON objects, or from files.

The object of a tf.Example has the values of features by key. That of a tf.SequenceExample with feature lists has such
an object as `context`, and as `feature_lists` one with the lists of each feature by key.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.commands.inputs.model_graph import type_name
from onnx_sparse.errors import CommandError, printable
from onnx_sparse.files.array_file import Array
from onnx_sparse.rows.message_files import is_json_lines, read_json_lines, read_records
from onnx_sparse.rows.tf_examples import ParsedFeature, Values, serialized_example
from onnx_sparse.schemas.declaration import DType

#: An error message lists no more features than this: it stays one readable line.
_MOST_LISTED = 12

_LARGEST_FLOAT = float(np.finfo(np.float32).max)


def json_leaves(value: Any) -> Iterator[Any]:
    """The values in nested JSON lists."""
    if isinstance(value, list):
        for item in value:
            yield from json_leaves(item)
    else:
        yield value


def messages_of_json(name: str, features: Sequence[ParsedFeature], value: Any) -> Array:
    """The messages of a list of JSON objects, or of a single one.

    Args:
        name: The name of the model's input.
        features: What the model takes from its messages.
        value: An object, or a list of objects.

    Raises:
        CommandError: An object does not fit the features.
    """
    from onnx_sparse.rows.example_arrays import example_array

    where = f"input {printable(name)}"
    if isinstance(value, list):
        return example_array([_message(where, features, item) for item in value])
    return example_array(_message(where, features, value))


def messages_of_file(features: Sequence[ParsedFeature], path: Path, *, is_single: bool) -> Array:
    """The messages of a TFRecord file, or of JSON lines.

    Args:
        features: What the model takes from its messages.
        path: The file.
        is_single: Whether the model takes a single message, not a batch.

    Raises:
        CommandError: The file cannot be read or is damaged, an object does not fit the features, or there are several
            messages where the model takes one.
    """
    from onnx_sparse.rows.example_arrays import example_array

    if is_json_lines(path):
        messages = [_message(where, features, value) for where, value in read_json_lines(path)]
    else:
        messages = read_records(path)
    if not is_single:
        return example_array(messages)
    if len(messages) != 1:
        raise CommandError(f"{path} has {len(messages)} messages; the model takes one")
    return example_array(messages[0])


def _message(where: str, features: Sequence[ParsedFeature], given: Any) -> bytes:
    context = [feature for feature in features if not feature.in_lists]
    lists = [feature for feature in features if feature.in_lists]
    if not lists:
        return serialized_example(_features(where, context, given))
    strangers = [key for key in _object(where, given) if key not in ("context", "feature_lists")]
    if strangers:
        raise CommandError(
            f"{where}: {printable(strangers[0])} is not a part of a tf.SequenceExample; context and feature_lists are"
        )
    steps = _features(f"{where}, feature_lists", lists, given.get("feature_lists", {}))
    return serialized_example(_features(f"{where}, context", context, given.get("context", {})), steps)


def _object(where: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise CommandError(f"{where}: {_shown(given)} does not fit; each message is an object")
    return given


def _features(where: str, features: Sequence[ParsedFeature], given: Any) -> dict[bytes, tuple[DType, Any]]:
    """The element types and values of features by key; of a feature list, the values of each list."""
    by_key = {feature.key.decode(errors="replace"): feature for feature in features}
    written: dict[bytes, tuple[DType, Any]] = {}
    for key, value in _object(where, given).items():
        if key not in by_key:
            known = ", ".join(map(printable, list(by_key)[:_MOST_LISTED])) or "none"
            raise CommandError(f"{where}: the model parses no feature {printable(key)}; it parses {known}")
        feature = by_key[key]
        try:
            if feature.in_lists:
                if not isinstance(value, list):
                    raise _Misfit(_shown(value))
                values: Any = [_values(feature.dtype, list(json_leaves(step))) for step in value]
            else:
                values = _values(feature.dtype, list(json_leaves(value)))
        except _Misfit as misfit:
            what = f"feature {printable(key)} is {'a list of lists of ' * feature.in_lists}{type_name(feature.dtype)}"
            raise CommandError(f"{where}: {misfit} does not fit; {what}") from None
        written[feature.key] = feature.dtype, values
    return written


class _Misfit(Exception):  # noqa: N818 - it is caught where the message and the feature are known
    """A JSON value is none of the type."""


def _values(dtype: DType, leaves: Sequence[Any]) -> Values:
    if dtype == TensorProto.STRING:
        return [_bytes(leaf) for leaf in leaves]
    return [_float(leaf) if dtype == TensorProto.FLOAT else _integer(leaf) for leaf in leaves]


def _bytes(leaf: Any) -> bytes:
    """A string's UTF-8, or any bytes, given as `{"b64": "..."}` as in TensorFlow Serving's REST API."""
    try:
        if isinstance(leaf, dict) and list(leaf) == ["b64"]:
            return base64.b64decode(leaf["b64"], validate=True)
        if isinstance(leaf, str):
            return leaf.encode()
    except (TypeError, ValueError, binascii.Error):  # half a surrogate pair among them
        pass
    raise _Misfit(_shown(leaf))


def _integer(leaf: Any) -> int:
    if isinstance(leaf, int) and not isinstance(leaf, bool) and -(2**63) <= leaf < 2**63:
        return leaf
    raise _Misfit(_shown(leaf))


def _float(leaf: Any) -> float:
    # A larger number would become infinite, and whole numbers are exact, as in all rows.
    if type(leaf) is float and (abs(leaf) <= _LARGEST_FLOAT or not math.isfinite(leaf)):
        return leaf
    if type(leaf) is int and abs(leaf) <= _LARGEST_FLOAT and float(np.float32(leaf)) == leaf:
        return float(leaf)
    raise _Misfit(_shown(leaf))


def _shown(value: Any) -> str:
    return json.dumps(value)
