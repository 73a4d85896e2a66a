"""Rules on TensorFlow's graph: a table that a lookup derives from others in every run is derived once, on conversion.

A partitioned table is looked up part by part and the rows are put together again; with max_norm the rows found are
clipped. Both do the same to the same row in every run. Here TensorFlow itself computes the rows with the graph's own
nodes, so partition strategies and norms are not implemented a second time.

A large new table is in a temporary file until it is written into the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.tensorflow.editable_graph import EditableGraph
from onnx_sparse.converters.tensorflow.explanation import Derivation
from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.converters.writing.tensor import Array
from onnx_sparse.models.arrays_on_disk import empty_array

#: How many rows are computed at a time.
_CHUNK = 1 << 18

#: Operators that compute each element from the elements at the same position.
_ELEMENTWISE = {"Add", "AddV2", "Cast", "FloorDiv", "FloorMod", "Greater", "Identity", "Less", "Maximum", "Minimum"}
_ELEMENTWISE |= {"Mul", "OnesLike", "RealDiv", "Select", "SelectV2", "Sqrt", "Square", "Sub"}

_OTHER_ROWS = "the parts hold rows of other ids than 0, 1, ... up to their number of rows"


def derive_tables(graph_def: Any, values: MutableMapping[str, Array], fetched: Collection[str]) -> Derivation:
    """Apply the rules to a graph without variables, in place.

    Args:
        graph_def: The graph.
        values: The values, by node name, of constants whose contents are not in the graph; the new tables are added.
        fetched: The tensors that are fetched from the graph.
    """
    graph = EditableGraph(graph_def, values)
    attempts = [rule.attempt(graph, node) for rule in RULES for node in graph.of_types(*rule.anchors)]
    return Derivation(tuple(filter(None, attempts)), graph.drop_abandoned(fetched))


@dataclass
class _Parts:
    """A lookup in the parts of a table.

    Attributes:
        lookups: The lookup in each part.
        places: The DynamicPartition of the positions; None if there is none.
        rows: The DynamicPartition of the rows that are looked up; None if there is none.
        table: The table whose rows are distributed over the parts, once they are known to make up one.
    """

    lookups: list[Any]
    places: Any
    rows: Any
    table: Array | None = None


class JoinedParts(Rule[EditableGraph]):
    """A lookup in the parts of a table becomes a lookup in one table: equal to the bit.

    The pattern is `stitch(partition(range(size(ids)), part), [gather(table_k, partition(row, part)[k])])`, where part
    and row are computed from each id alone. An id that is in no part is an error before and after.
    """

    name = "joined-parts"
    anchors = ("ParallelDynamicStitch", "DynamicStitch")

    def pattern(self, graph: EditableGraph, node: Any) -> Match | None:
        """A stitch of rows that are gathered."""
        count = len(node.input) // 2
        lookups = [graph.producer(name, "Gather", "GatherV2") for name in node.input[count:]]
        if not all(lookups):
            return None
        rows = _partition(graph, [lookup.input[1] for lookup in lookups])
        return {"parts": _Parts(lookups, _partition(graph, node.input[:count]), rows)}

    def check(self, graph: EditableGraph, node: Any, parts: _Parts) -> str | None:
        """The parts must be constants that together hold the rows 0, 1, ... of one table; `parts` receives it."""
        places, rows = parts.places, parts.rows
        if places is None or rows is None or places.input[1] != rows.input[1]:
            return "the ids looked up in the parts are not partitioned like their positions"
        counted = graph.producer(places.input[0], "Range")
        size = graph.producer(counted.input[1], "Size") if counted is not None else None
        if size is None or (graph.number(counted.input[0]), graph.number(counted.input[2])) != (0, 1):
            return "the rows are not put at the positions of their ids"
        arrays = [array for name in _sources(graph, parts) if (array := graph.constant(name)) is not None]
        if len(arrays) < len(parts.lookups) or len({(array.dtype, array.shape[1:]) for array in arrays}) > 1:
            return "the parts are not constants of one type and width"
        place_of = _place_of(graph, *_ids(graph, parts), places.input[1], rows.input[0])
        if place_of is None:
            return "the part of an id is computed from more than the id"
        parts.table = _joined(arrays, place_of)
        return _OTHER_ROWS if parts.table is None else None

    def rewrite(self, graph: EditableGraph, node: Any, parts: _Parts) -> None:
        """Look up the ids in the one table."""
        assert parts.table is not None
        (ids, dtype), sources = _ids(graph, parts), _sources(graph, parts)
        for reshape in graph.users(node.name):
            unflattened = _unflattened(graph, reshape, ids, parts.table)
            if unflattened is not None:
                graph.become_lookup(reshape, parts.table, sources, unflattened, dtype)
        graph.become_lookup(node, parts.table, sources, ids, dtype)


def _sources(graph: EditableGraph, parts: _Parts) -> list[str]:
    """The tensors in which the parts are looked up."""
    return [name for name in map(graph.looked_up, parts.lookups) if name is not None]


def _ids(graph: EditableGraph, parts: _Parts) -> tuple[str, int]:
    """The ids that are looked up, and TensorFlow's number of their type."""
    counted = graph.producer(parts.places.input[0], "Range")
    size = graph.producer(counted.input[1], "Size")
    return size.input[0].removesuffix(":0"), size.attr["T"].type


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


def _place_of(graph: EditableGraph, ids: str, dtype: int, part: str, row: str) -> Callable[[Array], list[Array]] | None:
    """A function from ids to their parts and their rows in these, as the graph computes them from the ids alone."""
    maker = ids.partition(":")[0]
    nodes = []
    for result in (part, row):
        found, entries = graph.between(result, lambda node: node.name == maker)
        constants = [node for node in found if node.op == "Const"]
        if not entries <= {ids} or any(node.op not in _ELEMENTWISE for node in found if node.op != "Const"):
            return None
        if any(graph.number(constant.name) is None for constant in constants):
            return None
        nodes += found
    call = graph.function(ids, [part, row], nodes)
    kind = require("tensorflow").dtypes.as_dtype(dtype).as_numpy_dtype
    return lambda some: call(some.astype(kind))


def _joined(parts: list[Array], place_of: Callable[[Array], list[Array]]) -> Array | None:
    """The table whose rows are distributed over the parts; None if these hold other rows."""
    sizes = np.array([len(part) for part in parts])
    total = int(sizes.sum())
    margin = 2 * len(parts)
    part, row = place_of(np.concatenate([np.arange(-margin, 0), np.arange(total, total + margin)]))
    if _exist(part, row, sizes).any():
        return None
    table = empty_array((total, *parts[0].shape[1:]), parts[0].dtype)
    for ids in _chunks(total):
        part, row = place_of(ids)
        if not _exist(part, row, sizes).all():
            return None
        for k, rows in enumerate(parts):
            table[ids[part == k]] = rows[row[part == k]]
    return table


def _exist(part: Array, row: Array, sizes: Array) -> Array:
    """Whether the parts have these rows."""
    known = (part >= 0) & (part < len(sizes))
    return known & (row >= 0) & (row < sizes[np.where(known, part, 0)])


class ClippedRows(Rule[EditableGraph]):
    """A lookup whose rows are clipped by norm becomes a lookup in a table of clipped rows: equal to the bit.

    The pattern is `clip_by_norm(Gather(table, unique(ids)))`. A table that is also looked up without max_norm is then
    in the model twice.
    """

    name = "clipped-rows"
    anchors = ("RealDiv",)

    def pattern(self, graph: EditableGraph, node: Any) -> Match | None:
        """A quotient that is computed row by row, with a sum, from the rows of one lookup."""
        nodes, entries = graph.between(node.name, lambda other: other.op in ("Gather", "GatherV2"))
        if len(entries) != 1 or not any(other.op == "Sum" for other in nodes):
            return None
        if not all(_keeps_to_rows(graph, other) for other in nodes):
            return None
        (rows,) = entries
        return {"nodes": nodes, "rows": rows, "lookup": graph.producer(rows, "Gather", "GatherV2")}

    def check(self, graph: EditableGraph, node: Any, nodes: list[Any], lookup: Any, **_: object) -> str | None:
        """The rows must be looked up in a constant by a vector of ids, the norms be those of rows."""
        name = graph.looked_up(lookup)
        table = graph.constant(name) if name is not None else None
        if table is None:
            return "the rows are not from a constant table"
        if graph.producer(lookup.input[1], "Unique") is None:
            return "the ids are not known to be a vector"
        axes = [graph.constant(other.input[1]) for other in nodes if other.op == "Sum"]
        if any(given is None or given.tolist() != list(range(1, table.ndim)) for given in axes):
            return "the norm is not that of a row"
        return None

    def rewrite(self, graph: EditableGraph, node: Any, nodes: list[Any], rows: str, lookup: Any) -> None:
        """Look up the ids in the table of clipped rows."""
        name = graph.looked_up(lookup) or ""
        table = graph.constant(name)
        assert table is not None
        clip = graph.function(rows, [node.name], nodes)
        clipped = empty_array(table.shape, table.dtype)
        for some in _chunks(len(table)):
            clipped[some] = clip(table[some])[0]
        graph.become_lookup(node, clipped, [name], lookup.input[1], lookup.attr["Tindices"].type)


RULES: tuple[Rule[EditableGraph], ...] = (JoinedParts(), ClippedRows())


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
