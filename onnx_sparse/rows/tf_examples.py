"""Writing serialized tf.Example and tf.SequenceExample messages, without protobuf.

Their fields are in tensorflow/core/example/example.proto and feature.proto.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from onnx import TensorProto

from onnx_sparse.schemas.declaration import DType

#: The fields of the lists in a feature.
_LISTS = {TensorProto.STRING: 1, TensorProto.FLOAT: 2, TensorProto.INT64: 3}

Values = Sequence[bytes] | Sequence[int] | Sequence[float]


@dataclass(frozen=True)
class ParsedFeature:
    """A feature that a model takes from messages; see ParseExample and ParseSequenceExample.

    Attributes:
        key: Its name.
        dtype: Its element type.
        size: The number of its values, or of each of its lists; of -k any multiple.
        required: Whether each message must have it.
        in_lists: Whether it is a feature list.
    """

    key: bytes
    dtype: DType
    size: int
    required: bool
    in_lists: bool = False


def merged(*parts: Iterable[ParsedFeature]) -> tuple[ParsedFeature, ...]:
    """The features that several parsers take from the same messages: of a key, the first of those that say most."""
    found: dict[tuple[bytes, bool], ParsedFeature] = {}
    for feature in itertools.chain(*parts):
        place = feature.key, feature.in_lists
        known = found.setdefault(place, feature)
        if (feature.required, feature.size >= 0) > (known.required, known.size >= 0):
            found[place] = feature
    return tuple(found.values())


def serialized_example(
    features: Mapping[bytes, tuple[DType, Values]],
    lists: Mapping[bytes, tuple[DType, Sequence[Values]]] = MappingProxyType({}),
) -> bytes:
    """A message with these features: element types (float, int64 or string) and values by key.

    Args:
        features: Those of a tf.Example, or of the context of a tf.SequenceExample.
        lists: The feature lists of a tf.SequenceExample, with the values of each list.
    """
    context = {key: _feature(dtype, values) for key, (dtype, values) in features.items()}
    steps = {
        key: b"".join(_field(1, _feature(dtype, values)) for values in each) for key, (dtype, each) in lists.items()
    }
    return _field(1, _entries(context)) + (_field(2, _entries(steps)) if lists else b"")


def _entries(contents: Mapping[bytes, bytes]) -> bytes:
    return b"".join(_field(1, _field(1, key) + _field(2, content)) for key, content in contents.items())


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
