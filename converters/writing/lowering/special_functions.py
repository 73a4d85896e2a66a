"""Functions of statistics that ONNX has no operator for: the inverse error function, to the digits of float."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter

#: The inverse error function is x times a polynomial, by M. Giles, "Approximating the erfinv function", 2011: near 0 in
#: w - 2.5, and near 1 in sqrt(w) - 3, where w = -log(1 - x * x). The highest power comes first.
_NEAR_ZERO = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
              -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_NEAR_ONE = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
             0.00943887047, 1.00167406, 2.83297682)  # fmt: skip
#: The types whose digits these functions have.
_SHORT = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)


def inverse_error(emit: Emitter, given: Tensor) -> Tensor:
    """The y of which erf(y) is x; infinite at -1 and 1, and NaN beyond.

    Raises:
        Unsupported: It is of doubles or of no floats.
    """
    # Near 1 the digits of float do not suffice for 1 - x * x.
    x = _as_double(emit, given)
    one = emit.like(1, x)
    w = emit.op("Neg", emit.op("Log", emit.op("Mul", emit.op("Sub", one, x), emit.op("Add", one, x))))
    near = polynomial(emit, _NEAR_ZERO, emit.op("Sub", w, emit.like(2.5, w)))
    far = polynomial(emit, _NEAR_ONE, emit.op("Sub", emit.op("Sqrt", w), emit.like(3, w)))
    factor = emit.op("Where", emit.op("Less", w, emit.like(5, w)), near, far)
    is_end = emit.op("Equal", emit.op("Abs", x), one)
    made = emit.op("Mul", emit.op("Where", is_end, emit.like(float("inf"), x), factor), x)
    return emit.cast(made, given.dtype)


def _as_double(emit: Emitter, given: Tensor) -> Tensor:
    if given.dtype not in _SHORT:
        raise Unsupported(f"{given}; only float, float16 and bfloat16 are supported")
    return emit.cast(given, TensorProto.DOUBLE)


def polynomial(emit: Emitter, factors: Sequence[float], x: Tensor) -> Tensor:
    """The value of a polynomial, of which the highest power's factor comes first."""
    made = emit.like(factors[0], x)
    for factor in factors[1:]:
        made = emit.op("Add", emit.op("Mul", made, x), emit.like(factor, x))
    return made
