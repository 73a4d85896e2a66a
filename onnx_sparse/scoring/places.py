"""Where files of rows and of scores are: local paths, and objects of a store that pyarrow knows, as s3://bucket/key."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO
from urllib.parse import quote, urlsplit

import pyarrow as pa
from pyarrow import fs

from onnx_sparse.errors import CommandError, UsageError
from onnx_sparse.files.new_file import new_file

#: What pyarrow takes for the compression of a file, by the end of its name.
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
#: How a URI begins; a single letter would be a drive of Windows.
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
#: The options of a URI; else a question mark stands for a letter.
_OPTIONS = re.compile(r"\?\w+=[^?*\[]*$")
#: The stores in which a file appears when its writer ends it, and not before.
_ATOMIC = ("s3", "gcs", "abfs")


@dataclass(frozen=True)
class Place:
    """A file or folder.

    Attributes:
        path: Its path, in the file system of this machine or of a store.
        store: The URI that the store is opened with; empty for the file system of this machine.
    """

    path: str
    store: str = ""

    def __str__(self) -> str:
        """As the user named it, without the credentials and options that a URI may have."""
        return f"{self.store.partition('://')[0]}://{self.path}" if self.store else self.path

    def __truediv__(self, relative: str | PurePosixPath) -> Place:
        if self.store:
            return replace(self, path=str(PurePosixPath(self.path) / relative))
        return replace(self, path=str(Path(self.path) / str(relative)))

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self.path).name if self.store else Path(self.path).name

    @property
    def parent(self) -> Place:
        """The folder that it is in."""
        return replace(self, path=str(PurePosixPath(self.path).parent if self.store else Path(self.path).parent))

    @property
    def filesystem(self) -> Any:
        """The file system of pyarrow that it is in."""
        return _store(self.store) if self.store else fs.LocalFileSystem()

    def with_name(self, name: str) -> Place:
        """Another file in the same folder."""
        return self.parent / name

    def is_folder(self) -> bool:
        """Whether it is a folder."""
        if not self.store:
            return os.path.isdir(self.path)
        return bool(self._info().type == fs.FileType.Directory)

    def exists(self) -> bool:
        """Whether there is a file or folder."""
        return bool(self._info().type != fs.FileType.NotFound) if self.store else os.path.exists(self.path)

    def _info(self) -> Any:
        with errors_of(self):
            return self.filesystem.get_file_info(self.path)

    def identity(self) -> str:
        """What tells the content of a file from another that was there before or will be."""
        if not self.store:
            state = os.stat(self.path)
            known: tuple[object, ...] = state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino
            named = os.fsencode(os.path.realpath(self.path))
        else:
            with errors_of(self), self.filesystem.open_input_stream(self.path) as file:
                tag = (file.metadata() or {}).get("ETag")
            info = self._info()
            known, named = (info.size, info.mtime_ns, tag), str(self).encode()
        return hashlib.sha256(repr((named, *known)).encode()).hexdigest()

    def remove(self) -> None:
        """Remove the file, if there is one."""
        if self.store:
            with errors_of(self), contextlib.suppress(FileNotFoundError):
                self.filesystem.delete_file(self.path)
        else:
            Path(self.path).unlink(missing_ok=True)

    def open(self) -> Any:
        """The file as one of pyarrow's, for random access."""
        return self.filesystem.open_input_file(self.path) if self.store else pa.OSFile(os.fsencode(self.path))

    def open_stream(self) -> BinaryIO:
        """The content of the file from its beginning, decompressed as its name says."""
        codec = COMPRESSED.get(Path(self.name).suffix.lower())
        if codec is None and not self.store:
            return open(self.path, "rb")  # the caller closes it
        stream = self.filesystem.open_input_stream(self.path, compression=None) if self.store else self.open()
        if codec is not None:
            stream = pa.CompressedInputStream(stream, codec)
        return io.BufferedReader(stream, 1 << 20)


def place_of(text: str) -> Place:
    """The file or folder that a path or URI names.

    Raises:
        UsageError: pyarrow knows no such store, or was built without it.
        CommandError: The store does not answer.
    """
    if not text:
        raise UsageError("expected a path, got ''")
    found = _SCHEME.match(text)
    if found is None:
        return Place(text)
    if found[1].lower() == "file":
        return Place(urlsplit(text).path)
    options = _OPTIONS.search(text)
    named = text[: options.start()] if options else text
    after = options[0] if options else ""
    try:
        _, path = fs.FileSystem.from_uri(quote(named, safe="/:%=*@!$&'()+,;~") + after)
    except OSError as error:
        raise CommandError(f"{named} cannot be reached: {_first_line(error)}") from error
    except (pa.ArrowException, ValueError) as error:
        stores = "pass a local path, or the address of a store, such as s3://bucket/key"
        raise UsageError(f"{named}: {_first_line(error)}; {stores}") from error
    return Place(path, f"{found[0]}{urlsplit(named).netloc}/{after}")


@functools.lru_cache
def _store(uri: str) -> Any:
    return fs.FileSystem.from_uri(uri)[0]


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


@contextlib.contextmanager
def errors_of(place: Place) -> Iterator[None]:
    """Report the errors of a store as one line that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise CommandError(f"{place}: no such file") from error
    except (pa.ArrowException, OSError) as error:
        raise CommandError(f"{place} cannot be reached: {_first_line(error)}") from error


@contextlib.contextmanager
def new_place(place: Place) -> Iterator[BinaryIO]:
    """A file that replaces what is there once it is complete, and is as if it had never been if something fails.

    One of a store is written on this machine first: a store keeps what an interrupted writer has written so far.

    Raises:
        CommandError: It cannot be written.
    """
    if not place.store:
        path = Path(place.path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(f"cannot write {place}: {error.strerror or error}") from error
        with new_file(path, clean=False) as file:  # `score` does it for all files at once
            yield file
        return
    # Where it can be, the local file has no name, so that nothing is left of it when the process is killed.
    make = tempfile.NamedTemporaryFile if sys.platform == "win32" else tempfile.TemporaryFile
    with make(prefix="onnx-sparse-") as spooled:
        yield spooled  # type: ignore[misc]
        spooled.flush()
        spooled.seek(0)
        _upload(spooled.name if sys.platform == "win32" else f"/dev/fd/{spooled.fileno()}", place)


def _upload(source: str, place: Place) -> None:
    """Copy a local file into a store by one call into C++, which no signal interrupts."""
    store, target = place.filesystem, place
    if store.type_name not in _ATOMIC:
        target = place.with_name(f".onnx-sparse-{hashlib.sha256(place.path.encode()).hexdigest()[:16]}.part")
    try:
        if target is not place:
            store.create_dir(place.parent.path, recursive=True)
        fs.copy_files(source, target.path, source_filesystem=fs.LocalFileSystem(), destination_filesystem=store)
        if target is not place:
            store.move(target.path, place.path)
    except (pa.ArrowException, OSError) as error:
        raise CommandError(f"cannot write {place}: {_first_line(error)}") from error
