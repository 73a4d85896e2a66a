"""GE's reductions, matrix products, Softmax and normalizations; half floats are computed in float32."""

from __future__ import annotations

import math

from onnx import TensorProto

from onnx_sparse.converters.ascend.compositions import layer_normalized, rms_normalized, softmax_over, swapped
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge.handlers.registry import Node, Results, handles
from onnx_sparse.converters.ascend.quantization import integer_matmul
from onnx_sparse.converters.ascend.shapes import place
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering import activations, cumulative
from onnx_sparse.schemas.declaration import FLOATS

_NAN = "NaN propagates, from every position"
#: The integers that ONNX reduces in wider ones only.
_NARROW = (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16)
#: ONNX's names of reductions, where they differ.
_REDUCTIONS = {"EuclideanNorm": "ReduceL2", "EuclideanNormD": "ReduceL2"}
#: What a reduction over no axes still computes of each number, where that is not the number.
_OF_EACH = {"ReduceL2": "Abs", "ReduceLogSum": "Log"}


def _reduced(node: Node) -> tuple[Tensor, list[int]]:
    """The tensor and the axes that are reduced, which are an input or an attribute."""
    x, *given = node.take(1, 2)
    axes = given[0].integers("axes") if given else node.integers("axes")
    return x, sorted({place(x, axis) for axis in axes})


@handles("ReduceSum", "ReduceSumD", to="ReduceSum")
@handles("ReduceMax", "ReduceMaxD", to="ReduceMax", differs=_NAN)
@handles("ReduceMin", "ReduceMinD", to="ReduceMin", differs=_NAN)
@handles("ReduceMean", "ReduceMeanD", to="ReduceMean", differs="the mean of nothing is NaN")
@handles("ReduceProd", "ReduceProdD", to="ReduceProd")
@handles("ReduceLogSumExp", to="ReduceLogSumExp")
@handles("ReduceLogSum", to="ReduceLogSum")
@handles("EuclideanNorm", "EuclideanNormD", to="ReduceL2")
def reduce(node: Node, emit: AscendEmitter) -> Tensor:
    """ReduceSum(x, axes | keep_dims) and similar; operators ending in D have the axes as an attribute."""
    x, places = _reduced(node)
    name, keep = _REDUCTIONS.get(node.op_type, node.op_type.removesuffix("D")), node.flag("keep_dims")
    if not places:
        each = _OF_EACH.get(name)
        return x if each is None else emit.in_float32(lambda wide: emit.op(each, wide, shape=x.shape), x)
    if name == "ReduceMean" and x.dtype in FLOATS and any(x.dim(axis) in (None, 0) for axis in places):
        return emit.in_float32(lambda wide: _mean_of_any(emit, wide, places, keepdims=keep), x)
    if x.dtype in _NARROW and name != "ReduceMean":  # ONNX reduces few of these; sums and products wrap
        return emit.cast(emit.reduce(name, emit.cast(x, TensorProto.INT64), places, keepdims=keep), x.dtype)
    return emit.in_float32(lambda wide: emit.reduce(name, wide, places, keepdims=keep), x)


def _mean_of_any(emit: AscendEmitter, x: Tensor, axes: list[int], *, keepdims: bool) -> Tensor:
    """The mean of what may be nothing: NaN, where ONNX Runtime's is 0."""
    sizes = emit.op("Gather", emit.shape_of(x), emit.constant(axes), axis=0)
    count = emit.op("ReduceProd", sizes, emit.constant([0]), keepdims=0)
    return emit.op("Div", emit.reduce("ReduceSum", x, axes, keepdims=keepdims), emit.cast(count, x.dtype))


@handles("ReduceAll", "ReduceAllD", to="ReduceMin")
@handles("ReduceAny", "ReduceAnyD", to="ReduceSum")
def reduce_flags(node: Node, emit: AscendEmitter) -> Tensor:
    """ReduceAll(x, axes | keep_dims), ReduceAny(x, axes | keep_dims), of bools."""
    x, places = _reduced(node)
    keep = node.flag("keep_dims")
    if not places:
        return x
    name = "ReduceMin" if node.op_type.startswith("ReduceAll") else "ReduceSum"  # of nothing, none is true
    return emit.cast(emit.reduce(name, emit.cast(x, TensorProto.INT32), places, keepdims=keep), x.dtype)


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


@handles("Cumprod", "CumulativeLogsumexp", to="Scan")
def cumulated(node: Node, emit: AscendEmitter) -> Tensor:
    """Cumprod(x, axis | exclusive, reverse), CumulativeLogsumexp."""
    x, axis = node.take(2)
    compute = cumulative.cumulative_product if node.op_type == "Cumprod" else cumulative.cumulative_log_sum_exp
    flags = {name: node.flag(name) for name in ("exclusive", "reverse")}
    return compute(emit, x, x.axis(axis.integer("axis")), **flags)


@handles("SoftmaxV2", to="Softmax")
def softmax(node: Node, emit: AscendEmitter) -> Tensor:
    """SoftmaxV2(x | axes, half_to_float)."""
    (x,) = node.take(1)
    if node.flag("half_to_float"):
        x = emit.cast(x, TensorProto.FLOAT)
    return softmax_over(emit, x, node.integers("axes") or [-1])


@handles("ReduceStdV2", to="ReduceMean, Sub, Mul, ReduceSum, Sqrt", ignored=("is_mean_out",))
def reduce_std(node: Node, emit: AscendEmitter) -> Results:
    """ReduceStdV2(x | dim, correction, keepdim): the deviation, and the mean."""
    (x,) = node.take(1)
    wide, keep = emit.wide(x), node.flag("keepdim")
    axes = [place(x, axis) for axis in node.integers("dim")] or [*range(x.rank)]
    if not axes:
        raise Unsupported(f"{x} is a scalar")
    mean = _mean_of_any(emit, wide, axes, keepdims=True)
    centered = emit.op("Sub", wide, mean)
    total = emit.reduce("ReduceSum", emit.op("Mul", centered, centered), axes, keepdims=keep)
    sizes = emit.op("Gather", emit.shape_of(x), emit.constant(axes), axis=0)
    count = emit.op("ReduceProd", sizes, emit.constant([0]), keepdims=0)
    free = emit.op("Max", emit.op("Sub", count, emit.constant(node.integer("correction", 1))), emit.constant(0))
    deviation = emit.op("Sqrt", emit.op("Div", total, emit.cast(free, wide.dtype)))
    mean = mean if keep else emit.op("Squeeze", mean, emit.constant(axes))
    return (emit.cast(deviation, x.dtype), emit.cast(mean, x.dtype))


@handles("LpNormV2", to="ReduceL1, ReduceL2, Abs, Pow, ReduceSum, ReduceMax")
def lp_norm(node: Node, emit: AscendEmitter) -> Tensor:
    """LpNormV2(x | p, axes, keepdim, epsilon): the sum of |x|^p to the power 1 / p, at least epsilon."""
    (x,) = node.take(1)
    wide, keep, p = emit.wide(x), node.flag("keepdim"), node.number("p", 2.0)
    axes = [place(x, axis) for axis in node.integers("axes")] or [*range(x.rank)]
    size = emit.op("Abs", wide)
    if p == 0:
        size = emit.cast(emit.op("Not", emit.op("Equal", size, emit.like(0, size))), size.dtype)
    if not axes:
        made = size
    elif math.isinf(p):
        made = emit.reduce("ReduceMax" if p > 0 else "ReduceMin", size, axes, keepdims=keep)
    elif p == 0:
        made = emit.reduce("ReduceSum", size, axes, keepdims=keep)
    elif p in (1, 2):
        made = emit.reduce(f"ReduceL{int(p)}", wide, axes, keepdims=keep)
    else:
        total = emit.reduce("ReduceSum", emit.op("Pow", size, emit.like(p, size)), axes, keepdims=keep)
        made = emit.op("Pow", total, emit.like(1 / p, total))
    least = node.number("epsilon", 1e-12)
    return emit.cast(emit.extreme("Max", made, emit.like(least, made)) if least else made, x.dtype)


@handles("L2Loss", to="Reshape, Mul, ReduceSum")
def l2_loss(node: Node, emit: AscendEmitter) -> Tensor:
    """L2Loss(x): half the sum of the squares."""

    def compute(x: Tensor) -> Tensor:
        flat = emit.op("Reshape", x, emit.constant([-1]))
        total = emit.reduce("ReduceSum", emit.op("Mul", flat, flat), [0], keepdims=False)
        return emit.op("Mul", total, emit.like(0.5, total))

    return emit.in_float32(compute, *node.take(1))


@handles("BNInfer", to="BatchNormalization")
def batch_norm_inference(node: Node, emit: AscendEmitter) -> Tensor:
    """BNInfer(x, scale, offset, mean, variance | epsilon)."""
    x, *rest = node.take(5)
    wide = [emit.cast(tensor, TensorProto.FLOAT) for tensor in (x, *rest)]
    y = emit.op("BatchNormalization", *wide, shape=x.shape, epsilon=node.number("epsilon"))
    return emit.cast(y, x.dtype)


@handles("MatMul", "MatMulV2", "MatMulV3", to="Transpose, MatMul, Add")
@handles("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", to="Transpose, MatMul, Add")
def matmul(node: Node, emit: AscendEmitter) -> Tensor:
    """MatMulV2(x1, x2, bias | transpose_x1, transpose_x2), BatchMatMulV2(x1, x2, bias | adj_x1, adj_x2)."""
    x, y, *bias = node.take(2, 3)
    name = "adj_x" if node.op_type.startswith("Batch") else "transpose_x"
    is_int8 = x.dtype == y.dtype == TensorProto.INT8  # whose products are int32
    factors = [
        swapped(emit, tensor) if node.flag(f"{name}{number}") else tensor
        for number, tensor in ((1, x if is_int8 else emit.wide(x)), (2, y if is_int8 else emit.wide(y)))
    ]
    product = integer_matmul(emit, *factors) if is_int8 else emit.matmul(*factors)
    for addend in bias:
        product = emit.op("Add", product, emit.cast(addend, product.dtype))
    described = node.results[0].dtype if node.results else None
    return emit.cast(product, described or (product.dtype if is_int8 else x.dtype))


@handles(
    *("LayerNormV3", "LayerNorm"),
    to="LayerNormalization",
    notes="mean and rstd or variance are computed, too",
    ignored=("begin_params_axis",),  # which the shape of gamma says
)
def layer_norm(node: Node, emit: AscendEmitter) -> Results:
    """LayerNormV3(x, gamma, beta | begin_norm_axis, epsilon): y, mean and 1 / deviation; LayerNorm: the variance."""
    x, gamma, beta = node.take(3)
    axis = x.axis(node.integer("begin_norm_axis", 0))
    is_old = node.op_type == "LayerNorm"
    epsilon = node.number("epsilon", 1e-7 if is_old else 1e-5)
    wide = emit.wide(x)
    y = emit.cast(layer_normalized(emit, wide, gamma, beta, axis, epsilon), x.dtype)
    mean, _, variance, rstd = _moments(emit, wide, [*range(axis, x.rank)], epsilon)
    return (y, emit.cast(mean, x.dtype), emit.cast(variance if is_old else rstd, x.dtype))


@handles("LayerNormV4", to="ReduceMean, Sub, Mul, Sqrt, Reciprocal", notes="gamma and beta may be omitted")
def layer_norm_v4(node: Node, emit: AscendEmitter) -> Results:
    """LayerNormV4(x, normalized_shape, gamma, beta | epsilon): y, mean and 1 / deviation over the last axes."""
    (x, last), (gamma, beta) = node.optional(2, 4)
    count = last.shape[0] if last.shape else None
    if count is None:
        raise Unsupported(f"the length of {last} is not known")
    wide = emit.wide(x)
    mean, centered, _, rstd = _moments(emit, wide, [*range(-count, 0)], node.number("epsilon", 1e-5))
    y = emit.op("Mul", centered, rstd)
    y = y if gamma is None else emit.op("Mul", y, emit.cast(gamma, y.dtype))
    y = y if beta is None else emit.op("Add", y, emit.cast(beta, y.dtype))
    dtypes = [node.results[k].dtype if k < len(node.results) else None for k in (1, 2)]
    mean, rstd = (emit.cast(t, dtype or x.dtype) for t, dtype in zip((mean, rstd), dtypes, strict=True))
    return (emit.cast(y, x.dtype), mean, rstd)


@handles("GroupNormV2", "GroupNorm", to="Reshape, ReduceMean, Sub, Mul, Sqrt", ignored=("is_training",),
         notes="channels are axis 1")  # fmt: skip
@handles("GroupNormSilu", to="Reshape, ReduceMean, Sub, Mul, Sqrt, Sigmoid", notes="channels are axis 1")
def group_norm(node: Node, emit: AscendEmitter) -> Results:
    """GroupNormV2(x, gamma, beta | num_groups, eps): y, mean and rstd; GroupNormSilu: y * sigmoid(y); GroupNorm."""
    (x,), weights = node.optional(1, 3)
    groups = node.integer("num_groups")
    epsilon = node.number("eps", 1e-5 if node.op_type == "GroupNormV2" else 1e-4)
    if x.rank < 2 or groups < 1 or (x.dim(1) or groups) % groups:
        raise Unsupported(f"axis 1 of {x} does not split into {groups} groups")
    wide, batch = emit.wide(x), emit.size(x, 0)
    # Reshape infers no dimension of an empty tensor.
    inner = emit.op("Slice", emit.shape_of(x), emit.constant([1]), emit.constant([2**62]))
    width = emit.op("Div", emit.op("ReduceProd", inner, emit.constant([0]), keepdims=1), emit.constant([groups]))
    sizes = emit.op("Concat", batch, emit.constant([groups]), width, axis=0)
    parted = emit.reshaped(wide, sizes, (x.dim(0), groups, None))
    mean, centered, variance, rstd = _moments(emit, parted, [2], epsilon)
    y = emit.reshaped(emit.op("Mul", centered, rstd), emit.shape_of(x), x.shape)
    for name, weight in zip(("Mul", "Add"), weights, strict=True):
        if weight is not None:
            own, after = emit.cast(weight, y.dtype), [*range(1, x.rank - 1)]
            y = emit.op(name, y, emit.op("Unsqueeze", own, emit.constant(after)) if after else own)
    if node.op_type == "GroupNormSilu":
        y = activations.swish(emit, y)
    third = rstd if node.op_type == "GroupNormV2" else variance
    rows = (emit.op("Squeeze", tensor, emit.constant([2])) for tensor in (mean, third))
    return tuple(emit.cast(tensor, x.dtype) for tensor in (y, *rows))


def _moments(emit: AscendEmitter, x: Tensor, axes: list[int], epsilon: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The mean, what is left without it, the variance, and 1 / deviation, which axes of size 1 keep."""
    mean = emit.reduce("ReduceMean", x, axes, keepdims=True)
    centered = emit.op("Sub", x, mean)
    variance = emit.reduce("ReduceMean", emit.op("Mul", centered, centered), axes, keepdims=True)
    deviation = emit.op("Sqrt", emit.op("Add", variance, emit.like(epsilon, variance)))
    return mean, centered, variance, emit.op("Reciprocal", deviation)


@handles("RmsNorm", to="Mul, ReduceMean, Sqrt, Div")
def rms_norm(node: Node, emit: AscendEmitter) -> Results:
    """RmsNorm(x, gamma | epsilon): y, and rstd in float32."""
    x, gamma = node.take(2)
    wide = emit.cast(x, TensorProto.FLOAT)
    y, rstd = rms_normalized(emit, wide, emit.cast(gamma, TensorProto.FLOAT), node.number("epsilon", 1e-6))
    return (emit.cast(y, x.dtype), rstd)
