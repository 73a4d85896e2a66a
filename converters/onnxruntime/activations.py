"""Functions that ONNX Runtime computes wrongly at the ends of types: Sigmoid, Softplus, logs of sums of powers."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto, helper

from onnx_sparse.converters.onnxruntime.examples import of_nodes, one_node
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.rewriting.graph import KNOWN_DOMAINS, Graph
from onnx_sparse.models.graphs import attribute, attributes

_NODE = helper.make_node
#: The opset from which on there is a Where.
_WHERE = 9
#: Above it Sigmoid's relative error is less than 1e-3 in float, and 1e-12 in double.
_LIMIT = -8.0
#: Factors and thresholds up to these are of the size of a probability.
_LARGE, _SMALL = 1e3, 1e-3
#: What hands on the size of small numbers.
_MOVING = frozenset(
    ["AveragePool", "Cast", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND",
     "Identity", "MaxPool", "Mul", "Pad", "Relu", "Reshape", "Resize", "Slice", "SpaceToDepth", "Split", "Squeeze",
     "Tile", "Transpose", "Unsqueeze"]
)  # fmt: skip
#: What adds numbers of all sizes, in whose sums the error of a small one is not seen; what follows may divide by it.
_ADDING = frozenset(["Add", "GlobalAveragePool", "ReduceMean", "ReduceSum", "Sub", "Sum"])
#: What multiplies by weights and adds, or takes powers: what follows is of the size of one.
_MIXING = frozenset(
    ["Conv", "ConvTranspose", "Exp", "GRU", "Gemm", "LSTM", "LayerNormalization", "MatMul", "RNN", "Sigmoid", "Softmax"]
)
_COMPARING = frozenset(["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
#: Where the error of a sum is seen, if the sum is small.
_OF_SMALL_SUMS = frozenset(["Log", "Reciprocal", "ReduceLogSum"])


class SmallSigmoid(Guard):
    """Sigmoid is an approximation: of -12 it is off by 0.6 %, of -18 and less it is 0, also in double below -40; so the
    logarithm of Sigmoid(-20) is minus infinity.

    1 / (1 + exp(-x)) replaces it, which takes twice its time, where the error can show: in an output, a logarithm, a
    quotient or a product with large numbers. A Sigmoid whose results are added to others stays, such as a gate before a
    convolution. Where ONNX Runtime's bits are the source's, they are kept down to -8.
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
        """Floats that are not lost in sums, and of which the small ones are not computed otherwise."""
        if graph.dtype(node.input[0]) not in (TensorProto.FLOAT, TensorProto.DOUBLE):
            return False
        return not _is_cured(graph, node) and _shows(graph, node.output[0])

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Divide by a sum."""
        emit, x = graph.emitter(node), graph.tensor(node.input[0])
        one = emit.like(1.0, x)
        if not self.known.keeps_bits or graph.opset < _WHERE:
            power = emit.op("Exp", emit.op("Neg", x, shape=x.shape), shape=x.shape)
            graph.replace(node, "Div", [one, emit.op("Add", one, power, shape=x.shape)])
            return
        power = emit.op("Exp", x, shape=x.shape)
        exact = emit.op("Div", power, emit.op("Add", one, power, shape=x.shape), shape=x.shape)
        is_small = emit.op("Less", x, emit.like(_LIMIT, x), shape=x.shape)
        (own,) = emit.node("Sigmoid", [x], [x.dtype])
        graph.replace(node, "Where", [is_small, exact, own])


class SmallSwish(Guard):
    """Swish computes with the approximation of Sigmoid.

    A Sigmoid and a product replace it where its error can show.
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
        """Floats that are not lost in sums."""
        return graph.dtype(node.input[0]) in (TensorProto.FLOAT, TensorProto.DOUBLE) and _shows(graph, node.output[0])

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


def _shows(graph: Graph, name: str) -> bool:
    """Whether a small error of small numbers can be seen in what becomes of a tensor of numbers up to 1.

    Numbers that others are multiplied with are taken to be of the size of those that the products are added to.
    """
    waiting, seen = [(name, False)], {(name, False)}
    while waiting:
        current, is_sum = waiting.pop()
        if current in graph.outputs and not is_sum:
            return True
        for reader in graph.readers(current):
            kind = reader.op_type if reader.domain in KNOWN_DOMAINS and current in reader.input else ""
            if is_sum and (kind in _OF_SMALL_SUMS or (kind == "Div" and reader.input[1] == current)):
                return True
            if kind in _ADDING and not _adds_little(graph, reader, current):
                after = True
            elif kind in _MOVING or kind in _ADDING:
                if kind == "Mul" and not is_sum and _multiplies(graph, reader, current):
                    return True
                after = is_sum
            elif is_sum or kind in _MIXING or (kind in _COMPARING and not _compares_little(graph, reader, current)):
                continue
            else:
                return True
            found = [(output, after) for output in reader.output if output]
            waiting += [each for each in found if each not in seen]
            seen.update(found)
    return False


def _is_cured(graph: Graph, node: NodeProto) -> bool:
    """Whether small results of a Sigmoid are not used, as this guard writes it."""
    readers = graph.readers(node.output[0])
    limits = [graph.producer(r.input[0], "Less") if r.op_type == "Where" else None for r in readers]
    return (
        bool(readers)
        and node.output[0] not in graph.outputs
        and all(
            limit is not None and limit.input[0] == node.input[0] and graph.uniform(limit.input[1]) == _LIMIT
            for limit in limits
        )
    )


def _others(graph: Graph, node: NodeProto, name: str) -> list[float]:
    """The largest magnitudes of a node's other inputs, as far as they are constants."""
    constants = [graph.constant(other, most=None) for other in node.input if other != name and graph.is_constant(other)]
    return [float(np.max(np.abs(value), initial=0)) for value in constants if value is not None]


def _adds_little(graph: Graph, node: NodeProto, name: str) -> bool:
    """Whether an Add or Sub adds a constant that is as small, such as one that keeps a logarithm finite."""
    return node.op_type in ("Add", "Sub") and any(most < _SMALL for most in _others(graph, node, name))


def _multiplies(graph: Graph, node: NodeProto, name: str) -> bool:
    """Whether a Mul makes small numbers large."""
    return any(most > _LARGE for most in _others(graph, node, name))


def _compares_little(graph: Graph, node: NodeProto, name: str) -> bool:
    """Whether a comparison is with what may be as small."""
    limits = _others(graph, node, name)
    return not limits or min(limits) < _SMALL
