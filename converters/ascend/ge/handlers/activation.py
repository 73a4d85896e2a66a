"""GE's activations; half floats are computed in float32."""

from __future__ import annotations

from onnx_sparse.converters.ascend.compositions import fast_gelu, halves
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge.handlers.registry import Node, Results, handles
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering import activations
from onnx_sparse.converters.writing.registry import lowered


@handles("Swish", "Silu", to="Sigmoid, Mul")
def swish(node: Node, emit: AscendEmitter) -> Tensor:
    """Swish(x | scale): x * sigmoid(scale * x)."""
    (x,) = node.take(1)
    return activations.swish(emit, x, node.number("scale", 1.0))


@handles("SwiGlu", to="Split, Sigmoid, Mul")
def swiglu(node: Node, emit: AscendEmitter) -> Tensor:
    """SwiGlu(x | dim): swish(a) * b of the halves a and b."""
    (x,) = node.take(1)
    gate, value = halves(emit, x, node.integer("dim", -1))
    return emit.cast(emit.op("Mul", activations.swish(emit, gate), value), x.dtype)


@handles("GeGluV2", to="Split, Erf, Tanh, Mul")
def geglu(node: Node, emit: AscendEmitter) -> Results:
    """GeGluV2(x | dim, approximate, activate_left): a half of x times gelu of the other one; and this gelu."""
    (x,) = node.take(1)
    left, right = halves(emit, x, node.integer("dim", -1))
    other, active = (right, left) if node.flag("activate_left") else (left, right)
    curve = activations.gelu(emit, active, exact=node.integer("approximate", 1) == 0)
    return (emit.cast(emit.op("Mul", other, curve), x.dtype), emit.cast(curve, x.dtype))


@handles("LeakyRelu", to="LeakyRelu")
def leaky_relu(node: Node, emit: AscendEmitter) -> Tensor:
    """LeakyRelu(x | negative_slope)."""
    slope = node.number("negative_slope", 0.0)
    return emit.in_float32(lambda x: activations.leaky_relu(emit, x, slope), *node.take(1))


@handles("HardSigmoid", to="HardSigmoid")
def hard_sigmoid(node: Node, emit: AscendEmitter) -> Tensor:
    """HardSigmoid(x | alpha, beta)."""
    (x,) = node.take(1)
    return activations.hard_sigmoid(emit, x, node.number("alpha", 1 / 6), node.number("beta", 0.5))


@handles("Elu", to="Elu", notes="scale = input_scale = 1")
def elu(node: Node, emit: AscendEmitter) -> Tensor:
    """Elu(x | alpha)."""
    if node.number("scale", 1.0) != 1.0 or node.number("input_scale", 1.0) != 1.0:
        raise Unsupported("scale and input_scale are not 1")
    (x,) = node.take(1)
    return activations.elu(emit, x, node.number("alpha", 1.0))


handles("HardSwish", to="HardSwish")(lowered(activations.hard_swish))
handles("Mish", to="Softplus, Tanh, Mul")(lowered(activations.mish))
handles("Softplus", to="Softplus, Softsign")(lowered(activations.softplus))
handles("Softsign", to="Softplus, Softsign")(lowered(activations.softsign))


@handles("GeluV2", to="Erf, Tanh, Mul")
def gelu_v2(node: Node, emit: AscendEmitter) -> Tensor:
    """GeluV2(x | approximate)."""
    exact = node.attributes.get("approximate", "none") not in ("tanh", b"tanh")
    return activations.gelu(emit, *node.take(1), exact=exact)


@handles("FastGelu", "FastGeluV2", to="Exp, Sigmoid, Mul")
def fast_gelu_(node: Node, emit: AscendEmitter) -> Tensor:
    """FastGelu(x)."""
    return emit.in_float32(lambda x: fast_gelu(emit, x), *node.take(1))
