"""Scatters whose answers differ from those of the source: most keep only the last of the rows with equal ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, NodeProto, helper

from onnx_sparse.converters.rewriting.engine import rewrite
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.rewriting.rules.distinct_ids import are_distinct
from onnx_sparse.converters.rewriting.rules.known_branches import KnownBranch
from onnx_sparse.converters.rewriting.rules.scatters import reduced_into
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering.segment_reductions import SCATTERED
from onnx_sparse.models.graphs import attribute
from onnx_sparse.models.tools.inlining import with_inlined, without_calls_of_functions
from onnx_sparse.models.tools.onnx_tools import with_inferred_types
from onnx_sparse.schemas.declaration import FLOATS, NUMBERS, dtype_name

#: What the rows of equal ids can become.
REDUCTIONS = (*SCATTERED, "mean")

#: By what a scatter without a reduction stands for: who writes it so, and what repairs it.
_SOURCES = {
    "sum": (
        "it is added to other rows, as torch's TorchScript exporter writes index_add, index_put(accumulate=True) and, "
        "before opset 16, scatter_add",
        "--repair-scatter add",
    ),
    "scatter_nd": ("tf2onnx writes tf.scatter_nd so, which adds them", "--repair-scatter add"),
    "mean": ("torch's exporter writes scatter_reduce('mean', include_self=False) so", "--repair-scatter mean"),
    "zeros": (
        "right for an assignment; torch's exporter writes scatter_reduce('mean') so, too",
        "for a mean, --repair-scatter mean; for a sum, add",
    ),
    "assignment": (
        "right for an assignment; torch's exporter writes scatter_reduce('mean') so, too",
        "for a mean, --repair-scatter {node}=mean",
    ),
}

#: What a scatter may stand for in which equal rows count, too: rows of ones are how rows are counted.
_SUMS = ("sum", "scatter_nd")

#: What scatters with these reductions begin with, where the rows that are there shall take no part.
_IDENTITIES = {"max": -np.inf, "min": np.inf}


@dataclass(frozen=True)
class Repairs:
    """What scatters that lose rows become.

    Attributes:
        reduction: The reduction of all of them, assignments into other rows than zeros excepted; None leaves them.
        of_nodes: The reductions of nodes by their names, which precede.
    """

    reduction: str | None = None
    of_nodes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, given: str | Iterable[str] | None) -> Repairs:
        """What a user asks for: `add`, or `NODE=add` for one node; or several of these.

        Raises:
            ValueError: A reduction is not known.
        """
        whole, of_nodes = None, {}
        for text in [given] if isinstance(given, str) else given or ():
            node, _, reduction = text.rpartition("=")
            if reduction not in REDUCTIONS:
                raise ValueError(f"{reduction!r} repairs no scatter; {', '.join(REDUCTIONS)} do")
            if node:
                of_nodes[node] = reduction
            else:
                whole = reduction
        return cls(whole, of_nodes)

    def __bool__(self) -> bool:
        return bool(self.reduction or self.of_nodes)

    def of_scatter(self, node: NodeProto, stands_for: str) -> str | None:
        """The reduction that a scatter becomes; None if it stays."""
        fits = stands_for not in ("assignment", "self") or self.reduction == _reduction(node)
        return self.of_nodes.get(node.name) or (self.reduction if fits else None)


class LostRows(Rule[Graph]):
    """A scatter without a reduction whose ids may be equal keeps the last row of each.

    On request it becomes a reduction of these rows and those that are there. Then the answers are other ones. So does
    one with a reduction in which zeros take part that are not in the source.

    Args:
        repairs: What was requested.
        producer: Who wrote the file.
    """

    name = "lost-rows"
    anchors = ("Scatter", "ScatterElements", "ScatterND")

    def __init__(self, repairs: Repairs | None = None, producer: str = "") -> None:
        self._repairs = repairs or Repairs()
        self._producer = producer

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A scatter without a reduction, unless its ids are known to differ, or its rows to be equal and not summed."""
        if len(node.input) != 3:
            return None
        start, ids, rows = node.input
        if _reduction(node) != "none":
            return {"stands_for": "self"} if self._ignores_self(graph, node) else None
        if node.name in self._repairs.of_nodes:
            return {"stands_for": "assignment"}
        if self._producer == "onnx_sparse":  # what this project converts and lowers is right
            return None
        if graph.rank(rows) == 0 or are_distinct(graph, node):
            return None
        before = graph.producer(start, "ScatterElements")
        is_mean = before is not None and before.input[1] == ids and graph.uniform(before.input[2]) == 0
        stands_for = "mean" if is_mean else self._assigned(graph, node)
        if stands_for not in _SUMS and graph.uniform(rows) is not None:  # the last row is any row
            return None
        return {"stands_for": stands_for} if stands_for else None

    def _assigned(self, graph: Graph, node: NodeProto) -> str | None:
        """What a scatter stands for that may be an assignment; None for one that is nothing else."""
        is_nd = node.op_type == "ScatterND"
        if not graph.is_zeros(node.input[0]):
            return "assignment" if self._producer == "pytorch" and not is_nd else None
        users = graph.users(node.output[0])
        if users and all(user.op_type == "Add" for user in users) and node.output[0] not in graph.outputs:
            return "sum"
        if self._producer == "tf2onnx" and is_nd:
            return "scatter_nd"
        return None if is_nd else "zeros"

    def _ignores_self(self, graph: Graph, node: NodeProto) -> bool:
        """Whether it is the first of the two scatters that PyTorch Geometric has for a maximum in a TorchScript file.

        It puts the least of all rows into zeros, in place of those, but takes the larger of the two.
        """
        users = graph.users(node.output[0])
        is_first = len(users) == 1 and users[0].op_type == node.op_type == "ScatterElements"
        is_same = is_first and users[0].input[1] == node.input[1] and _reduction(users[0]) == _reduction(node)
        return is_same and _reduction(node) in _IDENTITIES and graph.is_zeros(node.input[0])

    def check(self, graph: Graph, node: NodeProto, stands_for: str) -> str | None:
        """It must have been asked for, and be of numbers."""
        if self._repairs.of_scatter(node, stands_for) is not None:
            dtype = graph.dtype(node.input[0])
            return None if dtype in NUMBERS else f"rows of {dtype_name(dtype)} cannot be reduced"
        opset = f"{node.op_type} of opset {graph.opset}"
        if stands_for == "self":
            return (
                f"{opset} makes 0 of a {_reduction(node)} beyond it: PyTorch Geometric writes maxima and minima so in "
                f"TorchScript files (--repair-scatter {_reduction(node)})"
            )
        written, cure = _SOURCES[stands_for]
        return f"{opset} keeps the last of rows with equal ids: {written} ({cure.format(node=node.name)})"

    def rewrite(self, graph: Graph, node: NodeProto, stands_for: str) -> None:
        """Reduce the rows by their ids, and merge them with those that are there."""
        reduction = self._repairs.of_scatter(node, stands_for)
        assert reduction is not None
        emit = graph.emitter(node)
        if stands_for == "self":
            result = self._of_rows_alone(graph, emit, node)
        elif reduction == "mean":
            result = self._mean(graph, emit, node, takes_part=stands_for != "mean")
        else:
            result = reduced_into(graph, node, reduction)
        graph.bypass(node, result.name)

    @staticmethod
    def _of_rows_alone(graph: Graph, emit: Emitter, node: NodeProto) -> Tensor:
        """The reduction of the rows, and where there are none, what is there."""
        start, identity = graph.tensor(node.input[0]), _IDENTITIES[_reduction(node)]
        if start.dtype not in FLOATS:
            limits = np.iinfo(helper.tensor_dtype_to_np_dtype(start.dtype))
            identity = {-np.inf: limits.min, np.inf: limits.max}.get(identity, identity)
        first = emit.op("Expand", emit.like(identity, start), emit.shape_of(start), shape=start.shape)
        reduced = reduced_into(graph, node, _reduction(node), start=first)
        counts = _counts(graph, emit, node)
        touched = emit.op("Greater", counts, emit.like(0, counts), shape=start.shape)
        return emit.op("Where", touched, reduced, start, shape=start.shape)

    @staticmethod
    def _mean(graph: Graph, emit: Emitter, node: NodeProto, *, takes_part: bool) -> Tensor:
        """The means of the rows and, if it takes part, the row that is there; in the file before, zeros are."""
        total, counts = reduced_into(graph, node, "add"), _counts(graph, emit, node)
        counts = emit.op("Add" if takes_part else "Max", counts, emit.like(1, counts), shape=counts.shape)
        if total.dtype not in FLOATS:  # ONNX's division truncates, torch's mean rounds down
            total = emit.op("Sub", total, emit.op("Mod", total, counts, shape=total.shape), shape=total.shape)
        return emit.op("Div", total, counts, shape=total.shape)


def _reduction(node: NodeProto) -> str:
    reduction: bytes = attribute(node, "reduction", b"none")
    return reduction.decode()


def _counts(graph: Graph, emit: Emitter, node: NodeProto) -> Tensor:
    """How many elements are scattered to each, in their type."""
    start, _, rows = map(graph.tensor, node.input)
    ones = emit.op("Expand", emit.like(1, rows), emit.shape_of(rows), shape=rows.shape)
    zeros = emit.op("Expand", emit.like(0, start), emit.shape_of(start), shape=start.shape)
    return reduced_into(graph, node, "add", start=zeros, rows=ones)


def lost_rows(model: ModelProto) -> list[tuple[str, str]]:
    """The names of the scatters that may lose rows, also in functions, and how they do; none of a malformed model.

    Args:
        model: A model whose types have been inferred; it is not changed.
    """
    try:
        copy = with_inlined(without_calls_of_functions(model), LostRows.anchors)
        if len(copy.functions) < len(model.functions):
            copy = with_inferred_types(copy, data_prop=True)
    except ValueError:  # a function has no name or cannot be inlined
        return []
    attempts = rewrite(copy, [[KnownBranch()], [LostRows(producer=model.producer_name)]])
    return [(attempt.node, attempt.reason) for attempt in attempts if attempt.rule == LostRows.name]
