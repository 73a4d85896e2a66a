"""Sorted tables of LevelDB's format, which the index of a checkpoint is: keys, values, and where they are."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from onnx_sparse.converters.varint import read_varint

_FOOTER = 48
_MAGIC = 0xDB4775248B80FB57
#: After each block: how it is compressed, and its checksum.
_TRAILER = 5


def entries(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a sorted table.

    Raises:
        ValueError: It is none, or compressed.
        IndexError: It is damaged.
    """
    footer = content[-_FOOTER:]
    if len(footer) < _FOOTER or struct.unpack("<Q", footer[-8:])[0] != _MAGIC:
        raise ValueError("not a sorted table")
    position = 0
    handle = []
    for _ in range(4):  # the offsets and sizes of two blocks, of which the second is the index
        number, position = read_varint(footer, position)
        handle.append(number)
    for _, block in _block(content, handle[2], handle[3]):
        offset, position = read_varint(block, 0)
        size, _ = read_varint(block, position)
        yield from _block(content, offset, size)


def _block(content: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a block. A key begins as the one before it, which is not repeated."""
    block = content[offset : offset + size]
    if size < 4 or len(content) < offset + size + _TRAILER or content[offset + size] != 0:
        raise ValueError("a block is cut off or compressed")
    (restarts,) = struct.unpack("<I", block[-4:])
    end = size - 4 * (restarts + 1)
    position, key = 0, b""
    while position < end:
        shared, position = read_varint(block, position)
        own, position = read_varint(block, position)
        length, position = read_varint(block, position)
        key = key[:shared] + block[position : position + own]
        position += own
        yield key, block[position : position + length]
        position += length
