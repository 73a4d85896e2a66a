"""Rules that fuse a lookup and its reduction into one EmbeddingSegments node."""

from __future__ import annotations

from typing import ClassVar

from onnx import NodeProto, TensorProto

from onnx_sparse.converters.rewriting.entries import is_row_gather, spread
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.keyed_lookups import Chain
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.writing.partitions import number_of_segments
from onnx_sparse.models.graphs import attribute, attributes
from onnx_sparse.schemas import DOMAIN
from onnx_sparse.schemas.declaration import INDEX, dtype_name

REDUCTIONS = ("EmbeddingSegmentsSum", "EmbeddingSegmentsMean", "EmbeddingSegmentsSqrtN")


class DirectLookup(Rule[Graph]):
    """Rows that are gathered once per unique id and then picked by position become rows gathered by id.

    `pick(Gather(table, unique(ids).values), unique(ids).positions)` is `pick(table, ids)`, where pick is a Gather or a
    reduction of the domain; so it is if the rows are gathered at what is looked up for the values, such as positions of
    keys. The same rows are reduced in the same order: equal to the bit. TensorFlow's
    embedding_lookup_sparse looks up each id once because the table might be remote; here Unique takes half the time,
    and the gathered rows are an intermediate that the EmbeddingSegments operators exist to avoid.
    """

    name = "direct-lookup"
    anchors = (*REDUCTIONS, "Gather")

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A Gather or a reduction of rows at the positions that a Unique makes."""
        if node.op_type == "Gather" and not is_row_gather(node):
            return None
        positions = graph.without_casts(node.input[1])
        unique = graph.producer(positions, "Unique")
        if unique is None or len(unique.output) < 3 or unique.output[2] != positions:
            return None
        return {"unique": unique, "rows": graph.producer(node.input[0])}

    def check(self, graph: Graph, node: NodeProto, unique: NodeProto, rows: NodeProto | None) -> str | None:
        """The rows must be gathered at the unique ids, and these be of a vector of indices."""
        ids = unique.input[0]
        if rows is None or not is_row_gather(rows):
            return "the unique rows are changed before they are picked (max_norm, or a table in parts)"
        is_id = graph.without_casts(rows.input[1]) == unique.output[0]
        if not is_id and Chain.between(graph, unique.output[0], rows.input[1]) is None:
            return "the rows are gathered at other ids than those whose positions are picked"
        if attribute(unique, "axis") is not None:
            return "Unique compares slices, not ids"
        if graph.rank(ids) != 1:
            return "the ids are not a vector, and Unique flattens them"
        if is_id and graph.dtype(ids) not in INDEX:
            return f"the ids are {dtype_name(graph.dtype(ids))}"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, unique: NodeProto, rows: NodeProto) -> None:
        """Take the rows from the table itself."""
        ids = graph.tensor(unique.input[0])
        if graph.without_casts(rows.input[1]) != unique.output[0]:
            keyed = Chain.between(graph, unique.output[0], rows.input[1])
            assert keyed is not None
            ids = keyed.of(graph, node, ids.name)
        if node.domain == DOMAIN:
            emit = graph.emitter(node)
            if ids.dtype == TensorProto.INT64:
                # All need one type. The ids are not narrowed, as an id out of range might then be in range.
                for k, name in enumerate(node.input[2:5], 2):
                    other = graph.tensor(graph.without_casts(name))
                    graph.set_input(node, k, emit.cast(other, TensorProto.INT64).name)
            ids = emit.cast(ids, graph.dtype(node.input[2]))
        graph.set_input(node, 0, rows.input[0])
        graph.set_input(node, 1, ids.name)


class WeightedSum(Rule[Graph]):
    """Rows times weights, summed by segment, become one weighted EmbeddingSegmentsSum.

    The pattern is `SegmentSum(Gather(table, ids) * weights[:, None], segment_ids)`. The same products are added in the
    same order, but a kernel may keep a sum in higher precision: equal up to that rounding.
    """

    name = "weighted-sum"
    anchors = ("SegmentSum",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A SegmentSum of a product with rows of a table, which may be cast."""
        product = graph.producer(node.input[0], "Mul")
        if product is None:
            return None
        sides = list(product.input)
        casts = [graph.producer(side, "Cast") for side in sides]
        uncast = [side if cast is None else cast.input[0] for side, cast in zip(sides, casts, strict=True)]
        rows = [graph.producer(side) for side in uncast]
        if not any(map(is_row_gather, rows)):
            return None
        # The factors that are rows, each with the other factor: of two lookups, one may be the weights.
        pairs = [(gather, sides[1 - k]) for k, gather in enumerate(rows) if casts[k] is None and is_row_gather(gather)]
        fitting = (pair for pair in pairs if graph.rank(spread(graph, pair[1])) == 1 == graph.rank(pair[0].input[1]))
        return {"is_cast": not pairs, "pair": next(fitting, None)}

    def check(self, graph: Graph, node: NodeProto, is_cast: bool, pair: tuple[NodeProto, str] | None) -> str | None:
        """There must be one weight per id, of the table's type, and no number of segments."""
        if is_cast:
            return "the rows are cast before they are weighted: table and weights differ in type"
        if pair is None:
            return "the rows are not multiplied by a vector of one weight per id"
        gather, factor = pair
        table, weights = gather.input[0], spread(graph, factor)
        if graph.rank(table) == 1 and weights != factor:
            return "the table is a vector, and the weights are not"
        dtype = graph.dtype(table)
        if dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE) or graph.dtype(weights) != dtype:
            return f"the table is {dtype_name(dtype)}, the weights {dtype_name(graph.dtype(weights))}"
        if graph.integers(node.input[2]) != [-1]:
            return "the number of segments is given"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, pair: tuple[NodeProto, str], **_: object) -> None:
        """Reduce rows of the table with per_sample_weights."""
        (table, ids), weights = pair[0].input, spread(graph, pair[1])
        emit = graph.emitter(node)
        segments = emit.cast(graph.tensor(graph.without_casts(node.input[1])), TensorProto.INT64)
        count = number_of_segments(segments, emit)
        indices = emit.cast(graph.tensor(ids), TensorProto.INT64)
        inputs = [table, indices, segments, count, emit.constant(-1), weights]
        graph.replace(node, "EmbeddingSegmentsSum", inputs)


class WeightedMean(Rule[Graph]):
    """A weighted sum divided by the weights' sum becomes a weighted EmbeddingSegmentsMean; likewise SqrtN.

    The divisor is `SegmentSum(weights, segment_ids)`, or the root of `SegmentSum(weights ** 2, segment_ids)`; where it
    is 0, so is the quotient. Equal up to the rounding of the sums.
    """

    name = "weighted-mean"
    anchors = ("Where",)
    sums: ClassVar[str] = "SegmentSum"

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A Where that selects a quotient of a weighted sum if the divisor is not 0."""
        zero, quotient = graph.producer(node.input[0], "Equal"), graph.producer(node.input[2], "Div")
        total = graph.producer(quotient.input[0], "EmbeddingSegmentsSum") if quotient is not None else None
        if zero is None or quotient is None or total is None or zero.input[0] != quotient.input[1]:
            return None
        root = graph.producer(quotient.input[1], "Sqrt")
        summed = graph.producer(quotient.input[1] if root is None else root.input[0], self.sums)
        return {"zero": zero, "total": total, "root": root, "summed": summed}

    def check(
        self,
        graph: Graph,
        node: NodeProto,
        zero: NodeProto,
        total: NodeProto,
        root: NodeProto | None,
        summed: NodeProto | None,
    ) -> str | None:
        """The divisor must sum the weights of the sum, or their squares, by its segments."""
        zeros = [graph.constant(name) for name in (zero.input[1], node.input[1])]
        if any(z is None or z.any() for z in zeros):
            return "the quotient is not 0 where the divisor is 0"
        if summed is None:
            return "the divisor is not a sum by segment"
        weights = summed.input[0] if root is None else _squared(graph, summed.input[0])
        if weights is None:
            return "the divisor is a root, but not of a sum of squares"
        segments = graph.without_casts(summed.input[1])
        if spread(graph, weights) != unexpanded(graph, total.input[5]) or segments != graph.without_casts(
            total.input[2]
        ):
            return "the divisor sums other weights, or by other segments"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, total: NodeProto, root: NodeProto | None, **_: object) -> None:
        """Let the reduction divide."""
        kind = "EmbeddingSegmentsMean" if root is None else "EmbeddingSegmentsSqrtN"
        graph.replace(node, kind, list(total.input), **attributes(total))


class WeightPerId(Rule[Graph]):
    """A lookup gets as many weights as ids: with no weights at all an EmbeddingSegments operator would take each for 1.

    In TensorFlow, ids without weights are an error, because weights are gathered like their ids. Equal.
    """

    name = "weight-per-id"
    anchors = REDUCTIONS

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A lookup with weights that may be too few; ids and weights before they were pruned by the same mask."""
        user, position, ids = node, 5, graph.without_casts(node.input[1])
        while True:
            kept, pruned = (graph.producer(name, "Compress") for name in (ids, user.input[position]))
            if kept is None or pruned is None or kept.input[1] != pruned.input[1]:
                break
            user, position, ids = pruned, 0, graph.without_casts(kept.input[0])
        weights = user.input[position]
        shape, shaped = graph.shape(weights), graph.producer(weights, "Reshape", "Expand")
        if shaped is not None and shaped.op_type == "Expand" and graph.shape(shaped.input[0]) != (1,):
            shaped = None  # there may be more weights than ids
        of_ids = graph.producer(shaped.input[1], "Shape") if shaped is not None else None
        if (shape is not None and None not in shape) or (of_ids is not None and of_ids.input[0] == ids):
            return None
        return {"user": user, "position": position, "ids": ids}

    def rewrite(self, graph: Graph, node: NodeProto, user: NodeProto, position: int, ids: str) -> None:
        """Reshape the weights to the shape of the ids, which is an error where they are more or fewer."""
        emit, tensor = graph.emitter(user), graph.tensor(ids)
        weights = graph.tensor(user.input[position])
        reshaped = emit.op("Reshape", weights, emit.shape_of(tensor), shape=tensor.shape, allowzero=1)
        graph.set_input(user, position, reshaped.name)


def unexpanded(graph: Graph, weights: str) -> str:
    """The weights before they were expanded to one for each id."""
    expanded = graph.producer(weights, "Expand")
    return weights if expanded is None or graph.rank(expanded.input[0]) != 1 else expanded.input[0]


def _squared(graph: Graph, name: str) -> str | None:
    """The tensor of which a tensor is the square; None if it is not a square."""
    node = graph.producer(name, "Pow", "Mul")
    if node is None:
        return None
    if node.op_type == "Mul":
        return node.input[0] if node.input[0] == node.input[1] else None
    exponent = graph.constant(node.input[1])
    return node.input[0] if exponent is not None and exponent.size == 1 and exponent.item() == 2 else None
