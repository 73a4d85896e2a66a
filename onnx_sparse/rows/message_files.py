"""Files of messages: TFRecord files, and JSON lines; either may be compressed with gzip or zlib.

A TFRecord file holds one record after another: the length (8 bytes), its checksum (4), the content, its checksum (4);
numbers are little-endian, checksums are masked CRC-32C.
"""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from onnx_sparse.errors import CommandError
from onnx_sparse.files.checksum import masked_crc32c
from onnx_sparse.rows.json_text import parsed

_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")

#: zlib's `wbits` that takes the formats of gzip and of zlib.
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
#: The bytes that are read, and decompressed, at once.
_PART = 1 << 22


def is_json_lines(path: Path) -> bool:
    """Whether a file has a JSON value in each line, by its name; else it is a TFRecord file."""
    return not {".jsonl", ".ndjson"}.isdisjoint(path.suffixes[-2:])


class DamagedError(CommandError):
    """A file is not what it should be, or only a part of it."""


def read_records(path: Path) -> list[bytes]:
    """The records of a TFRecord file.

    Raises:
        CommandError: It cannot be read, or a record is cut off or does not have its checksum.
    """
    with _opened(path) as file:
        return list(records_of(file, str(path)))


def records_of(file: BinaryIO, name: str) -> Iterator[bytes]:
    """The records of an open TFRecord file, read in parts.

    Args:
        file: The file.
        name: What errors call it.

    Raises:
        DamagedError: A record is cut off or does not have its checksum.
    """
    parts = _parts(file)
    content, position, number = b"", 0, 0
    unpack, size, checksum_size = _HEADER.unpack_from, _HEADER.size, _CHECKSUM.size
    unpack_checksum, crc, length_checksum = _CHECKSUM.unpack_from, masked_crc32c, _length_checksum
    needed = size
    while True:
        while (begin := position + size) <= len(content):
            length, checksum = unpack(content, position)
            if length_checksum(length) != checksum:
                hint = "" if number else " (JSON lines are taken from files named .jsonl)"
                raise DamagedError(f"{name}: record {number} is damaged: its length does not have its checksum{hint}")
            end = begin + length
            needed = size + length + checksum_size
            if end + checksum_size > len(content):
                break
            record = content[begin:end]
            if crc(record) != unpack_checksum(content, end)[0]:
                raise DamagedError(f"{name}: record {number} is damaged: its content does not have its checksum")
            yield record
            number += 1
            position, needed = end + checksum_size, size
        held = [content[position:]]
        missing = needed - len(held[0])
        position = 0
        while missing > 0:
            try:
                part = next(parts, b"")
            except _CutError as error:
                raise DamagedError(f"{name}: record {number} is cut off{error}") from error
            if not part:
                break
            held.append(part)
            missing -= len(part)
        content = b"".join(held)
        if missing > 0:
            if content:
                raise DamagedError(f"{name}: record {number} is cut off")
            return


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
            value = parsed(line)
        except ValueError as error:
            raise CommandError(f"{where} is not JSON ({error})") from error
        except RecursionError as error:
            raise CommandError(f"{where} is nested too deeply") from error
        yield where, value
    if damage and not lines:
        raise CommandError(f"{path}, line 1 is cut off{damage}")


@functools.lru_cache(1 << 12)
def _length_checksum(length: int) -> int:
    """The checksum of the length of a record; most lengths come again."""
    return masked_crc32c(length.to_bytes(8, "little"))


class _CutError(Exception):
    """Compressed data end too early, or are damaged; the message goes after "is cut off"."""


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except FileNotFoundError as error:
        raise CommandError(f"{path}: no such file") from error
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror or error}") from error


def _content(path: Path) -> tuple[bytes, str]:
    """What a file holds after decompression, and why that ends too early ("" where it does not)."""
    whole = bytearray()
    with _opened(path) as file:
        try:
            for part in _parts(file):
                whole += part
        except _CutError as error:
            return bytes(whole), str(error)
    return bytes(whole), ""


def _parts(file: BinaryIO) -> Iterator[bytes]:
    """What a file holds, after decompression.

    Raises:
        _CutError: Compressed data end too early or are damaged.
    """
    first = file.read(_PART)
    # A TFRecord file could begin like a compressed one, but then its first length has its checksum.
    if not _looks_compressed(first) or (len(first) >= _HEADER.size and _has_header(first)):
        while first:
            yield first
            first = file.read(_PART)
        return
    left = memoryview(first)
    while left or (left := memoryview(file.read(_PART))):  # one stream after another
        stream = zlib.decompressobj(_GZIP_OR_ZLIB)
        while not stream.eof:
            if not left and not (left := memoryview(file.read(_PART))):
                raise _CutError(": the compressed data end too early")
            piece, whole = bytes(left[: zlib.DEF_BUF_SIZE]), left  # what precedes damage counts
            end = len(piece)
            try:
                while piece and not stream.eof:
                    if made := stream.decompress(piece, _PART):
                        yield made
                    piece = stream.unconsumed_tail
            except zlib.error as error:
                raise _CutError(f": the compressed data are damaged ({error})") from error
            left = whole[end - len(stream.unused_data) :]


def _has_header(content: bytes) -> bool:
    (checksum,) = _CHECKSUM.unpack_from(content, 8)
    return masked_crc32c(content[:8]) == int(checksum)


def _looks_compressed(content: bytes) -> bool:
    """Whether content begins with the header of gzip, or with that of zlib, a multiple of 31."""
    if content[:2] == b"\x1f\x8b":
        return True
    return len(content) >= 2 and content[0] == 0x78 and int.from_bytes(content[:2], "big") % 31 == 0
