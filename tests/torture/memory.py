"""Memory that runs out anywhere in a conversion: one clean line or the right model, the old file or the new, no litter.

Run for a time: `python tests/torture/memory.py --seconds 600 --seed 1`. The suite runs a part. A `MemoryError` is
raised once, at a random line of the Python code that a conversion executes: any may allocate. POSIX only.
"""

from __future__ import annotations

import linecache
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # where this is run as a program

from support import program
from torture.files import Scene, captured, roads_parser
from torture.roads import CONVERSIONS

_OLD = b"the old file"


class Shortage:
    """Raises a MemoryError at one of the lines that are executed, or the next that does something, and counts them.

    Args:
        line: The number of the line, from 1; at none where it is negative.

    Attributes:
        count: How many lines have been executed.
    """

    def __init__(self, line: int = -1) -> None:
        self._line = line
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self.count += 1
            if self.count >= self._line > 0 and not _allocates_nothing(frame):
                self._line = -1
                raise MemoryError
        return self


def _allocates_nothing(frame: FrameType) -> bool:
    """Whether the line is one that nothing can be raised at, and after which nothing could be put right.

    What is raised at a `try:` passes by the blocks around it, and a descriptor is open if it is raised at its `close`.
    """
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip().startswith(("try:", "os.close("))


class Conversion:
    """The conversion of a source, whose lines and outcome are known.

    Args:
        scene: Where it takes place.
        source: The file to convert.
        options: Options of the command.

    Attributes:
        converts: Whether it converts; some of a road's sources are there to be refused.
        lines: How many lines are executed.
    """

    def __init__(self, scene: Scene, source: Path, options: Sequence[str] = ()) -> None:
        from onnx_sparse.cli import main

        self._main = main
        self._out = scene.out / "model.onnx"
        self._command = [*scene.road.command(source, scene.seeds, scene.out, random.Random(0)), *options]
        self._run(None)  # imports modules and fills caches
        self._begin()
        counting = Shortage()
        code, _ = self._run(counting)
        self.lines = counting.count
        self.converts = code == 0
        self._right = self._files()

    def _begin(self) -> None:
        """Leave nothing but a model of another conversion, which this one replaces."""
        for path in self._out.parent.iterdir():
            path.unlink()
        self._out.write_bytes(_OLD)

    def _files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self._out.parent.iterdir()}

    def _run(self, shortage: Shortage | None) -> tuple[Any, str]:
        """Convert; returns the exit status, or the exception, and what was written to stderr."""
        with captured() as texts:
            sys.settrace(shortage)
            try:
                code: Any = self._main(self._command)
            except BaseException as error:
                code = error
            finally:
                sys.settrace(None)
        return code, program.without_progress(texts[1])

    def fails_well(self, line: int) -> str:
        """Run out of memory at a line; returns what is wrong with the outcome, or ""."""
        self._begin()
        code, error = self._run(Shortage(line))
        files = self._files()
        if code == 0:
            if files[self._out.name] != self._right[self._out.name] or error:
                return f"converted, but wrongly: {error}"
        elif code != 1:
            return f"ends with {code!r}"
        elif not error.startswith("onnx-sparse: error: ") or error.count("\n") != 1 or "memory" not in error:
            return f"says: {error!r}"
        elif files[self._out.name] not in (_OLD, self._right[self._out.name]):
            return "a file is half written"
        expected = {self._out.name: _OLD} if files[self._out.name] == _OLD else self._right
        if files == expected:
            return ""
        # A clean-up that runs out of memory itself leaves parts, which the next writer removes.
        if all(files.get(name) == content for name, content in expected.items()):
            self._run(None)
            if len(self._files()) == len(self._right):
                return ""
        return f"files: {sorted(files)}, and after another conversion {sorted(self._files())}"


def torture(road: str, seed: int, count: int, seconds: float) -> tuple[Counter[str], list[str]]:
    """Convert sources of a road while memory runs out; returns what was done, and the faults."""
    done: Counter[str] = Counter()
    faults = []
    end, source = time.monotonic() + seconds, random.Random(seed)
    ignored = sys.unraisablehook
    sys.unraisablehook = lambda _: None  # what Python itself says of a __del__ that runs out of memory
    try:
        with tempfile.TemporaryDirectory() as folder, Scene(Path(folder), road) as scene:
            sources = [(path, options) for path in scene.sources for options in ((), ("--external-data",))]
            known = dict[tuple[Path, tuple[str, ...]], Conversion]()
            while sum(done.values()) < count and (not done or time.monotonic() < end):
                chosen = source.choice(sources)
                conversion = known[chosen] = known.get(chosen) or Conversion(scene, *chosen)
                if not conversion.converts:
                    sources.remove(chosen)
                    continue
                line = source.randrange(1, conversion.lines + 1)
                fault = conversion.fails_well(line)
                done["fault" if fault else "sound"] += 1
                if fault:
                    path, options = chosen
                    what = " ".join([str(path.relative_to(scene.seeds)), *options])
                    faults.append(f"{road}, seed {seed}, {what}, line {line}: {fault}")
    finally:
        sys.unraisablehook = ignored
    return done, faults


def main() -> int:
    arguments = roads_parser(__doc__, CONVERSIONS, 1_000_000).parse_args()
    found = False
    for road in arguments.road or ("onnx", "ascend", "openvino"):
        done, faults = torture(road, arguments.seed, arguments.count, arguments.seconds)
        found |= program.tell(done, faults, f"{road}: ")
    return found


if __name__ == "__main__":
    sys.exit(main())
