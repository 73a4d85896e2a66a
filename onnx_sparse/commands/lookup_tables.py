"""Files with the keys and values of lookup tables, for frozen graphs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnx_sparse.commands.named_values import named_values
from onnx_sparse.errors import CommandError, printable


def read(options: Sequence[str]) -> dict[str, tuple[Any, Any]] | None:
    """The keys and values of each table; None without options.

    Raises:
        UsageError: An option is not NAME=FILE, or a table is given twice.
        CommandError: A file cannot be read.
    """
    tables = {}
    for name, file in named_values(options, "NAME=FILE", "--lookup-table").items():
        try:
            tables[name] = _arrays(Path(file)) if file.endswith(".npz") else _lines(Path(file))
        except (OSError, ValueError) as error:
            raise CommandError(f"{file}: {error}") from error
    return tables or None


def _arrays(path: Path) -> tuple[Any, Any]:
    from onnx_sparse.files.array_file import read_npz

    arrays = dict(read_npz(path))
    for name in ("keys", "values"):
        if name not in arrays:
            there = ", ".join(map(printable, arrays)) or "none"
            raise ValueError(f"there is no array {name!r} in it; its arrays are {there}")
    return arrays["keys"], arrays["values"]


def _lines(path: Path) -> tuple[list[str], list[Any]]:
    """The keys and values of a text file."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    widths = {len(row) for row in rows}
    if widths == {1}:
        return [row[0] for row in rows], list(range(len(rows)))
    wrong = next((number for number, row in enumerate(rows, 1) if len(row) != 2), None)
    if wrong is not None:
        raise ValueError(f"line {wrong} is not a key, a tab and a value")
    return [row[0] for row in rows], [row[1] for row in rows]
