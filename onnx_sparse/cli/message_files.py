"""Files of messages: TFRecord files, and JSON lines; either may be compressed with gzip or zlib.

A TFRecord file holds one record after another: the length (8 bytes), its checksum (4), the content, its checksum (4);
numbers are little-endian, checksums are masked CRC-32C.
"""

from __future__ import annotations

import functools
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onnx_sparse.cli.output import CommandError

_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")

#: The polynomial of CRC-32C with its bits reversed, and what masks a checksum.
_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8

#: zlib's `wbits` that takes the formats of gzip and of zlib.
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


def is_json_lines(path: Path) -> bool:
    """Whether a file has a JSON value in each line, by its name; else it is a TFRecord file."""
    return not {".jsonl", ".ndjson"}.isdisjoint(path.suffixes[-2:])


def read_records(path: Path) -> list[bytes]:
    """The records of a TFRecord file.

    Raises:
        CommandError: It cannot be read, or a record is cut off or does not have its checksum.
    """
    content, damage = _content(path)
    records: list[bytes] = []
    position = 0
    while position < len(content):
        where = f"{path}: record {len(records)}"
        if len(content) - position < _HEADER.size:
            raise CommandError(f"{where} is cut off{damage}")
        if not _has_header(content, position):
            hint = " (JSON lines are taken from files named .jsonl)" if not records else ""
            raise CommandError(f"{where} is damaged: its length does not have its checksum{hint}")
        length, _ = _HEADER.unpack_from(content, position)
        begin = position + _HEADER.size
        end = begin + length
        if end + _CHECKSUM.size > len(content):
            raise CommandError(f"{where} is cut off{damage}")
        record = content[begin:end]
        if masked_crc32c(record) != _CHECKSUM.unpack_from(content, end)[0]:
            raise CommandError(f"{where} is damaged: its content does not have its checksum")
        records.append(record)
        position = end + _CHECKSUM.size
    if damage:
        raise CommandError(f"{path}: record {len(records)} is cut off{damage}")
    return records


def read_json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """The values of a file of JSON lines, each with the name of its line; blank lines are skipped.

    Raises:
        CommandError: It cannot be read, or a line is not JSON.
    """
    content, damage = _content(path)
    lines = content.splitlines()
    for number, line in enumerate(lines, 1):
        where = f"{path}, line {number}"
        if damage and number == len(lines):
            raise CommandError(f"{where} is cut off{damage}")
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise CommandError(f"{where} is not JSON ({error})") from error
        except RecursionError as error:
            raise CommandError(f"{where} is nested too deeply") from error
        yield where, value
    if damage and not lines:
        raise CommandError(f"{path}, line 1 is cut off{damage}")


def masked_crc32c(content: bytes) -> int:
    """The checksum of a TFRecord file."""
    table, crc = _crc_table(), 0xFFFFFFFF
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


@functools.cache
def _crc_table() -> tuple[int, ...]:
    """The checksums of single bytes."""

    def of_byte(value: int) -> int:
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        return value

    return tuple(map(of_byte, range(256)))


def _has_header(content: bytes, position: int = 0) -> bool:
    length = content[position : position + 8]
    (checksum,) = _CHECKSUM.unpack_from(content, position + 8)
    return masked_crc32c(length) == int(checksum)


def _content(path: Path) -> tuple[bytes, str]:
    """What a file holds after decompression, and why that ends too early ("" where it does not)."""
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise CommandError(f"{path}: no such file") from error
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror or error}") from error
    # A TFRecord file could begin like a compressed one, but then its first length has its checksum.
    if not _looks_compressed(content) or (len(content) >= _HEADER.size and _has_header(content)):
        return content, ""
    return _decompressed(content)


def _looks_compressed(content: bytes) -> bool:
    """Whether content begins with the header of gzip, or with that of zlib, a multiple of 31."""
    if content[:2] == b"\x1f\x8b":
        return True
    return len(content) >= 2 and content[0] == 0x78 and int.from_bytes(content[:2], "big") % 31 == 0


def _decompressed(content: bytes) -> tuple[bytes, str]:
    """What compressed streams hold, one after another, and why that ends too early."""
    whole, position = bytearray(), 0
    while position < len(content):
        stream = zlib.decompressobj(_GZIP_OR_ZLIB)
        while not stream.eof:  # in pieces: what comes before damage counts
            piece = content[position : position + zlib.DEF_BUF_SIZE]
            if not piece:
                return bytes(whole), ": the compressed data end too early"
            try:
                whole += stream.decompress(piece)
            except zlib.error as error:
                return bytes(whole), f": the compressed data are damaged ({error})"
            position += len(piece) - len(stream.unused_data)
    return bytes(whole), ""
