"""Sorted tables of LevelDB's format, which the index of a checkpoint is: keys, values, and where they are."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from onnx_sparse.converters.varint import read_varint
from onnx_sparse.files.checksum import masked_crc32c

_FOOTER = 48
_MAGIC = 0xDB4775248B80FB57
#: After each block: how it is compressed, and its checksum.
_TRAILER = struct.Struct("<BI")
#: The longest key, the bytes of all keys, and how many there are: far beyond those of any model.
_MOST_KEY, _MOST_KEYS, _MOST_ENTRIES = 1 << 16, 1 << 28, 1 << 20


def entries(content: bytes) -> dict[bytes, bytes]:
    """The values of a sorted table by key.

    Raises:
        ValueError: It is none, compressed or damaged, or its keys are not in order or too many.
    """
    footer = content[-_FOOTER:]
    if len(footer) < _FOOTER or struct.unpack("<Q", footer[-8:])[0] != _MAGIC:
        raise ValueError("not a sorted table")
    position = 0
    handle = []
    for _ in range(4):  # the offsets and sizes of two blocks, of which the second is the index
        number, position = read_varint(footer, position)
        handle.append(number)
    found: dict[bytes, bytes] = {}
    last, size_of_keys, end = b"", 0, 0
    for _, block in _block(content, handle[2], handle[3]):
        offset, position = read_varint(block, 0)
        size, _ = read_varint(block, position)
        if offset < end:  # one block may be named again and again
            raise ValueError(f"the block at byte {offset} begins within another one")
        end = offset + size
        for key, value in _block(content, offset, size):
            size_of_keys += len(key)
            if found and key <= last:
                raise ValueError(f"the key {key[:40]!r} is not after the one before it")
            if size_of_keys > _MOST_KEYS or len(found) >= _MOST_ENTRIES:
                raise ValueError(f"it has more than {_MOST_ENTRIES} entries or {_MOST_KEYS} bytes of keys")
            found[key], last = value, key
    return found


def _block(content: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a block. A key begins as the one before it, which is not repeated."""
    end = offset + size
    if size < 4 or len(content) < end + _TRAILER.size or content[end] != 0:
        raise ValueError(f"the block at byte {offset} is cut off or compressed")
    if masked_crc32c(content[offset : end + 1]) != _TRAILER.unpack_from(content, end)[1]:
        raise ValueError(f"the block at byte {offset} does not have its checksum")
    block = content[offset:end]
    (restarts,) = struct.unpack("<I", block[-4:])
    end, position, key = size - 4 * (restarts + 1), 0, b""
    while position < end:
        shared, position = read_varint(block, position)
        own, position = read_varint(block, position)
        length, position = read_varint(block, position)
        if shared > len(key) or position + own + length > end or shared + own > _MOST_KEY:
            raise ValueError(f"a key or value of the block at byte {offset} is longer than it can be")
        key = key[:shared] + block[position : position + own]
        position += own
        yield key, block[position : position + length]
        position += length
