"""Files with the keys and values of lookup tables, for frozen graphs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.errors import printable


def read(given: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The keys and values of each table, of which a file may be given.

    Raises:
        ConversionError: A file cannot be read.
    """
    tables = {}
    for name, table in given.items():
        try:
            tables[name] = _of_file(Path(table)) if isinstance(table, (str, os.PathLike)) else table
        except (OSError, ValueError) as error:
            raise ConversionError(f"{table}: {error}") from error
    return tables


def _of_file(path: Path) -> tuple[Any, Any]:
    return _arrays(path) if path.name.endswith(".npz") else _lines(path)


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
