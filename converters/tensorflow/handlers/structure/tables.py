"""tf.raw_ops.LookupTableFindV2, LookupTableSizeV2, and what fills lookup tables."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Array, Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import GraphNode, structure
from onnx_sparse.converters.tensorflow.importing.context import Context
from onnx_sparse.converters.tensorflow.importing.emitter import TensorFlowEmitter
from onnx_sparse.converters.tensorflow.importing.values import Resource, Table, Value
from onnx_sparse.converters.tensorflow.reading.effects import last_change
from onnx_sparse.converters.tensorflow.reading.element_types import ONNX_TYPES, onnx_type, type_name
from onnx_sparse.converters.tensorflow.reading.given_tables import shared_name
from onnx_sparse.converters.tensorflow.reading.key_files import HASH_KEYED, KEY_FILES, keys_and_rows
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.scopes import Origin, Scope
from onnx_sparse.converters.tensorflow.reading.tensor_values import array_of, shape_of
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter
from onnx_sparse.converters.writing.lowering.keyed_lookup import joined
from onnx_sparse.files.guarded_files import read_file
from onnx_sparse.schemas.declaration import numpy_dtype

#: Operators that fill a table with keys and values.
_FILLED_BY = frozenset(
    {"InitializeTableV2", "InitializeTable", "LookupTableImportV2", "LookupTableImport"}
    | {"TFRA>CuckooHashTableImport", "TFRA>HkvHashTableImport"}
)
#: Tables that are saved with all their buckets; their first inputs are the keys of empty ones.
_OF_BUCKETS = frozenset({"MutableDenseHashTable", "MutableDenseHashTableV2", "AnonymousMutableDenseHashTable"})
_FILLED_BY_FILE = frozenset({"InitializeTableFromTextFileV2", "InitializeTableFromTextFile"})

#: What is taken of a line of a file: all of it, or its number.
_WHOLE_LINE, _LINE_NUMBER = -2, -1
#: The bytes and lines of the largest asset.
_MOST_ASSET, _MOST_LINES = 1 << 30, 1 << 26

_NOT_THERE = (
    "the contents of the table are not in the graph; give its keys and values (--lookup-table NAME=FILE, or "
    "lookup_tables in Python), or convert the SavedModel that it comes from"
)
_NO_FILES = (
    "the keys and rows of the table are neither in the checkpoint of the model nor in its folder "
    f"{KEY_FILES.as_posix()}; copy them there if they were saved elsewhere (TFRA_SAVED_KV, save_path)"
)


@structure("LookupTableFindV2", "LookupTableFind")
def lookup_table_find(node: GraphNode, emit: TensorFlowEmitter) -> Value:
    """The value of each key."""
    table, keys, default = looked_up_by(node)
    return table.looked_up(emit, keys, default)


def looked_up_by(node: GraphNode) -> tuple[Table, Tensor, Tensor]:
    """The table in which a node looks up keys, the keys, and what is the value of others.

    Raises:
        Unsupported: They are not known, or not constant.
    """
    handle, keys, default = node.values()[:3]
    if not isinstance(keys, Tensor) or not isinstance(default, Tensor):
        raise Unsupported("its keys are not a tensor")
    refuse_changed(node.context, node.scope, node, handle)
    node.begin()
    table = table_of(node.context, handle)
    if table is None:
        is_keyed = isinstance(handle, Resource) and handle.node.op in HASH_KEYED
        raise Unsupported(_NO_FILES if is_keyed else _NOT_THERE)
    return table, keys, default


@structure("LookupTableSizeV2", "LookupTableSize")
def lookup_table_size(node: GraphNode, emit: InferringEmitter) -> Value:
    """The number of keys."""
    (handle,) = node.values()
    table = table_of(node.context, handle)
    if table is None:
        raise Unsupported("the contents of the table are not in the model")
    return emit.constant(len(table))


@structure("LookupTableExportV2", "LookupTableExport")
def lookup_table_export(node: GraphNode, emit: InferringEmitter) -> tuple[Value, ...]:
    """The keys and values, in the order of the file: TensorFlow's order depends on its hash function."""
    (handle,) = node.values()
    refuse_changed(node.context, node.scope, node, handle)
    table = table_of(node.context, handle)
    if table is None:
        raise Unsupported(_NOT_THERE)
    if isinstance(handle, Resource) and handle.node.op in _OF_BUCKETS:
        raise Unsupported("it exports the buckets of a DenseHashTable, the empty ones too, in TensorFlow's order")
    return emit.constant(table.keys), emit.constant(np.concatenate(table.parts))


def refuse_changed(context: Context, scope: Scope, node: NodeDef, handle: Value) -> None:
    """Refuse to read a table that a call of the model changes.

    Raises:
        Unsupported: It does.
    """
    if not isinstance(handle, Resource):
        return
    table = Origin(handle.scope, handle.node.name, 0)
    change = last_change(scope, node, table) or context.variables.changed_by(table)
    if change is not None:
        raise Unsupported(f"{change} changes its table; a table that is a state is not converted")


def table_of(context: Context, handle: Value) -> Table | None:
    """The keys and values of a table; None if they are not known.

    Raises:
        Unsupported: It is no table, or what fills it cannot be read.
    """
    if not isinstance(handle, Resource):
        raise Unsupported("it looks up keys in something other than a table")
    node = handle.node
    shared = shared_name(node)
    if context.tables is None:
        context.tables = dict(_fillings(context))
    known = shared or (id(handle.scope), node.name)
    if isinstance(context.tables.get(known), Table):
        made: Table = context.tables[known]
        return made
    filling = context.tables.get(node.name) or context.tables.get(shared)
    if node.name in context.model.lookup_tables and handle.scope.whole is context.model.graph:
        parts = [context.model.lookup_tables[node.name]]
    elif filling is not None:
        scope, filler = filling
        read = _from_file if filler.op in _FILLED_BY_FILE else _from_constants
        parts = [read(context, scope, filler, node)]
    elif node.op in HASH_KEYED:
        parts = keys_and_rows(context.model, node) or context.model.variables.keys_and_rows(node)
    else:
        parts = []
    if not parts:
        return None
    for keys, values in parts:
        if len(keys) != len(values):
            raise Unsupported(f"the table {node.name} has {len(keys)} keys and {len(values)} values")
    if node.op in _OF_BUCKETS:
        parts = [_held(context, handle, *part) for part in parts]
    keys = joined([keys for keys, _ in parts])
    context.tables[known] = made = Table(context.frame.emit, keys, *(values for _, values in parts), name=node.name)
    return made


def _fillings(context: Context) -> dict[str, Any]:
    """The nodes that fill tables with what is known, with their scopes, by the table's node and its shared name."""
    found: dict[str, Any] = {}
    for scope, node in context.model.graph.every():
        if node.op not in _FILLED_BY | _FILLED_BY_FILE:
            continue
        try:
            table = scope.origins(node)[0]
        except Unsupported:
            continue
        if isinstance(table, Origin):
            maker = table.scope.nodes[table.node]
            names = [maker.name] if table.scope is context.model.graph else []
            names += [name for name in (shared_name(maker),) if name]
            for name in names:
                found.setdefault(name, (scope, node))
    return found


def _from_constants(context: Context, scope: Scope, filler: NodeDef, table: Any) -> tuple[Array, Array]:
    _, *origins = scope.origins(filler)
    if len(origins) != 2:
        raise Unsupported(f"{filler.name} does not fill the table with keys and values")
    return _array(context, origins[0], filler), _array(context, origins[1], filler)


def _held(context: Context, table: Resource, keys: Array, values: Array) -> tuple[Array, Array]:
    """The keys and values in the buckets of a dense table, of which some are empty, or were emptied again."""
    shape = shape_of(table.node.attr["value_shape"].shape) or ()
    keys, values = keys.reshape(len(keys), math.prod(keys.shape[1:])), values.reshape(len(values), *shape)
    if keys.shape[1] != 1:
        raise Unsupported("a DenseHashTable whose keys are vectors is not supported")
    is_held = np.ones(len(keys), bool)
    for origin in table.scope.origins(table.node)[:2]:
        is_held &= keys[:, 0] != _array(context, origin, table.node).reshape(())
    return keys[is_held, 0], values[is_held]


def _array(context: Context, origin: Any, filler: NodeDef) -> Array:
    """The value of a tensor that depends on no input."""
    if isinstance(origin, Origin):
        node = origin.scope.nodes[origin.node]
        if node.op == "Const":
            return np.array(array_of(node.attr["value"].tensor))
        if node.op == "RestoreV2":
            return context.model.variables.restored(origin)
    return np.asarray(context.computed(origin, f"what {filler.name} fills the table with"))


def _from_file(context: Context, scope: Scope, filler: NodeDef, table: Any) -> tuple[Array, Array]:
    """The keys and values in the lines of an asset."""
    path = _asset(context, scope.origins(filler)[1])
    try:
        content = read_file(path, context.model.folder, _MOST_ASSET)
    except OSError as error:
        raise Unsupported(f"the asset {path} cannot be read: {error.strerror}") from error
    if (count := content.count(b"\n")) > _MOST_LINES:
        raise Unsupported(f"the asset {path} has {count} lines; up to {_MOST_LINES} are read")
    lines = content.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    attributes = filler.attr
    lines = lines[int(attributes["offset"].i) if "offset" in attributes else 0 :]
    size = int(attributes["vocab_size"].i) if "vocab_size" in attributes else -1
    if size >= 0:
        if size > len(lines):
            raise Unsupported(f"{path.name} has {len(lines)} lines; vocab_size is {size}")
        lines = lines[:size]
    delimiter = attributes["delimiter"].s if "delimiter" in attributes else b"\t"
    columns = []
    for key in ("key", "value"):
        index = int(attributes[f"{key}_index"].i)
        columns.append(_column(lines, index, delimiter, int(table.attr[f"{key}_dtype"].type), path.name))
    return columns[0], columns[1]


def _asset(context: Context, origin: Any) -> Path:
    """The asset that a tensor names, which may go through a variable."""
    graph = context.model.graph
    for _ in range(2):  # the variable, and what it is assigned
        if not isinstance(origin, Origin) or origin.scope is not graph:
            break
        node = graph.nodes[origin.node]
        if node.name in context.model.assets:
            return context.model.assets[node.name]
        if node.op == "Const":
            named = array_of(node.attr["value"].tensor).reshape(-1)[:1]
            raise Unsupported(f"the file that fills the table, {named}, is not an asset of the model")
        if node.op != "ReadVariableOp":
            break
        (handle,) = graph.origins(node)
        assigned = [
            graph.origins(other)[1]
            for other in graph.nodes.values()
            if other.op == "AssignVariableOp" and graph.origins(other)[0] == handle
        ]
        if len(assigned) != 1:
            break
        (origin,) = assigned
    raise Unsupported("the name of the file that fills the table is not known")


def _column(lines: list[bytes], index: int, delimiter: bytes, number: int, file: str) -> Array:
    if index == _LINE_NUMBER:
        return np.arange(len(lines)).astype(numpy_dtype(onnx_type(number)))
    texts = lines
    if index != _WHOLE_LINE:
        texts = [parts[index] if index < len(parts := line.split(delimiter)) else b"" for line in lines]
    if ONNX_TYPES.get(number) == TensorProto.STRING:
        array = np.empty(len(texts), object)
        array[:] = texts
        return array
    try:
        return np.array([_NUMBER[numpy_dtype(onnx_type(number)).kind](text) for text in texts]).astype(
            numpy_dtype(onnx_type(number))
        )
    except (ValueError, KeyError, OverflowError):
        raise Unsupported(f"{file} has a line without a {type_name(number)}") from None


_NUMBER: dict[str, Any] = {"i": int, "f": float}
