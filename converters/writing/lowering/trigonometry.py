"""Functions of angles and hyperbolas. ONNX Runtime computes most of them in float only; those of doubles are written
out, of what it has of doubles in every version (Sin, Exp, Log, Sqrt), to a few units in the last place. A zero that is
negative becomes positive in some of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering.logarithms import expm1, log1p
from onnx_sparse.converters.writing.lowering.special_functions import polynomial

#: From here on, exp(-x) is nothing beside exp(x), and x * x + 1 is x * x, to the digits of double.
_FAR, _LARGE = 20.0, 1e8
#: The series of atan(t) / t in t * t, the highest power first: t is at most tan(pi / 16).
_SERIES = tuple((-1) ** k / (2 * k + 1) for k in reversed(range(13)))


def trigonometric(emit: Emitter, op_type: str, x: Tensor) -> Tensor:
    """The ONNX operator of this name, such as `Tan` or `Acosh`; of doubles, what it computes in double."""
    written = _OF_DOUBLES.get(op_type)
    return emit.op(op_type, x) if written is None or x.dtype != TensorProto.DOUBLE else written(emit, x)


def _cos(emit: Emitter, x: Tensor) -> Tensor:
    """1 - 2 sin(x / 2)^2, with an error of some units in the last place of 1, as rounding x itself makes near zeros."""
    sine = emit.op("Sin", emit.op("Mul", x, emit.like(0.5, x)))
    return emit.op("Sub", emit.like(1, x), emit.op("Mul", emit.op("Add", sine, sine), sine))


def _tan(emit: Emitter, x: Tensor) -> Tensor:
    return emit.op("Div", emit.op("Sin", x), _cos(emit, x))


def _atan(emit: Emitter, x: Tensor) -> Tensor:
    one = emit.like(1, x)
    is_steep = emit.op("Greater", emit.op("Abs", x), one)
    t = emit.op("Where", is_steep, emit.op("Div", one, x), x)
    for _ in range(2):  # half the angle
        root = emit.op("Sqrt", emit.op("Add", one, emit.op("Mul", t, t)))
        t = emit.op("Div", t, emit.op("Add", one, root))
    made = emit.op("Mul", emit.op("Mul", emit.like(4, x), t), polynomial(emit, _SERIES, emit.op("Mul", t, t)))
    right = emit.op("Mul", emit.op("Sign", x), emit.like(math.pi / 2, x))
    return emit.op("Where", is_steep, emit.op("Sub", right, made), made)


def _asin(emit: Emitter, x: Tensor) -> Tensor:
    one = emit.like(1, x)
    root = emit.op("Sqrt", emit.op("Mul", emit.op("Sub", one, x), emit.op("Add", one, x)))
    return emit.op("Mul", emit.like(2, x), _atan(emit, emit.op("Div", x, emit.op("Add", one, root))))


def _acos(emit: Emitter, x: Tensor) -> Tensor:
    one = emit.like(1, x)
    slope = emit.op("Sqrt", emit.op("Div", emit.op("Sub", one, x), emit.op("Add", one, x)))
    return emit.op("Mul", emit.like(2, x), _atan(emit, slope))


def _sinh(emit: Emitter, x: Tensor) -> Tensor:
    def of_positive(x: Tensor) -> Tensor:
        grown = expm1(emit, x)
        total = emit.op("Add", grown, emit.op("Div", grown, emit.op("Add", grown, emit.like(1, x))))
        return _unless_far(emit, x, total)

    return _odd(emit, x, of_positive)


def _cosh(emit: Emitter, x: Tensor) -> Tensor:
    size = emit.op("Abs", x)
    grown = emit.op("Exp", size)
    return _unless_far(emit, size, emit.op("Add", grown, emit.op("Reciprocal", grown)))


def _unless_far(emit: Emitter, x: Tensor, doubled: Tensor) -> Tensor:
    """Half of it; where x is far from 0, half of exp(x), which overflows later than exp(x) does."""
    half = emit.like(0.5, x)
    root = emit.op("Exp", emit.op("Mul", half, x))
    far = emit.op("Mul", emit.op("Mul", half, root), root)
    return emit.op("Where", emit.op("Greater", x, emit.like(_FAR, x)), far, emit.op("Mul", half, doubled))


def _asinh(emit: Emitter, x: Tensor) -> Tensor:
    def of_positive(x: Tensor) -> Tensor:
        one, square = emit.like(1, x), emit.op("Mul", x, x)
        rest = emit.op("Div", square, emit.op("Add", one, emit.op("Sqrt", emit.op("Add", one, square))))
        return _unless_large(emit, x, log1p(emit, emit.op("Add", x, rest)))

    return _odd(emit, x, of_positive)


def _acosh(emit: Emitter, x: Tensor) -> Tensor:
    beyond = emit.op("Sub", x, emit.like(1, x))
    root = emit.op("Mul", emit.op("Sqrt", beyond), emit.op("Sqrt", emit.op("Add", x, emit.like(1, x))))
    return _unless_large(emit, x, log1p(emit, emit.op("Add", beyond, root)))


def _unless_large(emit: Emitter, x: Tensor, made: Tensor) -> Tensor:
    """What was made; of large numbers, log(2 x), where x * x would overflow."""
    far = emit.op("Add", emit.op("Log", x), emit.like(math.log(2), x))
    return emit.op("Where", emit.op("Greater", x, emit.like(_LARGE, x)), far, made)


def _atanh(emit: Emitter, x: Tensor) -> Tensor:
    def of_positive(x: Tensor) -> Tensor:
        ratio = emit.op("Div", emit.op("Add", x, x), emit.op("Sub", emit.like(1, x), x))
        return emit.op("Mul", emit.like(0.5, x), log1p(emit, ratio))

    return _odd(emit, x, of_positive)


def _odd(emit: Emitter, x: Tensor, of_positive: Callable[[Tensor], Tensor]) -> Tensor:
    """A function of the magnitude with the sign of x."""
    return emit.op("Mul", emit.op("Sign", x), of_positive(emit.op("Abs", x)))


_OF_DOUBLES: dict[str, Callable[[Emitter, Tensor], Tensor]] = {
    "Cos": _cos, "Tan": _tan, "Asin": _asin, "Acos": _acos, "Atan": _atan, "Sinh": _sinh, "Cosh": _cosh,
    "Asinh": _asinh, "Acosh": _acosh, "Atanh": _atanh,
}  # fmt: skip
