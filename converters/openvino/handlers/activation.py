"""Activation functions, Softmax and Clamp."""

from __future__ import annotations

import math

import numpy as np

from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.schemas.declaration import SIGNED_INTEGERS, UNSIGNED_INTEGERS, numpy_dtype


@handles("Elu-1", to="Elu")
def elu(node: Node, emit: Emitter) -> Tensor:
    """Elu-1."""
    return emit.op("Elu", node[0], alpha=node.number("alpha"))


@handles("Selu-1", to="Elu, Mul")
def selu(node: Node, emit: Emitter) -> Tensor:
    """Selu-1, whose alpha and lambda are tensors: lambda * (max(x, 0) + alpha * (exp(min(x, 0)) - 1))."""
    x, alpha, scale = node[0], node[1], node[2]
    zero = emit.like(0, x)
    below = emit.op("Sub", emit.op("Exp", emit.op("Min", x, zero)), emit.like(1, x))
    return emit.op("Mul", scale, emit.op("Add", emit.op("Max", x, zero), emit.op("Mul", alpha, below)))


@handles("PReLU-1", to="PRelu")
def prelu(node: Node, emit: Emitter) -> Tensor:
    """PRelu-1. A vector with as many slopes as there are channels belongs to these, axis 1; others are broadcast."""
    x, slope = node[0], emit.cast(node[1], node[0].dtype)
    if slope.rank == 1 and slope.shape != (1,) and x.rank > 2:
        slope = _slopes_of_channels(x, slope, emit)
    return emit.op("PRelu", x, slope)


def _slopes_of_channels(x: Tensor, slope: Tensor, emit: Emitter) -> Tensor:
    """The slopes in a shape that broadcasts: along axis 1 if it has their number, else along the last axis."""
    channels, count = (x.shape or ())[1], (slope.shape or ())[0]
    along_channels, along_last = emit.constant([-1] + [1] * (x.rank - 2)), emit.constant([1] * (x.rank - 2) + [-1])
    if channels is not None and count is not None:
        return emit.op("Reshape", slope, along_channels) if channels == count else slope
    is_theirs = emit.op("Equal", emit.shape_of(x, 1, 2), emit.shape_of(slope))
    return emit.op("Reshape", slope, emit.op("Where", is_theirs, along_channels, along_last))


@handles("Gelu-2", to="Erf")
def gelu_2(node: Node, emit: Emitter) -> Tensor:
    """Gelu-2, with the error function."""
    return _gelu(node[0], emit, "erf")


@handles("Gelu-7", to="Erf or Tanh")
def gelu_7(node: Node, emit: Emitter) -> Tensor:
    """Gelu-7."""
    return _gelu(node[0], emit, node.choice("approximation_mode", ("erf", "tanh"), "erf"))


def _gelu(x: Tensor, emit: Emitter, mode: str) -> Tensor:
    if mode == "erf":
        inner = emit.op("Erf", emit.op("Div", x, emit.like(math.sqrt(2), x)))
    else:
        cube = emit.op("Mul", emit.op("Mul", x, x), emit.op("Mul", x, emit.like(0.044715, x)))
        inner = emit.op("Tanh", emit.op("Mul", emit.op("Add", x, cube), emit.like(math.sqrt(2 / math.pi), x)))
    half = emit.op("Mul", x, emit.like(0.5, x))
    return emit.op("Mul", half, emit.op("Add", inner, emit.like(1, x)))


@handles("Swish-4", to="Sigmoid, Mul")
def swish(node: Node, emit: Emitter) -> Tensor:
    """Swish-4: x * sigmoid(beta * x)."""
    x, beta = node[0], node.optional(1)
    inner = x if beta is None else emit.op("Mul", x, emit.scalar(beta))
    return emit.op("Mul", x, emit.op("Sigmoid", inner))


@handles("HSigmoid-5", to="HardSigmoid")
def hsigmoid(node: Node, emit: Emitter) -> Tensor:
    """HSigmoid-5: min(max(x + 3, 0), 6) / 6."""
    return emit.op("HardSigmoid", node[0], alpha=1 / 6, beta=0.5)


@handles("HardSigmoid-1", to="Min, Max")
def hard_sigmoid(node: Node, emit: Emitter) -> Tensor:
    """HardSigmoid-1: max(0, min(1, alpha * x + beta)) with alpha and beta as tensors."""
    x = node[0]
    line = emit.op("Add", emit.op("Mul", x, node[1]), node[2])
    return emit.op("Max", emit.like(0, x), emit.op("Min", emit.like(1, x), line))


@handles("Clamp-1", to="Clip")
def clamp(node: Node, emit: Emitter) -> Tensor:
    """Clamp-1. For integers, the bounds are rounded into the interval and limited to the type's range."""
    x, low, high = node[0], node.number("min"), node.number("max")
    if x.dtype in SIGNED_INTEGERS + UNSIGNED_INTEGERS:
        limits = np.iinfo(numpy_dtype(x.dtype))
        least, most = int(limits.min), int(limits.max)
        bottom = math.ceil(max(low, least)) if low > least else least
        top = math.floor(min(high, most)) if high < most else most
        return emit.op("Clip", x, emit.constant(bottom, x.dtype), emit.constant(top, x.dtype))
    return emit.op("Clip", x, emit.like(low, x), emit.like(high, x))


@handles("SoftMax-1", "SoftMax-8", to="Softmax")
def softmax(node: Node, emit: Emitter) -> Tensor:
    """Softmax-1, whose axis is not negative, and Softmax-8."""
    return emit.op("Softmax", node[0], axis=node.integer("axis", 1))


@handles("LogSoftmax-5", to="LogSoftmax")
def log_softmax(node: Node, emit: Emitter) -> Tensor:
    """LogSoftmax-5."""
    return emit.op("LogSoftmax", node[0], axis=node.integer("axis", 1))
