"""Numbers of variable length, as protobuf and LevelDB write them: seven bits a byte, the lowest first."""

from __future__ import annotations

#: The bits of the largest number.
_MOST_BITS = 64


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at a position, and the position after it.

    Raises:
        ValueError: It does not end, in the data or after the most bytes that a number has.
    """
    number = shift = 0
    while position < len(data) and shift < _MOST_BITS:
        byte = data[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
        shift += 7
    raise ValueError(f"the number at byte {position} does not end")
