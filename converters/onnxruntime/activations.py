"""Functions that ONNX Runtime computes wrongly at the ends of types: Sigmoid, Softplus, logs of sums of powers."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto, helper

from onnx_sparse.converters.onnxruntime.examples import of_nodes, one_node
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.rewriting.graph import KNOWN_DOMAINS, Graph
from onnx_sparse.models.graphs import attribute, attributes

_NODE = helper.make_node
#: What hands on the size of small numbers.
_MOVING = frozenset(
    ["AveragePool", "Cast", "Concat", "DepthToSpace", "Flatten", "Identity", "MaxPool", "Mul", "Pad", "Reshape",
     "Resize", "Slice", "SpaceToDepth", "Split", "Squeeze", "Transpose", "Unsqueeze"]
)  # fmt: skip
#: What adds numbers of all sizes, in whose sums the error of a small one is not seen.
_SUMMING = frozenset(
    ["Add", "Conv", "ConvTranspose", "Gemm", "GlobalAveragePool", "LayerNormalization", "MatMul", "ReduceMean", "Sub"]
)


class SmallSigmoid(Guard):
    """Sigmoid is an approximation: of -12 it is off by 0.6 %, of -18 and less it is 0, also in double below -40; so the
    logarithm of Sigmoid(-20) is minus infinity.

    1 / (1 + exp(-x)) replaces it, which takes twice its time, but for the Swish of a network, x * Sigmoid(x), whose
    results are added to others.
    """

    name = "small sigmoid"
    anchors = ("Sigmoid",)
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = of_nodes(
        [_NODE("Sigmoid", ["x"], ["chance"]), _NODE("Greater", ["chance", "none"], ["y"])],
        {"x": np.array([-20], np.float32)},
        np.array([True]),
        constants={"none": np.array(0, np.float32)},
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Floats that are not lost in sums."""
        return graph.dtype(node.input[0]) in (TensorProto.FLOAT, TensorProto.DOUBLE) and not _is_swish(graph, node)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Divide by a sum."""
        emit, x = graph.emitter(node), graph.tensor(node.input[0])
        one = emit.like(1.0, x)
        power = emit.op("Exp", emit.op("Neg", x, shape=x.shape), shape=x.shape)
        graph.replace(node, "Div", [one, emit.op("Add", one, power, shape=x.shape)])


class SmallSwish(Guard):
    """Swish computes with the approximation of Sigmoid.

    A Sigmoid and a product replace it.
    """

    name = "small swish"
    anchors = ("Swish",)
    seen, effect = ("1.25", "1.32"), "wrong result"
    example = of_nodes(
        [_NODE("Swish", ["x"], ["small"]), _NODE("Less", ["small", "none"], ["y"])],
        {"x": np.array([-20], np.float32)},
        np.array([True]),
        constants={"none": np.array(0, np.float32)},
        opset=24,
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Floats."""
        return graph.dtype(node.input[0]) in (TensorProto.FLOAT, TensorProto.DOUBLE)

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Multiply by a Sigmoid, which another guard replaces."""
        emit, x = graph.emitter(node), graph.tensor(node.input[0])
        alpha = attribute(node, "alpha", 1.0)
        inner = x if alpha == 1 else emit.op("Mul", x, emit.like(alpha, x), shape=x.shape)
        graph.replace(node, "Mul", [x, emit.op("Sigmoid", inner, shape=x.shape)])


class SmallSoftplus(Guard):
    """Softplus of double is log(exp(x) + 1), which is 0 below -37; Mish computes with it.

    max(x, 0) + log1p(exp(-|x|)) replaces it, where log1p keeps its digits by Kahan's quotient.
    """

    name = "small softplus"
    anchors = ("Softplus", "Mish")
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = of_nodes(
        [_NODE("Softplus", ["x"], ["small"]), _NODE("Greater", ["small", "none"], ["y"])],
        {"x": np.array([-50.0])},
        np.array([True]),
        constants={"none": np.array(0.0)},
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Doubles."""
        return graph.dtype(node.input[0]) == TensorProto.DOUBLE

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Where 1 + t is 1, log1p(t) is t, else t * log(1 + t) / ((1 + t) - 1)."""
        emit, x = graph.emitter(node), graph.tensor(node.input[0])
        zero, one = emit.like(0.0, x), emit.like(1.0, x)
        power = emit.op("Exp", emit.op("Neg", emit.op("Abs", x)), shape=x.shape)
        more = emit.op("Add", one, power, shape=x.shape)
        is_one = emit.op("Equal", more, one, shape=x.shape)
        beyond = emit.op("Where", is_one, one, emit.op("Sub", more, one), shape=x.shape)
        quotient = emit.op("Div", emit.op("Mul", power, emit.op("Log", more)), beyond, shape=x.shape)
        log1p = emit.op("Where", is_one, power, quotient, shape=x.shape)
        if node.op_type == "Softplus":
            graph.replace(node, "Add", [emit.op("Max", x, zero), log1p])
        else:
            graph.replace(node, "Mul", [x, emit.op("Tanh", emit.op("Add", emit.op("Max", x, zero), log1p))])


class LogSoftmaxOfDouble(Guard):
    """LogSoftmax of doubles with a NaN or an infinity gives numbers; that of floats gives NaN.

    The logarithm of a sum of powers replaces it.
    """

    name = "log of softmax of double"
    anchors = ("LogSoftmax",)
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = one_node("LogSoftmax", np.array([[1, np.nan, 2]]), expected=np.full((1, 3), np.nan), axis=-1)

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Doubles, along one axis."""
        return graph.dtype(node.input[0]) == TensorProto.DOUBLE and graph.opset >= 13

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Subtract the largest, and the logarithm of the sum of powers."""
        emit, x = graph.emitter(node), graph.tensor(node.input[0])
        axis = emit.constant([attribute(node, "axis", -1)])
        shifted = emit.op("Sub", x, emit.op("ReduceMax", x, axis, keepdims=1), shape=x.shape)
        total = emit.op("ReduceSum", emit.op("Exp", shifted, shape=x.shape), axis, keepdims=1)
        graph.replace(node, "Sub", [shifted, emit.op("Log", total)])


class LogSumExpOfHalf(Guard):
    """ReduceLogSumExp of half floats is infinite for numbers whose powers are beyond the type.

    It computes in float.
    """

    name = "log of sums of powers of half floats"
    anchors = ("ReduceLogSumExp",)
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = one_node(
        "ReduceLogSumExp", np.array([[60000]], np.float16), axes=[1], expected=np.array([[60000]], np.float16)
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Half floats."""
        return graph.dtype(node.input[0]) == TensorProto.FLOAT16

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Cast before and after."""
        emit = graph.emitter(node)
        data, *axes = (graph.tensor(name) if name else None for name in node.input)
        assert data is not None
        wide = emit.cast(data, TensorProto.FLOAT)
        (result,) = emit.node(node.op_type, [wide, *axes], [TensorProto.FLOAT], **attributes(node))
        graph.replace(node, "Cast", [result], to=TensorProto.FLOAT16)


def _is_swish(graph: Graph, node: NodeProto) -> bool:
    """Whether a Sigmoid is only multiplied by its own input, perhaps scaled, and the product is lost in sums."""
    arguments = {node.input[0]}
    scaled = graph.producer(node.input[0], "Mul")
    if scaled is not None:
        arguments.update(name for name in scaled.input if graph.uniform(name) is None)
    result = node.output[0]
    readers = graph.readers(result)
    if result in graph.outputs or not readers:
        return False
    own = [
        r.op_type == "Mul" and not arguments.isdisjoint(r.input) and list(r.input).count(result) == 1 for r in readers
    ]
    return all(own) and all(_is_lost(graph, reader.output[0]) for reader in readers)


def _is_lost(graph: Graph, name: str) -> bool:
    """Whether a tensor only becomes part of sums."""
    waiting, seen = [name], {name}
    while waiting:
        current = waiting.pop()
        readers = graph.readers(current)
        if current in graph.outputs or not readers:
            return False
        for reader in readers:
            if reader.domain in KNOWN_DOMAINS and reader.op_type in _MOVING:
                waiting += [output for output in reader.output if output and output not in seen]
                seen.update(reader.output)
            elif reader.domain not in KNOWN_DOMAINS or reader.op_type not in _SUMMING:
                return False
    return True
