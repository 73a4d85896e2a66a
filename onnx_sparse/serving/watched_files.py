"""The files of a model that is served: its own, and those beside it with its tables, and whether they have changed."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from onnx_sparse.files.guarded_files import open_file
from onnx_sparse.models.graphs import all_tensors
from onnx_sparse.models.model_files import read_model

#: What changes when a file is written or replaced, also by moving a link; None where there is no file.
State = tuple[int, ...] | None

#: The bytes that are read at once.
_PIECE = 1 << 22


@dataclass(frozen=True)
class Look:
    """What a model's files were at a time.

    Attributes:
        states: The state of each file, the model's own first.
        checksums: By file, the SHA-1 that the model says of it, if it does.
    """

    states: tuple[tuple[Path, State], ...]
    checksums: tuple[tuple[Path, str], ...] = ()

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
        return Look(((path, own), *((file, _state(file)) for file in files)), before.checksums)
    checksums: dict[Path, str] = {}
    with suppress(OSError, ValueError):  # which ONNX Runtime will say
        for tensor in all_tensors(read_model(path)):
            named = {entry.key: entry.value for entry in tensor.external_data}
            if tensor.data_location == tensor.EXTERNAL and "location" in named:
                checksums[path.parent / named["location"]] = named.get("checksum", "")
    files = sorted(checksums)
    known = tuple((file, checksum) for file, checksum in sorted(checksums.items()) if checksum)
    return Look(((path, own), *((file, _state(file)) for file in files)), known)


def damaged(now: Look, before: Look) -> Path | None:
    """A file that is not the one of the model, by its checksum; only those are read that are new since a look."""
    known = dict(before.states)
    states = dict(now.states)
    for file, checksum in now.checksums:
        if (states[file] != known.get(file) or now.checksums != before.checksums) and _sha1(file) != checksum:
            return file
    return None


def _sha1(file: Path) -> str:
    digest = hashlib.sha1(usedforsecurity=False)  # the one that ONNX names
    with open_file(file) as opened:
        while piece := opened.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _state(path: Path) -> State:
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        return None
    return state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino, state.st_dev
