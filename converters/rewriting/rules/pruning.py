"""Rules for the entries that are kept: tf.sparse.retain, and safe_embedding_lookup_sparse, which uses it."""

from __future__ import annotations

from onnx import NodeProto, TensorProto

from onnx_sparse.converters.rewriting.entries import Column, column
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.models.graphs import attribute

#: What makes positions of a mask.
_POSITIONS = ("NonZero", "Transpose", "Reshape", "Squeeze", "Cast", "Identity")

_COMPARISONS = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")


class ColumnByGather(Rule[Graph]):
    """`Squeeze(matrix[:, k:k+1])` becomes `Gather(matrix, k, axis=1)`. Equal."""

    name = "column"
    anchors = ("Squeeze",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A Squeeze that makes a column."""
        found = column(graph, node.output[0])
        return None if found is None else {"found": found}

    def rewrite(self, graph: Graph, node: NodeProto, found: Column) -> None:
        """Gather the column."""
        graph.replace(node, "Gather", [found.matrix, graph.emitter(node).constant(found.index)], axis=1)


class KeepByMask(Rule[Graph]):
    """`Gather(x, NonZero(mask))` becomes `Compress(x, mask)`. Equal."""

    name = "keep-by-mask"
    anchors = ("Gather",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A Gather of rows at positions that are not zero."""
        flat = graph.producer(node.input[1], "Reshape", "Squeeze")
        if attribute(node, "axis", 0) != 0 or flat is None:
            return None
        turned = graph.producer(flat.input[0], "Transpose")
        found = graph.producer(turned.input[0] if turned is not None else flat.input[0], "NonZero")
        return None if found is None else {"flat": flat, "mask": found.input[0]}

    def check(self, graph: Graph, node: NodeProto, flat: NodeProto, mask: str) -> str | None:
        """The positions must be all those of a vector of booleans."""
        if graph.dtype(mask) != TensorProto.BOOL or graph.rank(mask) != 1:
            return "the positions do not come from a vector of booleans"
        if flat.op_type == "Reshape" and graph.integers(flat.input[1]) != [-1]:
            return "the positions are not reshaped to a vector"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, mask: str, **_: object) -> None:
        """Compress by the mask."""
        graph.replace(node, "Compress", [node.input[0], mask], axis=0)


class KeepColumn(Rule[Graph]):
    """A column of kept rows becomes the kept entries of the column, which copies less. Equal."""

    name = "keep-column"
    anchors = ("Gather",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A Gather of a column from a Compress of rows."""
        found = column(graph, node.output[0])
        kept = graph.producer(found.matrix, "Compress") if found is not None else None
        if found is None or kept is None or attribute(kept, "axis") != 0:
            return None
        return {"index": found.index, "kept": kept}

    def rewrite(self, graph: Graph, node: NodeProto, index: int, kept: NodeProto) -> None:
        """Take the column first."""
        emit = graph.emitter(node)
        vector = emit.op("Gather", graph.tensor(kept.input[0]), emit.constant(index), shape=(None,), axis=1)
        graph.replace(node, "Compress", [vector, kept.input[1]], axis=0)


class KeepOnce(Rule[Graph]):
    """Entries that are filtered by two masks in turn are filtered once, by both.

    `Compress(Compress(x, a), b > 0)`, where `b = Compress(b', a)`, is `Compress(x, a & (b' > 0))`. Equal.
    """

    name = "keep-once"
    anchors = ("Compress",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A Compress of a Compress, by the result of a comparison."""
        first, test = graph.producer(node.input[0], "Compress"), graph.producer(node.input[1], *_COMPARISONS)
        if first is None or test is None:
            return None
        return {"first": first, "test": test, "tested": graph.producer(test.input[0], "Compress")}

    def check(
        self, graph: Graph, node: NodeProto, first: NodeProto, test: NodeProto, tested: NodeProto | None
    ) -> str | None:
        """What is compared must be kept by the first mask, and compared with a constant."""
        if tested is None or tested.input[1] != first.input[1]:
            return "the second mask is not computed from entries that the first one kept"
        limit = graph.constant(test.input[1])
        if limit is None or limit.size != 1:
            return "the entries are compared with something that is not a constant"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, first: NodeProto, test: NodeProto, tested: NodeProto) -> None:
        """Join the masks."""
        emit, entries = graph.emitter(node), graph.tensor(tested.input[0])
        passes = emit.op(test.op_type, entries, graph.tensor(test.input[1]), shape=entries.shape)
        both = emit.op("And", graph.tensor(first.input[1]), passes, shape=entries.shape)
        graph.replace(node, "Compress", [first.input[0], both], axis=0)


class AndTrue(Rule[Graph]):
    """`And(mask, true for every entry)` becomes the mask, which chooses entries. Equal."""

    name = "and-true"
    anchors = ("And",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """An And with a Fill of true."""
        for mask, other in (tuple(node.input), tuple(node.input)[::-1]):
            fill = graph.producer(other, "Fill")
            value = graph.constant(fill.input[1]) if fill is not None else None
            if value is not None and value.all():
                return {"mask": mask, "other": other}
        return None

    def check(self, graph: Graph, node: NodeProto, mask: str, other: str) -> str | None:
        """Both must be vectors, of one size, or the result choose what has the size of the first: else that fails."""
        if graph.rank(mask) != 1 or graph.rank(other) != 1:
            return "the masks are not vectors, so one might be broadcast to the other"
        if not _chooses_tested(graph, node.output[0], mask):
            return "the masks may have different sizes, so one might be broadcast to the other"
        return None

    def rewrite(self, graph: Graph, node: NodeProto, mask: str, **_: object) -> None:
        """Pass the mask on."""
        graph.bypass(node, mask)


def _chooses_tested(graph: Graph, result: str, mask: str) -> bool:
    """Whether a mask of tested entries chooses, and nothing else, and these entries among others."""
    test = graph.producer(mask, *_COMPARISONS)
    chosen: list[str] = []
    waiting = [result]
    while waiting:
        name = waiting.pop()
        users = graph.users(name)
        if name in graph.outputs or not users:
            return False
        for user in users:
            if user.op_type in ("Compress", "Gather") and user.input[1] == name:
                chosen.append(user.input[0])
            elif user.op_type in _POSITIONS:
                waiting.append(user.output[0])
            else:
                return False
    return test is not None and graph.without_casts(test.input[0]) in map(graph.without_casts, chosen)
