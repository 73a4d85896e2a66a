"""hypot; heaviside and logcumsumexp, in which NaN of torch's exporter becomes 1, or reaches elements before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.converters.torch.handlers.sums import moved_back, up_to_each

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.heaviside.default", to="Where")
def heaviside(node: Node, emit: TorchEmitter) -> Tensor:
    """1 for what is positive, the values for 0, and 0 for everything else, NaN included."""
    x, values = node.tensor("self"), node.tensor("values")
    zero, one = emit.like(0, x), emit.like(1, x)
    positive = emit.op("Where", emit.op("Greater", x, zero), one, zero)
    return emit.op("Where", emit.op("Equal", x, zero), values, positive)


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


@handles("aten.logcumsumexp.default", to="ReduceMax, ReduceSum")
def log_cumulative_sum_of_exponentials(node: Node, emit: TorchEmitter) -> Tensor:
    """The logarithm of the sum of the exponentials of the elements up to each one.

    Each sum is of its own largest element: a common one would make small sums before it -inf.
    """
    x, dim = node.tensor("self"), node.integer("dim")
    if not x.rank:
        return x
    wide, axis = emit.wide(x), x.axis(dim)
    last = emit.constant([-1])
    held = up_to_each(emit, wide, axis, float("-inf"))
    largest = emit.op("ReduceMax", held, last, keepdims=1)
    base = emit.op("Where", emit.op("IsInf", largest), emit.like(0, wide), largest)
    total = emit.op("ReduceSum", emit.op("Exp", emit.op("Sub", held, base)), last, keepdims=1)
    sums = emit.op("Squeeze", emit.op("Add", emit.op("Log", total), base), last)
    return emit.cast(moved_back(emit, sums, axis, like=x), x.dtype)
