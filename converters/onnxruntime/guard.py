"""What a guard is: a rule that replaces nodes of which ONNX Runtime's results are wrong, or which end the process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from onnx import ModelProto, NodeProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.onnxruntime.integer_ranges import IntegerRanges
from onnx_sparse.converters.rewriting.explanation import Attempt
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.tensor import Array
from onnx_sparse.models.graphs import attribute

#: Operators whose second input is axes.
_AXES_INPUT = frozenset(f"Reduce{kind}" for kind in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum")) | {
    *("ReduceLogSumExp", "ReduceSumSquare"),
}
#: Operators whose axis is one of the result, which has one more, or begins after the last.
_NEW_AXIS = ("OneHot", "Flatten", "Concat")


@dataclass(frozen=True)
class Known:
    """What is known of a model's tensors before its nodes are guarded.

    Attributes:
        integers: Which integers may be large.
        transposed: The tensors before which ONNX Runtime may move a Transpose.
        keeps_bits: Whether ONNX Runtime's answers are the source's own, whose bits are kept where they are right.
    """

    integers: IntegerRanges = field(default_factory=IntegerRanges)
    transposed: Collection[str] = frozenset()
    keeps_bits: bool = False


@dataclass(frozen=True)
class Example:
    """The smallest model that shows a fault.

    Attributes:
        model: The model, which has one output.
        inputs: What to run it on.
        expected: The right answer.
        before: What to run it on before, so that there is something in the memory that it is given.
    """

    model: ModelProto
    inputs: Mapping[str, Array]
    expected: Array
    before: Mapping[str, Array] | None = None


class Guard(Rule[Graph]):
    """A fault of ONNX Runtime and its cure. The docstring of the class states both.

    Attributes:
        seen: The first and the last version of ONNX Runtime in which the fault was seen; the first is that of the
            oldest version that is supported, if it was seen there.
        varies: Whether it shows depends on the processor or on threads.
        effect: What happens: `"process death"`, `"wrong result"` or `"refused"`.
        example: Makes the smallest model that shows it.
    """

    seen: ClassVar[tuple[str, str]]
    varies: ClassVar[bool] = False
    effect: ClassVar[str]
    example: ClassVar[Callable[[], Example]]

    def __init__(self, known: Known) -> None:
        self.known = known

    def attempt(self, graph: Graph, node: NodeProto) -> Attempt | None:
        """Replace a node, if it has the fault; an opset in which the cure cannot be written is a reason not to."""
        if not _has_axes(graph, node):
            return None  # ONNX Runtime refuses it
        try:
            return super().attempt(graph, node)
        except Unsupported as reason:
            return Attempt(self.name, node.name, False, str(reason))

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """The node, where it may have the fault."""
        return {} if self.may_fail(graph, node) else None

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Whether the node may have the fault, as far as its types, shapes and constants tell."""
        raise NotImplementedError


def _has_axes(graph: Graph, node: NodeProto) -> bool:
    """Whether the first input has the axes that a node names, as far as its rank is known."""
    rank = graph.rank(node.input[0]) if node.input else None
    axes = [*attribute(node, "axes", ())]
    if node.op_type in _AXES_INPUT and len(node.input) > 1:
        axes += graph.integers(node.input[1]) or []
    if rank is None or node.op_type in ("If", "Loop", "Scan"):
        return True
    axis = attribute(node, "axis")
    end = rank + (node.op_type in _NEW_AXIS)
    return all(-rank <= each < rank for each in axes) and (axis is None or -end <= axis < end)


def may_be_empty(graph: Graph, name: str) -> bool:
    """Whether a tensor may have no elements."""
    shape = graph.shape(name)
    return shape is None or not all(shape)
