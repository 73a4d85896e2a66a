"""What a graph computes, as nested expressions that can be compared whatever its names are."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto

from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.models.graphs import attribute

#: An operator and what it is given; or `constant`, `filled`, `input` or `outer` with a value or a name.
Expression = tuple[object, ...]

#: Attributes that change a result; of others, the exporters write the defaults.
_TELLING = ("axis", "keepdims", "start", "end", "to")
_DEFAULTS = {"axis": 0, "keepdims": 1, "start": 0}


class Expressions:
    """The expressions of a body's tensors.

    Args:
        body: The body of a loop.
        inputs: Its inputs, which are expressed by their numbers.
    """

    def __init__(self, body: Graph, inputs: Sequence[str]) -> None:
        self._body = body
        self._inputs = {name: number for number, name in enumerate(inputs)}

    def of(self, name: str, scopes: Sequence[Graph] = ()) -> Expression:
        """The expression of a tensor that is made in the body, or in a branch inside it.

        Args:
            name: The tensor.
            scopes: The branches around it, the outermost first.
        """
        if name in self._inputs:
            return ("input", self._inputs[name])
        for graph in (*reversed(scopes), self._body):
            value = graph.constant(name)
            if value is not None and value.dtype.kind in "iu":
                return ("constant", *(int(element) for element in value.ravel()))
            if value is not None and value.size and (value == value.flat[0]).all():
                return ("filled", value.flat[0].item())
            node = graph.producer(name)
            if node is not None:
                return self._of_node(node, name, scopes)
        return ("outer", name)

    def _of_node(self, node: NodeProto, name: str, scopes: Sequence[Graph]) -> Expression:
        if node.op_type in ("Identity", "CastLike"):
            return self.of(node.input[0], scopes)
        given = [self.of(taken, scopes) for taken in node.input]
        if node.op_type == "If":
            number = list(node.output).index(name)
            for branch in (attribute(node, "then_branch"), attribute(node, "else_branch")):
                inner = (scopes[-1] if scopes else self._body).inner(branch)
                given.append(self.of(branch.output[number].name, [*scopes, inner]))
        axes = attribute(node, "axes")  # an input in later opsets
        if axes is not None:
            given.append(("constant", *axes))
        return (node.op_type, *_written(node), *given)


def _written(node: NodeProto) -> list[tuple[str, int]]:
    written = {name: attribute(node, name) for name in _TELLING}
    return [(name, value) for name, value in written.items() if value is not None and value != _DEFAULTS.get(name)]


def matched(pattern: Expression, found: Expression, names: dict[str, Expression]) -> bool:
    """Whether an expression is a pattern's, whose strings that begin with ? stand for any expressions.

    Args:
        pattern: The pattern.
        found: The expression.
        names: Receives what the names stand for; a name stands for the same everywhere.
    """
    if len(pattern) != len(found):
        return False
    for wanted, part in zip(pattern, found, strict=True):
        if isinstance(wanted, str) and wanted.startswith("?"):
            if not isinstance(part, tuple) or names.setdefault(wanted, part) != part:
                return False
        elif isinstance(wanted, tuple) and isinstance(part, tuple):
            if not matched(wanted, part, names):
                return False
        elif wanted != part:
            return False
    return True
