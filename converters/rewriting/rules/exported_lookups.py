"""Rows that are reduced by segment, and whether they are looked up in a table."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import NodeProto, TensorProto

from onnx_sparse.converters.rewriting.dropping import are_not_negative
from onnx_sparse.converters.rewriting.entries import is_row_gather, spread
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rules.lookups import DirectLookup, WeightedMean
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.models.graphs import attribute
from onnx_sparse.schemas.declaration import INDEX, NUMBERS, DType


@dataclass(frozen=True)
class Lookup:
    """Rows of a table, each perhaps multiplied by a weight.

    Attributes:
        table: The table.
        indices: The row of it that each row is, a vector; negative ones count from the end.
        weights: The weight of each row, a vector.
    """

    table: str
    indices: str
    weights: str | None = None

    @classmethod
    def of(cls, graph: Graph, rows: str, *, used_once: bool = True) -> Lookup | None:
        """The lookup that rows come from.

        Args:
            graph: The graph.
            rows: The rows.
            used_once: Whether rows that are used elsewhere as well are as good as none, as they are made anyway.

        Returns:
            The lookup; None if the rows come from anything else.
        """
        found = _gathered(graph, rows)
        if found is not None:
            return cls(*found) if not used_once or _is_used_once(graph, rows) else None
        product = graph.producer(rows, "Mul")
        if product is None or graph.dtype(rows) not in (TensorProto.FLOAT, TensorProto.DOUBLE):
            return None
        for side, other in zip(product.input, reversed(product.input), strict=True):
            found, weights = _gathered(graph, side), spread(graph, other)
            has_weights = graph.rank(weights) == 1 and (weights != other or graph.rank(rows) == 1)
            is_sole = not used_once or all(_is_used_once(graph, name) for name in (rows, side))
            if found is not None and has_weights and is_sole:
                return cls(*found, None if graph.uniform(weights) == 1 else weights)
        return None

    def summed(self, graph: Graph, emit: Emitter, ids: Tensor, count: Tensor) -> Tensor:
        """The sum of each segment's rows. An id outside [0, count) is an error."""
        is_narrow = {graph.dtype(self.indices), ids.dtype} == {TensorProto.INT32}
        dtype = TensorProto.INT32 if is_narrow else TensorProto.INT64
        segments = {"segment_ids": emit.cast(ids, dtype), "num_segments": emit.cast(count, dtype)}
        inputs = {**self.inputs(graph, emit, dtype), **segments}
        return emit.domain_op("EmbeddingSegmentsSum", inputs, {"segment_ids_order": "any"})[0]

    def inputs(self, graph: Graph, emit: Emitter, dtype: DType) -> dict[str, Tensor | None]:
        """The inputs of an operator that looks the rows up, with indices of a type."""
        table, indices = graph.tensor(self.table), graph.tensor(self.indices)
        return {
            "emb_table": table,
            "indices": emit.cast(counted_from_the_front(graph, emit, indices, first_size(emit, table)), dtype),
            "per_sample_weights": None if self.weights is None else one_per_row(graph, emit, self.weights, indices),
        }


def first_size(emit: Emitter, tensor: Tensor) -> Tensor:
    """The size of the first dimension, an int64 scalar; a constant where it is known."""
    if tensor.shape and tensor.shape[0] is not None:
        return emit.constant(tensor.shape[0])
    return emit.op("Gather", emit.shape_of(tensor), emit.constant(0), shape=(), axis=0)


def one_per_row(graph: Graph, emit: Emitter, weights: str, indices: Tensor) -> Tensor:
    """The weights, expanded if they may be a single one, which a product of rows and weights broadcasts."""
    vector = graph.tensor(weights)
    if graph.same_size(weights, 0, indices.name, 0):
        return vector
    return emit.op("Expand", vector, emit.shape_of(indices), shape=indices.shape)


def counted_from_the_front(graph: Graph, emit: Emitter, ids: Tensor, size: Tensor) -> Tensor:
    """Ids of which negative ones, which ONNX counts from the end, are counted from the front.

    One that is still out of range stays so, and is an error in the operators that look rows up.
    """
    unique = graph.producer(graph.without_casts(ids.name), "Unique")
    is_position = unique is not None and graph.without_casts(ids.name) in unique.output[1:3]
    is_known = ids.value is not None and bool((ids.value >= 0).all())
    if is_position or is_known or are_not_negative(graph, ids.name):
        return ids
    negative = emit.op("Less", ids, emit.like(0, ids), shape=ids.shape)
    moved = emit.op("Add", ids, emit.cast(size, ids.dtype), shape=ids.shape)
    return emit.op("Where", negative, moved, ids, shape=ids.shape)


def before_counting(graph: Graph, name: str) -> str:
    """The ids that `counted_from_the_front` was given, if it made these; any other tensor itself."""
    where = graph.producer(graph.without_casts(name), "Where")
    negative = graph.producer(where.input[0], "Less") if where is not None else None
    moved = graph.producer(where.input[1], "Add") if where is not None else None
    if where is None or negative is None or moved is None or graph.integers(negative.input[1]) != [0]:
        return name
    return where.input[2] if where.input[2] == negative.input[0] == moved.input[0] else name


class LookupOfUniqueRows(DirectLookup):
    """Rows of unique ids that are picked by position become rows of the ids. Equal; see `DirectLookup`."""

    def rewrite(self, graph: Graph, node: NodeProto, unique: NodeProto, rows: NodeProto) -> None:
        """Take the rows from the table itself, also those of ids that count from the end."""
        super().rewrite(graph, node, unique, rows)
        if node.op_type != "Gather":
            emit, ids = graph.emitter(node), graph.tensor(node.input[1])
            size = first_size(emit, graph.tensor(node.input[0]))
            graph.set_input(node, 1, counted_from_the_front(graph, emit, ids, size).name)


class WeightedMeanOfRows(WeightedMean):
    """A weighted sum divided by the weights' sum, or the root of that of their squares, becomes the weighted mean.

    Equal up to the rounding of the sums.
    """

    sums = "UnsortedSegmentSum"


def _gathered(graph: Graph, name: str) -> tuple[str, str] | None:
    """The table and the vector of indices that rows are gathered from."""
    node = graph.producer(name, "Gather", "GatherND")
    if node is not None and node.op_type == "GatherND":
        column = graph.producer(node.input[1], "Unsqueeze")
        is_column = column is not None and graph.rank(column.input[0]) == 1 and graph.rank(column.output[0]) == 2
        last = (graph.shape(node.input[1]) or (0,))[-1]
        if column is None or not is_column or last != 1 or attribute(node, "batch_dims", 0) != 0:
            return None
        table, indices = node.input[0], column.input[0]
    elif is_row_gather(node):
        table, indices = node.input
    else:
        return None
    is_lookup = graph.rank(indices) == 1 and graph.dtype(indices) in INDEX and graph.dtype(table) in NUMBERS
    return (table, indices) if is_lookup else None


def _is_used_once(graph: Graph, name: str) -> bool:
    """Whether a tensor has one user, others than those that ask for its shape."""
    users = [node for node in graph.users(name) if node.op_type != "Shape"]
    return len(users) == 1 and name not in graph.outputs
