"""Rules on TensorFlow's graph: a table that a lookup derives from others in every run is derived once, on conversion.

A partitioned table is looked up part by part and the rows are put together again; with max_norm the rows found are
clipped. Both do the same to the same row in every run. Here TensorFlow itself computes the rows with the graph's own
nodes, so partition strategies and norms are not implemented a second time.

The new table takes memory beside its sources: such a conversion peaks at twice their size, any other at their size.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_sparse.converters.tensorflow.editable_graph import EditableGraph
from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.converters.tensorflow.rewriting.rule import Attempt, Declined
from onnx_sparse.converters.tensorflow.source import Array

#: How many rows are computed at a time.
_CHUNK = 1 << 18

#: Operators that compute each element from the elements at the same position.
_ELEMENTWISE = {"Add", "AddV2", "Cast", "FloorDiv", "FloorMod", "Greater", "Identity", "Less", "Maximum", "Minimum"}
_ELEMENTWISE |= {"Mul", "OnesLike", "RealDiv", "Select", "SelectV2", "Sqrt", "Square", "Sub"}

_OTHER_ROWS = "the parts hold rows of other ids than 0, 1, ... up to their number of rows"


@dataclass(frozen=True)
class Derivation:
    """The outcome of the rules.

    Attributes:
        attempts: Where they fired, and where they did not and why.
        nodes: How many nodes that compute something were removed from the graph.
    """

    attempts: tuple[Attempt, ...] = ()
    nodes: int = 0


def derive_tables(graph_def: Any, values: MutableMapping[str, Array], fetched: Collection[str]) -> Derivation:
    """Apply the rules to a graph without variables, in place.

    Args:
        graph_def: The graph.
        values: The values, by node name, of constants whose contents are not in the graph; the new tables are added.
        fetched: The tensors that are fetched from the graph.
    """
    graph = EditableGraph(graph_def, values)
    attempts = []
    for name, anchors, rule in (
        ("joined-parts", ("ParallelDynamicStitch", "DynamicStitch"), _join_parts),
        ("clipped-rows", ("RealDiv",), _clip_rows),
    ):
        for node in graph.of_types(*anchors):
            try:
                if rule(graph, node):
                    attempts.append(Attempt(name, node.name, True))
            except Declined as reason:
                attempts.append(Attempt(name, node.name, False, str(reason)))
    return Derivation(tuple(attempts), graph.drop_abandoned(fetched))


def _join_parts(graph: EditableGraph, node: Any) -> bool:
    """Make a lookup in the parts of a table a lookup in one table: equal to the bit.

    The pattern is `stitch(partition(range(size(ids)), part), [gather(table_k, partition(row, part)[k])])`, where part
    and row are computed from each id alone. An id that is in no part is an error before and after.
    """
    count = len(node.input) // 2
    lookups = [graph.producer(name, "Gather", "GatherV2") for name in node.input[count:]]
    if not all(lookups):
        return False
    places = _partition(graph, node.input[:count])
    rows = _partition(graph, [lookup.input[1] for lookup in lookups])
    if places is None or rows is None or places.input[1] != rows.input[1]:
        raise Declined("the ids looked up in the parts are not partitioned like their positions")
    counted = graph.producer(places.input[0], "Range")
    size = graph.producer(counted.input[1], "Size") if counted is not None else None
    if size is None or (graph.number(counted.input[0]), graph.number(counted.input[2])) != (0, 1):
        raise Declined("the rows are not put at the positions of their ids")
    names = [graph.looked_up(lookup) for lookup in lookups]
    parts = [array for name in names if name is not None and (array := graph.constant(name)) is not None]
    if len(parts) < count or len({(array.dtype, array.shape[1:]) for array in parts}) > 1:
        raise Declined("the parts are not constants of one type and width")
    ids, dtype = size.input[0].removesuffix(":0"), size.attr["T"].type
    table = _joined(parts, _place_of(graph, ids, dtype, places.input[1], rows.input[0]))
    sources = [name for name in names if name is not None]
    for reshape in graph.users(node.name):
        unflattened = _unflattened(graph, reshape, ids, table)
        if unflattened is not None:
            graph.become_lookup(reshape, table, sources, unflattened, dtype)
    graph.become_lookup(node, table, sources, ids, dtype)
    return True


def _partition(graph: EditableGraph, parts: Sequence[str]) -> Any:
    """The DynamicPartition whose outputs, in order, are the given tensors; None if there is none."""
    node = graph.producer(parts[0], "DynamicPartition")
    if node is None or node.attr["num_partitions"].i != len(parts):
        return None
    outputs = [f"{node.name}:{k}" if k else node.name for k in range(len(parts))]
    return node if list(map(graph.resolve, parts)) == outputs else None


def _unflattened(graph: EditableGraph, reshape: Any, ids: str, table: Array) -> str | None:
    """The ids before they were flattened, if `reshape` gives the rows the shape of these ids; else None."""
    flat = graph.producer(ids, "Reshape")
    target = graph.producer(reshape.input[1], "ConcatV2") if reshape.op == "Reshape" else None
    if flat is None or target is None or len(target.input) != 3:
        return None
    shape, width = graph.producer(target.input[0], "Shape"), graph.constant(target.input[1])
    if shape is None or graph.resolve(shape.input[0]) != graph.resolve(flat.input[0]):
        return None
    if width is None or width.tolist() != list(table.shape[1:]):
        return None
    minus_one = graph.constant(flat.input[1])
    is_flat = minus_one is not None and minus_one.tolist() == [-1]
    return str(flat.input[0]) if is_flat else None


def _place_of(graph: EditableGraph, ids: str, dtype: int, part: str, row: str) -> Callable[[Array], list[Array]]:
    """A function from ids to their parts and their rows in these, as the graph computes them."""
    maker = ids.partition(":")[0]
    nodes = []
    for result in (part, row):
        found, entries = graph.between(result, lambda node: node.name == maker)
        constants = [node for node in found if node.op == "Const"]
        if not entries <= {ids} or any(node.op not in _ELEMENTWISE for node in found if node.op != "Const"):
            raise Declined("the part of an id is computed from more than the id")
        if any(graph.number(constant.name) is None for constant in constants):
            raise Declined("the part of an id is computed from more than the id")
        nodes += found
    call = graph.function(ids, [part, row], nodes)
    kind = require("tensorflow").dtypes.as_dtype(dtype).as_numpy_dtype
    return lambda some: call(some.astype(kind))


def _joined(parts: list[Array], place_of: Callable[[Array], list[Array]]) -> Array:
    """The table whose rows are distributed over the parts."""
    sizes = np.array([len(part) for part in parts])
    total = int(sizes.sum())
    margin = 2 * len(parts)
    part, row = place_of(np.concatenate([np.arange(-margin, 0), np.arange(total, total + margin)]))
    if _exist(part, row, sizes).any():
        raise Declined(_OTHER_ROWS)
    table = np.empty((total, *parts[0].shape[1:]), parts[0].dtype)
    for ids in _chunks(total):
        part, row = place_of(ids)
        if not _exist(part, row, sizes).all():
            raise Declined(_OTHER_ROWS)
        for k, rows in enumerate(parts):
            table[ids[part == k]] = rows[row[part == k]]
    return table


def _exist(part: Array, row: Array, sizes: Array) -> Array:
    """Whether the parts have these rows."""
    known = (part >= 0) & (part < len(sizes))
    return known & (row >= 0) & (row < sizes[np.where(known, part, 0)])


def _clip_rows(graph: EditableGraph, node: Any) -> bool:
    """Make a lookup whose rows are clipped by norm a lookup in a table of clipped rows: equal to the bit.

    The pattern is `clip_by_norm(Gather(table, unique(ids)))`. A table that is also looked up without max_norm is then
    in the model twice.
    """
    nodes, entries = graph.between(node.name, lambda other: other.op in ("Gather", "GatherV2"))
    if len(entries) != 1 or not any(other.op == "Sum" for other in nodes):
        return False
    if not all(_keeps_to_rows(graph, other) for other in nodes):
        return False
    lookup = graph.producer(*entries, "Gather", "GatherV2")
    name = graph.looked_up(lookup)
    table = graph.constant(name) if name is not None else None
    if name is None or table is None:
        raise Declined("the rows are not from a constant table")
    if graph.producer(lookup.input[1], "Unique") is None:
        raise Declined("the ids are not known to be a vector")
    axes = [graph.constant(other.input[1]) for other in nodes if other.op == "Sum"]
    if any(given is None or given.tolist() != list(range(1, table.ndim)) for given in axes):
        raise Declined("the norm is not that of a row")
    clip = graph.function(next(iter(entries)), [node.name], nodes)
    clipped = np.concatenate([clip(table[rows])[0] for rows in _chunks(len(table))] or [table])
    graph.become_lookup(node, clipped, [name], lookup.input[1], lookup.attr["Tindices"].type)
    return True


def _keeps_to_rows(graph: EditableGraph, node: Any) -> bool:
    """Whether a node computes each row from that row and from scalars."""
    if node.op == "Const":
        return True
    if node.op == "Sum":
        axes = graph.constant(node.input[1])
        return node.attr["keep_dims"].b and axes is not None and bool((axes > 0).all())
    if node.op == "Fill":  # as ones_like and zeros_like write it
        return graph.producer(node.input[0], "Shape") is not None and graph.number(node.input[1]) is not None
    if node.op == "Shape":
        return True
    return node.op in _ELEMENTWISE and not any(
        graph.producer(name, "Shape") or (graph.producer(name, "Const") and graph.number(name) is None)
        for name in node.input
    )


def _chunks(total: int) -> Iterator[Array]:
    """0, 1, ..., total - 1, in pieces."""
    for begin in range(0, total, _CHUNK):
        yield np.arange(begin, min(begin + _CHUNK, total))
