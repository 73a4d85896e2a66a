"""Tables that are replaced by keys and rows: HugeCTR's folders, .npz and Parquet files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from onnx_sparse.commands.description.embedding_tables import Table, tables_of
from onnx_sparse.commands.table_updates.keys import Keys
from onnx_sparse.errors import CommandError, printable
from onnx_sparse.files.guarded_files import open_file
from onnx_sparse.files.new_file import check_writable, state_of
from onnx_sparse.models.data.arrays_on_disk import empty_array, row_ranges
from onnx_sparse.models.data.references import holding_arrays, tensor_of
from onnx_sparse.models.files.load_and_save import load_model, save_model
from onnx_sparse.models.files.suffixes import WRITTEN_SUFFIXES
from onnx_sparse.models.graphs import array_of, names_of
from onnx_sparse.models.tables.key_flows import ModelReads, constants_of, integer_of, node_label
from onnx_sparse.models.tables.live_tables import (
    NO_ROW,
    OPSET,
    LiveTable,
    has_shared_keys,
    insert_nodes,
    looked_up_table,
    place_name,
    rows_after_keys,
)
from onnx_sparse.models.tools.opsets import default_opset
from onnx_sparse.schemas import DOMAIN, OPSET_VERSION
from onnx_sparse.schemas.declaration import numpy_dtype

Array = np.ndarray[Any, Any]
#: The files of a folder of HugeCTR's Hierarchical Parameter Server, which SparseOperationKit writes, too.
_KEYS, _ROWS = "key", "emb_vector"
#: The names of the arrays or columns of other files, as in the deltas of `update`.
_COLUMNS = ("key", "values")
_SUFFIXES = (".npz", ".parquet")


def is_keyed(source: Any) -> bool:
    """Whether what replaces a table is a file of keys and rows."""
    return isinstance(source, (str, os.PathLike)) and (
        os.path.isdir(source) or Path(source).suffix.lower() in _SUFFIXES
    )


def read_keyed(path: Path) -> tuple[Array, Array]:
    """The keys in a file or folder, `[n]`, and their rows, `[n, width]`; those of a folder stay in its files.

    Raises:
        CommandError: It has none, or not as many of both.
    """
    from onnx_sparse.files.key_files import read_keys, read_rows

    try:
        if path.is_dir():
            keys = read_keys(path / _KEYS, np.int64, path)
            return keys, read_rows(path / _ROWS, np.float32, len(keys), root=path)
        columns = _of_parquet(path) if path.suffix.lower() == ".parquet" else _of_archive(path)
    except OSError as error:
        raise CommandError(f"{error.filename or path} cannot be read: {error.strerror or error}") from None
    if missing := [name for name in _COLUMNS if name not in columns]:
        raise CommandError(f"{path} has no {printable(missing[0])}; it has {', '.join(map(printable, columns))}")
    keys, rows = columns["key"], columns["values"]
    if keys.ndim != 1 or keys.dtype.kind not in "iu" or rows.ndim != 2 or len(keys) != len(rows):
        raise CommandError(
            f"{path}: expected integers [n] as key and rows [n, width] as values, got {keys.dtype}{list(keys.shape)} "
            f"and {rows.dtype}{list(rows.shape)}"
        )
    return keys, rows


def _of_archive(path: Path) -> dict[str, Array]:
    from onnx_sparse.files.array_file import read_npz

    return dict(read_npz(path))


def _of_parquet(path: Path) -> dict[str, Array]:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with open_file(path) as file:
        try:
            table = pq.read_table(file)
            found: dict[str, Array] = {}
            for name in table.column_names:
                column = table[name].combine_chunks()
                if name == "values" and hasattr(column, "flatten") and not column.null_count:
                    width, flat = len(column[0]) if len(column) else 0, column.flatten()
                    if flat.null_count or (np.asarray(pc.list_value_length(column)) != width).any():
                        raise CommandError(f"{path}: the rows have different numbers of values, or lack one")
                    found[name] = np.asarray(flat).reshape(len(column), width)
                else:
                    found[name] = np.asarray(column)
        except CommandError:
            raise
        except Exception as error:  # Arrow raises whatever its parsers raise
            raise CommandError(f"{path} cannot be read: {error}") from error
    return found


def replace_by_keys(source: Path, path: Path, given: Mapping[str, Path], absent: int | str | None = None) -> None:
    """Write a model in which tables have other rows, which are found by keys.

    Args:
        source: The model.
        path: What to write, which may be the model itself.
        given: The files or folders of keys and rows, by the tables that they replace.
        absent: What keys give that a table does not have, which was read by row numbers: zeros, an error, or the row
            of a key. A table that has keys already says it itself.

    Raises:
        CommandError: A file cannot be read, or is none for its table.
    """
    in_place = path.exists() and path.samefile(source)
    state = state_of(source)
    load_model(source)  # first its faults, then those of the paths
    check_writable(path, *(() if in_place else WRITTEN_SUFFIXES), keep=list(given.values()))
    with holding_arrays():
        is_external = any(tensor.external_data for tensor in load_model(source).graph.initializer)
        model = load_model(source, external_data=True)
        tables = {table.tensor.name: table for table in tables_of(model)}
        for name, file in given.items():
            if name not in tables:
                there = ", ".join(map(printable, tables)) or "none"
                raise CommandError(f"{source} has no table {printable(name)}; its tables are {there}")
            _put(model, tables[name], file, absent)
        save_model(model, path, external=is_external or None, made_from=state if in_place else None)


def _put(model: ModelProto, table: Table, source: Path, absent: int | str | None) -> None:
    """Let a table of a model have other rows, which are found by keys, in place.

    Raises:
        CommandError: The rows are none for the table, a key is there twice or is none of the ids' type, or something
            else than lookups reads the table.
    """
    given, rows = read_keyed(source)
    tensor, name = table.tensor, str(table.tensor.name)
    dtype = numpy_dtype(tensor.data_type)
    if table.bits:
        raise CommandError(f"table {printable(name)} is quantized: replace it in the model before, and quantize that")
    if len(tensor.dims) != 2 or tensor.dims[1] != rows.shape[1] or dtype != rows.dtype:
        raise CommandError(
            f"{source}: rows are {rows.dtype}[n, {rows.shape[1]}], and the table {printable(name)} is "
            f"{dtype}{list(tensor.dims)}"
        )
    live = looked_up_table(ModelReads(model), [tensor])
    before, after = rows[:0], rows[:0]
    try:
        if live.finds:
            if absent is not None:
                raise CommandError(
                    f"table {printable(name)} has keys already: absent ones give what they gave; omit --absent"
                )
            keys, old = _keys_as_before(model, live, given), array_of(tensor)
            before = old[: live.shift]
            after = old[rows_after_keys(model, live, len(keys))]
            arrays = _put_keys(model, live, keys)
        else:
            keys = Keys.of(given if given.dtype in (np.int64, np.uint64, object) else given.astype(np.int64))
            if absent != "error":
                row = 0 if absent in (None, "zeros") else rows[_position(keys, int(absent), "--absent")]
                before = np.full((1, rows.shape[1]), row, dtype)
            arrays = _find_ids(model, live, keys, len(before))
    except CommandError as error:
        raise CommandError(f"{source}: {error}") from None
    new = empty_array((len(before) + len(rows) + len(after), rows.shape[1]), dtype)
    new[: len(before)] = before
    for some in row_ranges(rows):
        new[some.start + len(before) : some.stop + len(before)] = rows[some]
    new[len(new) - len(after) :] = after
    arrays[name] = new
    kept = [t for t in model.graph.initializer if t.name not in arrays]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    model.graph.initializer.extend(tensor_of(np.asanyarray(array), n) for n, array in arrays.items())


def _keys_as_before(model: ModelProto, live: LiveTable, given: Array) -> Keys:
    """Keys of the type of those that a table has."""
    if (live.finder == "FindStrings") != (given.dtype.kind == "O"):
        kinds = ("text", "integers") if given.dtype.kind == "O" else ("integers", "text")
        raise CommandError(f"keys are {kinds[0]}, and the table has keys that are {kinds[1]}")
    if given.dtype.kind == "O":
        return Keys.of(given)
    held = next(tensor for tensor in model.graph.initializer if tensor.name == live.keys[0])
    limits = np.iinfo(numpy_dtype(held.data_type))
    for key in (int(given.min(initial=0)), int(given.max(initial=0))):
        if not limits.min <= key <= limits.max:
            raise CommandError(f"key {key} is not an {limits.dtype}, the type of the table's keys")
    return Keys.of(given.astype(limits.dtype))


def _put_keys(model: ModelProto, live: LiveTable, keys: Keys) -> dict[str, Array]:
    """The tensors of other keys of a table, under new names if other nodes read those that it has."""
    names = live.keys
    if has_shared_keys(model, live):
        fresh = names_of(model).fresh
        names = [str(fresh(name)) for name in names]
        for _, node in live.finds:
            node.input[: len(names)] = names
    return dict(zip(names, [*keys.arrays, keys.index()], strict=True))


def _find_ids(model: ModelProto, live: LiveTable, keys: Keys, shift: int) -> dict[str, Array]:
    """Let the ids of lookups by row numbers be keys. Returns the tensors of the keys and their index.

    The row of a key is its position and `shift`, 0 or 1. Row 0 is that of absent keys if `shift` is 1; otherwise they
    get a row that no table has, so that lookups raise an error.
    """
    if keys.is_text:
        raise CommandError("keys are text, and the ids of the table are integers")
    if default_opset(model) < OPSET:
        raise CommandError(f"the model's opset is {default_opset(model)}; convert it with --opset {OPSET} or more")
    fresh, constants, (array,) = names_of(model).fresh, constants_of(model), keys.arrays

    def constant(what: str, value: Array) -> str:
        name = str(fresh(f"{live.name}.{what}"))
        model.graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    held = {str(fresh(f"{live.name}.keys")): array, str(fresh(f"{live.name}.index")): keys.index()}
    numbers = [constant("one", np.array(1))] if shift else []
    numbers = numbers or [constant("lowest", np.array(0)), constant("no_row", np.array(NO_ROW))]
    made: dict[tuple[int, str], str] = {}
    for lookup in live.lookups:
        for place in lookup.places:
            ids, what = lookup.node.input[place], place_name(lookup.node, place)
            if what == "indices":
                ids = _without_guard(model, lookup.graph, ids)
                found = id(lookup.graph), ids
                if found not in made:
                    nodes = _nodes_of_rows(
                        ids, array.dtype, [*held], numbers, lambda part: fresh(f"{live.name}.{part}")
                    )
                    insert_nodes(lookup.graph, nodes, before=lookup.node)
                    made[found] = nodes[-1].output[0]
                lookup.node.input[place] = made[found]
                continue
            row, label = integer_of(ids, constants), f"{what} of {node_label(lookup.node)}"
            if row is None:
                raise CommandError(f"{label} is computed, and may not be a key")
            if row >= 0:  # else there is none
                position = np.full_like(array_of(constants[ids]), _position(keys, row, label) + shift)
                lookup.node.input[place] = constant(what, position)
    if not any(entry.domain == DOMAIN for entry in model.opset_import):
        model.opset_import.add(domain=DOMAIN, version=OPSET_VERSION)
    return held


def _nodes_of_rows(
    ids: str, dtype: Any, keys: Sequence[str], numbers: Sequence[str], fresh: Callable[[str], str]
) -> list[NodeProto]:
    """The nodes that give the row of each id, in the type of ids."""
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    wide = helper.make_node("Cast", [ids], [fresh("ids")], to=kind)
    found = helper.make_node("FindKeys", [*keys, wide.output[0]], [fresh("position")], domain=DOMAIN)
    nodes, position = [wide, found], found.output[0]
    if len(numbers) == 1:
        nodes.append(helper.make_node("Add", [position, *numbers], [fresh("row")]))
    else:
        lowest, no_row = numbers
        nodes.append(helper.make_node("Less", [position, lowest], [fresh("is_absent")]))
        nodes.append(helper.make_node("Where", [nodes[-1].output[0], no_row, position], [fresh("row")]))
    nodes.append(helper.make_node("CastLike", [nodes[-1].output[0], ids], [fresh("row_of_type")]))
    for node in nodes:
        node.name = node.output[0]
    return nodes


def _position(keys: Keys, key: int, what: str) -> int:
    """The position of a key.

    Raises:
        CommandError: It is not there.
    """
    places = np.flatnonzero(keys.arrays[0] == key)
    if not len(places):
        raise CommandError(f"{what} is {key}, which is none of the keys")
    return int(places[0])


def _without_guard(model: ModelProto, graph: GraphProto, ids: str) -> str:
    """Ids before negative ones were put out of range: keys may be negative."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    producers = {output: node for node in graph.node for output in node.output}
    where = producers.get(ids)
    negative = producers.get(where.input[0]) if where is not None and where.op_type == "Where" else None
    if where is None or negative is None or negative.op_type != "Less" or negative.input[0] != where.input[2]:
        return ids
    zero, lowest = (constants.get(n) for n in (negative.input[1], where.input[1]))
    if zero is None or lowest is None or array_of(zero).reshape(-1).tolist() != [0]:
        return ids
    value = array_of(lowest)
    return str(where.input[2]) if value.size == 1 and int(value.reshape(())) == np.iinfo(value.dtype).min else ids
