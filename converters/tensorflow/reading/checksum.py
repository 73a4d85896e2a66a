"""CRC-32C, the checksum of a checkpoint's tensors, computed in many lanes at once by numpy."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8
_ALL = 0xFFFFFFFF
#: The bytes of a lane, where there are enough of them.
_LANE = 512


def masked_crc32c(data: bytes | memoryview) -> int:
    """The checksum, masked as TensorFlow's files have it."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _ALL


def crc32c(data: bytes | memoryview) -> int:
    """The checksum of bytes."""
    table, lanes = _table(), len(data) // _LANE
    state, rest = _ALL, memoryview(data)
    if lanes > 1:
        columns = np.frombuffer(rest[: lanes * _LANE], np.uint8).reshape(lanes, _LANE).T
        states = np.zeros(lanes, np.uint32)
        states[0] = _ALL
        for column in np.ascontiguousarray(columns):
            states = table[(states ^ column) & 0xFF] ^ states >> 8
        # A lane's checksum moves past those that follow it, and is added to theirs.
        first, second, third, fourth = (part.tolist() for part in _past_a_lane())
        state = 0
        for each in states.tolist():
            moved = first[state & 255] ^ second[state >> 8 & 255] ^ third[state >> 16 & 255] ^ fourth[state >> 24]
            state = moved ^ each
        rest = rest[lanes * _LANE :]
    steps = table.tolist()
    for byte in bytes(rest):
        state = steps[(state ^ byte) & 0xFF] ^ state >> 8
    return int(state ^ _ALL)


@cache
def _table() -> np.ndarray[Any, Any]:
    """The checksums of single bytes."""
    states = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        states = np.where(states & 1, states >> 1 ^ np.uint32(_POLYNOMIAL), states >> 1)
    return states


@cache
def _past_a_lane() -> tuple[np.ndarray[Any, Any], ...]:
    """What becomes of each byte of a checksum when a lane of zeros follows."""
    table, moved = _table(), []
    for shift in (0, 8, 16, 24):
        states = np.arange(256, dtype=np.uint32) << np.uint32(shift)
        for _ in range(_LANE):
            states = table[states & 0xFF] ^ states >> 8
        moved.append(states)
    return tuple(moved)
