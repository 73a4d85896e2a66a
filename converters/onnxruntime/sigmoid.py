"""Sigmoid, of which ONNX Runtime computes an approximation with a small absolute error."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto, helper

from onnx_sparse.converters.onnxruntime.examples import of_nodes
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.rewriting.graph import KNOWN_DOMAINS, Graph

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
