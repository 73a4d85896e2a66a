"""Files that are written whole or not at all.

A file is written under another name beside the one that it replaces. The writer holds a lock on it, so that the next
writer can tell what a killed one has left from what another is writing, and remove it. On Windows the open file itself
cannot be removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from onnx_sparse.errors import CommandError, UsageError
from onnx_sparse.files.termination import termination_raised

if sys.platform != "win32":
    import fcntl

_PART_PREFIX = ".onnx-sparse-"


#: The suffixes of pages.
PAGE_SUFFIXES = (".html", ".htm")


def check_writable(path: Path, *suffixes: str, keep: Iterable[str | Path] = ()) -> None:
    """Refuse a path that cannot be written, before any work is done for it.

    Args:
        path: The file to write.
        suffixes: Those of the formats that it is written in; "" if its name need not have one.
        keep: What the command reads: files, folders, or strings that are neither.

    Raises:
        CommandError: There is no such folder, it cannot be written to, or the path is not a regular file.
        UsageError: Its name is of another format, or it would overwrite what the command reads.
    """
    for source in filter(os.path.exists, keep):
        real = os.path.realpath(source)
        if os.path.commonpath([real, os.path.realpath(path)]) == real:
            where = "in " if os.path.isdir(real) else ""
            raise UsageError(f"cannot write {path}: it is {where}what this command reads")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise CommandError(f"cannot write {path}: there is no directory {folder}")
    if path.exists() and not path.is_file():
        raise CommandError(f"cannot write {path}: it is {'a directory' if path.is_dir() else 'not a regular file'}")
    if suffixes and path.suffix.lower() not in suffixes:
        raise UsageError(f"cannot write {path}: expected a name that ends in {' or '.join(filter(None, suffixes))}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CommandError(f"cannot write {path}: no permission to write to {folder}")


@contextlib.contextmanager
def new_file(path: Path, *, clean: bool = True) -> Iterator[BinaryIO]:
    """A file that replaces `path` once it is complete, and is removed when something fails or ends the process.

    Args:
        path: The file.
        clean: Whether to look for what killed writers of the file have left; a caller with many files does it once.

    Raises:
        CommandError: It cannot be written.
    """
    check_writable(path)
    target = Path(os.path.realpath(path))  # a symbolic link stays: the file that it points to is replaced
    with errors_of(path), part_file(target, clean=clean) as (part, file):
        yield file
        file.close()  # a full disk is noticed before the old file is replaced
        os.replace(part, target)


@contextlib.contextmanager
def errors_of(path: Path) -> Iterator[None]:
    """Report the system's errors as those of writing `path`."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def part_file(target: Path, *, clean: bool = True) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file beside the target, with its path and mode; it is removed at the end unless it has been renamed."""
    prefix = _prefix(target)
    if clean:
        remove_abandoned(target)
    with termination_raised():
        while True:
            part = target.with_name(f"{prefix}{secrets.token_hex(8)}.part")
            try:
                with part.open("xb") as file, locked(file) as is_ours:
                    if is_ours and part.exists():  # else another writer took it for abandoned
                        _keep_mode(file, target)
                        yield part, file
                        return
            finally:
                part.unlink(missing_ok=True)


def _keep_mode(file: BinaryIO, replaced: Path) -> None:
    """Give a file the permissions of the one that it is to replace; a new one has what the umask leaves."""
    with contextlib.suppress(FileNotFoundError):
        mode = stat.S_IMODE(replaced.stat().st_mode)
        if sys.platform != "win32":
            os.fchmod(file.fileno(), mode)


class ChangedError(CommandError):
    """A file has changed since it was read, and would be replaced by what was made of the file before."""


def state_of(path: Path) -> tuple[int, ...] | None:
    """What tells a file from another that has replaced it; None if there is none."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Wait until no other process is in such a block for the folder; there is no waiting where there are no locks."""
    if sys.platform == "win32":
        yield
        return
    held = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


@contextlib.contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """A block for a file in which one process can be: others are refused, not kept waiting.

    Raises:
        CommandError: Another process is in such a block.
        OSError: There is no such file.
    """
    while True:
        with path.open("rb") as file, locked(file) as is_ours:
            if not is_ours:
                raise CommandError(f"{path}: another process is changing it; run the command again when it is done")
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):  # else it was replaced before it was locked
                yield
                return


@contextlib.contextmanager
def renamed_to_unused(part: Path, names: Iterable[Path], keep: Callable[[Path], bool]) -> Iterator[Path]:
    """Give a file the first of the names that is not taken; it is removed if the block fails, unless `keep` says so."""
    identity, name = part.stat(), part
    try:
        for name in names:
            with contextlib.suppress(FileExistsError):
                _rename_without_replacing(part, name)
                break
        yield name
    except BaseException:  # it may have the name, and nobody know yet
        if name.exists() and os.path.samestat(name.stat(), identity) and not keep(name):
            name.unlink()
        raise


def _rename_without_replacing(part: Path, name: Path) -> None:
    if sys.platform != "win32":  # where renaming replaces
        try:
            name.hardlink_to(part)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            if name.exists():
                raise FileExistsError(name) from None
        else:
            part.unlink()
            return
    part.rename(name)


def short_digest(name: str) -> str:
    """A name of 16 letters that stands for a longer one."""
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def _prefix(target: Path) -> str:
    """How the names of the files begin that are to replace a target: equally long, however long its name may be."""
    return f"{_PART_PREFIX}{short_digest(target.name)}-"


def remove_abandoned(target: Path) -> None:
    """Remove the files that killed writers of a target have left beside it."""
    _remove(target.parent.glob(f"{_prefix(target)}*.part"))


def remove_all_abandoned(targets: Iterable[Path], below: str = "") -> None:
    """Remove what killed writers of any of the targets have left: each folder is listed once.

    Args:
        targets: The files.
        below: A pattern of folders, which ends in a slash: in those of the targets' folders that fit it, not in these.
    """
    folders: dict[Path, set[str]] = {}
    for target in targets:
        folders.setdefault(target.parent, set()).add(_prefix(target))
    for folder, prefixes in folders.items():
        length = len(next(iter(prefixes)))
        _remove(part for part in folder.glob(f"{below}{_PART_PREFIX}*.part") if part.name[:length] in prefixes)


def _remove(abandoned: Iterable[Path]) -> None:
    for part in abandoned:
        with contextlib.suppress(OSError):  # in use, or on a file system without locks, where nobody can tell
            if sys.platform == "win32":
                part.unlink()
            else:
                with part.open("r+b") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    part.unlink()


@contextlib.contextmanager
def locked(file: BinaryIO) -> Iterator[bool]:
    """Lock the file for the block, even if it is closed earlier; yields whether no other process has locked it."""
    if sys.platform == "win32":
        yield True
    else:
        held = os.dup(file.fileno())
        try:
            free = True
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:  # a file system may have no locks; then nobody else gets one
                free = not isinstance(error, BlockingIOError)
            yield free
        finally:
            os.close(held)
