"""Element types for which ONNX Runtime has no kernel: its session does not load."""

from __future__ import annotations

from functools import partial, reduce

import numpy as np
from onnx import NodeProto, TensorProto

from onnx_sparse.converters.kernels import forms
from onnx_sparse.converters.kernels.element_types import has_kernel, limited_operators
from onnx_sparse.converters.onnxruntime.examples import one_node
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.models.graphs import attribute, attributes
from onnx_sparse.schemas.declaration import SIGNED_INTEGERS, UNSIGNED_INTEGERS

#: Operators that may move elements as they are, and types with more digits than the floats that their kernels take.
_MOVING = ("GridSample", "Resize", "Upsample")
_TOO_LONG: dict[int, tuple[int, ...]] = {
    TensorProto.FLOAT: (*SIGNED_INTEGERS[2:], *UNSIGNED_INTEGERS[2:], TensorProto.DOUBLE),
    TensorProto.DOUBLE: (TensorProto.INT64, TensorProto.UINT64),
}


class MissingKernel(Guard):
    """Many operators have no kernel for short or unsigned integers, and some have none for double.

    The operator computes in a wider type.
    """

    name = "missing kernel"
    anchors = limited_operators()
    seen, effect = ("1.21", "1.32"), "refused"
    example = one_node(
        "Max", np.array([1, -2], np.int16), np.array([0, 3], np.int16), expected=np.array([1, 3], np.int16)
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """An operator on a type that is known to lack a kernel, which a wider type has."""
        if any(name and not graph.dtype(name) for name in node.output):
            return False
        inputs = [Tensor(name, graph.dtype(name)) if name else None for name in node.input]  # constants are not read
        wide = graph.emitter(node).wider(node.op_type, inputs, [graph.dtype(name) for name in node.output])
        if node.op_type in _MOVING and attribute(node, "mode", b"nearest") == b"nearest":
            return bool(wide) and not any(graph.dtype(node.input[0]) in _TOO_LONG.get(t, ()) for t in wide.values())
        return bool(wide)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Cast, compute, and cast back."""
        inputs = [graph.tensor(name) if name else None for name in node.input]
        dtypes, shapes = [*map(graph.dtype, node.output)], [*map(graph.shape, node.output)]
        made = graph.emitter(node).ops(node.op_type, inputs, dtypes, shapes, **attributes(node))
        graph.replace_by(node, made)


class RearrangedTypes(Guard):
    """DepthToSpace and SpaceToDepth have kernels for floats and bytes only.

    A Transpose, which takes all types, does the same.
    """

    name = "channels to space"
    anchors = ("DepthToSpace", "SpaceToDepth")
    seen, effect = ("1.21", "1.32"), "refused"
    example = one_node(
        "DepthToSpace",
        np.array([2**60 + k for k in range(4)]).reshape(1, 4, 1, 1),
        blocksize=2,
        expected=np.array([2**60 + k for k in range(4)]).reshape(1, 1, 2, 2),
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """A type without a kernel."""
        dtype = graph.dtype(node.input[0])
        return bool(dtype) and not has_kernel(node.op_type, "T", dtype, graph.opset)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Split axes, move them, and join them."""
        emit, data, block = graph.emitter(node), graph.tensor(node.input[0]), attribute(node, "blocksize")
        shape, b = emit.op("Shape", data), emit.constant([block])
        rows, channels, *space = (emit.op("Gather", shape, emit.constant([k])) for k in range(4))
        if node.op_type == "SpaceToDepth":
            split = [rows, channels, emit.op("Div", space[0], b), b, emit.op("Div", space[1], b), b]
            order, joined = [0, 3, 5, 1, 2, 4], ([0], [1, 2, 3], [4], [5])
        else:
            left = emit.op("Div", channels, emit.constant([block * block]))
            is_column = attribute(node, "mode", b"DCR") == b"CRD"
            split = [rows, left, b, b, *space] if is_column else [rows, b, b, left, *space]
            order = [0, 1, 4, 2, 5, 3] if is_column else [0, 3, 4, 1, 5, 2]
            joined = ([0], [1], [2, 3], [4, 5])
        parts = emit.reshaped(data, emit.op("Concat", *split, axis=0), (None,) * 6)
        moved = emit.op("Transpose", parts, perm=order, shape=(None,) * 6)
        whole = emit.op("Concat", *(reduce(partial(emit.op, "Mul"), [split[order[k]] for k in axes])
                                    for axes in joined), axis=0)  # fmt: skip
        graph.replace_by(node, [emit.reshaped(moved, whole, (None,) * 4)])


class OneHotTypes(Guard):
    """OneHot has kernels for few types.

    Positions and depth become int64, and a Where chooses among other values.
    """

    name = "types of OneHot"
    anchors = ("OneHot",)
    seen, effect = ("1.21", "1.32"), "refused"
    example = one_node(
        "OneHot",
        np.array([1], np.uint8),
        constants={"depth": np.int32(2), "values": np.array([0.25, 0.5])},
        expected=np.array([[0.25, 0.5]]),
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Values of a type without a kernel, or positions that are not int64."""
        *places, values = (graph.dtype(name) for name in node.input)
        is_usual = all(dtype in (0, TensorProto.INT64) for dtype in places)
        return bool(values) and not (is_usual and forms.has_kernel(forms.one_hot(values)))

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Cast, and choose the values where the numbers of the positions are 1."""
        emit, (indices, depth, values) = graph.emitter(node), map(graph.tensor, node.input)
        places = [emit.cast(tensor, TensorProto.INT64) for tensor in (indices, depth)]
        shape, written = graph.shape(node.output[0]), attributes(node)
        if forms.has_kernel(forms.one_hot(values.dtype)):
            graph.replace_by(node, [emit.op("OneHot", *places, values, shape=shape, **written)])
            return
        numbers = emit.op("OneHot", *places, emit.constant([0, 1]), shape=shape, **written)
        off, on = (emit.op("Gather", values, emit.constant(k)) for k in (0, 1))
        is_on = emit.cast(numbers, TensorProto.BOOL)
        graph.replace_by(node, [emit.op("Where", is_on, on, off, shape=shape)])


class GemmOfIntegers(Guard):
    """Gemm takes floats only.

    A MatMul, a Mul and an Add replace it.
    """

    name = "Gemm of integers"
    anchors = ("Gemm",)
    seen, effect = ("1.21", "1.32"), "refused"
    example = one_node("Gemm", np.array([[2]]), np.array([[2**60 + 1]]), expected=np.array([[2**61 + 2]]))

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Integers, and whole factors."""
        factors = [attribute(node, name, 1.0) for name in ("alpha", "beta")]
        is_integer = graph.dtype(node.input[0]) in (*SIGNED_INTEGERS, *UNSIGNED_INTEGERS)
        return is_integer and all(float(factor).is_integer() for factor in factors)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Multiply and add."""
        emit = graph.emitter(node)
        sides = [
            emit.op("Transpose", tensor, perm=[1, 0]) if attribute(node, flag, 0) else tensor
            for tensor, flag in zip(map(graph.tensor, node.input[:2]), ("transA", "transB"), strict=True)
        ]
        made = emit.op("MatMul", *sides, shape=graph.shape(node.output[0]))
        made = emit.op("Mul", made, emit.like(int(attribute(node, "alpha", 1)), made), shape=made.shape)
        if len(node.input) > 2 and node.input[2]:
            bias = graph.tensor(node.input[2])
            scaled = emit.op("Mul", bias, emit.like(int(attribute(node, "beta", 1)), bias))
            made = emit.op("Add", made, scaled, shape=made.shape)
        graph.replace_by(node, [made])


class SumOfIntegers(Guard):
    """Sum takes floats only; tf2onnx writes it for integers, too.

    Additions one after the other replace it.
    """

    name = "sum of integer tensors"
    anchors = ("Sum",)
    seen, effect = ("1.21", "1.32"), "refused"
    example = one_node("Sum", np.array([1]), np.array([2]), np.array([3]), expected=np.array([6]))

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Integers."""
        return graph.dtype(node.input[0]) in (*SIGNED_INTEGERS, *UNSIGNED_INTEGERS)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Add."""
        emit = graph.emitter(node)
        graph.replace(node, "Identity", [reduce(partial(emit.op, "Add"), map(graph.tensor, node.input))])
