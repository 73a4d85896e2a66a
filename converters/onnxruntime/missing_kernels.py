"""Element types for which ONNX Runtime has no kernel: its session does not load."""

from __future__ import annotations

from functools import partial, reduce

import numpy as np
from onnx import NodeProto

from onnx_sparse.converters.onnxruntime.examples import one_node
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.writing.kernel_types import KERNELS, computed_in, operands
from onnx_sparse.models.graphs import attributes
from onnx_sparse.schemas.declaration import SIGNED_INTEGERS, UNSIGNED_INTEGERS


class MissingKernel(Guard):
    """Many operators have no kernel for short or unsigned integers, and some have none for double.

    The operator computes in a wider type.
    """

    name = "missing kernel"
    anchors = tuple(KERNELS)
    seen, effect = ("1.21", "1.32"), "refused"
    example = one_node(
        "Max", np.array([1, -2], np.int16), np.array([0, 3], np.int16), expected=np.array([1, 3], np.int16)
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """An operator with one result whose operands are of a type that is known to lack a kernel."""
        dtype = graph.dtype(next(iter(node.input[operands(node.op_type)]), ""))
        return dtype != 0 and len(node.output) == 1 and computed_in(node.op_type, dtype) != dtype

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Cast, compute, and cast back."""
        emit = graph.emitter(node)
        inputs = [graph.tensor(name) if name else None for name in node.input]
        shape = graph.shape(node.output[0])
        graph.replace(node, "Identity", [emit.op(node.op_type, *inputs, shape=shape, **attributes(node))])


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
