"""A program that scores files in many child processes, each of which is killed at a point where it writes, and resumed.

    python -m support.killed_scores FOLDER POINTS SEED ARGUMENT...

FOLDER holds `m.onnx` and `rows`; the arguments are options of `score`. It prints what is wrong, and how often a process
was killed with how many files whole. Children are forked before ONNX Runtime has threads. Points are those of the
process that is started, from the folder of scores on: before and after each call that changes a file or a folder.
Workers end with it.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow.csv
import pyarrow.dataset
import pyarrow.json
import pyarrow.parquet  # noqa: F401  # imported once, not by each child

from onnx_sparse.cli import main as command
from onnx_sparse.scoring import local_engine, score_file, text_scores  # noqa: F401
from onnx_sparse.sessions import runtime  # noqa: F401

#: The functions that change files and folders.
_WRITING = {"open", "write", "flush", "fsync", "truncate", "rename", "replace", "unlink", "close", "flock", "mkdir"}
_WRITING |= {"rmdir", "fchmod"}


def scored(folder: Path, out: Path, options: list[str], last: int | None) -> int:
    """Score the rows, or be killed at a point; return how many points there are, -1 after an error."""
    count, has_begun = 0, False

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count, has_begun
        if event in ("c_call", "c_return") and argument.__name__ in _WRITING:
            has_begun = has_begun or out.exists()
            count += has_begun
            if count == last and has_begun:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(watch)
    status = command(["score", str(folder / "m.onnx"), str(folder / "rows"), "-o", str(out), "-q", *options])
    sys.setprofile(None)
    return count if status == 0 else -1


def in_child(folder: Path, out: Path, options: list[str], last: int | None) -> int | None:
    """As `scored`, in a process of its own; None if it was killed."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.write(writer, str(scored(folder, out, options, last)).encode())
        os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)  # workers have the pipe, too, and may end later
    found = None if os.WIFSIGNALED(status) else int(os.read(reader, 20))
    os.close(reader)
    return found


def contents(out: Path) -> dict[str, bytes]:
    """The files in a folder."""
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def main(folder: Path, points: int, seed: int, options: list[str]) -> int:
    """Kill, look, resume and look again."""
    source, kills = random.Random(seed), Counter[int]()
    total = in_child(folder, folder / "right", options, None)
    assert total is not None
    assert total > 0
    right, faults = contents(folder / "right"), []
    for point in sorted(source.sample(range(1, total + 1), min(points, total))):
        out = folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        while in_child(folder, out, [*options, "--resume"], point) is None:
            left = contents(out) if out.exists() else {}
            whole = left.keys() & right.keys()
            kills[len(whole)] += 1
            faults += [f"{point}: {name} is not whole" for name in whole if left[name] != right[name]]
            if source.random() < 0.7:
                break  # else it is killed again, as often as the point is reached
        if in_child(folder, out, [*options, "--resume"], None) == -1:
            faults.append(f"{point}: it is not resumed")
        found = contents(out)
        if found != right:
            names = [name for name in right.keys() | found.keys() if right.get(name) != found.get(name)]
            faults.append(f"{point}: resumed, {sorted(names)} are not as undisturbed")
    sys.stdout.write("".join(f"{fault}\n" for fault in faults) + f"{total} points, killed by files: {dict(kills)}\n")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
