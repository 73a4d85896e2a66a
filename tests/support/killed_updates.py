"""A program that changes a model in many child processes, each of which is killed at a point where it writes.

    python -m support.killed_updates FOLDER POINTS SEED

FOLDER holds `m.onnx`, what it needs, and `delta.npz`. For each point, FOLDER/<number> is what a killed process has
left of a copy. Children are forked before ONNX Runtime has threads.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from onnx_sparse.commands.table_updates import changes
from onnx_sparse.commands.tables import contents as table_contents
from onnx_sparse.sessions import runtime  # noqa: F401  # imported once, not by each child

#: The functions that change files.
_WRITING = {"write", "flush", "fsync", "truncate", "rename", "replace", "link", "unlink", "close", "flock"}


def points_of(folder: Path, action: str, last: int | None) -> int:
    """Change a model; return how often it wrote, or be killed at one of these points."""
    count = 0

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        if event in ("c_call", "c_return") and argument.__name__ in _WRITING:
            count += 1
            if count == last:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(watch)
    if action != "compact":
        changes.update_tables(folder / "m.onnx", {"table": folder / "delta.npz"})
    else:
        table_contents.compact_tables(folder / "m.onnx", lambda stage: None)
    sys.setprofile(None)
    return count


def main(folder: Path, action: str, points: int, seed: int) -> None:
    """Make the folders."""
    source, files = random.Random(seed), [path for path in folder.iterdir() if path.is_file()]

    def copied(name: str) -> Path:
        (folder / name).mkdir()
        for path in files:
            shutil.copy(path, folder / name)
        return folder / name

    reader, writer = os.pipe()
    if not os.fork():
        os.write(writer, str(points_of(copied("whole"), action, None)).encode())
        os._exit(0)
    total = int(os.read(reader, 20))
    os.wait()
    for number, point in enumerate(sorted(source.sample(range(1, total + 1), min(points, total)))):
        place = copied(str(number))
        if not os.fork():
            points_of(place, action, point)
            os._exit(1)
        _, status = os.wait()
        assert os.WIFSIGNALED(status), (point, status)
        if source.random() < 0.3:  # a part of a write
            for data in place.glob("*.data"):
                with data.open("ab") as file:
                    file.write(source.randbytes(source.randrange(40)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
