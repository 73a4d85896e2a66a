"""Activation functions, Softmax and Clamp."""

from __future__ import annotations

import math

import numpy as np

from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering import activations
from onnx_sparse.converters.writing.registry import lowered
from onnx_sparse.schemas.declaration import SIGNED_INTEGERS, UNSIGNED_INTEGERS, numpy_dtype

handles("SoftPlus-4", to="Softplus")(lowered(activations.softplus))
handles("SoftSign-9", to="Softsign")(lowered(activations.softsign))
handles("Mish-4", to="Mish")(lowered(activations.mish))
handles("HSwish-4", to="HardSwish")(lowered(activations.hard_swish))
handles("Selu-1", to="Elu, Mul")(lowered(activations.selu))
handles("HardSigmoid-1", to="Min, Max")(lowered(activations.hard_sigmoid))


@handles("Elu-1", to="Elu")
def elu(node: Node, emit: Emitter) -> Tensor:
    """Elu-1."""
    return activations.elu(emit, node[0], node.number("alpha"))


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
    return activations.gelu(emit, node[0], exact=True)


@handles("Gelu-7", to="Erf or Tanh")
def gelu_7(node: Node, emit: Emitter) -> Tensor:
    """Gelu-7."""
    return activations.gelu(emit, node[0], exact=node.choice("approximation_mode", ("erf", "tanh"), "erf") == "erf")


@handles("Swish-4", to="Sigmoid, Mul")
def swish(node: Node, emit: Emitter) -> Tensor:
    """Swish-4: x * sigmoid(beta * x)."""
    beta = node.optional(1)
    return activations.swish(emit, node[0], 1.0 if beta is None else emit.scalar(beta))


@handles("HSigmoid-5", to="HardSigmoid")
def hsigmoid(node: Node, emit: Emitter) -> Tensor:
    """HSigmoid-5: min(max(x + 3, 0), 6) / 6."""
    return activations.hard_sigmoid(emit, node[0], 1 / 6, 0.5)


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
