"""protobuf's wire format: parts of a message are read, or passed over, without the rest of its file."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import BinaryIO, TypeAlias

from onnx import ModelProto, TensorProto

from onnx_sparse.files.ranges import FileRange, StoredFile
from onnx_sparse.models.data.references import LEAST, REFERENCE, data_of, refer, without_place

#: A part of a message: its bytes, or where these are.
_Part: TypeAlias = bytes | memoryview | FileRange

#: The encodings of a field.
_VARINT, _FIXED64, LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
#: More bytes than the import of an opset or the body of an operator takes.
_LONGEST_READ = 2**20
#: More bytes than a field of a message takes.
_LARGEST_FIELD = 2**32

#: Where in ONNX's messages tensors are: the message in each field.
_INNER = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
}
_RAW_DATA = TensorProto.RAW_DATA_FIELD_NUMBER
_LOCATION = TensorProto.DATA_LOCATION_FIELD_NUMBER


def without_raw_data(file: BinaryIO, stored: StoredFile) -> bytes:
    """The bytes of a model in binary form, whose large tensors refer to its file.

    Args:
        file: The file.
        stored: The same.

    Raises:
        ValueError: It is not a model, or a tensor has data in two places.
    """
    return _light(file, stored, "model", stored.size)


def _light(file: BinaryIO, stored: StoredFile, kind: str, end: int) -> bytes:
    parts: list[bytes] = []
    raw_data: FileRange | None = None
    location: int | None = None
    while (begin := file.tell()) < end:
        if (key := varint(file)) is None:
            raise ValueError(f"a {kind} ends too early")
        field, wire_type = key >> 3, key & 7
        size = {_VARINT: 0, _FIXED32: 4, _FIXED64: 8, LENGTH_DELIMITED: -1}.get(wire_type)
        if wire_type == _VARINT or size == -1:
            size = varint(file)
            if size is not None and wire_type == _VARINT:
                if kind == "tensor" and field == _LOCATION:
                    location = size
                size = 0
        start = file.tell()
        if size is None or start + size > end:
            raise ValueError(f"a {kind} ends too early")
        inner = _INNER.get(kind, {}).get(field)
        if size < LEAST or wire_type != LENGTH_DELIMITED or (inner is None and (kind, field) != ("tensor", _RAW_DATA)):
            file.seek(begin)
            parts.append(file.read(start + size - begin))
        elif inner is None:
            raw_data = FileRange(stored, start, size)
            file.seek(start + size)
        else:
            content = _light(file, stored, inner, start + size)
            parts += [_encoded(key), _encoded(len(content)), content]
    if raw_data is not None:
        if location not in (None, TensorProto.DEFAULT):
            raise ValueError("a tensor has its data in two places")
        tensor = TensorProto()
        if location is not None:
            tensor.data_location = TensorProto.DEFAULT
        refer(tensor, raw_data)
        parts.append(tensor.SerializeToString())
    return b"".join(parts)


def write_whole(model: ModelProto, file: BinaryIO) -> int:
    """Write a model in binary form with the data of its references, which are copied; returns the bytes."""
    parts = _whole(model.SerializeToString(), "model")
    for part in parts:
        if isinstance(part, FileRange):
            part.copy_to(file)
        else:
            file.write(part)
    return _length(parts)


def _whole(content: bytes, kind: str) -> list[_Part]:
    """A message in parts, with the data of references in their places: those of ONNX's own order of fields."""
    if REFERENCE not in content:
        return [content]
    if kind == "tensor":
        tensor = TensorProto.FromString(content)
        data, head, tail = data_of(tensor), without_place(tensor), without_place(tensor)
        for field, _ in tail.ListFields():
            (head if field.number > _RAW_DATA else tail).ClearField(field.name)
        parts: list[_Part] = [head.SerializeToString(), _encoded(_RAW_DATA << 3 | LENGTH_DELIMITED)]
        return [*parts, _encoded(_length([data])), data, tail.SerializeToString()]
    parts, file = [], io.BytesIO(content)
    while (begin := file.tell()) < len(content):
        key = varint(file) or 0
        size = varint(file) or 0
        start = file.tell()
        if key & 7 != LENGTH_DELIMITED:  # a number, as all other fields of these messages
            size = 0
        inner = _INNER[kind].get(key >> 3)
        field = content[start : start + size]
        if key & 7 == LENGTH_DELIMITED and inner is not None:
            whole = _whole(field, inner)
            parts += [_encoded(key), _encoded(_length(whole)), *whole]
        else:
            parts.append(content[begin : start + size])
        file.seek(start + size)
    return parts


def _length(parts: list[_Part]) -> int:
    return sum(part.length if isinstance(part, FileRange) else len(part) for part in parts)


def fields(file: BinaryIO, number: int, end: int | None = None) -> Iterator[bytes]:
    """The contents of one field of a message, wherever they are in its file."""
    for size in sizes(file, number, end):
        if size <= _LONGEST_READ:
            yield file.read(size)
        else:
            file.seek(min(size, _LARGEST_FIELD), os.SEEK_CUR)


def sizes(file: BinaryIO, number: int, end: int | None = None) -> Iterator[int]:
    """The sizes of one field of a message, each when the file is where its content begins; who gets it passes it."""
    while (end is None or file.tell() < end) and (key := varint(file)) is not None:
        field, wire_type = key >> 3, key & 7
        if wire_type == LENGTH_DELIMITED:
            size = varint(file) or 0
            if field == number:
                yield size
            else:
                file.seek(min(size, _LARGEST_FIELD), os.SEEK_CUR)
        elif wire_type == _VARINT:
            varint(file)
        else:  # a model has no others
            return


def varint(file: BinaryIO) -> int | None:
    """The next number in protobuf's encoding of integers; None at the end, or where there is none."""
    number = 0
    for shift in range(0, 64, 7):
        byte = file.read(1)
        if not byte:
            return None
        number |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return number
    return None


def _encoded(number: int) -> bytes:
    digits = bytearray()
    while number >= 0x80:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])
