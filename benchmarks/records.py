"""Measurements as they are kept: in `docs/measurements`, a folder for each processor, a file for each run.

A benchmark writes one with `--save`; `python benchmarks/compare.py` compares it with the one before it, and
`python docs/generate.py` shows the newest of each processor.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from machine import Machine

FOLDER = Path(__file__).parents[1] / "docs" / "measurements"


@dataclass(frozen=True)
class Line:
    """One case of a benchmark.

    Attributes:
        case: Its name.
        threads: The number of threads; 0 where it is not known, or there is none to choose.
        turns: The seconds of each contender, ours first: the median of each turn. Contenders took turns, so the turns
            of one number were at one time. `limit` is what the machine needs for the least that must be done.
        ratios: Our time divided by others', where no more was noted than that.
        facts: Other figures of the case, such as bytes.
    """

    case: str
    threads: int
    turns: Mapping[str, Sequence[float]] = field(default_factory=dict)
    ratios: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The contenders, ours first."""
        return list(self.turns)

    def seconds(self, name: str) -> float:
        """The median time of a contender."""
        return statistics.median(self.turns[name])

    def ratio(self, name: str) -> float:
        """Our median time divided by another contender's."""
        return self.ratios[name] if name in self.ratios else self.seconds(self.names[0]) / self.seconds(name)

    def spread(self, divisor: str = "") -> tuple[float, float, float]:
        """Our time, or its quotient by that of the divisor in the same turn: lowest decile, median, highest."""
        ours = self.turns[self.names[0]]
        if divisor:
            ours = [mine / other for mine, other in zip(ours, self.turns[divisor], strict=False)]
        if len(ours) < 2:
            return ours[0], ours[0], ours[0]
        deciles = statistics.quantiles(ours, n=10, method="inclusive")
        return deciles[0], deciles[4], deciles[8]

    def to_json(self) -> dict[str, Any]:
        """The attributes that are not empty; four digits of each time."""
        turns = {name: [float(f"{seconds:.4g}") for seconds in times] for name, times in self.turns.items()}
        given = {"turns": turns, "ratios": dict(self.ratios), "facts": dict(self.facts)}
        return {"case": self.case, "threads": self.threads} | {name: value for name, value in given.items() if value}


@dataclass(frozen=True)
class Record:
    """A run of a benchmark.

    Attributes:
        benchmark: The benchmark's name, that of its file.
        time: When it ran: ISO 8601 in UTC, or a date.
        machine: The machine, as in `machine.Machine`; of a figure from a text, what that says.
        lines: Its lines.
        note: Where the figures come from, if not from a run that was saved.
        path: The file, if it is kept.
    """

    benchmark: str
    time: str
    machine: Mapping[str, Any]
    lines: Sequence[Line]
    note: str = ""
    path: Path | None = None

    @classmethod
    def of_now(cls, benchmark: str, here: Machine, lines: Iterable[Line]) -> Record:
        """A run that has just ended."""
        return cls(benchmark, datetime.now(UTC).isoformat(timespec="seconds"), here.to_json(), list(lines))

    @classmethod
    def read(cls, path: Path) -> Record:
        """The record in a file.

        Raises:
            ValueError: The file is no record.
        """
        try:
            given = json.loads(path.read_text("utf-8"))
            lines = [Line(**line) for line in given["lines"]]
            return cls(given["benchmark"], given["time"], given["machine"], lines, given.get("note", ""), path)
        except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} is no record of a benchmark: {error}") from error

    def write(self, path: Path) -> None:
        """Write the record into a file."""
        given = {"benchmark": self.benchmark, "time": self.time, "machine": dict(self.machine)}
        given |= {"note": self.note} if self.note else {}
        # A line of the file for each line of the benchmark: changes are easy to see.
        head = json.dumps(given, indent=1, ensure_ascii=False).removesuffix("\n}")
        lines = ",\n".join(f"  {json.dumps(line.to_json(), ensure_ascii=False)}" for line in self.lines)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{head},\n "lines": [\n{lines}\n ]\n}}\n', encoding="utf-8")

    def save(self, folder: Path = FOLDER) -> Path:
        """Keep the record beside others of the processor; a second one of a day gets a number."""
        place = folder / Machine.from_json(self.machine).folder
        stem, number = f"{self.time[:10]}-{self.benchmark}", 1
        while (path := place / f"{stem}{f'-{number}' if number > 1 else ''}.json").exists():
            number += 1
        self.write(path)
        return path


def kept(folder: Path = FOLDER) -> dict[str, list[Record]]:
    """The records of each processor's folder, oldest first."""
    found: dict[str, list[Record]] = {}
    for path in sorted(folder.glob("*/*.json")):
        found.setdefault(path.parent.name, []).append(Record.read(path))
    return {name: sorted(records, key=lambda record: record.time) for name, records in found.items()}
