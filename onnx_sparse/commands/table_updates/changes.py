"""Changing the rows of a model's tables: what is written grows with the change, not with the table.

Rows are added at the end of the table's own file, which nothing else is changed in. The model's file, which has the
keys of the rows that were added, is replaced then: that is when the change happens. Who runs the model before reads the
same file, and none of the rows that were added.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from onnx import TensorProto

from onnx_sparse.commands.description.embedding_tables import contents_of
from onnx_sparse.commands.table_updates.deltas import VALUES, Delta, read_delta
from onnx_sparse.commands.table_updates.keys import Keys
from onnx_sparse.commands.table_updates.opened_model import OpenedModel, key_type, opening_writer
from onnx_sparse.errors import CommandError, printable
from onnx_sparse.files.new_file import check_writable, sole_writer, state_of
from onnx_sparse.files.ranges import Part, bytes_of
from onnx_sparse.models.data.references import byte_size, point_to
from onnx_sparse.models.files.data_parts import Growth, growing, location, parts_of, record_parts
from onnx_sparse.models.files.external_data import write_model
from onnx_sparse.models.files.load_and_save import load_model
from onnx_sparse.models.graphs import all_tensors
from onnx_sparse.models.tables.live_tables import (
    LiveTable,
    ask_newer_keys,
    newer_positions,
)
from onnx_sparse.rows.columns import typed
from onnx_sparse.schemas.declaration import HALF_FLOATS

Array = np.ndarray[Any, Any]

#: Lookups may have row numbers of 32 bits.
_MOST_ROWS = 2**31 - 1
#: Newer keys of more bytes are in a file of their own, which is mapped, but for small tensors.
_LARGE, _SMALL = 1 << 24, 1 << 10


class TableUpdate(TypedDict):
    """What became of a table.

    `missing` counts keys that were to be deleted and were not there, `newer` those that were changed since the table
    was written as a whole, and `rounded` the numbers of doubles that float32 does not hold.
    """

    table: str
    added: int
    changed: int
    deleted: int
    missing: int
    newer: int
    rounded: int


@dataclass
class Written:
    """What an update has done.

    Attributes:
        tables: By table.
        moved: The tables that got a file of their own first.
        bytes: The bytes written, without those of tables that were moved.
    """

    tables: list[TableUpdate]
    moved: list[str]
    bytes: int = 0


def update_tables(path: Path, given: Mapping[str, Any]) -> Written:
    """Change rows of some tables of a model, all or none.

    Args:
        path: The model's file.
        given: The changes of tables by name, as `read_delta` takes them.

    Raises:
        CommandError: A change does not fit its table, or the table cannot be updated; then no row has changed.
    """
    load_model(path)  # first its faults
    check_writable(path)
    with sole_writer(path):
        opened = OpenedModel(path)
        plans = [_planned(opened, name, source) for name, source in given.items()]
        tensors = [tensor for plan in plans if plan.count for tensor in plan.live.tensors]
        if moved := [tensor for tensor in tensors if not opened.is_growing(tensor)]:
            names = [tensor.name for tensor in moved]
            apart = [(tensor, opened.content(tensor)) for tensor in moved]
            write_model(opened.model, path, opening_writer(path), apart=apart, made_from=opened.state)
            opened = OpenedModel(path)
            plans = [_planned(opened, name, source) for name, source in given.items()]
            return _commit(opened, plans, names)
        return _commit(opened, plans, [])


def refuse_updated(path: Path, names: Iterable[str]) -> None:
    """Refuse tables whose rows are not where their keys say, and which cannot be replaced by others therefore.

    Raises:
        CommandError: A table has been updated.
    """
    newer = newer_positions(load_model(path))
    for name in names:
        if name in newer:
            raise CommandError(f"table {printable(name)} has been updated: write it as a whole first, by `compact`")


@dataclass
class _Plan:
    """A change of a table.

    Attributes:
        live: The table.
        contents: The rows to add, for each of its tensors.
        count: How many these are.
        keys: The keys, row numbers or texts, of the newer table.
        positions: The position of each: that of a row that was there, -1 of a deleted one, or -2 - k of row k to add.
        rows: How many rows the table has then, if it is read by row numbers.
        done: What is told of it.
    """

    live: LiveTable
    contents: list[memoryview]
    count: int
    keys: Array
    positions: Array
    rows: int
    done: TableUpdate


def _planned(opened: OpenedModel, name: str, source: Any) -> _Plan:
    table, live = opened.live(name)
    what = os.fspath(source) if isinstance(source, (str, os.PathLike)) else "the delta"
    delta = read_delta(source, "key" if live.finds else "row", key_type(opened, live))
    if not live.finds:  # new rows are added in their order
        order = np.argsort(delta.keys)
        delta = replace(delta, keys=delta.keys[order], values=delta.values[order] if len(order) else delta.values)
    contents, rounded = [memoryview(b"")] * len(live.tensors), 0
    if len(delta.keys):
        values, is_rounded = delta.values, bool(table.bits or table.tensor.data_type in HALF_FLOATS)
        if values.dtype == np.float64 and (is_rounded or table.tensor.data_type == TensorProto.FLOAT):
            values, rounded = _rounded(what, delta)
        elif not delta.is_exact:
            kind = TensorProto.FLOAT if is_rounded else table.tensor.data_type
            try:
                values = typed(f"{what}, column {VALUES!r}", values, kind, ())
            except ValueError as error:
                raise CommandError(error) from None
        found = contents_of(opened.model, table, values, what, rows=len(delta.keys))
        contents = [found[tensor.name] for tensor in live.tensors]
    plan = (_plan_of_keys if live.finds else _plan_of_rows)(opened, live, delta, contents)
    plan.done["rounded"] = rounded
    return plan


def _rounded(what: str, delta: Delta) -> tuple[Array, int]:
    """Doubles, which pandas, Spark and JSON write of all floats, as float32, and how many that does not hold.

    Raises:
        CommandError: One is beyond the range of float32.
    """
    with np.errstate(over="ignore"):
        values = delta.values.astype(np.float32)
    beyond = np.isinf(values) & np.isfinite(delta.values)
    if beyond.any():
        at = tuple(int(place[0]) for place in np.nonzero(beyond))
        value, key = delta.values[at], delta.keys[at[0]] if at else ""
        raise CommandError(f"{what}, column {VALUES!r}, of {key}: {value} is beyond the range of float32")
    return values, int(((values != delta.values) & ~np.isnan(delta.values)).sum())


def _plan_of_keys(opened: OpenedModel, live: LiveTable, delta: Delta, contents: list[memoryview]) -> _Plan:
    *names, index = live.keys
    asked = np.concatenate([delta.keys, delta.deleted])
    before = opened.keys(names).positions(opened.array(index), asked)
    is_there = before >= 0
    old_keys, old_positions = asked[:0], np.zeros(0, np.int64)
    if live.is_updated:
        newer, rows = opened.newer(live)
        old_positions = np.where(rows < 0, -1, rows - live.shift)
        found = newer.positions(opened.array(live.newer[-2]), asked)
        is_there[found >= 0] = old_positions[found[found >= 0]] >= 0
        kept = np.ones(len(newer), bool)
        kept[found[found >= 0]] = False
        old_keys, old_positions = newer.values(kept), old_positions[kept]
    count = len(delta.keys)
    was_there, deleted = is_there[:count], is_there[count:]
    marked = before[count:] >= 0  # a key that was never in the large table is only forgotten
    keys = np.concatenate([old_keys, delta.keys, delta.deleted[marked]])
    gone = np.full(int(marked.sum()), -1, np.int64)
    done = TableUpdate(
        table=live.name,
        added=int((~was_there).sum()),
        changed=int(was_there.sum()),
        deleted=int(deleted.sum()),
        missing=int((~deleted).sum()),
        newer=len(keys),
        rounded=0,
    )
    positions_ = np.concatenate([old_positions, -2 - np.arange(count), gone])
    return _Plan(live, contents, count, keys, positions_, 0, done)


def _plan_of_rows(opened: OpenedModel, live: LiveTable, delta: Delta, contents: list[memoryview]) -> _Plan:
    if len(delta.deleted):
        raise CommandError(f"table {printable(live.name)} is read by row numbers, which cannot be deleted")
    rows = int(opened.array(live.extent[0])) if live.is_updated else live.tensors[0].dims[0]
    count, keys = len(delta.keys), delta.keys
    new = keys[keys >= rows]
    if count and keys[0] < 0:
        raise CommandError(f"row {keys[0]} of table {printable(live.name)} is negative")
    if len(new) and new[-1] != rows + len(new) - 1:
        raise CommandError(
            f"table {printable(live.name)} has {rows} rows: with row {new[-1]}, all from {rows} on must be there"
        )
    old_keys, old_positions = keys[:0], np.zeros(0, np.int64)
    if live.is_updated:
        newer, old_positions = opened.newer(live)
        old_keys = newer.values()
        kept = ~np.isin(old_keys, keys)
        old_keys, old_positions = old_keys[kept], old_positions[kept]
    all_keys = np.concatenate([old_keys, keys])
    done = TableUpdate(
        table=live.name, added=len(new), changed=count - len(new), deleted=0, missing=0, newer=len(all_keys), rounded=0
    )
    positions = np.concatenate([old_positions, -2 - np.arange(count)])
    return _Plan(live, contents, count, all_keys, positions, rows + len(new), done)


def _commit(opened: OpenedModel, plans: Sequence[_Plan], moved: list[str]) -> Written:
    """Add the rows, and replace the model's file."""
    written = Written([plan.done for plan in plans], moved)
    changed = [plan for plan in plans if plan.done["added"] + plan.done["changed"] + plan.done["deleted"]]
    if not changed:
        return written
    parts: dict[str, tuple[Part, ...]] = parts_of(opened.model)
    large: list[tuple[TensorProto, Any]] = []
    growths: list[Growth] = []
    with contextlib.ExitStack() as stack:
        try:
            for plan in changed:
                first = 0
                if plan.count:
                    growth = stack.enter_context(growing(_places(opened, plan.live)))
                    growths.append(growth)
                    first = growth.first
                    _grow(opened, plan, growth, parts)
                large += _put_newer(opened, plan, first)
                written.bytes += sum(content.nbytes for content in plan.contents)
            record_parts(opened.model, parts)
            written.bytes += write_model(
                opened.model, opened.path, opening_writer(opened.path), contents=large or None, made_from=opened.state
            )
        except BaseException:
            if state_of(opened.path) == opened.state:
                for growth in growths:
                    growth.undo()
            raise
    return written


def _places(opened: OpenedModel, live: LiveTable) -> list[tuple[Path, int, int]]:
    """The file of each tensor of a table, where it begins there, and the bytes of a row."""
    found = []
    for tensor in live.tensors:
        at = opened.file_range(tensor)
        assert at is not None, "it was moved to a file of its own"
        row = TensorProto(data_type=tensor.data_type, dims=[1, *tensor.dims[1:]])
        found.append((Path(at.file.path), at.offset, byte_size(row) or 0))
    return found


def _grow(opened: OpenedModel, plan: _Plan, growth: Growth, parts: dict[str, tuple[Part, ...]]) -> None:
    """Add rows to the tensors of a table."""
    rows = growth.first + plan.count
    if rows > _MOST_ROWS:
        raise CommandError(f"table {printable(plan.live.name)} would have {rows} rows, more than {_MOST_ROWS}")
    for tensor, added, size in zip(plan.live.tensors, growth.add(plan.contents), growth.sizes, strict=True):
        name = location(tensor)["location"]
        sharing = [other for other in all_tensors(opened.model) if location(other).get("location") == name]
        end = max(sum(opened.place(other)) for other in sharing)
        # The checksum of a file is that of its first part, if it has no bytes that no tensor names.
        before = [replace(part, end=part.end or size) for part in parts.get(name, ()) if part.end or size == end]
        parts[name] = (*before, added)
        tensor.dims[0] = rows
        for other in sharing:
            point_to(other, name, *opened.place(other), "")


def _put_newer(opened: OpenedModel, plan: _Plan, first: int) -> list[tuple[TensorProto, Any]]:
    """Let the graph ask for newer keys; returns the tensors that go to a file of their own."""
    live, is_new = plan.live, plan.positions < -1
    if not live.finds and not live.is_updated and plan.done["changed"] == 0 and first == plan.rows - plan.count:
        plan.done["newer"] = 0
        return []  # rows that follow the others need no keys
    ask_newer_keys(opened.model, live)
    keys = Keys.of(plan.keys)
    positions = plan.positions.copy()
    positions[is_new] = first - 2 - positions[is_new] - live.shift
    arrays = dict(zip(live.newer, [*keys.arrays, keys.index(), positions], strict=True))
    if not live.finds:
        arrays |= dict(zip(live.extent, np.array([plan.rows, live.tensors[0].dims[0] - plan.rows]), strict=True))
    is_large = sum(array.nbytes for array in arrays.values()) > _LARGE
    tensors = {name: opened.put(name, array) for name, array in arrays.items()}
    return [(t, bytes_of(arrays[name])) for name, t in tensors.items() if is_large and arrays[name].nbytes >= _SMALL]
