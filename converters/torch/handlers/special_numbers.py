"""Functions of statistics, signs and tests of numbers, and some of which torch's exporter loses NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.joining import promoted
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.converters.torch.handlers.sums import PREFIX_MEMORY, up_to_each
from onnx_sparse.converters.writing.lowering.angles import signed
from onnx_sparse.converters.writing.lowering.special_functions import digamma, inverse_error, inverse_normal, polynomial
from onnx_sparse.schemas.declaration import FLOATS

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter

#: The logarithm of erfcx(x) / t for x >= 0, as a polynomial of t = 1 / (1 + x / 2) (Press et al., Numerical Recipes).
_ERFCX = (
    *(-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806),
    *(0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277),
)


@handles("aten.heaviside.default", to="Where")
def heaviside(node: Node, emit: TorchEmitter) -> Tensor:
    """1 for what is positive, the values for 0, and 0 for everything else, NaN included."""
    x, values = node.tensor("self"), node.tensor("values")
    zero, one = emit.like(0, x), emit.like(1, x)
    positive = emit.op("Where", emit.op("Greater", x, zero), one, zero)
    return emit.op("Where", emit.op("Equal", x, zero), values, positive)


@handles("aten.square.default", to="Mul")
def square(node: Node, emit: TorchEmitter) -> Tensor:
    """A product; torch decomposes it to a power, which has no kernel for bool."""
    x = node.tensor("self")
    x = emit.int64(x) if x.dtype == TensorProto.BOOL else x
    return emit.op("Mul", x, x, shape=x.shape)


@handles("aten.isfinite.default", to="IsInf, IsNaN")
def is_finite(node: Node, emit: TorchEmitter) -> Tensor:
    """Whether each number is neither infinite nor NaN."""
    x = node.tensor("self")
    if x.dtype not in FLOATS:
        return emit.full(True, TensorProto.BOOL, emit.shape_of(x))
    return emit.op("Not", emit.op("Or", emit.op("IsInf", x), emit.op("IsNaN", x)))


@handles("aten.isnan.default", to="IsNaN")
def is_nan(node: Node, emit: TorchEmitter) -> Tensor:
    """Whether each number is NaN."""
    x = node.tensor("self")
    return emit.op("IsNaN", x) if x.dtype in FLOATS else emit.full(False, TensorProto.BOOL, emit.shape_of(x))


@handles("aten.fmax.default", to="Max, Where")
def fmax(node: Node, emit: TorchEmitter) -> Tensor:
    """The larger of two numbers, and the number where the other one is NaN."""
    return _of_numbers(node, emit, "Max")


@handles("aten.fmin.default", to="Min, Where")
def fmin(node: Node, emit: TorchEmitter) -> Tensor:
    """The smaller of two numbers, and the number where the other one is NaN."""
    return _of_numbers(node, emit, "Min")


def _of_numbers(node: Node, emit: TorchEmitter, op_type: str) -> Tensor:
    x, y = node.tensor("self"), node.tensor("other")
    dtype = promoted([x.dtype, y.dtype])
    x, y = (emit.cast(each, TensorProto.INT32 if dtype == TensorProto.BOOL else dtype) for each in (x, y))
    both = emit.extreme(op_type, x, y)
    if dtype not in FLOATS:
        return emit.cast(both, dtype)
    with_y = emit.op("Where", emit.op("IsNaN", y), x, both)
    return emit.op("Where", emit.op("IsNaN", x), y, with_y)


@handles("aten.signbit.default", to="Less", notes="NaN has no sign.")
@handles("prims.signbit.default", to="Less", notes="NaN has no sign.")
def has_sign(node: Node, emit: TorchEmitter) -> Tensor:
    """Whether each number is negative; -0 is."""
    x = node.tensor("self")
    if x.dtype == TensorProto.BOOL:
        return emit.full(False, TensorProto.BOOL, emit.shape_of(x))
    return signed(emit, x) if x.dtype in FLOATS else emit.op("Less", x, emit.like(0, x))


@handles("aten.special_erfcx.default", to="Exp", notes="To single precision.")
def scaled_complementary_error(node: Node, emit: TorchEmitter) -> Tensor:
    """exp(x²) erfc(x), by an approximation that is near to 1.2e-7; ONNX's Erf of large numbers leaves no digit.

    Raises:
        Unsupported: Elements are double.
    """
    given = emit.floats(node.tensor("self"))
    if given.dtype == TensorProto.DOUBLE:
        raise Unsupported("double; it is computed to single precision: cast it to float32")
    x = emit.cast(given, TensorProto.DOUBLE)
    away, one = emit.op("Abs", x), emit.like(1, x)
    nearness = emit.op("Reciprocal", emit.op("Add", one, emit.op("Mul", away, emit.like(0.5, x))))
    made = emit.op("Mul", nearness, emit.op("Exp", polynomial(emit, _ERFCX[::-1], nearness)))
    twice = emit.op("Mul", emit.op("Exp", emit.op("Mul", x, x)), emit.like(2, x))
    made = emit.op("Where", emit.op("Less", x, emit.like(0, x)), emit.op("Sub", twice, made), made)
    return emit.cast(made, given.dtype)


@handles("aten.digamma.default", to="Log, Sin")
def derivative_of_log_gamma(node: Node, emit: TorchEmitter) -> Tensor:
    """The derivative of the logarithm of the gamma function; infinite at 0, against its sign."""
    x = emit.floats(node.tensor("self"))
    endless = emit.op("Neg", emit.op("Reciprocal", x))
    return emit.op("Where", emit.op("Equal", x, emit.like(0, x)), endless, digamma(emit, x))


@handles("aten.erfinv.default", to="Log", notes="To single precision.")
def inverse_of_error(node: Node, emit: TorchEmitter) -> Tensor:
    """The number of which erf is an element.

    Raises:
        Unsupported: Elements are double.
    """
    return inverse_error(emit, emit.floats(node.tensor("self")))


@handles("aten.special_ndtri.default", to="Log", notes="To single precision.")
def inverse_of_normal(node: Node, emit: TorchEmitter) -> Tensor:
    """The number below which a standard normal one is with a chance.

    Raises:
        Unsupported: Elements are double.
    """
    return inverse_normal(emit, emit.floats(node.tensor("self")))


@handles("aten.hypot.default", to="Sqrt")
def hypotenuse(node: Node, emit: TorchEmitter) -> Tensor:
    """The root of the sum of two squares, as multiples of the larger one, whose square may be too large."""
    one, other = (emit.op("Abs", emit.wide(node.tensor(name))) for name in ("self", "other"))
    infinite = emit.op("Or", emit.op("IsInf", one), emit.op("IsInf", other))
    longer, shorter = (emit.op(op, one, other) for op in ("Max", "Min"))
    zero = emit.like(0, one)
    ratio = emit.op("Div", shorter, emit.op("Where", emit.op("Equal", longer, zero), emit.like(1, one), longer))
    root = emit.op("Sqrt", emit.op("Add", emit.like(1, one), emit.op("Mul", ratio, ratio)))
    made = emit.op("Where", infinite, emit.like(float("inf"), one), emit.op("Mul", longer, root))
    return emit.cast(made, node.tensor("self").dtype)


@handles("aten.logcumsumexp.default", to="ReduceMax, ReduceSum", notes=PREFIX_MEMORY.strip())
def log_cumulative_sum_of_exponentials(node: Node, emit: TorchEmitter) -> Tensor:
    """The logarithm of the sum of the exponentials of the elements up to each one.

    Each sum is of its own largest element: a common one would make small sums before it -inf.
    """
    x, dim = node.tensor("self"), node.integer("dim")
    if not x.rank:
        return x
    wide, last = emit.wide(x), emit.constant([-1])

    def log_sum_exp(each: Tensor) -> Tensor:
        largest = emit.op("ReduceMax", each, last, keepdims=1)
        base = emit.op("Where", emit.op("IsInf", largest), emit.like(0, wide), largest)
        total = emit.op("ReduceSum", emit.op("Exp", emit.op("Sub", each, base)), last, keepdims=1)
        return emit.op("Squeeze", emit.op("Add", emit.op("Log", total), base), last)

    return emit.cast(up_to_each(emit, wide, x.axis(dim), float("-inf"), log_sum_exp), x.dtype)
