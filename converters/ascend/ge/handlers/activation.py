"""GE's activations; half floats are computed in float32."""

from __future__ import annotations

from onnx_sparse.converters.ascend.compositions import fast_gelu, gelu, swish
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge.handlers.registry import Node, Results, handles
from onnx_sparse.converters.ascend.shapes import place
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering.slicing import split_equally


@handles("Swish", "Silu", to="Sigmoid, Mul")
def swish_(node: Node, emit: AscendEmitter) -> Tensor:
    """Swish(x | scale): x * sigmoid(scale * x)."""
    scale = node.number("scale", 1.0)
    return emit.in_float32(lambda x: swish(emit, x, scale), *node.take(1))


@handles("SwiGlu", to="Split, Sigmoid, Mul")
def swiglu(node: Node, emit: AscendEmitter) -> Tensor:
    """SwiGlu(x | dim): swish(a) * b of the halves a and b."""
    (x,) = node.take(1)
    gate, value = halves(emit, x, node.integer("dim", -1))
    return emit.cast(emit.op("Mul", swish(emit, gate), value), x.dtype)


def halves(emit: AscendEmitter, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The two halves of x along an axis, float32."""
    axis = place(x, dim)
    if (x.dim(axis) or 0) % 2:
        raise Unsupported(f"axis {axis} of {x} does not split into two halves")
    first, second = split_equally(emit, emit.wide(x), axis, 2)
    return first, second


@handles("GeGluV2", to="Split, Erf, Tanh, Mul")
def geglu(node: Node, emit: AscendEmitter) -> Results:
    """GeGluV2(x | dim, approximate, activate_left): a half of x times gelu of the other one; and this gelu."""
    (x,) = node.take(1)
    left, right = halves(emit, x, node.integer("dim", -1))
    other, active = (right, left) if node.flag("activate_left") else (left, right)
    curve = gelu(emit, active, exact=node.integer("approximate", 1) == 0)
    return (emit.cast(emit.op("Mul", other, curve), x.dtype), emit.cast(curve, x.dtype))


@handles("LeakyRelu", to="LeakyRelu")
def leaky_relu(node: Node, emit: AscendEmitter) -> Tensor:
    """LeakyRelu(x | negative_slope)."""
    slope = node.number("negative_slope", 0.0)
    return emit.in_float32(lambda x: emit.op("LeakyRelu", x, alpha=slope), *node.take(1))


@handles("HardSwish", to="HardSigmoid, Mul")
def hard_swish(node: Node, emit: AscendEmitter) -> Tensor:
    """HardSwish(x): x * clip(x / 6 + 0.5, 0, 1)."""

    def compute(x: Tensor) -> Tensor:
        return emit.op("Mul", x, emit.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))

    return emit.in_float32(compute, *node.take(1))


@handles("HardSigmoid", to="HardSigmoid")
def hard_sigmoid(node: Node, emit: AscendEmitter) -> Tensor:
    """HardSigmoid(x | alpha, beta)."""
    alpha, beta = node.number("alpha", 1 / 6), node.number("beta", 0.5)
    return emit.in_float32(lambda x: emit.op("HardSigmoid", x, alpha=alpha, beta=beta), *node.take(1))


@handles("Elu", to="Elu", notes="scale = input_scale = 1")
def elu(node: Node, emit: AscendEmitter) -> Tensor:
    """Elu(x | alpha)."""
    if node.number("scale", 1.0) != 1.0 or node.number("input_scale", 1.0) != 1.0:
        raise Unsupported("scale and input_scale are not 1")
    alpha = node.number("alpha", 1.0)
    return emit.in_float32(lambda x: emit.op("Elu", x, alpha=alpha), *node.take(1))


@handles("Softplus", "Softsign", to="Softplus, Softsign")
def soft(node: Node, emit: AscendEmitter) -> Tensor:
    """Softplus(x), Softsign(x)."""
    return emit.in_float32(lambda x: emit.op(node.op_type, x), *node.take(1))


@handles("Mish", to="Softplus, Tanh, Mul")
def mish(node: Node, emit: AscendEmitter) -> Tensor:
    """Mish(x): x * tanh(softplus(x))."""

    def compute(x: Tensor) -> Tensor:
        return emit.op("Mul", x, emit.op("Tanh", emit.op("Softplus", x)))

    return emit.in_float32(compute, *node.take(1))


@handles("GeluV2", to="Erf, Tanh, Mul")
def gelu_v2(node: Node, emit: AscendEmitter) -> Tensor:
    """GeluV2(x | approximate)."""
    exact = node.attributes.get("approximate", "none") not in ("tanh", b"tanh")
    return emit.in_float32(lambda x: gelu(emit, x, exact=exact), *node.take(1))


@handles("FastGelu", "FastGeluV2", to="Exp, Sigmoid, Mul")
def fast_gelu_(node: Node, emit: AscendEmitter) -> Tensor:
    """FastGelu(x)."""
    return emit.in_float32(lambda x: fast_gelu(emit, x), *node.take(1))
