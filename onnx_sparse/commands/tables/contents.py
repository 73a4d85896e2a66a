"""What a table holds now, with its updates: shown for some keys, written to a file, folded into a new table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from onnx import TensorProto

from onnx_sparse.commands.description.embedding_tables import Table, check_files
from onnx_sparse.commands.table_updates.deltas import VALUES, keys_of
from onnx_sparse.commands.table_updates.keys import Keys
from onnx_sparse.commands.table_updates.opened_model import OpenedModel, key_type, opening_writer
from onnx_sparse.errors import CommandError, UsageError, printable
from onnx_sparse.files.array_file import save_npz
from onnx_sparse.files.new_file import check_writable, new_file, sole_writer
from onnx_sparse.files.ranges import bytes_of
from onnx_sparse.models.data.arrays_on_disk import empty_array, row_ranges
from onnx_sparse.models.files.external_data import write_model
from onnx_sparse.models.files.load_and_save import load_model
from onnx_sparse.models.tables.live_tables import LiveTable, forget_newer_keys, has_shared_keys, rows_after_keys
from onnx_sparse.reference.quantized_embedding import QuantizedTable

if TYPE_CHECKING:
    from onnx_sparse.commands import Progress

Array = np.ndarray[Any, Any]


class TableState(TypedDict):
    """What a table holds.

    `keyed_by` names the tensor with its keys, and `keys` counts these, or the rows of a table that is read by row
    numbers. `newer` counts those that were changed since the table was written as a whole, and `dead_rows` the rows
    that no key has any more.
    """

    name: str
    keyed_by: str | None
    keys: int
    newer: int
    dead_rows: int


@dataclass
class Contents:
    """The rows of a table in order: those of the large table, then the ones that newer keys have.

    Attributes:
        live: The table.
        keys: The keys of the large table; None if it is read by row numbers.
        count: How many rows the large table has.
        changed: The numbers of those that newer keys have changed, in order.
        rows: Where the rows of these are now; -1 of deleted ones.
        more: The newer keys that the large table does not have; None if it is read by row numbers.
        more_rows: Where their rows are.
    """

    live: LiveTable
    keys: Keys | None
    count: int
    changed: Array
    rows: Array
    more: Keys | None
    more_rows: Array

    @classmethod
    def of(cls, opened: OpenedModel, live: LiveTable) -> Contents:
        """What a table of a model holds."""
        nothing = np.zeros(0, np.int64)
        if not live.finds:
            count = int(opened.array(live.extent[0])) if live.is_updated else live.tensors[0].dims[0]
            _require_rows(live, count)
            if not live.is_updated:
                return cls(live, None, count, nothing, nothing, None, nothing)
            newer, rows = opened.newer(live)
            numbers = newer.values()
            order = np.argsort(numbers)
            return cls(live, None, count, numbers[order], rows[order], None, nothing)
        *names, index = live.keys
        keys = opened.keys(names)
        _require_rows(live, len(keys))
        if not live.is_updated:
            return cls(live, keys, len(keys), nothing, nothing, Keys.of(keys.values(slice(0))), nothing)
        held, rows = opened.newer(live)
        changed = held.values()
        before = keys.positions(opened.array(index), changed)
        order = np.flatnonzero(before >= 0)
        order = order[np.argsort(before[order])]
        is_more = (before < 0) & (rows >= 0)
        return cls(live, keys, len(keys), before[order], rows[order], Keys.of(changed[is_more]), rows[is_more])

    @property
    def state(self) -> TableState:
        """It in numbers."""
        used = self.count - int((self.rows < 0).sum()) + len(self.more_rows)
        return TableState(
            name=self.live.name,
            keyed_by=self.live.keys[0] if self.live.finds else None,
            keys=used,
            newer=len(self.changed) + len(self.more_rows),
            dead_rows=max(0, self.live.tensors[0].dims[0] - used - self.live.shift - len(self.live.masks[:1])),
        )

    def row_of(self, opened: OpenedModel, keys: Array) -> Array:
        """Where the rows of keys are, or -1."""
        found = keys if self.keys is None else self.keys.positions(opened.array(self.live.keys[-1]), keys)
        is_there = (found >= 0) & (found < self.count)
        rows = np.where(is_there, found + self.live.shift, -1)
        at = np.searchsorted(self.changed, found)
        at[at == len(self.changed)] = 0
        is_changed = is_there & (self.changed[at] == found) if len(self.changed) else np.zeros(len(keys), bool)
        rows[is_changed] = self.rows[at[is_changed]]
        more = {} if self.more is None else dict(zip(self.more.values().tolist(), self.more_rows.tolist(), strict=True))
        return np.array([more.get(k, r) for k, r in zip(keys.tolist(), rows.tolist(), strict=True)], np.int64)

    def is_kept(self) -> Array:
        """Which rows of the large table are not deleted."""
        kept = np.ones(self.count, bool)
        kept[self.changed[self.rows < 0]] = False
        return kept

    def blocks(self, arrays: Sequence[Array]) -> Iterator[list[Array]]:
        """The rows in parts: those of each tensor of the table. Those of keys that are deleted are left out."""
        shift = self.live.shift
        for some in row_ranges(arrays[0][: self.count]):
            begin, end = np.searchsorted(self.changed, [some.start, some.stop])
            at, to = self.changed[begin:end] - some.start, self.rows[begin:end]
            part = []
            for array in arrays:
                block = np.array(array[some.start + shift : some.stop + shift])
                block[at[to >= 0]] = array[to[to >= 0]]
                part.append(np.delete(block, at[to < 0], axis=0))
            yield part
        for some in row_ranges(self.more_rows):
            yield [array[self.more_rows[some]] for array in arrays]

    def all_keys(self) -> Keys:
        """The keys of these rows, or their numbers."""
        if self.keys is None or self.more is None:
            return Keys((np.arange(self.count),))
        is_same = not len(self.more) and not (self.rows < 0).any()
        return self.keys if is_same else self.keys.where(self.is_kept(), self.more)


def _require_rows(live: LiveTable, count: int) -> None:
    if not 0 <= count <= live.tensors[0].dims[0] - live.shift:
        raise CommandError(f"table {printable(live.name)} has {live.tensors[0].dims[0]} rows, fewer than its keys need")


def compact_tables(path: Path, progress: Progress) -> list[str]:
    """Write each table of a model that was updated as a whole, with its keys and their index.

    Returns:
        The tables.

    Raises:
        CommandError: A table cannot be; then nothing has changed.
    """
    load_model(path)  # first its faults
    check_writable(path)
    with sole_writer(path):
        opened = OpenedModel(path)
        contents: list[tuple[TensorProto, Any]] = []
        apart: list[tuple[TensorProto, Any]] = []
        changed = opened.updated()
        if changed:  # damaged rows would get a new checksum
            check_files(opened.model, path, progress)
        for live in changed:
            progress(f"compacting {live.name}")
            held = Contents.of(opened, live)
            keys = held.all_keys()
            after = rows_after_keys(opened.model, live, len(keys))
            for tensor in live.tensors:
                array = opened.array(tensor.name)
                apart.append((tensor, _whole(held, array, after)))
                tensor.dims[0] = live.shift + len(keys) + len(after)
            if held.keys is not None and keys is not held.keys:
                contents += _put_keys(opened, live, keys)
            forget_newer_keys(opened.model, live)
        if changed:
            write_model(
                opened.model, path, opening_writer(path), contents=contents or None, apart=apart, made_from=opened.state
            )
        return [live.name for live in changed]


def _whole(held: Contents, array: Array, after: Sequence[int]) -> Callable[[], Iterator[memoryview]]:
    def blocks() -> Iterator[memoryview]:
        yield bytes_of(array[: held.live.shift])
        for (block,) in held.blocks([array]):
            yield bytes_of(block)
        yield bytes_of(array[list(after)])

    return blocks


def _put_keys(opened: OpenedModel, live: LiveTable, keys: Keys) -> list[tuple[TensorProto, Any]]:
    """Give a table other keys; returns the tensors that are to be in a file."""
    arrays = dict(zip(live.keys, [*keys.arrays, keys.index()], strict=True))
    if has_shared_keys(opened.model, live):
        names = {name: opened.add(name, np.zeros(0, array.dtype)) for name, array in arrays.items()}
        arrays = {names[name]: array for name, array in arrays.items()}
        for _, node in live.finds:
            node.input[: len(names)] = [names[name] for name in node.input[: len(names)]]
    is_apart = sum(array.nbytes for array in arrays.values()) > 1 << 24
    return [(opened.declare(n, a), bytes_of(a)) for n, a in arrays.items() if is_apart or not opened.put(n, a)]


def export_table(path: Path, name: str, target: Path) -> int:
    """Write the keys and rows of a table, as an update takes them, into a Parquet or .npz file.

    Returns:
        How many rows.

    Raises:
        CommandError: There is no such table, or the file cannot be written.
        UsageError: The file is of another kind.
    """
    if target.suffix not in (".parquet", ".npz"):
        raise UsageError(f"cannot write {target}: expected a name that ends in .parquet or .npz")
    check_writable(target, keep=[path])
    opened = OpenedModel(path)
    table, live = opened.live(name)
    check_files(opened.model, path)
    held = Contents.of(opened, live)
    keys = held.all_keys()
    arrays = [opened.array(tensor.name) for tensor in live.tensors]
    blocks = (values_of(table, part) for part in held.blocks(arrays))
    column = "key" if live.finds else "row"
    if target.suffix == ".parquet":
        _write_parquet(target, column, keys, blocks, values_of(table, [array[:0] for array in arrays]))
        return len(keys)
    if keys.is_text:
        raise UsageError(f"cannot write {target}: numpy's files do not hold texts of any bytes; write a .parquet file")
    empty = values_of(table, [array[:0] for array in arrays])
    values, at = empty_array((len(keys), *empty.shape[1:]), empty.dtype), 0
    for block in blocks:
        values[at : at + len(block)] = block
        at += len(block)
    save_npz(target, {column: keys.arrays[0], VALUES: values})
    return len(keys)


def values_of(table: Table, parts: Sequence[Array]) -> Array:
    """Rows of a table as numbers: those of a quantized one as float32."""
    if not table.bits:
        return parts[0]
    return QuantizedTable(parts[0], parts[1], str(table.bits)).rows(np.arange(len(parts[0])))


def _write_parquet(target: Path, column: str, keys: Keys, blocks: Iterable[Array], empty: Array) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise CommandError(f"{target} needs pyarrow: pip install 'onnx_sparse[score]'") from None

    def rows_of(values: Array) -> pa.Array:
        found = pa.array((values.astype(np.float32) if values.dtype.kind == "V" else values).reshape(-1))
        for size in reversed(values.shape[1:]):
            found = pa.FixedSizeListArray.from_arrays(found, size)
        return found

    kind = pa.binary() if keys.is_text else pa.from_numpy_dtype(keys.arrays[0].dtype)
    schema = pa.schema([(column, kind), (VALUES, rows_of(empty).type)])
    at = 0
    with new_file(target) as file, pq.ParquetWriter(file, schema) as written:
        for block in blocks:
            some = keys.values(slice(at, at + len(block)))
            written.write_table(pa.table([pa.array(some, kind), rows_of(block)], schema=schema))
            at += len(block)


def check_keys(path: Path, progress: Progress) -> None:
    """Compare the index of each keyed table with its keys, of which none may be there twice.

    Raises:
        CommandError: A key is, or an index is another one.
    """
    opened = OpenedModel(path)
    for live in opened.tables():
        named = [live.keys, live.newer[:-1]] if live.is_updated and live.finds else [live.keys] if live.finds else []
        for *names, index in named:
            progress(f"reading the keys of {live.name}")
            try:
                built = opened.keys(names).index()
            except CommandError as error:
                raise CommandError(f"{path}: table {printable(live.name)}: {error}") from None
            if not np.array_equal(built, opened.array(index)):
                raise CommandError(f"{path}: {printable(index)} is not the index of the keys of {printable(live.name)}")


def states(path: Path) -> list[TableState]:
    """What the tables of a model hold that have keys, or were updated.

    Raises:
        CommandError: The model cannot be read.
    """
    opened = OpenedModel(path)
    return [Contents.of(opened, live).state for live in opened.tables() if live.finds or live.is_updated]


def shown_rows(path: Path, name: str, keys: Sequence[Any]) -> dict[Any, Array | None]:
    """The rows of keys of a table, or of row numbers; None of a key that is not there.

    Raises:
        CommandError: There is no such table, or a key is none of its type.
    """
    opened = OpenedModel(path)
    table, live = opened.live(name)
    try:
        asked = keys_of(f"the keys of {name}", list(keys), key_type(opened, live))
    except ValueError as error:
        raise CommandError(error) from error
    rows = Contents.of(opened, live).row_of(opened, asked)
    arrays = [opened.array(tensor.name) for tensor in live.tensors]
    found: dict[Any, Array | None] = {}
    for key, row in zip(keys, rows.tolist(), strict=True):
        found[key] = None if row < 0 else values_of(table, [array[row : row + 1] for array in arrays])[0]
    return found
