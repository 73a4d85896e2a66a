"""List the embedding tables of a model, with their data and the nodes that read them, or replace tables.

`replace` swaps tables for retrained ones of the same shape, without another conversion. A float32 array can also
replace a table of half floats or of 8-bit or 4-bit integers: it is rounded as `convert --tables` does. The model is
replaced whole or not at all. With -o, a new model in the same folder shares the other tables with the old model, on
disk and in memory.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.cli import output
from onnx_sparse.commands.named_values import named_values
from onnx_sparse.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

NAME = "tables"
SUMMARY = "list a model's embedding tables, or replace them"
EXAMPLES = """
onnx-sparse tables model.onnx
onnx-sparse tables model.onnx --check
onnx-sparse tables model.onnx replace items_table=retrained.npy
onnx-sparse tables model.onnx replace items_table=retrained.npy users_table=users.npy -o new.onnx
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="an ONNX file")
    parser.add_argument("action", nargs="?", choices=["replace"], metavar="replace", help="replace tables")
    parser.add_argument(
        "replacements", nargs="*", metavar="NAME=FILE.npy", help="with replace: a table and its new values"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUT.onnx",
        help="with replace: the model to write (default: MODEL)",
    )
    parser.add_argument(
        "--check", action="store_true", help="verify the checksums of the model's data files, if it has them"
    )


def run(arguments: argparse.Namespace) -> int:
    """List or replace tables."""
    from onnx_sparse.commands.embedding_tables import check_files, describe, replace_tables, tables_of
    from onnx_sparse.models.load_and_save import load_model

    if arguments.action is None and arguments.output is not None:
        raise UsageError("-o is for replace")
    if arguments.action is not None and not arguments.replacements:
        raise UsageError("replace needs NAME=FILE.npy")
    path: Path = arguments.model
    if arguments.action is not None:
        path = arguments.output or path
        named = named_values(arguments.replacements, "NAME=FILE.npy", at_last=True)
        replace_tables(arguments.model, path, {name: Path(file) for name, file in named.items()})
    model = load_model(path)
    if arguments.check:
        with output.progress("reading the data files") as progress:
            check_files(model, path, progress)
    rows = [describe(table, path) for table in tables_of(model)]
    if arguments.json:
        output.write_json({"model": str(path), "tables": rows})
    else:
        _show(path, rows)
    return output.DONE


def _show(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    from onnx_sparse.models.load_and_save import size_text

    output.heading(str(path))
    if not rows:
        output.write_line("no tables: neither our lookups nor Gather read an initializer")
        return
    cells = []
    for row in rows:
        kind = f"{row['type']}, {row['bits']} bits" if row["bits"] else row["type"]
        place = row["file"] if row["offset"] is None else f"{row['file']} at {row['offset']}"
        counts = Counter(reader["operator"] for reader in row["used_by"])
        readers = ", ".join(name if count == 1 else f"{count} {name}" for name, count in counts.items())
        shape = f"[{', '.join(map(str, row['shape']))}]"
        cells.append([row["name"], shape, kind, size_text(row["bytes"]), place, readers])
    output.table(["table", "shape", "type", ">bytes", "file", "read by"], cells)
