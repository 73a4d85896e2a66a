"""The one opener of files that are not trusted: regular files only, inside a folder, up to a size.

A folder or an archive from elsewhere may hold links to other files of this machine, pipes that never end, and devices.
What is opened here is none of these.
"""

from __future__ import annotations

import errno
import os
import stat
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

#: What protobuf's messages can have, and so the largest file that is read as a whole.
MOST_BYTES = 2**31 - 1
#: The members of an archive, and how far they may expand: together beyond the first, each byte to at most the second.
_MOST_MEMBERS, _HARMLESS_SIZE, _MOST_EXPANSION = 1 << 16, 1 << 30, 100

#: Without them, a pipe would be waited for, a link be followed that came after the check, and Windows change line ends.
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))


class RefusedFileError(OSError):
    """A file that is not read; `strerror` says why."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(errno.EPERM, reason, os.fspath(path))


def folder_of(path: Path) -> Path:
    """The folder of a file that the caller has named: where a link to it leads, if it is one.

    A cache of downloads has links in place of a model's files, all to one folder.
    """
    return Path(os.path.realpath(path)).parent if path.is_symlink() else path.parent


def open_file(
    path: str | os.PathLike[str], root: str | os.PathLike[str] | None = None, most: int | None = None
) -> BinaryIO:
    """Open a file to read its bytes.

    Args:
        path: The file, or a link to it.
        root: The folder that holds it; links that stay in it are followed. None for a file that the caller has named.
        most: The largest size.

    Raises:
        RefusedFileError: It is no regular file, outside of the folder, or larger.
        OSError: It cannot be read.
    """
    try:
        real = os.path.realpath(path)
        if root is not None and not Path(real).is_relative_to(os.path.realpath(root)):
            raise RefusedFileError(
                path,
                f"it leads out of the folder {os.fspath(root)}, and nothing else is read; "
                "`cp -rL` makes a copy of a folder with files in place of links",
            )
        _refuse_special(path, os.stat(real))  # opening a device may already do something
        file = os.fdopen(os.open(real, _FLAGS), "rb")
    except ValueError as error:  # of a name that no file can have
        raise RefusedFileError(path, f"no file can have this name: {error}") from None
    try:
        status = os.fstat(file.fileno())
        _refuse_special(path, status)
        if most is not None and status.st_size > most:
            raise RefusedFileError(path, f"it has {status.st_size:,} bytes; a file of this kind is read up to {most:,}")
    except BaseException:
        file.close()
        raise
    return file


def _refuse_special(path: str | os.PathLike[str], status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(status.st_mode):
        raise RefusedFileError(path, "it is not a regular file")


def read_file(
    path: str | os.PathLike[str], root: str | os.PathLike[str] | None = None, most: int = MOST_BYTES
) -> bytes:
    """The content of a file; see `open_file`."""
    with open_file(path, root, most) as file:
        return file.read(most)  # not what is added meanwhile


def require_file(path: str | os.PathLike[str], root: str | os.PathLike[str] | None = None) -> None:
    """Refuse what `open_file` would, before a library opens a file by its name."""
    open_file(path, root).close()


def require_harmless_archive(path: str | os.PathLike[str]) -> None:
    """Refuse what `open_file` would, and a zip archive whose members would fill the memory.

    Raises:
        RefusedFileError: It is refused, has too many members, or they expand too far.
        OSError: It cannot be read.
    """
    with open_file(path) as file, suppress(zipfile.BadZipFile):  # which whoever reads it will say
        if not zipfile.is_zipfile(file):
            return
        size, members = os.fstat(file.fileno()).st_size, zipfile.ZipFile(file).infolist()
        if len(members) > _MOST_MEMBERS:
            raise RefusedFileError(path, f"it has {len(members)} members; an archive has up to {_MOST_MEMBERS}")
        expanded, most = sum(member.file_size for member in members), max(_HARMLESS_SIZE, _MOST_EXPANSION * size)
        if expanded > most:
            raise RefusedFileError(
                path, f"its members have {expanded:,} bytes; archives of its size have up to {most:,}"
            )
