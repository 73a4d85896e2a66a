"""Tensors whose data lie elsewhere: in a file, or in an array of this process.

A model in memory names such data as ONNX names external data, under a location that only this process knows. Its types
and shapes are those of any model, so onnx's tools and all passes take it; a pass that asks for the value of a tensor
gets an array that is mapped from the file. The data are copied once: to where the model is written.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import re
import secrets
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from onnx_sparse.errors import CommandError, printable
from onnx_sparse.files.ranges import FileRange, StoredFile, bytes_of, range_of
from onnx_sparse.schemas.declaration import numpy_dtype

Array = np.ndarray[Any, Any]

#: Data of fewer bytes are in the model, where onnx's tools see their values.
LEAST = 1 << 16

_PREFIX = "onnx_sparse:"
#: What the bytes of every model with references have.
REFERENCE = _PREFIX.encode()
#: The key in a reference that says that the tensor had the field `data_location` before.
_STATED = "stated"

#: What a location names: each has a name of its own that nobody can guess, so no model that is read can name it.
_held: dict[str, StoredFile | Array] = {}
_names_of_files: dict[StoredFile, str] = {}
#: The names of the arrays that are held until the end of the outermost block of `holding_arrays`.
_arrays: ContextVar[list[str] | None] = ContextVar("arrays", default=None)


class DamagedFileError(CommandError, ValueError):
    """A file of tables does not have its checksum."""


@contextlib.contextmanager
def holding_arrays() -> Iterator[bool]:
    """A block in which tensors can refer to arrays; yields whether it is inside of another one.

    At its end models that still refer to arrays lose them, unless the block is inside of another one.
    """
    if _arrays.get() is not None:
        yield True
        return
    names: list[str] = []
    token = _arrays.set(names)
    try:
        yield False
    finally:
        _arrays.reset(token)
        for name in names:
            del _held[name]


def is_reference(tensor: TensorProto) -> bool:
    """Whether a tensor's data lie elsewhere, and this process knows where."""
    return tensor.data_location == TensorProto.EXTERNAL and any(
        entry.key == "location" and entry.value in _held for entry in tensor.external_data
    )


def is_known(tensor: TensorProto) -> bool:
    """Whether the value of a tensor can be read: it is in the model, or the tensor is a reference."""
    return tensor.data_location != TensorProto.EXTERNAL or is_reference(tensor)


def refer(tensor: TensorProto, data: FileRange | Array) -> None:
    """Let a tensor refer to its data, which must have its type and shape.

    Args:
        tensor: The tensor; the data that it holds are dropped.
        data: Where the data lie; an array only in a block of `holding_arrays`.
    """
    held = range_of(data) or data if isinstance(data, np.ndarray) else data
    if isinstance(held, FileRange):
        name = _names_of_files.setdefault(held.file, _PREFIX + secrets.token_hex(16))
        _held[name] = held.file
        offset, length = held.offset, held.length
    else:
        names = _arrays.get()
        if names is None:
            raise RuntimeError("arrays are referred to in a block of holding_arrays only")
        name = _PREFIX + secrets.token_hex(16)
        names.append(name)
        _held[name] = held
        offset, length = 0, held.nbytes
    state_place(tensor, name, offset, length)


def state_place(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    """Let a tensor say that its data, of so many bytes, are at a place elsewhere, in ONNX's words."""
    if is_reference(tensor):
        tensor.CopyFrom(without_place(tensor))
    stated = tensor.HasField("data_location")
    tensor.ClearField("raw_data")
    point_to(tensor, location, offset, length)
    if stated:  # onnx leaves the field in a tensor whose data it has read, and so does `put_back`
        tensor.external_data.add(key=_STATED)


def point_to(tensor: TensorProto, name: str, offset: int, length: int, checksum: str = "") -> None:
    """Let a tensor say that its data are in a file beside its model, in ONNX's words."""
    tensor.data_location = TensorProto.EXTERNAL
    tensor.ClearField("external_data")
    for key, value in (("location", name), ("offset", offset), ("length", length), ("checksum", checksum)):
        if value != "":
            tensor.external_data.add(key=key, value=str(value))


def tensor_of(array: Array, name: str) -> TensorProto:
    """As numpy_helper.from_array; in a block of `holding_arrays` a large tensor refers to its array."""
    if array.nbytes < LEAST or array.dtype.hasobject or _arrays.get() is None:
        return numpy_helper.from_array(array, name)
    tensor = numpy_helper.from_array(np.empty(0, array.dtype), name)
    if is_packed(tensor):
        return numpy_helper.from_array(array, name)
    tensor.dims[:] = array.shape
    refer(tensor, array)
    return tensor


def data_of(tensor: TensorProto) -> FileRange | memoryview:
    """The data of a reference."""
    name, offset, length = place_of(tensor)
    held = _held[name]
    return FileRange(held, offset, length) if isinstance(held, StoredFile) else bytes_of(held)


def array_of_reference(tensor: TensorProto) -> Array:
    """The value of a reference, mapped where it is in a file.

    Raises:
        OSError: The file has changed.
    """
    name, offset, length = place_of(tensor)
    held = _held[name]
    if not isinstance(held, StoredFile):
        return held.reshape(tuple(tensor.dims))
    data = FileRange(held, offset, length)
    if not is_packed(tensor):
        return data.mapped(numpy_dtype(tensor.data_type), tuple(tensor.dims))
    whole = TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=data.read())
    return numpy_helper.to_array(whole)


def put_back(tensor: TensorProto) -> None:
    """Let a reference hold its data itself."""
    data = data_of(tensor)
    tensor.CopyFrom(without_place(tensor))
    tensor.raw_data = data.read() if isinstance(data, FileRange) else data.tobytes()


def without_place(tensor: TensorProto) -> TensorProto:
    """A copy of a reference that does not say where its data lie, as it was before it was one, but for the data."""
    copy = TensorProto()
    copy.CopyFrom(tensor)
    stated = any(entry.key == _STATED for entry in tensor.external_data)
    copy.ClearField("external_data")
    copy.ClearField("data_location")
    if stated:
        copy.data_location = TensorProto.DEFAULT
    return copy


def length_of(tensor: TensorProto) -> int:
    """The bytes of a reference."""
    return place_of(tensor)[2]


def blocks_of(tensor: TensorProto) -> Iterator[bytes | memoryview]:
    """The data of a reference, in parts."""
    data = data_of(tensor)
    yield from data.blocks() if isinstance(data, FileRange) else (data,)


def state_content(tensor: TensorProto) -> None:
    """Give a reference a digest in place of where its data lie: it equals that of a reference to equal data."""
    hashed = hashlib.sha256()
    for block in blocks_of(tensor):
        hashed.update(block)
    tensor.ClearField("external_data")
    tensor.raw_data = hashed.digest()


def require_whole(file: StoredFile, tensor: str) -> None:
    """Refuse a file that has not its checksum.

    Args:
        file: The file.
        tensor: The name of a tensor whose data it holds.

    Raises:
        DamagedFileError: It has another one.
    """
    try:
        file.require_checksums()
    except OSError as error:
        raise DamagedFileError(f"{file.path}, with the data of tensor {printable(tensor)}: {error.strerror}") from error


def byte_size(tensor: TensorProto) -> int | None:
    """The bytes of a tensor of numbers by its type and shape; None for strings and unknown types."""
    bits = _bits_of(tensor.data_type)
    return None if bits is None else (math.prod(tensor.dims) * bits + 7) // 8


def is_packed(tensor: TensorProto) -> bool:
    """Whether a byte holds several elements."""
    return (_bits_of(tensor.data_type) or 8) < 8


@functools.cache
def _bits_of(data_type: int) -> int | None:
    try:
        name = TensorProto.DataType.Name(data_type)
        itemsize = numpy_dtype(data_type).itemsize
    except ValueError:
        return None
    if data_type == TensorProto.STRING:
        return None
    packed = re.fullmatch(r"U?INT([24])|FLOAT(4)E2M1", name)
    return int(packed[1] or packed[2]) if packed else itemsize * 8


def place_of(tensor: TensorProto) -> tuple[str, int, int]:
    """The location, offset and length of a reference."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    return entries["location"], int(entries["offset"]), int(entries["length"])
