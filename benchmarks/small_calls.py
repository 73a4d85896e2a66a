"""What a call costs that looks up ten rows: from C++, and from Python with and without bound inputs.

    python benchmarks/small_calls.py [--rounds N] [--calls N] [--json FILE] [--save]

The limit is ONNX Runtime's own cost: an Identity with the same inputs, called the same way. A turn is many calls in a
row, so caches are warm; `benchmarks/native.py` has pauses between calls. Compiles small_calls.cc, for Linux.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from machine import this_machine
from records import Line
from runner import finish, parse, parser
from sessions import BoundRun, identity_of, one_node_model

import onnx_sparse

_HERE = Path(__file__).parent
_CONTENDERS = ("native", "limit")


def models(feeds: dict[str, np.ndarray]) -> dict[str, onnx.ModelProto]:
    """The lookup, and an Identity of the table."""
    native = one_node_model("EmbeddingSegmentsSum", feeds, {})
    return {"native": native, "limit": identity_of(native)}


def from_cpp(folder: Path, feeds: dict[str, np.ndarray], rounds: int, calls: int) -> Line:
    """The program's turns.

    Raises:
        FileNotFoundError: There is no C++ compiler.
    """
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise FileNotFoundError("small_calls.cc needs g++ or clang++")
    include = _HERE.parent / "onnx_sparse" / "native" / "include"
    program = folder / "small_calls"
    subprocess.run(
        [compiler, "-std=c++17", "-O2", "-I", include, _HERE / "small_calls.cc", "-ldl", "-o", program], check=True
    )
    for name, model in models(feeds).items():
        onnx.save(model, folder / f"{name}.onnx")
    (runtime,) = (Path(ort.__file__).parent / "capi").glob("libonnxruntime.so*")
    given = [runtime, onnx_sparse.get_library_path(), str(rounds), str(calls)]
    files = [folder / f"{name}.onnx" for name in _CONTENDERS]
    done = subprocess.run([program, *given, *files], capture_output=True, text=True, check=True)
    turns = [[1e-9 * float(number) for number in line.split()] for line in done.stdout.splitlines()]
    return Line("ten rows, from C++", 0, dict(zip(_CONTENDERS, zip(*turns, strict=True), strict=True)))


def from_python(case: str, runs: dict[str, Callable[[], object]], rounds: int, calls: int) -> Line:
    """Turns of the runs, by contender."""
    turns: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            for _ in range(calls):
                run()
            turns[name].append((time.perf_counter() - start) / calls)
    return Line(case, 0, turns)


def main() -> None:
    """Measure and print."""
    made = parser(__doc__, rounds=50)
    made.add_argument("--calls", type=int, default=2000, help="in a turn")
    arguments = parse(made)
    here, rounds, calls = this_machine(), arguments.rounds, arguments.calls
    feeds = {
        "emb_table": np.full((100, 16), 1.5, np.float32),
        "indices": np.array([3, 14, 15, 92, 65, 35, 89, 79, 32, 38]),
        "segment_ids": np.array([0, 0, 0, 1, 1, 1, 3, 3, 4, 4]),
        "num_segments": np.array(5),
    }
    with tempfile.TemporaryDirectory() as folder:
        lines = [from_cpp(Path(folder), feeds, rounds, calls)]
    sessions = {name: onnx_sparse.InferenceSession(m, backend="native") for name, m in models(feeds).items()}
    bound: dict[str, Callable[[], object]] = {name: BoundRun(s, feeds) for name, s in sessions.items()}
    fed: dict[str, Callable[[], object]] = {
        name: lambda session=session: session.run(None, feeds) for name, session in sessions.items()
    }
    lines.append(from_python("ten rows, from Python, bound", bound, rounds, calls))
    lines.append(from_python("ten rows, from Python, run(None, feeds)", fed, rounds, calls))
    print(here)
    for line in lines:
        native, limit = (1e6 * line.seconds(name) for name in _CONTENDERS)
        print(f"{line.case:40} {native:6.2f} us  Identity {limit:6.2f} us  {line.ratio('limit'):5.2f}")
    finish("small_calls", here, lines, arguments)


if __name__ == "__main__":
    main()
