"""What ONNX Runtime's CPU kernels take of an operator besides element types: ranks, modes and axes.

Beyond these limits a session does not load, or fails at every run, though the model is valid. Converters ask before
they write a node, and write another form. The table beside this module is made by running a node of each form in every
supported version (`kernel_probes`); a form counts as missing if any of the versions lacks it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path

_TABLE = Path(__file__).with_suffix(".txt")
#: The highest rank that is probed; beyond it, only what no rank refuses is taken to have a kernel.
_HIGHEST_RANK = 7


def form(op_type: str, rank: int, mode: str = "", changed: Iterable[int] = ()) -> str:
    """The form of a node in one line: `Resize cubic, rank 4, axes 1 2`."""
    parts = [f"{op_type} {mode}".strip(), f"rank {rank}"]
    if axes := " ".join(map(str, sorted(changed))):
        parts.append(f"axes {axes}")
    return ", ".join(parts)


def has_kernel(op_type: str, rank: int, mode: str = "", changed: Collection[int] = ()) -> bool:
    """Whether every supported version runs an operator.

    Args:
        op_type: The operator.
        rank: The rank of its first input.
        mode: Its mode, if it has modes.
        changed: The axes that a Resize changes.
    """
    missing = _missing()
    if op_type == "Resize" and rank > 5:  # has the most forms, and is not probed beyond
        return mode == "nearest"
    return form(op_type, min(rank, _HIGHEST_RANK), mode, changed) not in missing


@cache
def _missing() -> frozenset[str]:
    return frozenset().union(*read().values())


def read() -> dict[str, set[str]]:
    """The forms that each version lacks, by version: `1.32`."""
    found: dict[str, set[str]] = {}
    for line in _TABLE.read_text("utf-8").splitlines():
        name, _, versions = line.partition(": ")
        for version in versions.split():
            found.setdefault(version, set())
            if name != _PROBED:
                found[version].add(name)
    return found


#: The line of the table with all versions that were probed.
_PROBED = "probed"


def write(lacking: Mapping[str, Collection[str]]) -> None:
    """Write the table: a line for each form, with the versions that lack it."""
    versions = sorted(lacking, key=lambda version: [*map(int, version.split("."))])
    forms = sorted({name for names in lacking.values() for name in names})
    lines = [f"{_PROBED}: {' '.join(versions)}"]
    lines += [f"{name}: {' '.join(version for version in versions if name in lacking[version])}" for name in forms]
    _TABLE.write_text("".join(f"{line}\n" for line in lines), "utf-8")
