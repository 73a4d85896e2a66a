"""Products of transposed matrices, and products and einsums of matrices of which some have no elements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from onnx_sparse.converters.onnxruntime.examples import of_nodes, one_node
from onnx_sparse.converters.onnxruntime.guard import Guard, Known, may_be_empty
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering.einsum import einsum
from onnx_sparse.models.graphs import attribute, subgraphs
from onnx_sparse.schemas.element_types import FLOATS

_NODE = helper.make_node

#: The types of which ONNX Runtime fuses a Transpose with a MatMul, perhaps past a Cast; and a type that is unknown.
_FUSED_TYPES = (*FLOATS, TensorProto.UNDEFINED)

#: Operators past which ONNX Runtime does not move a Transpose.
_NOT_PASSED = frozenset(
    ("Conv", "Einsum", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Gemm", "If", "Loop", "MatMul")
) | {"NonZero", "Reshape", "Scan", "ScatterElements", "ScatterND", "Shape", "Size"}


def _ones(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.ones(shape, np.float32)


class EmptyEinsum(Guard):
    """An Einsum of empty tensors ends the process. One with an ellipsis in one tensor only is refused.

    Products of rearranged matrices replace it.
    """

    name = "einsum"
    anchors = ("Einsum",)
    seen, effect = ("1.21", "1.32"), "process death"
    example = one_node("Einsum", _ones(0, 3, 4), _ones(0, 2, 4), equation="bhd,bmd->bhmd", expected=_ones(0, 3, 2, 4))

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Operands of unknown sizes, or of none."""
        return any(may_be_empty(graph, name) for name in node.input)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Multiply matrices."""
        emit = graph.emitter(node)
        equation = attribute(node, "equation").decode()
        graph.replace(node, "Identity", [einsum(equation, [graph.tensor(name) for name in node.input], emit)])


class ProductByVector(Guard):
    """A Transpose before a MatMul is fused with it. If the other operand is a vector, the fused operator reads
    the matrix as if it were not transposed.

    The vector becomes a matrix of one column. If its rank is unknown, a Reshape without effect separates the two.
    """

    name = "product of a transposed matrix and a vector"
    anchors = ("MatMul",)
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = of_nodes(
        [_NODE("Transpose", ["a"], ["t"], perm=[1, 0]), _NODE("MatMul", ["t", "b"], ["y"])],
        {"a": np.array([[0, 1], [2, 3], [4, 5]], np.float32), "b": np.array([1, 2, 3], np.float32)},
        np.array([16, 22], np.float32),
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """A matrix that may be transposed, of more than one row and column, and what may be a vector."""
        if len(node.input) != 2 or graph.dtype(node.input[0]) not in _FUSED_TYPES:
            return False
        matrix, vector = node.input
        sizes = graph.shape(matrix)
        is_matrix = sizes is None or (len(sizes) >= 2 and 1 not in sizes[-2:])
        return is_matrix and graph.rank(vector) in (1, None) and _may_be_fused(graph, self.known, matrix)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Let the vector be a column, or separate the two."""
        emit = graph.emitter(node)
        matrix, vector = map(graph.tensor, node.input)
        if vector.shape is not None:
            column = emit.op("Unsqueeze", vector, emit.constant([1]), shape=(*vector.shape, 1))
            shape = None if matrix.shape is None else (*matrix.shape[:-1], 1)
            last = emit.constant([-1 if shape is None else len(shape) - 1])
            graph.replace(node, "Squeeze", [emit.op("MatMul", matrix, column, shape=shape), last])
            return
        graph.set_input(node, 0, emit.op("Reshape", matrix, _own_sizes(emit, matrix), shape=matrix.shape).name)


class TransposedProduct(Guard):
    """A Transpose before a MatMul is fused with it. If there is nothing to multiply, the fused operator fails, returns
    uninitialized memory, or ends the process; 1.32 does for a constant without elements.

    A Reshape without effect separates the two. If sizes are known, ONNX Runtime would remove that: zeros replace the
    product.
    """

    name = "product of a transposed matrix"
    anchors = ("MatMul",)
    seen, effect = ("1.21", "1.31"), "wrong result"
    example = of_nodes(
        [_NODE("Transpose", ["a"], ["t"], perm=[1, 0, 2]), _NODE("MatMul", ["t", "b"], ["y"])],
        {"a": _ones(0, 3, 4), "b": _ones(3, 4, 6)},
        _ones(3, 0, 6),
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Operands that may be empty."""
        return any(may_be_empty(graph, name) for name in node.input)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Write zeros, or separate the two."""
        emit = graph.emitter(node)
        shapes = [graph.shape(name) for name in node.input]
        one, other = (shape or () for shape in shapes)
        if len(one) >= 2 and len(other) >= 2 and 0 in (one[-1], other[-2]):
            left, right = map(graph.tensor, node.input)
            sums = emit.op("ReduceSum", left, emit.constant([len(one) - 1]), keepdims=1)
            sizes = emit.shape_of(right)
            batch = emit.op("Slice", sizes, emit.constant([0]), emit.constant([-2]))
            columns = emit.op("Slice", sizes, emit.constant([-1]), emit.constant([len(other)]))
            graph.replace(node, "Expand", [sums, emit.op("Concat", batch, emit.constant([1]), columns, axis=0)])
            return
        for k, name in enumerate(node.input):
            if not _may_be_fused(graph, self.known, name):
                continue
            given, rank = graph.tensor(name), len(_order(graph, name) or shapes[k] or ())
            own = emit.constant(np.zeros(rank, np.int64)) if rank else _own_sizes(emit, given)
            graph.set_input(node, k, emit.op("Reshape", given, own, shape=shapes[k]).name)


class EmptyBatch(Guard):
    """A MatMul does not broadcast a batch of one matrix to none. If there is nothing to multiply, its result has the
    batch of the first operand, or uninitialized memory.

    Operands are broadcast first.
    """

    name = "product of no batch"
    anchors = ("MatMul",)
    seen, effect = ("1.21", "1.31"), "wrong result"
    example = one_node("MatMul", _ones(1, 2, 0), _ones(3, 0, 4), expected=np.zeros((3, 2, 4), np.float32))

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Operands that may be empty, one of which has a batch."""
        shapes = [graph.shape(name) for name in node.input]
        ranks = [len(shape) for shape in shapes if shape is not None]
        is_matrix = len(ranks) == 2 and min(ranks) >= 2 < max(ranks)
        return is_matrix and any(may_be_empty(graph, name) for name in node.input)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Broadcast what is not broadcast."""
        one, other = (graph.shape(name) or () for name in node.input)
        rank = max(len(one), len(other))
        first, second = ((1,) * (rank - len(shape)) + shape[:-2] for shape in (one, other))
        pairs = [*zip(first, second, strict=True)]
        if len(one) > 2 and any(a == 1 and not b for a, b in pairs):
            self._spread(graph, node, 0)
        elif not one[-1] and not other[-2] and any(self._may_differ(graph, node, axis) for axis in range(2 - rank, 0)):
            self._share_batch(graph, node, rank - len(one))
        if len(other) > 2 and any(b == 1 and not a for a, b in pairs):
            self._spread(graph, node, 1)

    @staticmethod
    def _may_differ(graph: Graph, node: NodeProto, axis: int) -> bool:
        """Whether the first operand may have a smaller size than the second in a dimension of the batch."""
        one, other = (graph.shape(name) or () for name in node.input)
        place = axis - 2  # from the end
        first, second = (shape[place] if len(shape) >= -place else 1 for shape in (one, other))
        if first not in (1, None) or second == 1:
            return False
        is_in_both = min(len(one), len(other)) >= -place
        return not (is_in_both and graph.same_size(node.input[0], place, node.input[1], place))

    @staticmethod
    def _spread(graph: Graph, node: NodeProto, position: int) -> None:
        """Broadcast the batch of one operand to that of the other."""
        emit = graph.emitter(node)
        given, other = graph.tensor(node.input[position]), graph.tensor(node.input[1 - position])
        batch = emit.op("Slice", emit.shape_of(other), emit.constant([0]), emit.constant([-2]))
        target = emit.op("Concat", batch, emit.constant([1, 1]), axis=0)
        graph.set_input(node, position, emit.op("Expand", given, target).name)

    @staticmethod
    def _share_batch(graph: Graph, node: NodeProto, missing: int) -> None:
        """Give the first operand the batch of both, but only where it has no elements: nothing is copied."""
        emit = graph.emitter(node)
        given, other = map(graph.tensor, node.input)
        zero, last = emit.constant([0]), emit.constant([-1])
        batch = emit.op("Slice", emit.shape_of(other), zero, emit.constant([-2]))
        target = emit.op("Concat", batch, emit.constant([1, 1]), axis=0)
        nothing = emit.op("Expand", emit.op("Slice", given, zero, zero, last), target)
        sizes = emit.shape_of(given)
        own = emit.op("Concat", emit.constant([1] * missing), sizes, axis=0) if missing else sizes
        is_empty = emit.op("Equal", emit.op("Gather", sizes, last), zero)
        shape = emit.op("Where", is_empty, emit.shape_of(nothing), own)
        graph.set_input(node, 0, emit.op("Reshape", given, shape, allowzero=1).name)


class EmptyIntegerProduct(Guard):
    """A MatMulInteger of rows without elements returns uninitialized memory.

    A Where selects zeros.
    """

    name = "integer product of nothing"
    anchors = ("MatMulInteger",)
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = of_nodes(
        [_NODE("MatMulInteger", ["a", "b"], ["y"])],
        {"a": np.ones((20, 0), np.uint8), "b": np.ones((0, 30), np.uint8)},
        np.zeros((20, 30), np.int32),
        before={"a": np.ones((20, 7), np.uint8), "b": np.ones((7, 30), np.uint8)},
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Rows that may be empty, as far as both operands tell."""
        shapes = [graph.shape(name) for name in node.input[:2]]
        sizes = [shape[max(-2 * k - 1, -2, -len(shape))] for k, shape in enumerate(shapes) if shape]
        return not any(sizes)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Choose zeros."""
        emit = graph.emitter(node)
        given = [graph.tensor(name) if name else None for name in node.input]
        (product,) = emit.node("MatMulInteger", given, [TensorProto.INT32])
        assert given[0] is not None
        size = emit.op("Gather", emit.shape_of(given[0]), emit.constant(-1), shape=())
        graph.replace(node, "Where", [emit.op("Equal", size, emit.constant(0)), emit.like(0, product), product])


def moved_transpositions(model: ModelProto) -> set[str]:
    """The tensors before which ONNX Runtime may put a Transpose: what transposed tensors lead to."""
    found: set[str] = set()
    _follow(model.graph, found)
    return found


def _follow(graph: GraphProto, found: set[str]) -> None:
    for node in graph.node:
        passes = node.domain == "" and node.op_type not in _NOT_PASSED and not found.isdisjoint(node.input)
        if node.op_type == "Transpose" or passes:
            found.update(node.output)
        for body in subgraphs(node):
            _follow(body, found)


def _own_sizes(emit: Emitter, tensor: Tensor) -> Tensor:
    """A new shape that changes nothing, of zeros that are computed: a Reshape by constants may be removed."""
    nothing = emit.op("Mul", emit.op("Size", tensor, shape=()), emit.constant(0))
    return emit.op("Mul", emit.shape_of(tensor), nothing)


def _order(graph: Graph, name: str) -> Sequence[int] | None:
    """The order of the Transpose that makes a tensor, if one does that names it."""
    maker = graph.producer(name, "Transpose")
    return None if maker is None else attribute(maker, "perm")


def _may_be_fused(graph: Graph, known: Known, name: str) -> bool:
    """Whether there may be a Transpose before a tensor that ONNX Runtime fuses with a MatMul of it."""
    order = _order(graph, name)
    return name in known.transposed and (order is None or _is_fused(order))


def _is_fused(order: Iterable[int]) -> bool:
    """Whether ONNX Runtime fuses a Transpose with a MatMul: of matrices, with their batch or its first dimension."""
    given = [*order]
    rank = len(given)
    if given[:-2] == [*range(rank - 2)]:
        return True
    return given in ([*range(1, rank - 1), 0, rank - 1], [*range(1, rank), 0])
