"""Rules for the loops over bags that torch's exporters write for EmbeddingBag."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import NodeProto, TensorProto

from onnx_sparse.converters.rewriting.entries import FAR
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.rewriting.rules.exported_lookups import Lookup
from onnx_sparse.converters.rewriting.rules.expressions import Expression, Expressions, matched
from onnx_sparse.converters.rewriting.sizes import shape_sizes, sizes
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.models.graphs import attribute
from onnx_sparse.schemas.declaration import INDEX, dtype_name

_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE)


@dataclass(frozen=True)
class _Bags:
    """Bags of rows of a table.

    Attributes:
        kind: How the rows of a bag are reduced: `Sum`, `Mean` or `Max`.
        lookup: The rows.
        starts: Where bags begin, a vector.
        has_end: Whether its last element is the end of the last bag.
        ends: Where bags end, if the maximum of an empty one is -inf and not 0.
    """

    kind: str
    lookup: Lookup
    starts: str
    has_end: bool
    ends: str | None = None


# What the body of the dynamo exporter's loop computes. Input 2 is the number of the bag, input 3 the results so far.
_NUMBER: Expression = ("input", 2)
_PLACE: Expression = ("Reshape", _NUMBER, ("constant", -1))
_NEXT: Expression = ("Add", _PLACE, ("constant", 1))
_START: Expression = ("Slice", "?bounds", _PLACE, _NEXT)
_END: Expression = ("Slice", "?bounds", _NEXT, ("Add", _PLACE, ("constant", 2)))
_ROWS: Expression = ("Slice", "?rows", _START, _END)
_IS_LAST: Expression = ("Equal", _NUMBER, ("Sub", "?bags", ("constant", 1)))
_LEFT: Expression = ("Sub", ("Shape", ("end", 1), "?ids"), _START)
_SUM: Expression = ("ReduceSum", _ROWS, ("constant", 0))
_DIVIDED: Expression = ("Div", _SUM, ("Cast", ("to", TensorProto.FLOAT), _LEFT))
_MEANS: Expression = ("If", ("Greater", _LEFT, ("constant", 0)), _DIVIDED, _SUM)
_LAST_ROWS: Expression = ("If", _IS_LAST, ("Slice", "?rows", _START, "?entries"), _ROWS)
_RESULTS: dict[str, Expression] = {
    "Sum": _SUM,
    "Mean": ("If", _IS_LAST, _MEANS, ("ReduceMean", _ROWS, ("constant", 0))),
    "Max": ("ReduceMax", _LAST_ROWS, ("constant", 0)),
}


# What the body of the older exporter's loop computes. Input 0 is the number of the bag.
_TRUE: Expression = ("filled", True)
_ITS_START: Expression = ("Unsqueeze", ("Gather", "?bounds", ("input", 0)), ("constant", 0))
_ITS_END: Expression = ("Unsqueeze", ("Gather", "?ends", ("input", 0)), ("constant", 0))
_GATHERED: Expression = ("Gather", "?table", ("Slice", "?ids", _ITS_START, _ITS_END, ("constant", 0)))
_WEIGHTS: Expression = ("Unsqueeze", ("Slice", "?weights", _ITS_START, _ITS_END, ("constant", 0)), ("constant", 1))


class BagsInSequence(Rule[Graph]):
    """A loop that puts the reduced rows of each bag into a sequence becomes a reduction by bag.

    torch.onnx.export with dynamo=True writes it. An empty bag is 0 in both. Sums are equal up to rounding. Where torch
    refuses the bags, because they do not begin at 0 or decrease or end beyond the ids, so does the new model.
    """

    name = "bags-in-sequence"
    anchors = ("ConcatFromSequence",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """The results of a loop that counts, and adds to an empty sequence."""
        loop = graph.producer(node.input[0], "Loop")
        if loop is None or len(loop.input) != 4 or len(loop.output) != 2:
            return None
        place = list(loop.output).index(node.input[0])  # it differs from one run of the exporter to the next
        empty = graph.producer(loop.input[2 + place], "SequenceEmpty")
        return None if empty is None else {"loop": loop, "bags": _sequenced(graph, loop, place)}

    def check(self, graph: Graph, node: NodeProto, loop: NodeProto, bags: _Bags | str) -> str | None:
        """The loop must reduce the rows between bounds."""
        if isinstance(bags, str):
            return bags
        if attribute(node, "axis") != 0 or attribute(node, "new_axis", 0) != 0:
            return "the results are joined along another axis"
        return _difference(graph, bags)

    def rewrite(self, graph: Graph, node: NodeProto, loop: NodeProto, bags: _Bags) -> None:
        """Reduce by bag."""
        graph.bypass(node, _reduced(graph, graph.emitter(node), bags).name)


class BagsInLoop(Rule[Graph]):
    """A loop whose results are the reduced rows of each bag becomes a reduction by bag.

    torch.onnx.export with dynamo=False writes it. The sum and the mean of an empty bag are 0 and its maximum is -inf,
    as ONNX Runtime computes them in the loop. Sums are equal up to rounding. Where torch refuses the bags, so does the
    new model.
    """

    name = "bags-in-loop"
    anchors = ("Loop",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A loop that carries nothing from bag to bag and reduces something."""
        body = attribute(node, "body")
        is_plain = len(node.input) == 2 and len(node.output) == 1 and len(body.output) == 2
        if not is_plain or not any(inner.op_type.startswith("Reduce") for inner in body.node):
            return None
        return {"bags": _looped(graph, node)}

    def check(self, graph: Graph, node: NodeProto, bags: _Bags | str) -> str | None:
        """The loop must reduce the rows between bounds."""
        return bags if isinstance(bags, str) else _difference(graph, bags)

    def rewrite(self, graph: Graph, node: NodeProto, bags: _Bags) -> None:
        """Reduce by bag."""
        graph.bypass(node, _reduced(graph, graph.emitter(node), bags).name)


def _sequenced(graph: Graph, loop: NodeProto, place: int) -> _Bags | str:
    """The bags that a loop over a sequence reduces, or why they are not known.

    Args:
        graph: The graph.
        loop: The loop.
        place: The place of the sequence among what the loop carries; the other is the number of the bag.
    """
    body = attribute(loop, "body")
    given = [value.name for value in body.input]
    expressions = Expressions(graph.inner(body), [*given[:2], given[3 - place], given[2 + place]])
    made = [expressions.of(value.name) for value in body.output]
    goes_on, number, results = made[0], made[2 - place], made[1 + place]
    limit = graph.producer(loop.input[1], "Less")
    names: dict[str, Expression] = {}
    counts = matched(("Add", _NUMBER, ("constant", 1)), number, {})
    goes = matched(("Less", number, "?bags"), goes_on, names)
    starts = limit is not None and graph.integers(limit.input[0]) == [0] == graph.integers(loop.input[3 - place])
    if limit is None or not counts or not goes or not starts or loop.input[0]:
        return "the loop does not count from 0"
    if names["?bags"] != ("outer", limit.input[1]):
        return "the loop does not end as it begins, with the number of bags"
    for kind, result in _RESULTS.items():
        found = dict(names)
        of_one = ("If", ("Equal", _START, _END), ("filled", 0.0), result)
        if matched(("SequenceInsert", ("input", 3), of_one), results, found):
            return _bags(graph, kind, found)
    return "the loop does something else with each bag than to sum, average or compare rows between two bounds"


def _bags(graph: Graph, kind: str, found: dict[str, Expression]) -> _Bags | str:
    rows, bounds, bags = (_outer(found, name) for name in ("?rows", "?bounds", "?bags"))
    lookup = Lookup.of(graph, rows, used_once=False)
    if lookup is None:
        return "the rows are not looked up in a table"
    if "?ids" in found and not _same_ids(graph, _outer(found, "?ids"), lookup.indices):
        return "the last bag is divided by another number than that of its rows"
    if "?entries" in found and not _is_size(graph, _outer(found, "?entries"), lookup.indices):
        return "the last bag does not end with the ids"
    joined = graph.producer(bounds, "Concat")
    if joined is not None and len(joined.input) == 2 and _is_size(graph, joined.input[1], lookup.indices):
        count = graph.producer(bags, "Size")
        if count is not None and count.input[0] == joined.input[0]:
            return _Bags(kind, lookup, joined.input[0], has_end=False)
    less = graph.producer(bags, "Sub")
    count = graph.producer(less.input[0], "Size") if less is not None else None
    is_one_less = less is not None and count is not None and graph.integers(less.input[1]) == [1]
    if kind == "Sum" and is_one_less and count is not None and count.input[0] == bounds:
        return _Bags(kind, lookup, bounds, has_end=True)
    return "the bounds may not cover all bags"


def _looped(graph: Graph, loop: NodeProto) -> _Bags | str:
    """The bags that a loop reduces one by one, or why they are not known."""
    body = attribute(loop, "body")
    expressions = Expressions(graph.inner(body), [value.name for value in body.input])
    goes_on, results = (expressions.of(value.name) for value in body.output)
    if goes_on not in (_TRUE, ("Cast", ("to", TensorProto.BOOL), _TRUE)) or graph.uniform(loop.input[1]) is not True:
        return "the loop may end before the last bag"
    for kind in ("Sum", "Mean", "Max"):
        for rows in (_GATHERED, ("Mul", _GATHERED, _WEIGHTS)):
            found: dict[str, Expression] = {}
            if not matched((f"Reduce{kind}", ("keepdims", 0), rows, ("constant", 0)), results, found):
                continue
            table, ids, bounds, ends = (_outer(found, name) for name in ("?table", "?ids", "?bounds", "?ends"))
            if not _are_ends(graph, ends, bounds) or sizes(graph, loop.input[0]) != shape_sizes(graph, ends):
                return "the bounds may not cover all bags"
            lookup = Lookup(table, ids, _outer(found, "?weights") if "?weights" in found else None)
            if graph.rank(ids) != 1 or (lookup.weights is not None and graph.rank(lookup.weights) != 1):
                return "the ids are not a vector"
            joined = graph.producer(bounds, "Concat")
            has_end = joined is None or sizes(graph, joined.input[-1]) != shape_sizes(graph, ids)
            starts = bounds if joined is None or has_end else joined.input[0]
            return _Bags(kind, lookup, starts, has_end=has_end, ends=ends if kind == "Max" else None)
    return "the loop does something else with each bag than to sum, average or compare rows between two bounds"


def _are_ends(graph: Graph, ends: str, bounds: str) -> bool:
    """Whether a vector has all bounds but the first."""
    cut = graph.producer(ends, "Slice")
    if cut is None or cut.input[0] != bounds or len(cut.input) < 3:
        return False
    first, last, *others = (graph.integers(name) for name in cut.input[1:])
    return first == [1] and last is not None and last[0] >= FAR and others in ([], [[0]], [[0], [1]])


def _outer(found: dict[str, Expression], name: str) -> str:
    """The tensor outside the body that a name stands for; an empty name if it is another expression."""
    kind, *value = found[name]
    return str(value[0]) if kind == "outer" else ""


def _same_ids(graph: Graph, name: str, indices: str) -> bool:
    """Whether two vectors are the same, of which one may be reshaped to a vector again."""
    reshaped = graph.producer(indices, "Reshape")
    is_flat = reshaped is not None and graph.integers(reshaped.input[1]) == [-1] and graph.rank(reshaped.input[0]) == 1
    return name == indices or (is_flat and reshaped is not None and reshaped.input[0] == name)


def _is_size(graph: Graph, name: str, vector: str) -> bool:
    """Whether a vector of one element is the size of a vector."""
    shape = graph.producer(name, "Shape")
    return shape is not None and not shape.attribute and _same_ids(graph, shape.input[0], vector)


def _difference(graph: Graph, bags: _Bags) -> str | None:
    """Why the operators of the domain do not reduce such bags; None if they do."""
    dtype = graph.dtype(bags.lookup.table)
    if dtype not in _FLOATS:
        return f"the table is {dtype_name(dtype)}"
    if graph.rank(bags.lookup.table) != 2 or graph.rank(bags.starts) != 1 or graph.dtype(bags.starts) not in INDEX:
        return "the ranks do not fit a table and bounds"
    if bags.kind != "Sum" and bags.lookup.weights is not None:
        return "the rows are weighted"
    return None


def _reduced(graph: Graph, emit: Emitter, bags: _Bags) -> Tensor:
    """The reduction of each bag."""
    starts = emit.cast(graph.tensor(bags.starts), TensorProto.INT64)
    inputs = {**bags.lookup.inputs(graph, emit, TensorProto.INT64), "offsets": starts}
    last = {"include_last_offset": "true" if bags.has_end else "false"}
    (reduced,) = emit.domain_op(f"EmbeddingBagOffsets{bags.kind}", inputs, last)
    if bags.ends is None:
        return reduced
    ends = emit.cast(graph.tensor(bags.ends), TensorProto.INT64)
    if bags.has_end:
        starts = emit.op("Slice", starts, emit.constant([0]), emit.constant([-1]), shape=ends.shape)
    is_empty = emit.op("Reshape", emit.op("Equal", starts, ends), emit.constant([-1, 1]), shape=(None, 1))
    return emit.op("Where", is_empty, emit.constant(float("-inf"), reduced.dtype), reduced, shape=reduced.shape)
