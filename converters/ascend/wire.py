"""Counts the fields of a protobuf file before it is parsed.

An empty message has two bytes in the file and about a hundred in memory, so a small file can take gigabytes. A graph
needs far less than one field per byte, because most of a large file is weights, each of which is one field.
"""

from __future__ import annotations

from typing import Any

from onnx_sparse.converters.varint import read_varint

#: Smaller files cannot exhaust the memory of a machine.
_HARMLESS_BYTES = 8 * 2**20
_MOST_FIELDS = 8_000_000
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def check_fields(data: bytes, descriptor: Any) -> None:
    """Refuse a serialized message with too many fields.

    Args:
        data: The message.
        descriptor: Its protobuf descriptor, which says which fields are messages themselves.

    Raises:
        ValueError: It has too many fields, or is not a message.
    """
    if len(data) <= _HARMLESS_BYTES:
        return
    count = 0
    waiting = [(0, len(data), descriptor)]
    while waiting:
        position, end, kind = waiting.pop()
        while position < end:
            count += 1
            if count > _MOST_FIELDS:
                raise ValueError(f"it has more than {_MOST_FIELDS} fields, which no graph needs")
            tag, position = read_varint(data, position)
            wire = tag & 7
            if wire == _VARINT:
                _, position = read_varint(data, position)
            elif wire in (_FIXED64, _FIXED32):
                position += 8 if wire == _FIXED64 else 4
            elif wire == _LENGTH:
                size, position = read_varint(data, position)
                field = kind.fields_by_number.get(tag >> 3)
                if field is not None and field.message_type is not None and size:
                    waiting.append((position, min(position + size, end), field.message_type))
                position += size
            else:
                raise ValueError(f"wire type {wire} at byte {position} is none of protobuf's")
