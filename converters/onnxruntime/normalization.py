"""Normalizations whose variance ONNX Runtime finds as a difference of squares."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto

from onnx_sparse.converters.onnxruntime.examples import one_node
from onnx_sparse.converters.onnxruntime.guard import Guard
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.models.graphs import attribute

#: The opset from which on each channel has a scale and a bias of its own; before, each group has.
_OF_CHANNELS = 21


class VarianceOfGroups(Guard):
    """GroupNormalization loses digits where the mean exceeds the deviation; at 1000 times it is noise or NaN.

    The mean is taken off before the squares are added.
    """

    name = "variance of groups"
    anchors = ("GroupNormalization",)
    seen, effect = ("1.21", "1.32"), "wrong result"
    example = one_node(
        "GroupNormalization",
        np.array([[[4095, 4097]]], np.float32),
        expected=np.array([[[-1, 1]]], np.float32),
        constants={"scale": np.ones(1, np.float32), "bias": np.zeros(1, np.float32)},
        num_groups=1,
        epsilon=0.0,
    )

    def may_fail(self, graph: Graph, node: NodeProto) -> bool:
        """Inputs of any values, whose rank is known."""
        return (graph.rank(node.input[0]) or 0) > 2

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Normalize each group, in float32 at least, then scale and shift."""
        emit, groups = graph.emitter(node), attribute(node, "num_groups", 0)
        x, scale, bias = map(graph.tensor, node.input)
        wide = x.dtype if x.dtype == TensorProto.DOUBLE else TensorProto.FLOAT
        last, one_each = emit.constant([2]), (None, groups, 1)
        grouped = emit.op("Reshape", emit.cast(x, wide), emit.constant([0, groups, -1]), shape=(None, groups, None))
        mean = emit.op("ReduceMean", grouped, last, shape=one_each)
        centered = emit.op("Sub", grouped, mean, shape=grouped.shape)
        squares = emit.op("Mul", centered, centered, shape=grouped.shape)
        variance = emit.op("ReduceMean", squares, last, shape=one_each)
        epsilon = emit.like(attribute(node, "epsilon", 1e-5), grouped)
        root = emit.op("Sqrt", emit.op("Add", variance, epsilon, shape=one_each), shape=one_each)
        made = emit.op("Div", centered, root, shape=grouped.shape)
        whole = emit.shape_of(x)
        if graph.opset >= _OF_CHANNELS:
            made = emit.op("Reshape", made, whole, shape=x.shape, allowzero=1)
        column = emit.constant([-1] + [1] * (len(made.shape or ()) - 2))
        scale, bias = (emit.op("Reshape", emit.cast(each, wide), column) for each in (scale, bias))
        made = emit.op("Add", emit.op("Mul", made, scale, shape=made.shape), bias, shape=made.shape)
        if graph.opset < _OF_CHANNELS:
            made = emit.op("Reshape", made, whole, shape=x.shape, allowzero=1)
        graph.bypass(node, emit.cast(made, x.dtype).name)
