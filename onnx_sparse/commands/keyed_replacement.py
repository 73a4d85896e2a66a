"""Tables that are replaced by keys and rows: HugeCTR's folders, .npz and Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_sparse.errors import CommandError, printable
from onnx_sparse.files.guarded_files import open_file

if TYPE_CHECKING:
    import numpy as np
    from onnx import GraphProto, ModelProto, NodeProto

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
    import numpy as np

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
    import numpy as np
    import pyarrow.parquet as pq

    with open_file(path) as file:
        try:
            table = pq.read_table(file)
            found: dict[str, Array] = {}
            for name in table.column_names:
                column = table[name].combine_chunks()
                if name == "values" and hasattr(column, "flatten") and not column.null_count:
                    width = len(column[0]) if len(column) else 0
                    flat = np.asarray(column.flatten())
                    if len(flat) != width * len(column):
                        raise CommandError(f"{path}: the rows have different numbers of values")
                    found[name] = flat.reshape(len(column), width)
                else:
                    found[name] = np.asarray(column)
        except CommandError:
            raise
        except Exception as error:  # Arrow raises whatever its parsers raise
            raise CommandError(f"{path} cannot be read: {error}") from error
    return found


def replace_by_keys(source: Path, path: Path, given: Mapping[str, Path]) -> None:
    """Write a model in which tables have other rows, which are found by keys.

    Args:
        source: The model.
        path: What to write, which may be the model itself.
        given: The files or folders of keys and rows, by the tables that they replace.

    Raises:
        CommandError: A file cannot be read, or is none for its table.
    """
    from onnx_sparse.commands.embedding_tables import tables_of
    from onnx_sparse.files.new_file import check_writable, state_of
    from onnx_sparse.models.load_and_save import load_model, save_model
    from onnx_sparse.models.model_files import WRITTEN_SUFFIXES
    from onnx_sparse.models.references import holding_arrays

    in_place = path.exists() and path.samefile(source)
    state = state_of(source)
    load_model(source)  # first its faults, then those of the paths
    check_writable(path, *(() if in_place else WRITTEN_SUFFIXES), keep=list(given.values()))
    with holding_arrays():
        is_external = any(tensor.external_data for tensor in load_model(source).graph.initializer)
        model = load_model(source, external_data=True)
        tables = [table.tensor.name for table in tables_of(model)]
        for name, file in given.items():
            if name not in tables:
                there = ", ".join(map(printable, tables)) or "none"
                raise CommandError(f"{source} has no table {printable(name)}; its tables are {there}")
            _put(model, name, file)
        save_model(model, path, external=is_external or None, made_from=state if in_place else None)


def _put(model: ModelProto, name: str, source: Path) -> None:
    """Let a table of a model have other rows, which are found by keys, in place. Absent keys give a row of zeros.

    Raises:
        CommandError: The rows are none for the table, a key is there twice, or something else than lookups of integers
            reads the table.
    """
    import numpy as np

    from onnx_sparse.keyed_tables import key_index
    from onnx_sparse.models.arrays_on_disk import empty_array, row_ranges
    from onnx_sparse.models.references import tensor_of
    from onnx_sparse.schemas.declaration import numpy_dtype
    from onnx_sparse.schemas.validation import KernelError

    keys, rows = read_keyed(source)
    tensor = next(t for t in model.graph.initializer if t.name == name)
    dtype = numpy_dtype(tensor.data_type)
    if len(tensor.dims) != 2 or tensor.dims[1] != rows.shape[1] or dtype != rows.dtype:
        raise CommandError(
            f"{source}: rows are {rows.dtype}[n, {rows.shape[1]}], and the table {printable(name)} is "
            f"{dtype}{list(tensor.dims)}"
        )
    lookups = list(_lookups(model, name))
    try:
        index = key_index(keys)
    except KernelError as error:
        raise CommandError(f"{source}: {error}") from None
    table = empty_array((len(rows) + 1, rows.shape[1]), dtype)
    table[0] = 0
    for some in row_ranges(rows):
        table[some.start + 1 : some.stop + 1] = rows[some]
    for graph, node, place in lookups:
        _find(model, graph, node, place, name, keys.dtype)
    held = {name: table, f"{name}.keys": keys, f"{name}.index": index}
    kept = [t for t in model.graph.initializer if t.name not in held]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    model.graph.initializer.extend(tensor_of(np.asanyarray(held[n]), n) for n in (*list(held)[1:], name))


def _lookups(model: ModelProto, name: str) -> Iterator[tuple[GraphProto, NodeProto, int]]:
    """The nodes that look rows of a table up, their graphs, and which of their inputs are row numbers.

    Raises:
        CommandError: Something else reads the table.
    """
    from onnx_sparse.models.graphs import attribute, graphs
    from onnx_sparse.schemas import DOMAIN, OPS

    for graph in graphs(model.graph):
        if name in (value.name for value in (*graph.input, *graph.output)):
            raise CommandError(f"{printable(name)} is an input or an output of the model")
        for node in graph.node:
            if name not in node.input:
                continue
            declared = [i.name for i in OPS[node.op_type].inputs] if node.domain == DOMAIN else ["emb_table", "indices"]
            is_lookup = node.domain == DOMAIN or (node.op_type == "Gather" and attribute(node, "axis", 0) == 0)
            is_table = [n for n, i in zip(declared, node.input, strict=False) if i == name] == ["emb_table"]
            if not is_lookup or not is_table or "indices" not in declared:
                raise CommandError(
                    f"{printable(node.op_type)} {printable(node.name)} does not look up rows of {printable(name)}; "
                    "a table is replaced by keys where it is only looked up"
                )
            yield graph, node, declared.index("indices")


def _find(model: ModelProto, graph: GraphProto, lookup: NodeProto, place: int, name: str, dtype: Any) -> None:
    """Let a lookup take the positions of its ids among the keys, in place; one that does already stays."""
    from onnx import helper

    from onnx_sparse.models.graphs import names_of
    from onnx_sparse.schemas import DOMAIN, OPSET_VERSION

    ids = _without_guard(model, graph, lookup.input[place])
    producers = {output: node for node in graph.node for output in node.output}
    found = producers.get(ids)
    while found is not None and found.op_type in ("Add", "CastLike", "Cast"):
        found = producers.get(found.input[0])
    if found is not None and found.op_type == "FindKeys" and found.input[0] == f"{name}.keys":
        return
    fresh = names_of(model).fresh
    wide, position, row, given = (fresh(f"{name}.{what}") for what in ("ids", "position", "row", "row_of_type"))
    one = fresh(f"{name}.one")
    nodes = [
        helper.make_node("Constant", [], [one], name=one, value_int=1),
        helper.make_node("Cast", [ids], [wide], name=wide, to=helper.np_dtype_to_tensor_dtype(dtype)),
        helper.make_node("FindKeys", [f"{name}.keys", f"{name}.index", wide], [position], name=position, domain=DOMAIN),
        helper.make_node("Add", [position, one], [row], name=row),
        helper.make_node("CastLike", [row, ids], [given], name=given),
    ]
    lookup.input[place] = given
    at = next(k for k, node in enumerate(graph.node) if node is lookup)
    following = list(graph.node)[at:]
    del graph.node[at:]
    graph.node.extend([*nodes, *following])
    if not any(entry.domain == DOMAIN for entry in model.opset_import):
        model.opset_import.add(domain=DOMAIN, version=OPSET_VERSION)


def _without_guard(model: ModelProto, graph: GraphProto, ids: str) -> str:
    """Ids before negative ones were put out of range: keys may be negative."""
    import numpy as np

    from onnx_sparse.models.graphs import array_of

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
