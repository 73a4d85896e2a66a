"""CRC-32C as TensorFlow masks it: the checksum of TFRecord files and of checkpoints."""

from __future__ import annotations

from typing import BinaryIO

import google_crc32c

_MASK_DELTA = 0xA282EAD8
#: The bytes that are read at once.
_PIECE = 1 << 24


def masked_crc32c(content: bytes) -> int:
    """The masked checksum of bytes."""
    return _masked(google_crc32c.value(content))


def masked_crc32c_of_file(file: BinaryIO, size: int) -> int:
    """The masked checksum of the next bytes of a file, which are never in memory together."""
    crc = 0
    while size and (piece := file.read(min(size, _PIECE))):
        crc, size = google_crc32c.extend(crc, piece), size - len(piece)
    return _masked(crc)


def _masked(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF
