"""Constant folding, common subexpressions, and copies, casts and transpositions that change nothing.

Each rule holds for tensors of any size, empty ones included. Equal nodes are merged and dead ones dropped between the
rules, as in every rewriting.
"""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from onnx_sparse.converters.rewriting.engine import Phase, rewrite
from onnx_sparse.converters.rewriting.graph import Graph, content
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.rewriting.rules.known_branches import KnownBranch
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.writing.folding import folded
from onnx_sparse.models.data.references import is_known
from onnx_sparse.models.graphs import attribute, graphs, rename
from onnx_sparse.schemas.declaration import HALF_FLOATS, DType, element_type, numpy_dtype

#: A constant with more elements is made only if it is no larger than the node's inputs.
_LARGE = 1 << 12

#: Constants with more elements are not compared.
_COMPARED = 1 << 16


def simplify(model: ModelProto) -> None:
    """Tidy a model in place. Types must have been inferred."""
    for graph in graphs(model.graph):
        _merge_equal_constants(graph)
    rewrite(model, [PHASE])


def _merge_equal_constants(graph: GraphProto) -> None:
    """Let nodes read the first of equal constants. Matrices stay apart: they may be tables, replaced one by one."""
    first: dict[bytes, str] = {}
    renamed: dict[str, str] = {}
    kept = {value.name for value in (*graph.input, *graph.output)}
    for tensor in graph.initializer:
        is_table = len(tensor.dims) > 1 or max(tensor.dims, default=0) > _COMPARED
        if is_table or not is_known(tensor) or tensor.name in kept:
            continue
        equal = first.setdefault(content(tensor), tensor.name)
        if equal != tensor.name:
            renamed[tensor.name] = equal
    rename(graph.node, renamed, reading_only=True)


class FoldedConstant(Rule[Graph]):
    """A node whose inputs are constants becomes a constant. Equal."""

    name = "constant"
    anchors = frozenset(
        ("Add", "Cast", "Concat", "Expand", "Gather", "Mul", "Neg", "Range", "Reshape", "Shape", "Slice", "Squeeze")
    ) | {"Sub", "Tile", "Transpose", "Unsqueeze"}

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """Numbers that can be computed, and are not many more than the inputs."""
        names = [*filter(None, node.input)]
        if not all(graph.is_constant(name) and graph.dtype(name) != TensorProto.STRING for name in names):
            return None  # before any is read: one may be a table
        given = {name: array for name in names if (array := graph.constant(name, most=None)) is not None}
        most = max(_LARGE, sum(array.size for array in given.values()))
        array = folded(node, given, {"": graph.opset}, most)
        return None if array is None else {"array": array}

    def rewrite(self, graph: Graph, node: NodeProto, array: Array) -> None:
        """Put the constant in the node's place."""
        graph.bypass(node, graph.add_constant(array, element_type(array.dtype), "", node))


class Copy(Rule[Graph]):
    """Nodes that read a copy read the tensor itself. Equal."""

    name = "copy"
    anchors = ("Identity",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A copy that is no output of the graph."""
        return None if node.output[0] in graph.outputs else {}

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Let what reads the copy read what is copied."""
        graph.bypass(node, node.input[0])


class PlainCast(Rule[Graph]):
    """Of two casts in a row one stays if the first loses nothing, and none where the type is the same. Equal."""

    name = "cast"
    anchors = ("Cast",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A cast to the type of its input, or of a tensor that was cast to a type that holds all of its values."""
        source: str = node.input[0]
        inner = graph.producer(source, "Cast")
        if inner is not None and _holds(attribute(inner, "to"), graph.dtype(inner.input[0])):
            source = inner.input[0]
        is_copy = graph.dtype(source) == attribute(node, "to")
        return {"source": source, "is_copy": is_copy} if is_copy or source != node.input[0] else None

    def rewrite(self, graph: Graph, node: NodeProto, source: str, is_copy: bool) -> None:
        """Cast the tensor before both, or read it."""
        if is_copy:
            graph.bypass(node, source)
        else:
            graph.set_input(node, 0, source)


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether an element type holds every value of another one."""
    if not narrow or TensorProto.STRING in (wide, narrow):
        return False
    if wide in HALF_FLOATS or narrow in HALF_FLOATS:
        return wide == narrow or (narrow in HALF_FLOATS and wide in (TensorProto.FLOAT, TensorProto.DOUBLE))
    source, target = numpy_dtype(narrow), numpy_dtype(wide)
    inexact = source.kind in "iu" and target.kind == "f" and source.itemsize >= target.itemsize
    return bool(np.can_cast(source, target, "safe")) and not inexact  # to numpy, int64 to double is safe


class PlainTransposition(Rule[Graph]):
    """Of two transpositions in a row one stays, and none that leaves the order of axes. Equal."""

    name = "transposition"
    anchors = ("Transpose",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """One in the order that is there, or one after another; their orders are known."""
        order, inner = attribute(node, "perm"), graph.producer(node.input[0], "Transpose")
        before = attribute(inner, "perm") if inner is not None else None
        if inner is not None and order and before:
            return {"source": inner.input[0], "order": [before[axis] for axis in order]}
        return {"source": node.input[0], "order": order} if order and order == sorted(order) else None

    def rewrite(self, graph: Graph, node: NodeProto, source: str, order: list[int]) -> None:
        """Transpose the first tensor by both orders, or read it."""
        if order == sorted(order):
            graph.bypass(node, source)
        else:
            graph.replace(node, "Transpose", [source], perm=order)


class SqueezedAxes(Rule[Graph]):
    """Axes of size 1 that are removed and put back stay. Equal."""

    name = "squeezed-axes"
    anchors = ("Unsqueeze",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """An Unsqueeze of the axes that a Squeeze removes."""
        inner = graph.producer(node.input[0], "Squeeze")
        if inner is None or len(node.input) < 2 or inner.input[1:] != node.input[1:]:
            return None
        return {"source": inner.input[0]}

    def rewrite(self, graph: Graph, node: NodeProto, source: str) -> None:
        """Read the tensor before both."""
        graph.bypass(node, source)


#: Applied together until none fires.
PHASE: Phase = (KnownBranch(), FoldedConstant(), Copy(), PlainCast(), PlainTransposition(), SqueezedAxes())
