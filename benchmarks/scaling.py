"""How the time of a lookup grows: with ids, segments, width and table over four decades, on one thread and more.

    python benchmarks/scaling.py [--threads 1 2] [--only ids] [--svg FILE] [--json FILE] [--save]

EmbeddingSegmentsSum of float32: 100,000 ids in 20,000 segments, from a table of 1,000,000 x 64; each part of the table
below changes one of these. `limit` is the time to copy as many bytes as must be moved, `gather` the time to read the
same rows of the same table by numpy on one thread, into a buffer that stays in the cache. All three take turns.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from contest import take_turns
from machine import this_machine
from native_cases import Array, Case, Run
from records import Line
from runner import finish, parse, parser
from scaling_plot import plot

#: What is varied, with its values: four decades, two or three a decade.
VARIED = {
    "ids": (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    "segments": (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000),
    "width": (1, 3, 8, 16, 32, 100, 300, 1_000, 3_000, 10_000),
    "table": (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
}
#: The elements of the table and of the looked-up rows, which stay where the width is varied.
_TABLE, _LOOKED_UP = 64_000_000, 6_400_000
#: Below so many bytes a copy on several threads takes longer than on one.
_SMALL = 1 << 21
_CHUNK = 256


@dataclass(frozen=True)
class Size:
    """The sizes of a lookup."""

    ids: int = 100_000
    segments: int = 20_000
    width: int = 64
    table: int = 1_000_000

    @classmethod
    def of(cls, varied: str, value: int) -> Size:
        """The sizes with one of them changed."""
        if varied == "ids":
            return cls(ids=value, segments=max(value // 5, 1))
        if varied == "width":
            ids = _LOOKED_UP // value
            return cls(ids=ids, segments=max(ids // 5, 1), width=value, table=_TABLE // value)
        return replace(cls(), **{varied: value})

    @property
    def bytes_moved(self) -> int:
        """What must be read or written at least: rows, ids, segment ids and sums."""
        return self.ids * (4 * self.width + 16) + 4 * self.segments * self.width


def case_of(size: Size, numbers: Array) -> Case:
    """The lookup; the table is made of the numbers."""
    random = np.random.default_rng(0)
    inputs = {
        "emb_table": numbers[: size.table * size.width].reshape(size.table, size.width),
        "indices": random.integers(0, size.table, size.ids),
        "segment_ids": np.sort(random.integers(0, size.segments, size.ids)),
        "num_segments": np.array(size.segments),
    }
    return Case("", "EmbeddingSegmentsSum", inputs, size.bytes_moved)


def gather_run(case: Case) -> Run:
    """Reads the rows, some at a time."""
    table, indices = case.inputs["emb_table"], case.inputs["indices"]
    at_once = max(1, min(_CHUNK, (1 << 17) // table[0].nbytes))
    buffer = np.empty((at_once, table.shape[1]), np.float32)
    parts = [indices[first : first + at_once] for first in range(0, len(indices), at_once)]

    def run() -> None:
        for part in parts:
            np.take(table, part, axis=0, out=buffer[: len(part)], mode="clip")

    return run


def measure(threads: list[int], only: str) -> Iterator[Line]:
    """The lines of each number of threads."""
    import native  # here: the tests, which draw only, have another package of that name

    numbers = np.random.default_rng(1).standard_normal(_TABLE, np.float32)
    for varied, values in VARIED.items():
        if only not in ("", varied):
            continue
        for value in values:
            size = Size.of(varied, value)
            case = case_of(size, numbers)
            for number in threads:
                copy = native.copy_run(size.bytes_moved, number if size.bytes_moved > _SMALL else 1)
                runs = {"native": native.native_run(case, number), "limit": copy, "gather": gather_run(case)}
                facts: dict[str, Any] = {"varied": varied, "value": value, "bytes": size.bytes_moved}
                yield Line(f"{varied} {value:,}", number, take_turns(runs, 5, 0.5), facts=facts)


def main() -> None:
    """Measure, print and draw."""
    made = parser(__doc__, threads=sorted({1, min(os.cpu_count() or 1, 8)}))
    made.add_argument("--only", default="", choices=["", *VARIED], help="vary only this")
    made.add_argument("--svg", type=Path, help="also draw the times, in this file")
    arguments = parse(made)
    here = this_machine()
    print(f"{here}\n{'':20} th       native  /limit /gather      GB/s", flush=True)
    lines = []
    for line in measure(arguments.threads, arguments.only):
        lines.append(line)
        seconds, moved = line.seconds("native"), line.facts["bytes"] / 1e9
        ratios = f"{line.ratio('limit'):7.2f} {line.ratio('gather'):7.2f}"
        print(f"{line.case:20} {line.threads:2} {1e3 * seconds:9.3f} ms {ratios} {moved / seconds:9.2f}", flush=True)
    finish("scaling", here, lines, arguments)
    if arguments.svg:
        arguments.svg.write_text(plot(lines))


if __name__ == "__main__":
    main()
