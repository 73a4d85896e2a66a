"""`tables`: the embedding tables of a model, and other values for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.commands import Progress
from onnx_sparse.commands.errors import raised
from onnx_sparse.commands.text import text_table
from onnx_sparse.errors import UsageError
from onnx_sparse.html import html_table, text
from onnx_sparse.settings import FilePath, function_of, option

if TYPE_CHECKING:
    from onnx_sparse.commands.embedding_tables import TableDescription


@dataclass(frozen=True)
class TablesSettings:
    """What `tables` is asked for: the arguments of `onnx_sparse.tables`, and the options of `onnx-sparse tables`."""

    model: FilePath = field(metadata=option("an ONNX file", "MODEL", position=True))
    replace: Mapping[str, Any] | None = field(
        default=None,
        metadata=option(
            "tables by name, and the .npy files or arrays that replace them", "NAME=FILE.npy", written=True
        ),
    )
    _: KW_ONLY
    output: FilePath | None = field(
        default=None, metadata=option("with replace: the model to write (default: MODEL)", "OUT.onnx", short="-o")
    )
    check: bool = field(
        default=False, metadata=option("verify the checksums of the model's data files, if it has them")
    )


@dataclass(frozen=True)
class Tables:
    """The embedding tables of a model. Print them, or let a notebook show them.

    Attributes:
        model: The model's file; that which was written, if tables were replaced.
        tables: Each has its `name`, `shape`, `type`, `bits` of quantized ones, `bytes`, `file`, `offset`, `checksum`
            and what it is `used_by`.
    """

    model: str
    tables: Sequence[TableDescription]

    def __str__(self) -> str:
        columns, rows = self.cells()
        return "\n".join(filter(None, [self.model, text_table([c.removeprefix(">") for c in columns], rows)]))

    def _repr_html_(self) -> str:
        return f"<p>{text(self.model)}</p>{html_table(*self.cells())}"

    def cells(self) -> tuple[list[str], list[list[object]]]:
        """The tables as text: the columns' names, and the rows."""
        from onnx_sparse.models.load_and_save import size_text

        rows: list[list[object]] = []
        for row in self.tables:
            kind = f"{row['type']}, {row['bits']} bits" if row["bits"] else row["type"]
            place = row["file"] if row["offset"] is None else f"{row['file']} at {row['offset']}"
            counts = Counter(reader["operator"] for reader in row["used_by"])
            readers = ", ".join(name if count == 1 else f"{count} {name}" for name, count in counts.items())
            shape = f"[{', '.join(map(str, row['shape']))}]"
            rows.append([row["name"], shape, kind, size_text(row["bytes"]), place, readers])
        return ["table", "shape", "type", ">bytes", "file", "read by"], rows


def listed(settings: TablesSettings, progress: Progress = lambda stage: None) -> Tables:
    """Replace tables, if that is asked for, and list all.

    Raises:
        CommandError: A file cannot be read or written, is damaged, or has no such table.
        UsageError: A file to write is given, and no table.
    """
    from onnx_sparse.commands.embedding_tables import check_files, describe, replace_tables, tables_of
    from onnx_sparse.commands.keyed_replacement import is_keyed, replace_by_keys
    from onnx_sparse.models.load_and_save import load_model

    path = Path(settings.model)
    if settings.replace:
        path = Path(settings.output or path)
        keyed = {name: Path(new) for name, new in settings.replace.items() if is_keyed(new)}
        if keyed and len(keyed) < len(settings.replace):
            raise UsageError("tables with keys and tables without are replaced by two commands")
        if keyed:
            replace_by_keys(Path(settings.model), path, keyed)
        else:
            replace_tables(Path(settings.model), path, settings.replace)
    elif settings.output is not None:
        raise UsageError("--output is for replace")
    model = load_model(path)
    if settings.check:
        check_files(model, path, progress)
    return Tables(str(path), [describe(table, path) for table in tables_of(model)])


@function_of(TablesSettings)
def tables(settings: TablesSettings) -> Tables:
    """The embedding tables of a model, as `onnx-sparse tables` lists them; others may replace them first.

        print(onnx_sparse.tables("model.onnx", {"items_table": "retrained.npy"}))

    A replaced table has the same shape; a float32 array is rounded as the table is. The model is replaced whole or not
    at all. A new file in the same folder shares the other tables with the old one, on disk and in memory.

    Raises:
        ValueError: A file cannot be read or written, or an array is none for the table.
    """
    with raised(TablesSettings, failure=ValueError):
        return listed(settings)
