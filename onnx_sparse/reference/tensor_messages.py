"""ParseTensor: serialized TensorProto messages of TensorFlow."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from onnx import TensorProto

from onnx_sparse.reference.example_messages import Malformed, Reader
from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.reference.requirements import require_allocatable
from onnx_sparse.reference.string_tensor import bytes_of, text_of
from onnx_sparse.schemas import encodings as declarations
from onnx_sparse.schemas.declaration import dtype_name, element_type
from onnx_sparse.schemas.validation import KernelError

#: The numbers of a TensorProto's fields.
_DTYPE, _SHAPE, _CONTENT = 1, 2, 4

#: The wire types.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass
class _Message:
    """What is read of a message: values are numbers, or the bytes of numbers or strings."""

    dtype: int = 0
    dims: list[int] = field(default_factory=list)
    content: bytes = b""
    values: list[int | bytes] = field(default_factory=list)


@implements(declarations.PARSE_TENSOR)
def parse_tensor(serialized: Array, like: Array) -> Array:
    """The tensor that a message is; see the semantics of ParseTensor."""
    dtype = element_type(like.dtype)
    number, values_field, wire_type = declarations.TENSOR_TYPES[dtype]
    (text,) = bytes_of(serialized)
    try:
        message = _read(text, values_field, wire_type)
    except Malformed:
        raise KernelError("serialized is not a TensorProto") from None
    if message.dtype != number:
        raise KernelError(f"serialized has the element type {_name(message.dtype)}; {dtype_name(dtype)} expected")
    if min(message.dims, default=0) < 0:
        raise KernelError(f"serialized has the shape {message.dims}; a dimension is negative")
    require_allocatable(message.dims, like.dtype, "serialized")
    count = math.prod(message.dims)
    if not message.content:
        return _repeated(message.values, count, like.dtype, wire_type).reshape(message.dims)
    size = 0 if dtype == TensorProto.STRING else count * like.dtype.itemsize
    is_bool = dtype == TensorProto.BOOL
    if len(message.content) != size or (is_bool and max(message.content) > 1):
        if count:
            raise KernelError(f"serialized has {len(message.content)} bytes of tensor_content; {size} expected")
        return np.zeros(message.dims, like.dtype)
    return np.frombuffer(message.content, like.dtype.newbyteorder("<")).astype(like.dtype).reshape(message.dims)


def _name(number: int) -> str:
    names = {known: dtype_name(dtype) for dtype, (known, *_) in declarations.TENSOR_TYPES.items()}
    return names.get(number, f"number {number}")


def _repeated(values: list[int | bytes], count: int, dtype: np.dtype[np.generic], wire_type: int) -> Array:
    """So many elements, of which the last value is all that are missing."""
    values = values[:count]
    missing = count - len(values)
    if wire_type == _BYTES:
        return text_of([*values, *(values[-1:] or [b""]) * missing])  # type: ignore[list-item]
    if wire_type == _VARINT:
        wide = np.array(values, np.uint64)
        is_half = dtype.itemsize == 2 and dtype.kind not in "iu"
        narrow = (
            wide != 0 if dtype.kind == "b" else wide.astype(np.uint16).view(dtype) if is_half else wide.astype(dtype)
        )
    else:
        narrow = np.frombuffer(b"".join(values), dtype.newbyteorder("<")).astype(dtype)  # type: ignore[arg-type]
    rest = narrow[-1:] if len(narrow) else np.zeros(1, dtype)
    return np.concatenate([narrow, np.broadcast_to(rest, (missing,))])


def _read(text: bytes, values_field: int, values_type: int) -> _Message:
    message = _Message()
    for number, wire_type, value in _fields(text):
        if (number, wire_type) == (_DTYPE, _VARINT):
            message.dtype = int(value) % 2**32
        elif (number, wire_type) == (_SHAPE, _BYTES):
            message.dims += [_size(dim) for inner, kind, dim in _fields(bytes(value)) if (inner, kind) == (2, _BYTES)]
        elif (number, wire_type) == (_CONTENT, _BYTES):
            message.content = bytes(value)
        elif number == values_field and wire_type == values_type:
            message.values.append(value)
        elif number == values_field and wire_type == _BYTES:
            message.values += _packed(bytes(value), values_type)
    return message


def _size(dim: int | bytes) -> int:
    """The size in a dimension."""
    size = 0
    for number, wire_type, value in _fields(bytes(dim)):
        if (number, wire_type) == (1, _VARINT):
            (size,) = struct.unpack("<q", struct.pack("<Q", value))
    return size


def _packed(content: bytes, wire_type: int) -> Iterator[int | bytes]:
    reader = Reader(content)
    while reader.left:
        yield reader.varint() if wire_type == _VARINT else reader.take(4 if wire_type == _FIXED32 else 8)


def _fields(text: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """The numbers, wire types and values of a message's fields."""
    reader = Reader(text)
    while reader.left:
        tag = reader.varint()
        number, wire_type = tag >> 3, tag & 7
        if number == 0 or tag >= 2**32:
            raise Malformed
        if wire_type == _VARINT:
            yield number, wire_type, reader.varint()
        elif wire_type == _BYTES:
            yield number, wire_type, reader.take(reader.varint())
        elif wire_type in (_FIXED32, _FIXED64):
            yield number, wire_type, reader.take(4 if wire_type == _FIXED32 else 8)
        else:
            raise Malformed
