"""Normalizations and quantization."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import FLOATS, OpenVINOEmitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor


@handles("BatchNormInference-1", to="BatchNormalization")
def batch_norm_1(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """BatchNormInference-1, whose data is the third input."""
    return _batch_norm(node, emit, node[2], (node[0], node[1], node[3], node[4]))


@handles("BatchNormInference-5", to="BatchNormalization")
def batch_norm_5(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """BatchNormInference-5."""
    return _batch_norm(node, emit, node[0], (node[1], node[2], node[3], node[4]))


def _batch_norm(node: Node, emit: OpenVINOEmitter, data: Tensor, parameters: tuple[Tensor, ...]) -> Tensor:
    return emit.op("BatchNormalization", data, *parameters, epsilon=node.number("epsilon"))


@handles("MVN-1", to="LayerNormalization, or ReduceMean, Mul, Sqrt", notes="The rank must be known.")
def mvn_1(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """MVN-1: over the spatial axes, and with `across_channels` also over the channels; eps is inside the root."""
    rank = node[0].rank
    if node.has("reduction_axes"):
        axes = node.integers("reduction_axes")
        node.disregard("across_channels")
    else:
        axes = list(range(1 if node.flag("across_channels", False) else 2, rank))
    return _mvn(node, emit, emit.constant(axes), inside=True)


@handles("MVN-6", to="LayerNormalization, or ReduceMean, Mul, Sqrt")
def mvn_6(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """MVN-6."""
    inside = node.choice("eps_mode", ("inside_sqrt", "outside_sqrt")) == "inside_sqrt"
    return _mvn(node, emit, emit.vector(node[1]), inside=inside)


#: The types for which ONNX Runtime has LayerNormalization.
_LAYERS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
#: The largest size at which a constant scale of ones is worth having three nodes instead of seven.
_MOST_ONES = 2**14


def _mvn(node: Node, emit: OpenVINOEmitter, axes: Tensor, *, inside: bool) -> Tensor:
    x = node[0]
    if x.dtype not in FLOATS:
        raise Unsupported(f"{x}: OpenVINO rounds its means or not, depending on the axes")
    centered = emit.op("Sub", x, emit.op("ReduceMean", x, axes))
    if not node.flag("normalize_variance", True):
        node.disregard("eps", "eps_mode")
        return centered
    if inside and x.dtype in _LAYERS and (last := _last_dims(x, axes)):
        # Older versions of ONNX Runtime lose the variance of numbers far from 0, so these are centered first.
        ones = emit.constant(np.ones(last), x.dtype)
        return emit.op("LayerNormalization", centered, ones, axis=-len(last), epsilon=node.number("eps"))
    variance = emit.op("ReduceMean", emit.op("Mul", centered, centered), axes)
    epsilon = emit.like(node.number("eps"), x)
    if inside:
        deviation = emit.op("Sqrt", emit.op("Add", variance, epsilon))
    else:
        deviation = emit.op("Add", emit.op("Sqrt", variance), epsilon)
    return emit.op("Div", centered, deviation)


def _last_dims(x: Tensor, axes: Tensor) -> tuple[int, ...]:
    """The dimensions of the given axes if they are the last ones and known, else ()."""
    if x.shape is None or axes.value is None or not axes.value.size:
        return ()
    rank, count = len(x.shape), axes.value.size
    if sorted(x.axis(int(a)) for a in axes.value) != list(range(rank - count, rank)):
        return ()
    dims = tuple(d for d in x.shape[-count:] if d is not None)
    return dims if len(dims) == count and math.prod(dims) <= _MOST_ONES else ()


@handles("NormalizeL2-1", to="ReduceSum, Sqrt, Div")
def normalize_l2(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """NormalizeL2-1: x / sqrt(sum(x * x) + eps), or max of the sum and eps. Without axes, all but 0 becomes 1."""
    x = node[0]
    if node[1].value is not None and not node[1].value.size:
        node.disregard("eps", "eps_mode")
        return emit.cast(emit.op("Not", emit.op("Equal", x, emit.like(0, x))), x.dtype)
    squares = emit.op("ReduceSum", emit.op("Mul", x, x), emit.vector(node[1]), noop_with_empty_axes=1)
    join = {"add": "Add", "max": "Max"}[node.choice("eps_mode", ("add", "max"))]
    return emit.op("Div", x, emit.op("Sqrt", emit.op(join, squares, emit.like(node.number("eps"), x))))


@handles("GRN-1", to="ReduceSum, Sqrt, Div")
def grn(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """GRN-1: x / sqrt(the sum of x * x over the channels + bias)."""
    x = emit.floats(node[0])
    squares = emit.op("ReduceSum", emit.op("Mul", x, x), emit.constant([1]))
    root = emit.op("Sqrt", emit.op("Add", squares, emit.like(node.number("bias"), x)))
    return emit.narrowed("Div", emit.op("Div", x, root), node[0].dtype)


@handles("GroupNormalization-12", to="Reshape, ReduceMean, Sqrt")
def group_normalization(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """GroupNormalization-12. ONNX's operator of that name is in a later operator set."""
    x, groups = node[0], node.integer("num_groups")
    rank = x.rank
    grouped = emit.op("Reshape", x, emit.constant([0, groups, -1]))
    axes = emit.constant([2])
    centered = emit.op("Sub", grouped, emit.op("ReduceMean", grouped, axes))
    variance = emit.op("ReduceMean", emit.op("Mul", centered, centered), axes)
    root = emit.op("Sqrt", emit.op("Add", variance, emit.like(node.number("epsilon"), x)))
    normal = emit.op("Reshape", emit.op("Div", centered, root), emit.shape_of(x))
    column = emit.constant([-1] + [1] * (rank - 2))
    scale, shift = (emit.op("Reshape", emit.cast(node[k], x.dtype), column) for k in (1, 2))
    return emit.op("Add", emit.op("Mul", normal, scale), shift)


@handles("LRN-1", to="LRN", notes="Over one axis only.")
def lrn(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """LRN-1. ONNX's LRN is over axis 1."""
    axes = [node[0].axis(axis) for axis in node[1].integers("the axes")]
    if len(axes) != 1:
        raise Unsupported(f"{len(axes)} axes; one is converted")
    numbers: dict[str, Any] = {key: node.number(key) for key in ("alpha", "beta", "bias")}
    rank = node[0].rank
    order = [*(k for k in range(rank) if k != axes[0])]
    order.insert(min(1, rank - 1), axes[0])
    data = node[0] if order == [*range(rank)] else emit.op("Transpose", node[0], perm=order)
    if rank == 1:
        data = emit.op("Unsqueeze", data, emit.constant([0]))
    made = emit.op("LRN", data, size=node.integer("size"), **numbers)
    if rank == 1:
        return emit.op("Squeeze", made, emit.constant([0]))
    if order == [*range(rank)]:
        return made
    return emit.op("Transpose", made, perm=[order.index(k) for k in range(rank)])


@handles("ScaledDotProductAttention-13", to="MatMul, Softmax")
def attention(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """ScaledDotProductAttention-13: softmax(query @ key.T * scale + mask) @ value.

    A sink is a score beside those of the keys, [..., 1], of a value that is 0.
    """
    query, key, value = node[0], node[1], node[2]
    mask, given, sink = node.optional(3), node.optional(4), node.optional(5)
    rank = key.rank
    if given is not None:
        scale = emit.scalar(given)
    else:
        width = emit.op("Squeeze", emit.shape_of(query, -1), emit.constant([0]))
        scale = emit.op("Div", emit.like(1, query), emit.op("Sqrt", emit.cast(width, query.dtype)))
    swapped = emit.op("Transpose", key, perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = emit.op("MatMul", emit.op("Mul", query, scale), swapped)
    infinity = emit.constant(-np.inf, query.dtype)
    if node.flag("causal", False):
        node.disregard("3")
        lengths = [emit.op("Squeeze", emit.shape_of(t, -2, -1), emit.constant([0])) for t in (query, key)]
        rows, columns = (emit.op("Range", emit.constant(0), n, emit.constant(1)) for n in lengths)
        column = emit.op("Unsqueeze", rows, emit.constant([1]))
        later = emit.op("Greater", columns, column)
        scores = emit.op("Where", later, infinity, scores)
    elif mask is not None and mask.dtype == TensorProto.BOOL:
        scores = emit.op("Where", mask, scores, infinity)
    elif mask is not None:
        scores = emit.op("Add", scores, mask)
    if sink is None:
        return emit.op("MatMul", emit.op("Softmax", scores, axis=-1), value)
    if sink.rank != query.rank or sink.dim(-1) not in (None, 1):
        raise Unsupported(f"a sink {sink} for the query {query}: the same rank and a last size of 1 are expected")
    rows = emit.op("Concat", emit.shape_of(scores, 0, -1), emit.constant([1]), axis=0)
    with_sink = emit.op("Concat", scores, emit.op("Expand", emit.cast(sink, scores.dtype), rows), axis=-1)
    weights = emit.op("Slice", emit.op("Softmax", with_sink, axis=-1), *map(emit.constant, ([0], [-1], [-1])))
    return emit.op("MatMul", weights, value)
