"""Functions of statistics that ONNX has no operator for: the inverse error function, the inverse of the normal
distribution, the logarithm of the gamma function and its derivative.
"""

from __future__ import annotations

import math
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
#: The same where w is more than 16, in sqrt(w) - 6.8: fitted to the normal distribution, down to a chance of 1e-47.
_FAR = (-2.389296799e-09, 2.071699177e-08, -7.378020553e-08, 3.172504674e-07, -1.978832852e-06, 8.162778162e-06,
        5.244199134e-07, -0.0005151638528, 1.008801387, 6.667280041)  # fmt: skip
#: The gamma function by C. Lanczos, "A precision approximation of the gamma function", 1964: the factors of
#: 1, 1 / x, 1 / (x + 1), ... for g = 7 and nine terms.
_LANCZOS = (0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
            12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7)  # fmt: skip
#: The factors of 1 / x^2, 1 / x^4, ... in what the derivative of the logarithm of gamma lacks to log(x) - 1 / (2 x):
#: the Bernoulli numbers by twice their place.
_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
#: So many steps to the right of it, the series has the digits of double.
_STEPS = 8
#: The types whose digits the inverse functions have.
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
    return emit.cast(_scaled(emit, x, w), given.dtype)


def inverse_normal(emit: Emitter, given: Tensor) -> Tensor:
    """The y below which a standard normal number is with this chance; infinite at 0 and 1, and NaN beyond.

    Raises:
        Unsupported: It is of doubles or of no floats.
    """
    chance = _as_double(emit, given)
    one, four = emit.like(1, chance), emit.like(4, chance)
    x = emit.op("Sub", emit.op("Add", chance, chance), one)
    product = emit.op("Mul", emit.op("Mul", four, chance), emit.op("Sub", one, chance))
    made = _scaled(emit, x, emit.op("Neg", emit.op("Log", product)))
    return emit.cast(emit.op("Mul", emit.like(math.sqrt(2), made), made), given.dtype)


def _scaled(emit: Emitter, x: Tensor, w: Tensor) -> Tensor:
    """The inverse error function of x, of which w is -log(1 - x * x)."""
    root = emit.op("Sqrt", w)
    near = polynomial(emit, _NEAR_ZERO, emit.op("Sub", w, emit.like(2.5, w)))
    middle = polynomial(emit, _NEAR_ONE, emit.op("Sub", root, emit.like(3, w)))
    far = polynomial(emit, _FAR, emit.op("Sub", root, emit.like(6.8, w)))
    far = emit.op("Where", emit.op("Less", w, emit.like(16, w)), middle, far)
    factor = emit.op("Where", emit.op("Less", w, emit.like(5, w)), near, far)
    is_end = emit.op("Equal", emit.op("Abs", x), emit.like(1, x))
    is_end = emit.op("Or", is_end, emit.op("IsInf", w))
    return emit.op("Mul", emit.op("Where", is_end, emit.like(float("inf"), x), factor), x)


def log_gamma(emit: Emitter, given: Tensor) -> Tensor:
    """The logarithm of the magnitude of the gamma function, in double; +inf at 0 and the negative whole numbers."""
    x = emit.cast(given, TensorProto.DOUBLE)
    one, half = emit.like(1, x), emit.like(0.5, x)
    is_left = emit.op("Less", x, half)
    right = emit.op("Where", is_left, emit.op("Sub", one, x), x)
    base = emit.op("Sub", right, one)
    series = emit.like(_LANCZOS[0], x)
    for k, factor in enumerate(_LANCZOS[1:]):
        series = emit.op("Add", series, emit.op("Div", emit.like(factor, x), emit.op("Add", right, emit.like(k, x))))
    shifted = emit.op("Add", base, emit.like(7.5, x))
    # (base + 0.5) (log(shifted) - 1) does not become inf - inf.
    power = emit.op("Mul", emit.op("Add", base, half), emit.op("Sub", emit.op("Log", shifted), one))
    rest = emit.like(math.log(2 * math.pi) / 2 - 7, x)
    made = emit.op("Add", emit.op("Add", power, rest), emit.op("Log", series))
    # gamma(x) gamma(1 - x) = pi / sin(pi x)
    sine = emit.op("Abs", emit.op("Sin", _turned(emit, x)))
    mirrored = emit.op("Sub", emit.op("Log", emit.op("Div", emit.like(math.pi, x), sine)), made)
    infinity = emit.like(float("inf"), x)
    made = emit.op(
        "Where", emit.op("Equal", emit.op("Abs", x), infinity), infinity, emit.op("Where", is_left, mirrored, made)
    )
    return emit.cast(made, given.dtype)


def digamma(emit: Emitter, given: Tensor) -> Tensor:
    """The derivative of the logarithm of the gamma function, in double; NaN at 0 and the negative whole numbers."""
    x = emit.cast(given, TensorProto.DOUBLE)
    one = emit.like(1, x)
    is_left = emit.op("Less", x, emit.like(0.5, x))
    right = emit.op("Where", is_left, emit.op("Sub", one, x), x)
    far = emit.op("Add", right, emit.like(_STEPS, x))
    inverse = emit.op("Div", one, far)
    square = emit.op("Mul", inverse, inverse)
    series = emit.op("Mul", polynomial(emit, _BERNOULLI[::-1], square), square)
    made = emit.op("Sub", emit.op("Log", far), emit.op("Add", emit.op("Mul", emit.like(0.5, x), inverse), series))
    for k in range(_STEPS):
        made = emit.op("Sub", made, emit.op("Div", one, emit.op("Add", right, emit.like(k, x))))
    turned = _turned(emit, x)
    cosine = emit.op("Sin", emit.op("Sub", emit.like(math.pi / 2, x), emit.op("Abs", turned)))  # which has doubles
    steep = emit.op("Div", emit.op("Mul", emit.like(math.pi, x), cosine), emit.op("Sin", turned))
    made = emit.op("Where", is_left, emit.op("Sub", made, steep), made)
    is_pole = emit.op("And", is_left, emit.op("Equal", turned, emit.like(0, x)))
    return emit.cast(emit.op("Where", is_pole, emit.like(float("nan"), x), made), given.dtype)


def _turned(emit: Emitter, x: Tensor) -> Tensor:
    """Pi times what a number is beyond the nearest whole one."""
    return emit.op("Mul", emit.like(math.pi, x), emit.op("Sub", x, emit.op("Round", x)))


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
