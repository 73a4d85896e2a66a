"""Sorted tables of LevelDB's format with right checksums, whatever is in them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from onnx_sparse.files.checksum import masked_crc32c


def varint(number: int) -> bytes:
    written = b""
    while number > 127:
        written, number = written + bytes([number & 127 | 128]), number >> 7
    return written + bytes([number])


def block(entries: Sequence[tuple[int, bytes, bytes]]) -> bytes:
    """A block, its kind and its checksum; each entry is how much of the key before it repeats, the rest, the value."""
    held = (varint(shared) + varint(len(own)) + varint(len(value)) + own + value for shared, own, value in entries)
    content = b"".join(held) + struct.pack("<II", 0, 1)
    return content + b"\0" + struct.pack("<I", masked_crc32c(content + b"\0"))


def table(blocks: Sequence[bytes], handles: Sequence[tuple[int, int]] | None = None) -> bytes:
    """A sorted table of blocks; the handles in its index are where they are, or given."""
    places, at = [], 0
    for each in blocks:
        places.append((at, len(each) - 5))
        at += len(each)
    named = handles or places
    index = block([(0, b"%09d" % k, varint(offset) + varint(size)) for k, (offset, size) in enumerate(named)])
    footer = varint(0) * 2 + varint(at) + varint(len(index) - 5)
    return b"".join(blocks) + index + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
