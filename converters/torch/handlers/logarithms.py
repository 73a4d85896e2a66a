"""Logarithms and exponentials, which overflow or lose digits as torch's exporter writes them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.converters.writing.lowering.logarithms import expm1, log1p
from onnx_sparse.schemas.declaration import FLOATS

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.log_sigmoid.default", to="Softplus")
def log_sigmoid(node: Node, emit: TorchEmitter) -> Tensor:
    """-log(1 + exp(-x)): x itself where that is far below 0."""
    given = node.tensor("self")
    x = emit.wide(given)
    more = _softplus(emit.op("Neg", emit.op("Abs", x)), emit)
    return emit.cast(emit.op("Sub", emit.op("Min", x, emit.like(0, x)), more), given.dtype)


@handles("aten.log2.default", to="Log, Div")
def log_to_base_2(node: Node, emit: TorchEmitter) -> Tensor:
    """The logarithm to the base 2."""
    return _log_to(node, emit, 2)


@handles("aten.log10.default", to="Log, Div")
def log_to_base_10(node: Node, emit: TorchEmitter) -> Tensor:
    """The logarithm to the base 10."""
    return _log_to(node, emit, 10)


def _log_to(node: Node, emit: TorchEmitter, base: int) -> Tensor:
    """A quotient of logarithms, in double precision; of powers of the base it may round to just below a whole number.

    log(1000) / log(10) is 2.9999999999999996, whose floor is 2.
    """
    given = node.tensor("self")
    x = emit.cast(given, TensorProto.DOUBLE)
    made = emit.op("Div", emit.op("Log", x), emit.like(math.log(base), x))
    if given.dtype == TensorProto.DOUBLE:
        whole = emit.op("Round", made)
        made = emit.op("Where", emit.op("Equal", emit.op("Pow", emit.like(base, x), whole), x), whole, made)
    return emit.cast(made, given.dtype)


@handles("aten.log1p.default", to="Log")
def log_of_one_more(node: Node, emit: TorchEmitter) -> Tensor:
    """log(1 + x), with the digits of x that 1 + x loses."""
    return log1p(emit, node.tensor("self"))


@handles("aten.expm1.default", to="Exp")
def exponential_less_one(node: Node, emit: TorchEmitter) -> Tensor:
    """exp(x) - 1, with the digits of x that exp(x) loses."""
    return expm1(emit, node.tensor("self"))


@handles("aten.logaddexp.default", to="Softplus")
def log_add_exp(node: Node, emit: TorchEmitter) -> Tensor:
    """log(exp(a) + exp(b)): the larger one, and log(1 + exp(-|a - b|)) more."""
    return _log_of_sum(node, emit, 1)


@handles("aten.logaddexp2.default", to="Softplus")
def log_add_exp_of_two(node: Node, emit: TorchEmitter) -> Tensor:
    """log2(2**a + 2**b), as `log_add_exp`."""
    return _log_of_sum(node, emit, math.log(2))


def _log_of_sum(node: Node, emit: TorchEmitter, log: float) -> Tensor:
    """The logarithm of the sum of two powers of the base whose natural logarithm is given."""
    one, other = (emit.wide(node.tensor(name)) for name in ("self", "other"))
    apart = emit.op("Neg", emit.op("Abs", emit.op("Sub", one, other)))
    base = emit.like(log, one)
    more = _softplus(apart, emit) if log == 1 else emit.op("Div", _softplus(emit.op("Mul", apart, base), emit), base)
    larger = emit.op("Add", emit.op("Max", one, other), more)
    # Equal infinities have no difference.
    doubled = emit.op("Add", one, emit.like(math.log(2) / log, one))
    return emit.cast(emit.op("Where", emit.op("Equal", one, other), doubled, larger), node.tensor("self").dtype)


@handles("aten.logsumexp.default", to="ReduceMax, ReduceSum")
def log_sum_exp(node: Node, emit: TorchEmitter) -> Tensor:
    """The logarithm of the sum of exponentials along dimensions, of what is left of the largest element; NaN of NaN."""
    given = node.tensor("self")
    x = emit.wide(given if given.dtype in FLOATS else emit.cast(given, TensorProto.FLOAT))
    dims, kept = node.numbers("dim") or range(x.rank), int(node.flag("keepdim"))
    if not x.rank:
        return emit.op("Identity", x if given.dtype not in FLOATS else given, shape=())
    axes = emit.constant(sorted({x.axis(int(dim)) for dim in dims if isinstance(dim, int)}))
    largest = emit.op("ReduceMax", x, axes, keepdims=1)
    base = emit.op("Where", emit.op("IsInf", largest), emit.like(0, x), largest)
    total = emit.op("ReduceSum", emit.op("Exp", emit.op("Sub", x, base)), axes, keepdims=kept)
    base = base if kept else emit.op("Squeeze", base, axes)
    return emit.cast(emit.op("Add", emit.op("Log", total), base), given.dtype if given.dtype in FLOATS else x.dtype)


@handles("aten.xlogy.Tensor", to="Log, Mul")
def product_with_logarithm(node: Node, emit: TorchEmitter) -> Tensor:
    """x * log(y), which is 0 where x is 0 and y is not NaN."""
    x, y = (emit.wide(node.tensor(name)) for name in ("self", "other"))
    is_zero = emit.op("And", emit.op("Equal", x, emit.like(0, x)), emit.op("Equal", y, y))
    product = emit.op("Mul", x, emit.op("Log", y))
    return emit.cast(emit.op("Where", is_zero, emit.like(0, x), product), node.tensor("self").dtype)


def _softplus(x: Tensor, emit: TorchEmitter) -> Tensor:
    """log(1 + exp(x)), where x is not above 0."""
    if x.dtype == TensorProto.FLOAT:
        return emit.op("Softplus", x)
    # ONNX Runtime's own loses what is small beside 1.
    return log1p(emit, emit.op("Exp", x))
