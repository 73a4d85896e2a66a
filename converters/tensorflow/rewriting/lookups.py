"""Rules that fuse a lookup and its reduction into one EmbeddingSegments node."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto

from onnx_sparse.converters.tensorflow.rewriting.entries import is_row_gather, spread
from onnx_sparse.converters.tensorflow.rewriting.graph import Graph
from onnx_sparse.converters.tensorflow.rewriting.rule import Declined, Rule
from onnx_sparse.schemas import DOMAIN
from onnx_sparse.schemas.declaration import INDEX, dtype_name, numpy_dtype

REDUCTIONS = ("EmbeddingSegmentsSum", "EmbeddingSegmentsMean", "EmbeddingSegmentsSqrtN")


class DirectLookup(Rule):
    """Rows that are gathered once per unique id and then picked by position become rows gathered by id.

    `pick(Gather(table, unique(ids).values), unique(ids).positions)` is `pick(table, ids)`, where pick is a Gather or a
    reduction of the domain. The same rows are reduced in the same order: equal to the bit. TensorFlow's
    embedding_lookup_sparse looks up each id once because the table might be remote; here Unique takes half the time,
    and the gathered rows are an intermediate that the EmbeddingSegments operators exist to avoid.
    """

    name = "direct-lookup"
    anchors = (*REDUCTIONS, "Gather")

    def apply(self, graph: Graph, node: NodeProto) -> bool:
        """Take the rows from the table itself."""
        if node.op_type == "Gather" and not is_row_gather(node):
            return False
        unique = graph.producer(graph.without_casts(node.input[1]), "Unique")
        if unique is None or len(unique.output) < 3 or unique.output[2] != graph.without_casts(node.input[1]):
            return False
        rows = graph.producer(node.input[0])
        if rows is None or not is_row_gather(rows):
            raise Declined("the unique rows are changed before they are picked (max_norm, or a table in parts)")
        if graph.without_casts(rows.input[1]) != unique.output[0]:
            raise Declined("the rows are gathered at other ids than those whose positions are picked")
        ids = unique.input[0]
        if unique.attribute and any(a.name == "axis" for a in unique.attribute):
            raise Declined("Unique compares slices, not ids")
        if graph.rank(ids) != 1:
            raise Declined("the ids are not a vector, and Unique flattens them")
        if graph.dtype(ids) not in INDEX:
            raise Declined(f"the ids are {dtype_name(graph.dtype(ids))}")
        if node.domain == DOMAIN:
            if graph.dtype(ids) == TensorProto.INT64:
                # All need one type. The ids are not narrowed, as an id out of range might then be in range.
                wide = [graph.cast(node, graph.without_casts(name), TensorProto.INT64) for name in node.input[2:5]]
                node.input[2:5] = wide
            ids = graph.cast(node, ids, graph.dtype(node.input[2]))
        node.input[0], node.input[1] = rows.input[0], ids
        return True


class WeightedSum(Rule):
    """Rows times weights, summed by segment, become one weighted EmbeddingSegmentsSum.

    The pattern is `SegmentSum(Gather(table, ids) * weights[:, None], segment_ids)`. The same products are added in the
    same order, but a kernel may keep a sum in higher precision: equal up to that rounding.
    """

    name = "weighted-sum"
    anchors = ("SegmentSum",)

    def apply(self, graph: Graph, node: NodeProto) -> bool:
        """Reduce rows of the table with per_sample_weights."""
        product = graph.producer(node.input[0], "Mul")
        if product is None:
            return False
        sides = list(product.input)
        lookups = [k for k, side in enumerate(sides) if is_row_gather(graph.producer(side))]
        if not lookups:
            casts = [cast for side in sides if (cast := graph.producer(side, "Cast")) is not None]
            if any(is_row_gather(graph.producer(cast.input[0])) for cast in casts):
                raise Declined("the rows are cast before they are weighted: table and weights differ in type")
            return False
        for k in lookups:
            gather, weights = graph.producer(sides[k]), spread(graph, sides[1 - k])
            if gather is not None and graph.rank(weights) == 1 and graph.rank(gather.input[1]) == 1:
                break
        else:
            raise Declined("the rows are not multiplied by a vector of one weight per id")
        table, ids = gather.input
        if graph.rank(table) == 1 and weights != sides[1 - k]:
            raise Declined("the table is a vector, and the weights are not")
        dtype = graph.dtype(table)
        if dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE) or graph.dtype(weights) != dtype:
            raise Declined(f"the table is {dtype_name(dtype)}, the weights {dtype_name(graph.dtype(weights))}")
        if graph.integers(node.input[2]) != [-1]:
            raise Declined("the number of segments is given")
        segments = graph.cast(node, graph.without_casts(node.input[1]), TensorProto.INT64)
        count = count_of(graph, node, segments)
        ids = graph.cast(node, ids, TensorProto.INT64)
        none = graph.add_constant(node, np.array(-1, np.int64))
        graph.replace_by_ours(node, "EmbeddingSegmentsSum", [table, ids, segments, count, none, weights])
        return True


class WeightedMean(Rule):
    """A weighted sum divided by the weights' sum becomes a weighted EmbeddingSegmentsMean; likewise SqrtN.

    The divisor is `SegmentSum(weights, segment_ids)`, or the root of `SegmentSum(weights ** 2, segment_ids)`; where it
    is 0, so is the quotient. Equal up to the rounding of the sums.
    """

    name = "weighted-mean"
    anchors = ("Where",)

    def apply(self, graph: Graph, node: NodeProto) -> bool:
        """Let the reduction divide."""
        zero, quotient = graph.producer(node.input[0], "Equal"), graph.producer(node.input[2], "Div")
        total = graph.producer(quotient.input[0], "EmbeddingSegmentsSum") if quotient is not None else None
        if zero is None or quotient is None or total is None or zero.input[0] != quotient.input[1]:
            return False
        zeros = [graph.constant(name) for name in (zero.input[1], node.input[1])]
        if any(z is None or z.any() for z in zeros):
            raise Declined("the quotient is not 0 where the divisor is 0")
        root = graph.producer(quotient.input[1], "Sqrt")
        summed = graph.producer(root.input[0] if root is not None else quotient.input[1], "SegmentSum")
        if summed is None:
            raise Declined("the divisor is not a sum by segment")
        weights = summed.input[0]
        if root is not None:
            base = _squared(graph, weights)
            if base is None:
                raise Declined("the divisor is a root, but not of a sum of squares")
            weights = base
        segments, weights = graph.without_casts(summed.input[1]), spread(graph, weights)
        if weights != total.input[5] or segments != graph.without_casts(total.input[2]):
            raise Declined("the divisor sums other weights, or by other segments")
        kind = "EmbeddingSegmentsMean" if root is None else "EmbeddingSegmentsSqrtN"
        graph.replace_by_ours(node, kind, list(total.input))
        return True


def count_of(graph: Graph, node: NodeProto, segment_ids: str) -> str:
    """Emit the number of segments that sorted ids imply; a -1 prepended to them makes it 0 if there are no ids."""
    dtype = graph.dtype(segment_ids)
    kind = numpy_dtype(dtype)
    ids = [graph.add_constant(node, np.array([-1], kind)), segment_ids]
    joined = graph.emit(node, "Concat", ids, dtype=dtype, shape=(None,), axis=0)
    last = graph.emit(node, "Gather", [joined, graph.add_constant(node, np.array(-1))], dtype=dtype, shape=(), axis=0)
    return graph.emit(node, "Add", [last, graph.add_constant(node, np.array(1, kind))], dtype=dtype, shape=())


def _squared(graph: Graph, name: str) -> str | None:
    """The tensor of which a tensor is the square; None if it is not a square."""
    node = graph.producer(name, "Pow", "Mul")
    if node is None:
        return None
    if node.op_type == "Mul":
        return node.input[0] if node.input[0] == node.input[1] else None
    exponent = graph.constant(node.input[1])
    return node.input[0] if exponent is not None and exponent.size == 1 and exponent.item() == 2 else None
