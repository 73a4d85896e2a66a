"""Embeddings that are keyed by hashes: the tables of TensorFlow Recommenders Addons (tfra.dynamic_embedding)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Array, Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import GraphNode, structure
from onnx_sparse.converters.tensorflow.handlers.structure.constants import resource
from onnx_sparse.converters.tensorflow.handlers.structure.tables import looked_up_by, lookup_table_size
from onnx_sparse.converters.tensorflow.importing.context import Context
from onnx_sparse.converters.tensorflow.importing.derived_tables import ELEMENTWISE
from onnx_sparse.converters.tensorflow.importing.emitter import TensorFlowEmitter
from onnx_sparse.converters.tensorflow.importing.makers import Makers
from onnx_sparse.converters.tensorflow.importing.values import Table, Value
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.scopes import Origin, Scope
from onnx_sparse.converters.writing.lowering.keyed_lookup import joined
from onnx_sparse.converters.writing.lowering.partitioning import dynamic_stitch
from onnx_sparse.models.data.arrays_on_disk import row_ranges

_KINDS = ("TFRA>CuckooHashTable", "TFRA>HkvHashTable")
_FINDS = tuple(f"{name}Find{what}" for name in _KINDS for what in ("", "WithExists"))
#: What decides by a key alone in which part of a table it is, besides what computes each element from one.
_HASHES = frozenset({"BitwiseAnd", "StringToHashBucketFast"})

structure(
    *(f"{name}OfTensors" for name in _KINDS),
    ignored=("value_shape", "init_size", "init_capacity", "max_capacity", "max_hbm_for_vectors"),
)(resource)
structure(*(f"{name}Size" for name in _KINDS))(lookup_table_size)


@structure(*(f"{name}Find" for name in _KINDS))
def find(node: GraphNode, emit: TensorFlowEmitter) -> Value:
    """The row of each key; that of the default for a key that is not in the table."""
    return _found(node, emit)[0]


@structure(*(f"{name}FindWithExists" for name in _KINDS))
def find_with_exists(node: GraphNode, emit: TensorFlowEmitter) -> tuple[Value, ...]:
    """The row of each key, and whether the key is in the table."""
    rows, places = _found(node, emit)
    return rows, _are_there(emit, places)


def _found(node: GraphNode, emit: TensorFlowEmitter) -> tuple[Tensor, Tensor]:
    """The rows, and the positions of the keys in the table."""
    table, keys, default = looked_up_by(node)
    if len(table.shape) != 1:
        raise Unsupported(f"the table has values of shape {list(table.shape)}, which are not rows")
    places = table.positions(emit, keys)
    row = row_of_absent_keys(node, emit, default, table.shape[0])
    if row is not None:
        return table.rows_at(emit, places, row), places
    return rows_or_defaults(emit, table, places, default), places


def _are_there(emit: TensorFlowEmitter, places: Tensor) -> Tensor:
    return emit.op("GreaterOrEqual", places, emit.constant(0), shape=places.shape)


def row_of_absent_keys(node: GraphNode, emit: TensorFlowEmitter, default: Tensor, width: int) -> Tensor | None:
    """The row of all keys that are not in the table; None if each has its own."""
    if default.shape not in ((width,), (1, width)):
        makers, origin = Makers(node.context), node.origins()[2]
        if makers.node(origin, "Fill") is None:  # as initializers of constants write it
            return None
        (default,) = node.context.tensors([makers.inputs(origin)[1]])
    if default.value is not None:
        return emit.constant(np.broadcast_to(default.value.reshape(-1), (width,)).copy(), default.dtype)
    return emit.op("Expand", emit.op("Reshape", default, emit.constant([-1])), emit.constant([width]), shape=(width,))


def rows_or_defaults(emit: TensorFlowEmitter, table: Table, places: Tensor, default: Tensor) -> Tensor:
    """The rows at some positions, and the default's row of the same key where there is none.

    A default with another number of rows than there are keys gives its first row to all.
    """
    (width,) = table.shape
    none = emit.op("Expand", emit.like(0, default), emit.constant([width]), shape=(width,))
    rows = table.rows_at(emit, places, none)
    each = emit.op("Reshape", default, emit.constant([-1, width]))
    count = emit.op("Size", places)
    has_each = emit.cast(emit.op("Equal", emit.size(each, 0), count), TensorProto.INT64)
    place = emit.op("Mul", emit.op("Range", emit.constant(0), count, emit.constant(1)), has_each)
    sizes = emit.op("Concat", emit.shape_of(places), emit.constant([width]), axis=0)
    given = emit.op("Reshape", emit.op("Gather", each, place, axis=0), sizes)
    is_there = emit.op("Unsqueeze", _are_there(emit, places), emit.constant([-1]))
    return emit.op("Where", is_there, rows, given, shape=rows.shape)


@dataclass(frozen=True)
class _Shards:
    """A lookup of keys in the parts of a table, each in the part that a function of the key says.

    Attributes:
        finds: The lookups, by part.
        keys: The keys before they were partitioned.
        part: The part of each key.
        output: Which output of the lookups is put together.
    """

    finds: Sequence[Origin]
    keys: Origin
    part: Origin
    output: int


def _shards(context: Context, scope: Scope, node: NodeDef) -> _Shards | None:
    """The lookups whose results a node puts together; None if it puts anything else together.

    The pattern is `stitch(partition(range(size(keys)), part), [find(table_k, partition(keys, part)[k], default_k)])`.
    """
    makers, given = Makers(context), scope.origins(node)
    places, finds = given[: len(given) // 2], given[len(given) // 2 :]
    if any(makers.node(found, *_FINDS) is None for found in finds) or len({found.output for found in finds}) != 1:
        return None
    place, keys = (_partition(makers, parts) for parts in (places, [makers.inputs(found)[1] for found in finds]))
    if place is None or keys is None or makers.inputs(place)[1] != makers.inputs(keys)[1]:
        return None
    numbers, (of, part) = makers.inputs(place)[0], makers.inputs(keys)
    limits = makers.inputs(numbers) if makers.node(numbers, "Range") is not None else []
    if len(limits) != 3 or (makers.number(limits[0]), makers.number(limits[2])) != (0, 1):
        return None
    return _Shards(finds, of, part, finds[0].output) if _is_count(makers, limits[1], of) else None


def _partition(makers: Makers, parts: Sequence[Any]) -> Origin | None:
    """The node whose outputs, in order, are the given tensors, and which partitions a tensor."""
    first = parts[0]
    node = makers.node(first, "TFRA>DynamicPartition", "DynamicPartition")
    if node is None or node.attr["num_partitions"].i != len(parts):
        return None
    return first if list(parts) == [Origin(first.scope, first.node, k) for k in range(len(parts))] else None


def _is_count(makers: Makers, size: Any, of: Any) -> bool:
    """Whether a tensor is `tf.shape(of)[0]`."""
    sliced = makers.node(size, "StridedSlice")
    if sliced is None or sliced.attr["shrink_axis_mask"].i != 1:
        return False
    shape, *ends = makers.inputs(size)
    constants = [makers.constant(end) for end in ends]
    if any(found is None or found.reshape(-1).tolist() != [k] for found, k in zip(constants, (0, 1, 1), strict=True)):
        return False
    return makers.node(shape, "Shape") is not None and makers.inputs(shape) == [of]


def _read_by_stitch(context: Context, scope: Scope, node: NodeDef) -> list[Any]:
    shards = _shards(context, scope, node)
    return scope.origins(node) if shards is None else [shards.keys]


@structure(
    *("TFRA>DynamicStitch", "TFRA>ParallelDynamicStitch", "TFRA>DynamicStitchFast"),
    reads=_read_by_stitch,
)
def stitch(node: GraphNode, emit: TensorFlowEmitter) -> Value:
    """The slices of several tensors, each at its place; rows of the parts of a table are looked up in one table."""
    shards = _shards(node.context, node.scope, node)
    whole = None if shards is None else _whole(node, shards, emit)
    if shards is None or whole is None:
        given = node.tensors()
        return dynamic_stitch(emit, given[: len(given) // 2], given[len(given) // 2 :])
    table, row = whole
    (keys,) = node.context.tensors([shards.keys])
    node.begin()
    places = table.positions(emit, keys)
    return _are_there(emit, places) if shards.output else table.rows_at(emit, places, row)


def _whole(node: GraphNode, shards: _Shards, emit: TensorFlowEmitter) -> tuple[Table, Tensor] | None:
    """The table that the parts make up, and the row of absent keys.

    None if a key is in another part than the one in which it is looked up, or the parts differ in this row.
    """
    tables, rows, bits = [], [], set()
    for found in shards.finds:
        looking = GraphNode(node.context, found.scope, found.scope.nodes[found.node])
        table, _, default = looked_up_by(looking)
        row = row_of_absent_keys(looking, emit, default, table.shape[0])
        if len(table.shape) != 1 or row is None or row.value is None:
            return None
        tables.append(table)
        rows.append(row)
        bits.add(row.value.tobytes())
    if len(bits) > 1:
        return None
    memo = node.context.tables
    assert memo is not None
    known = tuple(map(id, tables))
    if known not in memo:
        is_whole = _are_in_their_parts(node.context, shards, [table.keys for table in tables])
        values = [part for table in tables for part in table.parts]
        keys = joined([table.keys for table in tables])
        memo[known] = Table(node.context.frame.emit, keys, *values, name=tables[0].name) if is_whole else None
    return None if memo[known] is None else (memo[known], rows[0])


def _are_in_their_parts(context: Context, shards: _Shards, keys: Sequence[Array]) -> bool:
    """Whether each part has keys only that are looked up in it."""
    makers = Makers(context)
    nodes = makers.between(
        shards.part,
        lambda tensor: tensor == shards.keys,
        lambda tensor: makers.node(tensor).op in ELEMENTWISE | _HASHES or makers.number(tensor) is not None,
    )
    is_known = nodes is not None and isinstance(shards.keys, Origin)
    call = (
        makers.function(shards.keys, keys[0][:0], [shards.part], nodes[0]) if is_known and nodes is not None else None
    )
    if call is None:
        return False
    for number, part in enumerate(keys):
        for some in row_ranges(part):
            given = np.ascontiguousarray(part[some])
            if given.dtype == object:  # bytes
                given = np.array([text.decode("utf-8", "surrogateescape") for text in given], object)
            (found,) = call(given)
            if (found != number).any():
                return False
    return True
