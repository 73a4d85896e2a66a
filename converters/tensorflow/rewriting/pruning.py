"""Rules for the entries that are kept: tf.sparse.retain, and safe_embedding_lookup_sparse, which uses it."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto

from onnx_sparse.converters.tensorflow.rewriting.entries import column
from onnx_sparse.converters.tensorflow.rewriting.graph import Graph, attribute
from onnx_sparse.converters.tensorflow.rewriting.rule import Declined, Rule

_COMPARISONS = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")


class ColumnByGather(Rule):
    """`Squeeze(matrix[:, k:k+1])` becomes `Gather(matrix, k, axis=1)`. Equal."""

    name = "column"
    anchors = ("Squeeze",)

    def apply(self, graph: Graph, node: NodeProto) -> bool:
        """Gather the column."""
        found = column(graph, node.output[0])
        if found is None:
            return False
        graph.replace(node, "Gather", [found.matrix, index_constant(graph, node, found.index)], axis=1)
        return True


class KeepByMask(Rule):
    """`Gather(x, NonZero(mask))` becomes `Compress(x, mask)`. Equal."""

    name = "keep-by-mask"
    anchors = ("Gather",)

    def apply(self, graph: Graph, node: NodeProto) -> bool:
        """Compress by the mask."""
        if attribute(node, "axis", 0) != 0:
            return False
        flat = graph.producer(node.input[1], "Reshape", "Squeeze")
        if flat is None:
            return False
        turned = graph.producer(flat.input[0], "Transpose")
        found = graph.producer(turned.input[0] if turned is not None else flat.input[0], "NonZero")
        if found is None:
            return False
        mask = found.input[0]
        if graph.dtype(mask) != TensorProto.BOOL or graph.rank(mask) != 1:
            raise Declined("the positions are not those of a vector of booleans")
        if flat.op_type == "Reshape" and graph.integers(flat.input[1]) != [-1]:
            raise Declined("the positions are not reshaped to a vector")
        graph.replace(node, "Compress", [node.input[0], mask], axis=0)
        return True


class KeepColumn(Rule):
    """A column of kept rows becomes the kept entries of the column, which copies less. Equal."""

    name = "keep-column"
    anchors = ("Gather",)

    def apply(self, graph: Graph, node: NodeProto) -> bool:
        """Take the column first."""
        found = column(graph, node.output[0])
        kept = graph.producer(found.matrix, "Compress") if found is not None else None
        if found is None or kept is None or attribute(kept, "axis") != 0:
            return False
        index = index_constant(graph, node, found.index)
        taken = [kept.input[0], index]
        vector = graph.emit(node, "Gather", taken, dtype=graph.dtype(kept.input[0]), shape=(None,), axis=1)
        graph.replace(node, "Compress", [vector, kept.input[1]], axis=0)
        return True


class KeepOnce(Rule):
    """Entries that are filtered by two masks in turn are filtered once, by both.

    `Compress(Compress(x, a), b > 0)`, where `b = Compress(b', a)`, is `Compress(x, a & (b' > 0))`. Equal.
    """

    name = "keep-once"
    anchors = ("Compress",)

    def apply(self, graph: Graph, node: NodeProto) -> bool:
        """Join the masks."""
        first, test = graph.producer(node.input[0], "Compress"), graph.producer(node.input[1], *_COMPARISONS)
        if first is None or test is None:
            return False
        tested = graph.producer(test.input[0], "Compress")
        if tested is None or tested.input[1] != first.input[1]:
            raise Declined("the second mask is not computed from entries that the first one kept")
        limit = graph.constant(test.input[1])
        if limit is None or limit.size != 1:
            raise Declined("the entries are compared with something that is not a constant")
        shape = graph.shape(tested.input[0])
        inputs = [tested.input[0], test.input[1]]
        passes = graph.emit(node, test.op_type, inputs, dtype=TensorProto.BOOL, shape=shape)
        both = graph.emit(node, "And", [first.input[1], passes], dtype=TensorProto.BOOL, shape=shape)
        graph.replace(node, "Compress", [first.input[0], both], axis=0)
        return True


class AndTrue(Rule):
    """`And(mask, true for every entry)` becomes the mask. There are as many values as weights."""

    name = "and-true"
    anchors = ("And",)

    def apply(self, graph: Graph, node: NodeProto) -> bool:
        """Pass the mask on."""
        for mask, other in (tuple(node.input), tuple(node.input)[::-1]):
            fill = graph.producer(other, "Fill")
            value = graph.constant(fill.input[1]) if fill is not None else None
            if fill is None or value is None or not value.all():
                continue
            if graph.rank(mask) != 1 or graph.rank(other) != 1:
                raise Declined("the masks are not vectors, so one might be broadcast to the other")
            graph.bypass(node, mask)
            return True
        return False


def index_constant(graph: Graph, node: NodeProto, index: int) -> str:
    """A scalar index."""
    return graph.add_constant(node, np.array(index, np.int64))
