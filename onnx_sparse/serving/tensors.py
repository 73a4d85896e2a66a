"""Tensors on the wire: the protocol's names of element types, and values as bytes or of JSON."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.rows.columns import Array, typed, typed_list
from onnx_sparse.rows.example_arrays import example_array
from onnx_sparse.rows.json_texts import PIECE, JsonTexts
from onnx_sparse.rows.model_features import InputType
from onnx_sparse.schemas.declaration import DType, numpy_dtype
from onnx_sparse.schemas.features import listed
from onnx_sparse.serving.errors import RequestError, shown
from onnx_sparse.serving.long_lists import LongList, NumberList, TextList

#: The protocol's names of ONNX's element types; the other types have the same name.
_DATATYPES = {"FLOAT": "FP32", "DOUBLE": "FP64", "FLOAT16": "FP16", "BFLOAT16": "BF16", "STRING": "BYTES"}
_LENGTH = struct.Struct("<I")
#: The dimensions of an array, and its elements if none of its sizes were 0.
_MOST_RANK, _MOST_ELEMENTS = 32, 1 << 59


def datatype(dtype: DType) -> str:
    """The protocol's name of an element type, `FP32`."""
    name = str(TensorProto.DataType.Name(dtype))
    return _DATATYPES.get(name, name)


_OF_NUMPY = {
    numpy_dtype(dtype): datatype(dtype)
    for dtype in TensorProto.DataType.values()
    if dtype not in (TensorProto.UNDEFINED, TensorProto.STRING)
}


def datatype_of(array: Array) -> str:
    """The protocol's name of an array's element type."""
    return "BYTES" if array.dtype.kind in "OSU" else _OF_NUMPY.get(array.dtype, array.dtype.name.upper())


class Tensors:
    """The inputs of a model, read from requests.

    Args:
        inputs: The types of the inputs by name.
        messages: The inputs that hold serialized messages, whose bytes need not be text.
    """

    def __init__(self, inputs: dict[str, InputType], messages: Iterable[str]) -> None:
        self._inputs = inputs
        self._messages = frozenset(messages)
        self._numpy = {name: numpy_dtype(kind.dtype) for name, kind in inputs.items()}
        self._datatypes = {name: datatype(kind.dtype) for name, kind in inputs.items()}

    def check(self, name: str, given: object, shape: object) -> tuple[list[int], int]:
        """Compare an input with the model's, before its values are read.

        Returns:
            The shape, and the number of elements.

        Raises:
            RequestError: The model has no such input, or it has another element type or shape.
        """
        kind = self._inputs.get(name)
        if kind is None:
            raise RequestError(f"the model has no input {name!r}; it has {listed(self._inputs)}")
        if given != self._datatypes[name]:
            raise RequestError(f"input {name!r} is {given}; the model takes {self._datatypes[name]}")
        if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
            raise RequestError(f"input {name!r} has the shape {shown(shape)}; a shape is a list of sizes from 0 on")
        count = math.prod(shape)
        if len(shape) > _MOST_RANK or (not count and math.prod(size or 1 for size in shape) >= _MOST_ELEMENTS):
            raise RequestError(f"input {name!r} has the shape {shown(shape)}, which no array can have")
        sizes = kind.shape
        if sizes is not None:
            fits = len(sizes) == len(shape)
            if not fits or any(s is not None and s != size for s, size in zip(sizes, shape, strict=True)):
                takes = ", ".join("?" if size is None else str(size) for size in sizes)
                raise RequestError(f"input {name!r} has the shape {shape}; the model takes [{takes}]")
        return shape, count

    def from_bytes(self, name: str, content: bytes | memoryview, shape: Sequence[int], count: int) -> Array:
        """The values of a binary tensor; strings have their lengths before them.

        Raises:
            RequestError: The bytes are not those of as many values.
        """
        dtype = self._numpy[name]
        if dtype.kind == "O":
            return self._strings(name, _cut(name, bytes(content), count), shape)
        if len(content) != count * dtype.itemsize:
            raise RequestError(
                f"input {name!r} has {len(content)} bytes; {self._datatypes[name]} of the shape {list(shape)} has "
                f"{count * dtype.itemsize}"
            )
        array = np.frombuffer(content, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape)
        if dtype.kind == "b" and (np.frombuffer(content, np.uint8) > 1).any():
            raise RequestError(f"input {name!r} is BOOL, and has a byte other than 0 and 1")
        return array

    def from_values(self, name: str, values: Any, shape: Sequence[int], count: int) -> Array:
        """The values of a tensor as numbers or texts of Python, flat or nested.

        Raises:
            RequestError: There are not as many values, or one does not fit.
        """
        dtype = self._inputs[name].dtype
        if isinstance(values, LongList):
            self._check_count(name, values.counts[-1], shape, count)
            if len(values.counts) > max(len(shape), 1):
                raise _too_deep(name, len(shape))
        if isinstance(values, NumberList):
            try:
                return values.numbers(f"input {name!r}", dtype, tuple(shape)).reshape(shape)
            except ValueError as error:
                raise RequestError(error) from error
        if isinstance(values, TextList):
            values = values.texts()
            if name in self._messages:
                values = values[:]
        is_array = isinstance(values, np.ndarray | JsonTexts)
        flat: Any = values.reshape(-1) if is_array else _flat(name, values, len(shape))
        self._check_count(name, len(flat), shape, count)
        if name in self._messages:
            for value in flat:
                if not isinstance(value, str | bytes):
                    raise RequestError(f"input {name!r}: {shown(value)} is not a string")
            return self._strings(name, list(flat), shape)
        try:
            if is_array:
                return typed(f"input {name!r}", flat.reshape(shape), dtype, ())
            return typed_list(f"input {name!r}", flat, dtype, shape)
        except ValueError as error:
            raise RequestError(error) from error

    def _check_count(self, name: str, found: int, shape: Sequence[int], count: int) -> None:
        if found != count:
            raise RequestError(f"input {name!r} has {found} values; the shape {list(shape)} has {count}")

    def _strings(self, name: str, values: Sequence[str | bytes], shape: Sequence[int]) -> Array:
        if name in self._messages:
            messages = [value.encode() if isinstance(value, str) else value for value in values]
            return example_array(messages).reshape(shape)
        array = np.empty(len(values), object)
        for position, value in enumerate(values):
            try:
                array[position] = value if isinstance(value, str) else value.decode()
            except UnicodeDecodeError:
                raise RequestError(f"input {name!r}, value {position}: {shown(value)} is not UTF-8") from None
        return array.reshape(shape)


def _flat(name: str, values: Any, rank: int) -> list[Any]:
    """Values in lists within each other, at most as deep as a shape, in one list."""
    flat = values if isinstance(values, list) else [values]
    for _ in range(max(rank, 1)):
        if list not in {*map(type, flat)}:
            return flat
        flat = [*chain.from_iterable(value if isinstance(value, list) else (value,) for value in flat)]
    raise _too_deep(name, rank)


def _too_deep(name: str, rank: int) -> RequestError:
    return RequestError(f"input {name!r} has lists within each other more than {max(rank, 1)} deep")


def _cut(name: str, content: bytes, count: int) -> list[bytes]:
    """Strings that have their lengths before them."""
    found: list[bytes] = []
    at = 0
    while at + _LENGTH.size <= len(content) and len(found) < count:
        begin = at + _LENGTH.size
        at = begin + _LENGTH.unpack_from(content, at)[0]
        found.append(content[begin:at])
    if at != len(content) or len(found) != count:
        raise RequestError(f"input {name!r} has {len(content)} bytes, which are not {count} strings with their lengths")
    return found


def to_bytes(array: Array) -> bytes:
    """The values of a binary tensor."""
    if array.dtype.kind not in "OSU":
        return array.astype(array.dtype.newbyteorder("<"), order="C", copy=False).tobytes()
    content = bytearray()
    flat = array.reshape(-1)
    for begin in range(0, len(flat), PIECE):
        for value in to_strings(flat[begin : begin + PIECE]):
            content += _LENGTH.pack(len(value)) + value
    return bytes(content)


def to_strings(array: Array) -> list[bytes]:
    """The strings of an array."""
    return [value if isinstance(value, bytes) else str(value).encode() for value in array.reshape(-1).tolist()]
