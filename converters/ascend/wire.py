"""Counts what a protobuf file holds before it is parsed.

An empty message is two bytes in the file and some hundred in memory: a file of a few megabytes can take many gigabytes.
What a graph needs is far less than one field for every byte, for most of a large file is weights, each one field.
"""

from __future__ import annotations

from typing import Any

#: Smaller files cannot become larger than what a machine has.
_HARMLESS_BYTES = 8 * 2**20
_MOST_FIELDS = 8_000_000
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def check_fields(data: bytes, descriptor: Any) -> None:
    """Refuse a serialised message of too many fields.

    Args:
        data: The message.
        descriptor: Its protobuf descriptor, which says what of it is messages again.

    Raises:
        ValueError: It has too many, or is none.
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
            tag, position = _varint(data, position)
            wire = tag & 7
            if wire == _VARINT:
                _, position = _varint(data, position)
            elif wire in (_FIXED64, _FIXED32):
                position += 8 if wire == _FIXED64 else 4
            elif wire == _LENGTH:
                size, position = _varint(data, position)
                field = kind.fields_by_number.get(tag >> 3)
                if field is not None and field.message_type is not None and size:
                    waiting.append((position, min(position + size, end), field.message_type))
                position += size
            else:
                raise ValueError(f"wire type {wire} at byte {position} is none of protobuf's")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while position < len(data) and shift < 64:
        byte = data[position]
        position += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result, position
        shift += 7
    raise ValueError(f"the number at byte {position} does not end")
