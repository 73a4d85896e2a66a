"""`tables`: the embedding tables of a model, and other values for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.commands import Progress
from onnx_sparse.commands.errors import raised
from onnx_sparse.errors import UsageError
from onnx_sparse.settings import FilePath, function_of, option
from onnx_sparse.shown import Shown, Table

if TYPE_CHECKING:
    from onnx_sparse.commands.description.embedding_tables import TableDescription
    from onnx_sparse.commands.table_updates.changes import TableUpdate
    from onnx_sparse.commands.tables.contents import TableState


def _absent(given: str) -> int | str:
    """What absent keys give."""
    if given in ("zeros", "error"):
        return given
    try:
        return int(given)
    except ValueError:
        raise ValueError(f"{given!r} is not zeros, error or a key") from None


_ALONE = "each is a change of its own"


@dataclass(frozen=True)
class TablesSettings:
    """What `tables` is asked for: the arguments of `onnx_sparse.tables`, and the options of `onnx-sparse tables`."""

    model: FilePath = field(metadata=option("an ONNX file", "MODEL", position=True))
    replace: Mapping[str, Any] | None = field(
        default=None,
        metadata=option(
            "tables by name, and the .npy files or arrays that replace them",
            "NAME=FILE.npy",
            written=True,
            alone=_ALONE,
        ),
    )
    _: KW_ONLY
    update: Mapping[str, Any] | None = field(
        default=None,
        metadata=option(
            "tables by name, and the files or columns with the rows that change: `key` (`row` in tables that are read "
            "by row numbers), `values`, and `deleted` where keys are deleted",
            "NAME=FILE",
            written=True,
            alone=_ALONE,
        ),
    )
    compact: bool = field(
        default=False,
        metadata=option("write tables that were updated as a whole", written=True, alone=_ALONE),
    )
    export: Mapping[str, FilePath] | None = field(
        default=None,
        metadata=option(
            "tables by name, and the .parquet or .npz files to write their keys and rows to",
            "NAME=FILE",
            written=True,
            alone=_ALONE,
        ),
    )
    show: Mapping[str, Sequence[Any]] | None = field(
        default=None,
        metadata=option(
            "tables by name, and the keys or row numbers to show", "NAME=KEY,...", written=True, alone=_ALONE
        ),
    )
    absent: str | int | None = field(
        default=None,
        metadata=option(
            "with replace by keys: what other keys give: zeros, error, or the row of a key (default: zeros)",
            "zeros|error|KEY",
            parse=_absent,
        ),
    )
    output: FilePath | None = field(
        default=None, metadata=option("with replace: the model to write (default: MODEL)", "OUT.onnx", short="-o")
    )
    check: bool = field(
        default=False,
        metadata=option("verify the checksums of the model's data files, if it has them, and the indexes of keys"),
    )


@dataclass(frozen=True, repr=False)
class Tables(Shown):
    """The embedding tables of a model. Print them, or let a notebook show them.

        listed: onnx_sparse.Tables = onnx_sparse.tables("model.onnx")
        print([(table["name"], table["shape"]) for table in listed.tables])

    Attributes:
        model: The model's file; that which was written, if tables were replaced.
        tables: Each has its `name`, `shape`, `type`, `bits` of quantized ones, `bytes`, `file`, `offset`, `checksum`
            and what it is `used_by`.
        updates: What became of each table that was updated.
        moved: The tables that were copied into a file of their own for that.
        written: The bytes that the update has written otherwise.
        states: What tables hold that have keys, or were updated: `keyed_by`, the number of `keys`, how many are
            `newer` than the table, and its `dead_rows`.
        rows: By table, the rows of the keys that were to be shown; None for a key that is not there.
    """

    model: str
    tables: Sequence[TableDescription]
    updates: Sequence[TableUpdate] = ()
    moved: Sequence[str] = ()
    written: int = 0
    states: Sequence[TableState] = ()
    rows: Mapping[str, Mapping[Any, Any]] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *self.lines()])

    @property
    def _title(self) -> str:
        count = len(self.tables)
        return f"{self.model}: {count} table{'s' * (count != 1)}"

    def _tables(self) -> list[Table]:
        return [self.cells()]

    def lines(self) -> list[str]:
        """What else there is to say of tables, as text."""
        from onnx_sparse.models.files.load_and_save import size_text

        found = []
        for name in self.moved:
            found.append(f"{name} has been copied into a file of its own, to which rows can be added: once only")
        for update in self.updates:
            counts = ", ".join(f"{update[kind]} {kind}" for kind in ("added", "changed", "deleted"))
            missing = f", {update['missing']} to delete were not there" if update["missing"] else ""
            rounded = f", {update['rounded']} numbers rounded to float32" if update["rounded"] else ""
            found.append(f"{update['table']}: {counts}{missing}{rounded}; {size_text(self.written)} written")
        for state in self.states:
            kind = f"keys, in {state['keyed_by']}" if state["keyed_by"] else "rows"
            newer = f"; {state['newer']} newer than the table, {state['dead_rows']} dead rows" if state["newer"] else ""
            found.append(f"{state['name']}: {state['keys']} {kind}{newer}")
        for name, shown in self.rows.items():
            for key, row in shown.items():
                found.append(f"{name} {key}: {'not there' if row is None else ' '.join(map(str, row.reshape(-1)))}")
        return found

    def cells(self) -> tuple[list[str], list[list[object]]]:
        """The tables as text: the columns' names, and the rows."""
        from onnx_sparse.models.files.load_and_save import size_text

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
    """Change, compact, export or show tables, if that is asked for, and list all.

    Raises:
        CommandError: A file cannot be read or written, is damaged, or has no such table.
        UsageError: A file to write is given, and no table to replace.
    """
    from onnx_sparse.commands.description.embedding_tables import check_files, describe, replace_tables, tables_of
    from onnx_sparse.commands.table_updates.changes import Written, refuse_updated, update_tables
    from onnx_sparse.commands.table_updates.replacement import is_keyed, replace_by_keys
    from onnx_sparse.commands.tables.contents import check_keys, compact_tables, export_table, shown_rows, states
    from onnx_sparse.models.files.load_and_save import load_model
    from onnx_sparse.sharding.manifest import refuse_split

    path, done = Path(settings.model), Written([], [])
    if settings.output is not None and not settings.replace:
        raise UsageError("--output is for replace")
    if settings.absent is not None and not any(map(is_keyed, (settings.replace or {}).values())):
        raise UsageError("--absent is for replace by keys and rows")
    changed = Path(settings.output or path)
    if path.is_dir() or settings.replace or settings.update or settings.compact:
        refuse_split(changed)
    if settings.replace:
        path = changed
        keyed = {name: Path(new) for name, new in settings.replace.items() if is_keyed(new)}
        if keyed and len(keyed) < len(settings.replace):
            raise UsageError("tables with keys and tables without are replaced by two commands")
        refuse_updated(Path(settings.model), settings.replace)
        if keyed:
            absent = None if settings.absent is None else _absent(str(settings.absent))
            replace_by_keys(Path(settings.model), path, keyed, absent)
        else:
            replace_tables(Path(settings.model), path, settings.replace)
    elif settings.update:
        progress("updating")
        done = update_tables(path, settings.update)
    elif settings.compact:
        compact_tables(path, progress)
    for name, target in (settings.export or {}).items():
        progress(f"writing {target}")
        export_table(path, name, Path(target))
    model = load_model(path)
    if settings.check:
        check_files(model, path, progress)
        check_keys(path, progress)
    described = [describe(table, path) for table in tables_of(model)]
    rows = {name: shown_rows(path, name, keys) for name, keys in (settings.show or {}).items()}
    return Tables(str(path), described, done.tables, done.moved, done.bytes, states(path), rows)


@function_of(TablesSettings)
def tables(settings: TablesSettings) -> Tables:
    """The embedding tables of a model, as `onnx-sparse tables` lists them; they may be changed first.

        print(onnx_sparse.tables("model.onnx"))
        onnx_sparse.tables("model.onnx", {"table": "retrained.npy"})  # changes the file

    An update writes as much as it changes, and is there whole or not at all, also for servers of the model. Only one
    process can update a model at a time; another one raises an error.

    A replaced table has the same shape; a float32 array is rounded as the table is. The model is replaced whole or not
    at all. A new file in the same folder shares the other tables with the old one, on disk and in memory.

    Raises:
        ValueError: A file cannot be read or written, or an array is none for the table.
    """
    with raised(TablesSettings, failure=ValueError):
        return listed(settings)
