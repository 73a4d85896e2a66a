"""Ranges of files: data that stay where they lie until they are copied, a block at a time, or mapped.

A range knows the file that it was found in. If another file has taken its place, or the file has become shorter, that
is an error and never other data.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from onnx_sparse.files.guarded_files import RefusedFileError, open_file

#: The bytes that are read, or copied by the kernel, at once.
BLOCK = 1 << 22


@dataclass(frozen=True)
class Part:
    """A part of a file.

    Attributes:
        checksum: Its SHA-1, in hexadecimal digits.
        begin: Its first byte.
        end: The byte after it; None for the end that the file had when its checksum was stated.
        named: The byte after the last one that the model names, for an `end` of None. The file may have grown since: a
            process that added rows may have ended before a model named them.
    """

    checksum: str
    begin: int = 0
    end: int | None = None
    named: int = 0


def damage(file: str | os.PathLike[str], part: Part) -> str | None:
    """What is wrong with a part of a file: None if it has its checksum.

    Raises:
        OSError: It cannot be read.
    """
    digest = hashlib.sha1(usedforsecurity=False)  # the one that ONNX names
    with open_file(file) as opened:
        opened.seek(part.begin)
        ends = [part.named, os.fstat(opened.fileno()).st_size] if part.end is None else [part.end]
        at = part.begin
        for end in ends:
            while at < end and (piece := opened.read(min(end - at, BLOCK))):
                digest.update(piece)
                at += len(piece)
            if digest.hexdigest() == part.checksum:
                return None
    found = digest.hexdigest()
    of = "" if part.end is None else f" from byte {part.begin} to {part.end}"
    return f"its SHA-1{of} is {found}, not {part.checksum}"


@dataclass(frozen=True)
class StoredFile:
    """A file as it was when it was looked at.

    Attributes:
        path: Its real path.
        state: What tells it from another that has replaced it.
        parts: Those of which somebody has stated the checksums.
    """

    path: str
    state: tuple[int, ...]
    parts: tuple[Part, ...] = ()

    @classmethod
    def of(
        cls,
        path: str | os.PathLike[str],
        root: str | os.PathLike[str] | None = None,
        parts: Sequence[Part] = (),
    ) -> StoredFile:
        """The file of a path; see `open_file`."""
        with open_file(path, root) as file:
            return cls(os.path.realpath(path), _state(file), tuple(parts))

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.state[2]

    @property
    def checksum(self) -> str:
        """The SHA-1 that the whole file should have, in hexadecimal digits; empty if nobody has stated one."""
        return self.parts[0].checksum if len(self.parts) == 1 and self.parts[0].end is None else ""

    def require_checksums(self) -> None:
        """Refuse a file of which a part does not have its checksum.

        Raises:
            RefusedFileError: It does not.
        """
        for part in self.parts:
            if (found := damage(self.path, part)) is not None:
                raise RefusedFileError(self.path, f"it is damaged: {found}")

    def open(self) -> BinaryIO:
        """Open it again.

        Raises:
            RefusedFileError: It has changed since.
            OSError: It cannot be read.
        """
        file = open_file(self.path)
        if _state(file) != self.state:
            file.close()
            raise RefusedFileError(self.path, "it has changed since it was read first")
        return file


@dataclass(frozen=True)
class FileRange:
    """Some bytes of a file.

    Attributes:
        file: The file.
        offset: Where they begin.
        length: How many they are.
    """

    file: StoredFile
    offset: int
    length: int

    def blocks(self) -> Iterator[bytes]:
        """The bytes, in parts."""
        with self.file.open() as file:
            file.seek(self.offset)
            left = self.length
            while left:
                block = file.read(min(left, BLOCK))
                if not block:
                    raise self._cut_off()
                left -= len(block)
                yield block

    def read(self) -> bytes:
        """All of the bytes."""
        return b"".join(self.blocks())

    def mapped(self, dtype: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """The bytes as an array that the system reads when it is used, and that takes no memory of the process."""
        with self.file.open() as file:
            array = np.memmap(file, np.dtype(dtype).newbyteorder("<"), "r", self.offset, shape).view(MappedRange)
        array.range = self
        return array

    def copy_to(self, file: BinaryIO) -> None:
        """Write the bytes to the end of a file: the kernel copies them, where it can."""
        file.flush()
        with self.file.open() as source:
            done = self._copied_by_kernel(source, file)
        file.seek(0, os.SEEK_END)
        for block in FileRange(self.file, self.offset + done, self.length - done).blocks():
            file.write(block)

    def _copied_by_kernel(self, source: BinaryIO, target: BinaryIO) -> int:
        """How many of the bytes the kernel has copied: other systems have no such call, nor all file systems."""
        done = 0
        with contextlib.suppress(AttributeError, OSError):
            while done < self.length:
                count = min(self.length - done, BLOCK << 4)
                if not (copied := os.copy_file_range(source.fileno(), target.fileno(), count, self.offset + done)):
                    break
                done += copied
        return done

    def _cut_off(self) -> OSError:
        return RefusedFileError(self.file.path, f"it ends before byte {self.offset + self.length:,}")


class MappedRange(np.memmap):
    """An array that is mapped from a file; `range` is None for what is computed from it, or only a part."""

    range: FileRange | None = None


def range_of(array: np.ndarray[Any, Any]) -> FileRange | None:
    """The bytes of a file that an array is mapped from; None for any other array."""
    return array.range if isinstance(array, MappedRange) else None


def bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    """The bytes of an array, lowest first; they are copied only if they are in another order."""
    ordered = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return memoryview(ordered.reshape(-1).view(np.uint8)) if array.size else memoryview(b"")  # type: ignore[arg-type]


def _state(file: BinaryIO) -> tuple[int, ...]:
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
