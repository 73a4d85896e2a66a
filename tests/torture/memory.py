"""Memory that runs out anywhere in a conversion: one clean line or the right model, the old file or the new, no litter.

Run for a time: `python tests/torture/memory.py --seconds 600 --seed 1`. The suite runs a part. A `MemoryError` is
raised once, at a random line of the Python code that a conversion executes: any may allocate. POSIX only.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # where this is run as a program

from torture.files import Scene, captured
from torture.roads import CONVERSIONS

_OLD = b"the old file"


class Shortage:
    """Raises a MemoryError at one of the lines that are executed, and counts them.

    Args:
        line: The number of the line; none is reached where it is negative.

    Attributes:
        count: How many lines have been executed.
    """

    def __init__(self, line: int = -1) -> None:
        self._line = line
        self.count = 0

    def __call__(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self.count += 1
            if self.count == self._line:
                raise MemoryError
        return self


class Conversion:
    """The conversion of a source, whose lines and outcome are known.

    Args:
        scene: Where it takes place.
        source: The file to convert.

    Attributes:
        converts: Whether it converts; some of a road's sources are there to be refused.
        lines: How many lines are executed.
    """

    def __init__(self, scene: Scene, source: Path) -> None:
        from onnx_sparse.cli import main

        self._main = main
        self._out = scene.out / "model.onnx"
        self._command = scene.road.command(source, scene.seeds, scene.out, random.Random(0))
        self._run(None)  # imports modules and fills caches
        counting = Shortage()
        code, _ = self._run(counting)
        self.lines = counting.count
        self.converts = code == 0
        self._right = self._out.read_bytes() if self.converts else b""

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
        return code, texts[1]

    def fails_well(self, line: int) -> str:
        """Run out of memory at a line; returns what is wrong with the outcome, or ""."""
        self._out.write_bytes(_OLD)
        code, error = self._run(Shortage(line))
        content = self._out.read_bytes()
        if code == 0:
            return "" if content == self._right and not error else f"converted, but wrongly: {error}"
        if code != 1:
            return f"ends with {code!r}"
        if not error.startswith("onnx-sparse: error: ") or error.count("\n") != 1 or "memory" not in error:
            return f"says: {error!r}"
        if content not in (_OLD, self._right):
            return "a file is half written"
        if self._litter():  # of the clean-up itself, which the next writer removes
            self._run(None)
        left = self._litter()
        return f"litter: {left}" if left else ""

    def _litter(self) -> list[str]:
        return sorted(path.name for path in self._out.parent.iterdir() if path != self._out)


def torture(road: str, seed: int, count: int, seconds: float) -> tuple[Counter[str], list[str]]:
    """Convert sources of a road while memory runs out; returns what was done, and the faults."""
    done: Counter[str] = Counter()
    faults = []
    end, source = time.monotonic() + seconds, random.Random(seed)
    ignored = sys.unraisablehook
    sys.unraisablehook = lambda _: None  # what Python itself says of a __del__ that runs out of memory
    try:
        with tempfile.TemporaryDirectory() as folder, Scene(Path(folder), road) as scene:
            sources, known = list(scene.sources), dict[Path, Conversion]()
            while sum(done.values()) < count and (not done or time.monotonic() < end):
                path = source.choice(sources)
                conversion = known[path] = known.get(path) or Conversion(scene, path)
                if not conversion.converts:
                    sources.remove(path)
                    continue
                line = source.randrange(1, conversion.lines + 1)
                fault = conversion.fails_well(line)
                done["fault" if fault else "sound"] += 1
                if fault:
                    faults.append(f"{road}, seed {seed}, {path.relative_to(scene.seeds)}, line {line}: {fault}")
    finally:
        sys.unraisablehook = ignored
    return done, faults


def main() -> int:
    parsed = argparse.ArgumentParser(description=__doc__)
    parsed.add_argument("--road", choices=CONVERSIONS, action="append")
    parsed.add_argument("--seconds", type=float, default=60, help="for each road")
    parsed.add_argument("--count", type=int, default=1_000_000, help="for each road")
    parsed.add_argument("--seed", type=int, default=0)
    arguments = parsed.parse_args()
    found = False
    for road in arguments.road or ("onnx", "ascend", "openvino"):
        done, faults = torture(road, arguments.seed, arguments.count, arguments.seconds)
        for what, count in sorted(done.items()):
            sys.stdout.write(f"{count:>9}  {road}: {what}\n")
        for fault in faults:
            sys.stdout.write(f"FAULT  {fault}\n")
        sys.stdout.flush()
        found |= bool(faults)
    return found


if __name__ == "__main__":
    sys.exit(main())
