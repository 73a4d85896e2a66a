"""Rules for rows that are gathered and then reduced by segment, without weights, or only reshaped."""

from __future__ import annotations

import math

from onnx import NodeProto, TensorProto

from onnx_sparse.converters.rewriting.entries import is_row_gather
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.partitions import number_of_segments
from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.declaration import FLOATS, NUMBERS, DType, dtype_name

#: Rows of so many columns are reduced in less time if they are not gathered first, whatever the order of the segments.
_WIDE = 16


class ReducedLookup(Rule[Graph]):
    """Rows of a table that are gathered and then reduced by sorted segments become one EmbeddingSegments node.

    The patterns are `SegmentSum(Gather(table, ids), segment_ids)` and `SegmentMean(Gather(table, ids), segment_ids)`.
    The same rows are reduced in the same order: equal to the bit, up to the 2**24 rows of a mean that float32 can
    count. A mean is that of rows with weights of 1: an unweighted EmbeddingSegmentsMean multiplies short sums by the
    reciprocal of their count, as TensorFlow's SparseSegmentMean does, while SegmentMean divides. A negative id is an
    error, as in TensorFlow; a Gather would count it from the end. The gathered rows, which take as long to write and
    read again as the lookup, are never made, and the table can be quantized.
    """

    name = "reduced-lookup"
    anchors = ("SegmentSum", "SegmentMean")

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A reduction of gathered rows."""
        gather = graph.producer(node.input[0])
        return {"gather": gather} if is_row_gather(gather) else None

    def check(self, graph: Graph, node: NodeProto, gather: NodeProto) -> str | None:
        """The rows must be those of a vector of ids, used for nothing else, and of a type that is looked up."""
        table, ids = gather.input
        rows, dtype = gather.output[0], graph.dtype(table)
        if graph.rank(ids) != 1:
            return "the ids are not a vector"
        if not graph.rank(table):
            return "the rank of the table is not known"
        if dtype not in (FLOATS if OPS[node.op_type].reduction == "mean" else NUMBERS):
            return f"the table is {dtype_name(dtype)}"
        if rows in graph.outputs or len([user for user in graph.users(rows) if user.op_type != "Shape"]) > 1:
            return "the gathered rows are used for something else"
        return self.check_segments(graph, node, table)

    def check_segments(self, graph: Graph, node: NodeProto, table: str) -> str | None:
        """The segments must be all up to the last one with an id."""
        return None if graph.integers(node.input[2]) == [-1] else "the number of segments is given"

    def rewrite(self, graph: Graph, node: NodeProto, gather: NodeProto) -> None:
        """Look up and reduce at once."""
        emit = graph.emitter(node)
        segments = graph.tensor(graph.without_casts(node.input[1]))
        dtype = _type_of_all(graph.tensor(gather.input[1]), segments)
        segments = emit.cast(segments, dtype)
        inputs = _lookup(graph, emit, node, gather, segments, number_of_segments(segments, emit))
        graph.replace(node, _operator(node), [*inputs.values()])


class UnsortedLookup(ReducedLookup):
    """Rows of a table that are gathered and then reduced by segments in any order become one EmbeddingSegments node.

    The patterns are `UnsortedSegmentSum(Gather(table, ids), segment_ids, n)`, and with UnsortedSegmentMean, as graph
    networks collect what their edges bring. The same rows are reduced in the same order: equal to the bit, but for the
    sign of zeros, and as in `ReducedLookup`. Rows with a negative segment id, which these operators drop, go into one
    more segment at the end, which is cut off; an id n, which is an error, is made n + 1, so that it stays one.
    """

    name = "unsorted-lookup"
    anchors = ("UnsortedSegmentSum", "UnsortedSegmentMean")

    def check_segments(self, graph: Graph, node: NodeProto, table: str) -> str | None:
        """There must be one id for each row, and enough columns that what is saved is more than what is added."""
        if graph.rank(node.input[1]) != 1:
            return "the segment ids are not a vector"
        columns = (graph.shape(table) or ())[1:]
        if None in columns or math.prod(size for size in columns if size is not None) < _WIDE:
            return f"it is not known that a row has {_WIDE} elements: narrower ones are reduced as fast when gathered"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, gather: NodeProto) -> None:
        """Look up and reduce at once, with one more segment."""
        emit = graph.emitter(node)
        segments, count = (graph.tensor(graph.without_casts(name)) for name in node.input[1:])
        dtype = _type_of_all(graph.tensor(gather.input[1]), segments)
        segments, count = emit.cast(segments, dtype), emit.cast(count, dtype)
        no_count = emit.op("Less", count, emit.like(0, count), shape=())  # which is an error, and stays one
        more = emit.op("Where", no_count, count, emit.op("Add", count, emit.like(1, count), shape=()), shape=())
        is_count = emit.op("Equal", segments, count, shape=segments.shape)
        is_negative = emit.op("Less", segments, emit.like(0, segments), shape=segments.shape)
        moved = emit.op("Where", is_count, more, segments, shape=segments.shape)
        moved = emit.op("Where", is_negative, count, moved, shape=segments.shape)
        inputs = _lookup(graph, emit, node, gather, moved, more)
        (reduced,) = emit.domain_op(_operator(node), inputs, {"segment_ids_order": "any"})
        first = emit.constant([0])
        end = emit.op("Unsqueeze", emit.cast(count, TensorProto.INT64), first, shape=(1,))
        graph.replace(node, "Slice", [reduced, first, end, first])


class LookupOfColumn(Rule[Graph]):
    """Ids that lose dimensions of size 1 before a lookup, and rows that get them back, keep them.

    `Unsqueeze(Gather(table, Squeeze(ids, axes)), axes)` becomes `Gather(table, ids)`: equal. A model with a matrix of
    ids, one column for each table, has this for every table, and for a few rows these nodes take as long as the
    lookups.
    """

    name = "lookup-of-column"
    anchors = ("Unsqueeze",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """An Unsqueeze of rows that are gathered at ids that were squeezed."""
        gather = graph.producer(node.input[0])
        squeeze = graph.producer(gather.input[1], "Squeeze") if is_row_gather(gather) else None
        return None if squeeze is None else {"gather": gather, "squeeze": squeeze}

    def check(self, graph: Graph, node: NodeProto, gather: NodeProto, squeeze: NodeProto) -> str | None:
        """The dimensions must be the same."""
        ids, rows = graph.rank(squeeze.input[0]), graph.rank(gather.output[0])
        lost = graph.integers(squeeze.input[1]) if len(squeeze.input) == 2 else None
        found = graph.integers(node.input[1])
        if ids is None or rows is None or lost is None or found is None:
            return "it is not known which dimensions the ids lose and the rows get"
        if sorted(axis % ids for axis in lost) != sorted(axis % (rows + len(found)) for axis in found):
            return "the rows get other dimensions than the ids lose"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, gather: NodeProto, squeeze: NodeProto) -> None:
        """Gather at the ids as they were."""
        graph.replace(node, "Gather", [gather.input[0], squeeze.input[0]], axis=0)


def _operator(node: NodeProto) -> str:
    return f"EmbeddingSegments{node.op_type.rpartition('Segment')[2]}"


def _type_of_all(ids: Tensor, segments: Tensor) -> DType:
    """The type of a lookup's indices: int64, unless all are int32 already."""
    is_narrow = ids.dtype == segments.dtype == TensorProto.INT32
    return TensorProto.INT32 if is_narrow else TensorProto.INT64


def _lookup(
    graph: Graph, emit: Emitter, node: NodeProto, gather: NodeProto, segments: Tensor, count: Tensor
) -> dict[str, Tensor]:
    """The inputs of the operator that reduces what a Gather looks up; a mean has weights of 1."""
    table, ids = (graph.tensor(name) for name in gather.input)
    weights = emit.constant([], table.dtype)
    if OPS[node.op_type].reduction == "mean":
        one_each = emit.shape_of(graph.tensor(graph.without_casts(ids.name)))
        weights = emit.op("Expand", emit.constant([1], table.dtype), one_each, shape=ids.shape)
    return {
        "emb_table": table,
        "indices": emit.cast(ids, segments.dtype),
        "segment_ids": segments,
        "num_segments": count,
        "default_index": emit.constant(-1, segments.dtype),
        "per_sample_weights": weights,
    }
