"""The table of a replay, with the columns that people know from msprobe's comparison."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.errors import CommandError
from onnx_sparse.files.new_file import new_file

if TYPE_CHECKING:
    from onnx_sparse.converters.ascend.atb.replay_outcomes import Replay

Row = Mapping[str, Any]
SUFFIXES = (".csv", ".json", ".xlsx")


def check_package(path: Path) -> None:
    """Refuse a sheet of Excel without the package that writes it, before any work is done for it."""
    if path.suffix.lower() == ".xlsx":
        _openpyxl()


def rows(replays: Sequence[Replay]) -> list[Row]:
    """One row for each tensor; the NPU's is the target, what is computed here is golden, in msprobe's words."""
    made: list[Row] = []
    for replayed in replays:
        run = replayed.run
        place = {"Layer": run.graph.name, "Device and PID": run.device, "Execution Count": run.round}
        for outcome in replayed.outcomes:
            names = {"Operation": outcome.operation, "Op Type": outcome.op_type}
            if not outcome.comparisons:
                made.append(place | names | {"Verdict": outcome.verdict, "Note": outcome.reason})
            for c in outcome.comparisons:
                shares = c.shares or (None, None)
                row: dict[str, Any] = {**place, **names, "Tensor": c.tensor, "Verdict": c.verdict}
                row |= {"Data Type": c.dtype, "Data Shape": "x".join(map(str, c.shape))}
                row |= {"Cosine": c.cosine, "Euc Distance": c.euclidean}
                row |= {"Max Absolute Err": c.max_abs, "Max Relative Err": c.max_rel}
                row |= {"One Thousandth Err Ratio": shares[0], "Five Thousandth Err Ratio": shares[1]}
                for side, summary in (("Target", c.recorded), ("Golden", c.computed)):
                    for key in ("max", "min", "mean", "norm"):
                        row[f"{side} {key.capitalize()}"] = None if summary is None else getattr(summary, key)
                note = "; ".join(filter(None, (c.note, *(f"equals {words}" for words in outcome.resembles))))
                made.append(row | {"Note": note})
    return made


def write_table(path: Path, table: Sequence[Row]) -> None:
    """Write a table as CSV, JSON or a sheet of Excel, by the suffix of the file.

    Raises:
        CommandError: It cannot be written.
    """
    columns = list(dict.fromkeys(key for row in table for key in row))
    if path.suffix.lower() == ".json":
        content = json.dumps(table, indent=1).encode()
    elif path.suffix.lower() == ".csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows([{key: _cell(value) for key, value in row.items()} for row in table])
        content = text.getvalue().encode()
    else:
        book = _openpyxl().Workbook(write_only=True)
        sheet = book.create_sheet("replay")
        sheet.append(columns)
        for row in table:
            sheet.append([_cell(row.get(column)) for column in columns])
        stream = io.BytesIO()
        book.save(stream)
        content = stream.getvalue()
    with new_file(path) as file:
        file.write(content)


def _cell(value: Any) -> Any:
    """A value of a cell; a text that a spreadsheet would take for a formula is one no more."""
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@") else value


def _openpyxl() -> Any:
    try:
        import openpyxl
    except ImportError as error:
        raise CommandError("to write .xlsx, install openpyxl: pip install openpyxl; or write .csv") from error
    return openpyxl
