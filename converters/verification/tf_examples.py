"""Writing serialized tf.Example messages (tensorflow/core/example/feature.proto), without protobuf."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from onnx_sparse.schemas.declaration import DType

#: The fields of the lists in a feature.
_LISTS = {TensorProto.STRING: 1, TensorProto.FLOAT: 2, TensorProto.INT64: 3}

Values = Sequence[bytes] | Sequence[int] | Sequence[float]


@dataclass(frozen=True)
class ParsedFeature:
    """A feature that a model takes from messages; see ParseExample.

    Attributes:
        key: Its name.
        dtype: Its element type.
        size: The number of its values; of -k any multiple.
        required: Whether each message must have it.
    """

    key: bytes
    dtype: DType
    size: int
    required: bool


def merged(*parts: Iterable[ParsedFeature]) -> tuple[ParsedFeature, ...]:
    """The features that several parsers take from the same messages: of a key, the first of those that say most."""
    found: dict[bytes, ParsedFeature] = {}
    for feature in itertools.chain(*parts):
        known = found.setdefault(feature.key, feature)
        if (feature.required, feature.size >= 0) > (known.required, known.size >= 0):
            found[feature.key] = feature
    return tuple(found.values())


def serialized_example(features: Mapping[bytes, tuple[DType, Values]]) -> bytes:
    """A message with these features: element types (float, int64 or string) and values by key."""
    entries = (_field(1, key) + _field(2, _feature(dtype, values)) for key, (dtype, values) in features.items())
    return _field(1, b"".join(_field(1, entry) for entry in entries))


def _feature(dtype: DType, values: Values) -> bytes:
    if dtype == TensorProto.STRING:
        content = b"".join(_field(1, bytes(value)) for value in values)  # type: ignore[arg-type]
    elif dtype == TensorProto.FLOAT:
        content = _field(1, np.asarray(values, "<f4").tobytes())
    else:
        content = _field(1, b"".join(_varint(int(value) % 2**64) for value in values))
    return _field(_LISTS[dtype], content)  # type: ignore[index]


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    head = bytearray()
    while value >= 0x80:
        head.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*head, value])
