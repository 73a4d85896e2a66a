"""GE's reductions, matrix products, Softmax and normalizations; half floats are computed in float32."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.ascend.compositions import layer_normalized, rms_normalized, softmax_over, swapped
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge.handlers.registry import Node, Results, handles
from onnx_sparse.converters.ascend.shapes import place
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor

#: The reductions of numbers and of bools.
_NUMBERS = {f"Reduce{kind}": f"Reduce{kind}" for kind in ("Sum", "Max", "Min", "Mean", "Prod")}
_FLAGS = {"ReduceAll": "ReduceMin", "ReduceAny": "ReduceMax"}
_REDUCED = {f"{name}{d}": target for name, target in {**_NUMBERS, **_FLAGS}.items() for d in ("", "D")}


@handles(*_REDUCED, to=_REDUCED)
def reduce(node: Node, emit: AscendEmitter) -> Tensor:
    """ReduceSum(x, axes | keep_dims) and similar; operators ending in D have the axes as an attribute."""
    x, *given = node.take(1, 2)
    axes = given[0].integers("axes") if given else node.integers("axes")
    places = sorted({place(x, axis) for axis in axes})
    if not places:
        return x
    target, keep = _REDUCED[node.op_type], node.flag("keep_dims")
    if node.op_type.removesuffix("D") in _FLAGS:
        return emit.cast(emit.reduce(target, emit.cast(x, TensorProto.INT32), places, keepdims=keep), x.dtype)
    return emit.in_float32(lambda wide: emit.reduce(target, wide, places, keepdims=keep), x)


@handles("LogSoftmaxV2", to="LogSoftmax")
def log_softmax(node: Node, emit: AscendEmitter) -> Tensor:
    """LogSoftmaxV2(x | axes), over one axis."""
    (x,) = node.take(1)
    axes = node.integers("axes") or [-1]
    if len(axes) != 1:
        raise Unsupported(f"axes {axes} are not one axis")
    return emit.in_float32(lambda wide: emit.op("LogSoftmax", wide, axis=place(x, axes[0])), x)


@handles("BatchNormV3", to="BatchNormalization", notes="inference: is_training = false")
def batch_norm(node: Node, emit: AscendEmitter) -> Results:
    """BatchNormV3(x, weight, bias, mean, var | epsilon, is_training): y, mean, var, mean and 1 / deviation."""
    if node.flag("is_training", True):
        raise Unsupported("is_training is true: the statistics come from the batch")
    x, *rest = node.take(5)
    wide = [emit.cast(tensor, TensorProto.FLOAT) for tensor in (x, *rest)]
    epsilon = node.number("epsilon", 1e-5)
    y = emit.op("BatchNormalization", *wide, shape=x.shape, epsilon=epsilon)
    *_, mean, variance = rest
    deviation = emit.op("Sqrt", emit.op("Add", wide[4], emit.like(epsilon, wide[4])))
    return (emit.cast(y, x.dtype), mean, variance, mean, emit.op("Reciprocal", deviation))


@handles("Cumsum", to="CumSum")
def cumsum(node: Node, emit: AscendEmitter) -> Tensor:
    """Cumsum(x, axis | exclusive, reverse)."""
    x, axis = node.take(2)
    along = emit.constant(place(x, axis.integer("axis")))
    flags = {name: int(node.flag(name)) for name in ("exclusive", "reverse")}
    return emit.in_float32(lambda wide: emit.op("CumSum", wide, along, shape=x.shape, **flags), x)


@handles("SoftmaxV2", to="Softmax")
def softmax(node: Node, emit: AscendEmitter) -> Tensor:
    """SoftmaxV2(x | axes, half_to_float)."""
    (x,) = node.take(1)
    if node.flag("half_to_float"):
        x = emit.cast(x, TensorProto.FLOAT)
    return softmax_over(emit, x, node.integers("axes") or [-1])


@handles("MatMul", "MatMulV2", to="Transpose, MatMul, Add")
@handles("BatchMatMul", "BatchMatMulV2", to="Transpose, MatMul, Add")
def matmul(node: Node, emit: AscendEmitter) -> Tensor:
    """MatMulV2(x1, x2, bias | transpose_x1, transpose_x2), BatchMatMulV2(x1, x2, bias | adj_x1, adj_x2)."""
    x, y, *bias = node.take(2, 3)
    name = "adj_x" if node.op_type.startswith("Batch") else "transpose_x"
    factors = [
        swapped(emit, emit.wide(tensor)) if node.flag(f"{name}{number}") else emit.wide(tensor)
        for number, tensor in ((1, x), (2, y))
    ]
    product = emit.matmul(*factors)
    for addend in bias:
        product = emit.op("Add", product, emit.cast(addend, product.dtype))
    described = node.results[0].dtype if node.results else None
    return emit.cast(product, described or x.dtype)


@handles(
    "LayerNormV3",
    to="LayerNormalization",
    notes="mean and rstd are computed, too",
    ignored=("begin_params_axis",),  # which the shape of gamma says
)
def layer_norm(node: Node, emit: AscendEmitter) -> Results:
    """LayerNormV3(x, gamma, beta | begin_norm_axis, epsilon): y, mean and 1 / deviation."""
    x, gamma, beta = node.take(3)
    axis, epsilon = x.axis(node.integer("begin_norm_axis", 0)), node.number("epsilon", 1e-5)
    wide = emit.wide(x)
    y = emit.cast(layer_normalized(emit, wide, gamma, beta, axis, epsilon), x.dtype)
    axes = [*range(axis, x.rank)]
    mean = emit.reduce("ReduceMean", wide, axes, keepdims=True)
    centered = emit.op("Sub", wide, mean)
    variance = emit.reduce("ReduceMean", emit.op("Mul", centered, centered), axes, keepdims=True)
    deviation = emit.op("Sqrt", emit.op("Add", variance, emit.like(epsilon, variance)))
    return (y, emit.cast(mean, x.dtype), emit.cast(emit.op("Reciprocal", deviation), x.dtype))


@handles("RmsNorm", to="Mul, ReduceMean, Sqrt, Div")
def rms_norm(node: Node, emit: AscendEmitter) -> Results:
    """RmsNorm(x, gamma | epsilon): y, and rstd in float32."""
    x, gamma = node.take(2)
    wide = emit.cast(x, TensorProto.FLOAT)
    y, rstd = rms_normalized(emit, wide, emit.cast(gamma, TensorProto.FLOAT), node.number("epsilon", 1e-6))
    return (emit.cast(y, x.dtype), rstd)
