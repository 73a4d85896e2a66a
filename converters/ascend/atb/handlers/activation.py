"""ATB ActivationOperation, computed in float32."""

from __future__ import annotations

from collections.abc import Callable

from onnx_sparse.converters.ascend.atb.handlers.registry import Node, handles, refuse
from onnx_sparse.converters.ascend.compositions import fast_gelu, halves
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering.activations import gelu, swish

_TYPES = {
    "UNDEFINED": 0,
    "RELU": 1,
    "GELU": 2,
    "FAST_GELU": 3,
    "SWISH": 4,
    "LOG": 5,
    "SWIGLU_FORWARD": 6,
    "SWIGLU_BACKWARD": 7,
    "SIGMOID": 8,
    "FASTER_GELU_FORWARD": 9,
}
_GELU_MODES = {"TANH_MODE": 0, "NONE_MODE": 1}


@handles(
    "Activation",
    to="Relu, Tanh, Erf, Exp, Sigmoid, Log, Split, Mul",
    notes="dumps do not say geluMode: tanh is assumed",
    ignored=("dim", "scale", "geluMode"),  # those of other types
)
def activation(node: Node, emit: AscendEmitter) -> Tensor:
    """ActivationOperation of type `activationType`."""
    kind = node.params.enum("activationType", _TYPES, 0)
    if kind == _TYPES["SWIGLU_BACKWARD"]:
        grad, x = node.take(2)
        return _swiglu_backward(emit, grad, x, node.params.integer("dim", -1))
    (x,) = node.take(1)
    if kind == _TYPES["SWIGLU_FORWARD"]:
        gate, value = halves(emit, x, node.params.integer("dim", -1))
        return emit.cast(emit.op("Mul", swish(emit, gate), value), x.dtype)
    function = _function(node, emit, kind)
    return emit.in_float32(function, x)


def _function(node: Node, emit: AscendEmitter, kind: int) -> Callable[[Tensor], Tensor]:
    if kind == _TYPES["RELU"]:
        return lambda x: emit.op("Relu", x)
    if kind == _TYPES["GELU"]:
        exact = node.params.enum("geluMode", _GELU_MODES, 0) == _GELU_MODES["NONE_MODE"]
        return lambda x: gelu(emit, x, exact=exact)
    if kind in (_TYPES["FAST_GELU"], _TYPES["FASTER_GELU_FORWARD"]):
        return lambda x: fast_gelu(emit, x)
    if kind == _TYPES["SWISH"]:
        scale = node.params.number("scale", 1.0)
        return lambda x: swish(emit, x, scale)
    if kind == _TYPES["LOG"]:
        return lambda x: emit.op("Log", x)
    if kind == _TYPES["SIGMOID"]:
        return lambda x: emit.op("Sigmoid", x)
    refuse("ERROR_INVALID_PARAM", f"activationType {kind} is not one of ATB's")


def _swiglu_backward(emit: AscendEmitter, grad: Tensor, x: Tensor, dim: int) -> Tensor:
    """The gradient of SWIGLU_FORWARD: that of the gate, then that of the value."""
    gate, value = halves(emit, x, dim)
    wide, sigmoid = emit.wide(grad), emit.op("Sigmoid", gate)
    rest = emit.op("Sub", emit.like(1.0, gate), sigmoid)
    slope = emit.op("Add", sigmoid, emit.op("Mul", emit.op("Mul", gate, rest), sigmoid))
    to_gate = emit.op("Mul", emit.op("Mul", value, wide), slope)
    to_value = emit.op("Mul", wide, swish(emit, gate))
    return emit.cast(emit.concat([to_gate, to_value], x.axis(dim)), x.dtype)
