"""Folders whose parts appear together, whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from onnx_sparse.errors import CommandError
from onnx_sparse.files.new_file import errors_of, only_writer
from onnx_sparse.files.termination import termination_raised

_PREFIX, _SUFFIX = ".onnx-sparse-", ".part"


@contextlib.contextmanager
def new_parts(folder: Path) -> Iterator[Path]:
    """A folder whose entries replace those of `folder` once the block has ended; entries of other names stay.

    `folder` and the one that it is in are made, and removed when something fails or ends the process before. They are
    filled in a hidden folder inside, so that what watches for new folders sees no half of one.

    Raises:
        CommandError: It cannot be written.
    """
    made = [path for path in (folder.parent, folder) if not path.exists()]
    if not folder.parent.parent.is_dir():
        raise CommandError(f"cannot write {folder.parent}: there is no directory {folder.parent.parent}")
    for path in (folder.parent, folder):
        if path.exists() and not path.is_dir():
            raise CommandError(f"cannot write {path}: it is not a directory")
    with termination_raised(), errors_of(folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with only_writer(folder):
                for abandoned in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
                    shutil.rmtree(abandoned)
                part = folder / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
                try:
                    part.mkdir()
                    yield part
                    _replace(part, folder)
                    made = []
                finally:
                    if part.exists():  # a signal may have come before it was made
                        shutil.rmtree(part)
        finally:
            for path in reversed(made):
                with contextlib.suppress(OSError):  # another process may have put something there
                    path.rmdir()


def _replace(part: Path, folder: Path) -> None:
    """Move the entries of `part` into `folder`, files first; if one cannot be moved, all is as before.

    Files keep the modes of those that they replace.
    """
    for path in part.rglob("*"):
        if path.is_file() and (replaced := folder / path.relative_to(part)).is_file():
            shutil.copymode(replaced, path)
    old = part / "old"
    old.mkdir()
    moved: list[str] = []
    try:
        for name in sorted(set(os.listdir(part)) - {old.name}, key=lambda name: (part / name).is_dir()):
            moved.append(name)
            if (folder / name).is_dir():
                os.rename(folder / name, old / name)
            elif (folder / name).exists():  # a file can be replaced at once
                shutil.copy2(folder / name, old / name)
            os.replace(part / name, folder / name)
    except BaseException:
        for name in moved:
            if not (part / name).exists():
                os.replace(folder / name, part / name)
            if (old / name).exists():
                os.replace(old / name, folder / name)
        raise
