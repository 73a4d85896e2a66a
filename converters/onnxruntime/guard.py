"""What a guard is: a rule that replaces nodes of which ONNX Runtime's results are wrong, or which end the process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

from onnx import ModelProto, NodeProto, defs

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.onnxruntime.integer_ranges import IntegerRanges
from onnx_sparse.converters.rewriting.explanation import Attempt
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.tensor import Array


@dataclass(frozen=True)
class Known:
    """What is known of a model's tensors before its nodes are guarded.

    Attributes:
        integers: Which integers may be large.
        transposed: The tensors before which ONNX Runtime may move a Transpose.
    """

    integers: IntegerRanges = field(default_factory=IntegerRanges)
    transposed: Collection[str] = frozenset()


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
        if not _is_whole(node, graph.opset):
            return None  # ONNX Runtime refuses it
        try:
            return super().attempt(graph, node)
        except Unsupported as reason:
            return Attempt(self.name, node.name, False, str(reason))
        except (IndexError, ZeroDivisionError):  # an axis that its input does not have
            return Attempt(self.name, node.name, False, f"{node.op_type} is malformed")

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """The node, where it may have the fault."""
        return {} if self.may_fail(graph, node) else None

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Whether the node may have the fault, as far as its types, shapes and constants tell."""
        raise NotImplementedError


def _is_whole(node: NodeProto, opset: int) -> bool:
    """Whether a node has the inputs and attributes that its operator must have."""
    least, most, needed = _needs(node.op_type, opset)
    return least <= len(node.input) <= most and needed <= {attribute.name for attribute in node.attribute}


@cache
def _needs(op_type: str, opset: int) -> tuple[int, int, frozenset[str]]:
    """How many inputs an operator must and may have, and which attributes."""
    try:
        schema = defs.get_schema(op_type, opset)
    except defs.SchemaError:
        return 1, 0, frozenset()  # there is no such operator
    return schema.min_input, schema.max_input, frozenset(name for name, a in schema.attributes.items() if a.required)


def may_be_empty(graph: Graph, name: str) -> bool:
    """Whether a tensor may have no elements."""
    shape = graph.shape(name)
    return shape is None or not all(shape)
