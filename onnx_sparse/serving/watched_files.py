"""The files of a model that is served: its own, and those beside it with its tables, and whether they have changed."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from onnx_sparse.errors import CommandError
from onnx_sparse.files.ranges import Part, damage
from onnx_sparse.models.files.data_parts import locations, parts_of
from onnx_sparse.models.files.model_files import read_model

#: What changes when a file is written or replaced, also by moving a link; None where there is no file.
State = tuple[int, ...] | None

#: Where a state has what tells a file from another one, whatever is added to it.
_FILE = slice(3, 5)
#: Where it has the bytes.
_SIZE = 2


@dataclass(frozen=True)
class Look:
    """What a model's files were at a time.

    Attributes:
        states: The state of each file, the model's own first.
        parts: The parts of files whose checksums the model states.
    """

    states: tuple[tuple[Path, State], ...]
    parts: tuple[tuple[Path, Part], ...] = ()

    @property
    def is_there(self) -> bool:
        """Whether all files exist."""
        return all(state is not None for _, state in self.states)


def look(path: Path, before: Look | None = None) -> Look:
    """What the files of a model are now.

    Args:
        path: The model's file.
        before: An earlier look: if the model's own file is the same, it is not read again.
    """
    own = _state(path)
    if before is not None and before.states[0] == (path, own):
        files = [file for file, _ in before.states[1:]]
        return Look(((path, own), *((file, _state(file)) for file in files)), before.parts)
    files, parts = [], {}
    with suppress(OSError, ValueError, CommandError):  # which ONNX Runtime will say
        model = read_model(path)
        files = sorted(path.parent / name for name in locations(model))
        parts = parts_of(model)
    known = tuple((path.parent / name, part) for name in sorted(parts) for part in parts[name])
    return Look(((path, own), *((file, _state(file)) for file in files)), known)


def damaged(now: Look, before: Look) -> Path | None:
    """A file that is not the one of the model, by its checksums; only what is new since a look is read.

    A file that rows were added to has the same parts as before, and new ones.
    """
    states, known = dict(now.states), dict(before.states)
    for file, part in now.parts:
        state, old = states[file], known.get(file)
        is_same = state == old or (part.end is not None and state and old and state[_FILE] == old[_FILE])
        was_whole = old and part == Part(part.checksum, 0, old[_SIZE])
        names = [part, Part(part.checksum)] if was_whole else [part]
        if not (is_same and any((file, name) in before.parts for name in names)) and damage(file, part) is not None:
            return file
    return None


def _state(path: Path) -> State:
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        return None
    return state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino, state.st_dev
