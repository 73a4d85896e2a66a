"""Verbs that compute each element by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from verbs.declaration import BFLOAT16, BOOL, FLOATS, INTEGERS, NUMBERS, UNSIGNED, Case, declare, plain, written
from verbs.operands import ends, numbers, one, two
from verbs.roads import Array, Fixed

#: The types of Ascend's operators, whose vectors have neither doubles nor most unsigned integers.
_HALVES = tuple(dtype for dtype in FLOATS if dtype != np.float64)
_ATB = (np.dtype("float16"), BFLOAT16)


def wide(compute: Callable[..., Array]) -> Callable[[Case], Array]:
    """What a function of doubles gives, rounded to the type of the first operand."""

    def meaning(case: Case) -> Array:
        x = case.operands[0]
        made = compute(*(each.astype(np.longdouble) if each.dtype == np.float64 else each.astype(np.float64)
                         for each in case.operands))  # fmt: skip
        return np.asarray(made).astype(x.dtype)

    return meaning


def own(compute: Callable[..., Array]) -> Callable[[Case], Array]:
    """What numpy computes in the type of the operands; half floats in float32."""

    def meaning(case: Case) -> Array:
        x = case.operands[0]
        if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
            made = np.asarray(compute(*(each.astype(np.float32) for each in case.operands)))
            return made.astype(x.dtype) if made.dtype != bool else made
        return np.asarray(compute(*case.operands))

    return meaning


def _divides(x: Array, y: Array) -> Array:
    """Not by zero, nor the least integer by -1, which no type holds."""
    if x.dtype.kind not in "iu":
        return np.ones(x.shape, bool)
    fits = y != 0
    if x.dtype.kind == "i":
        fits &= (x != np.iinfo(x.dtype).min) | (y != -1)
    return np.asarray(fits)


def _divides_exactly(x: Array, y: Array) -> Array:
    """Also of floats whose quotient is far from a whole number, so that rounding does not decide."""
    fits = _divides(x, y)
    if x.dtype.kind in "iu":
        return fits
    quotient = x.astype(np.longdouble) / y.astype(np.longdouble)
    size = np.abs(quotient)
    near = np.abs(quotient - np.rint(quotient)) < np.maximum(size, 1) * (1e-3 if x.dtype.itemsize > 2 else 2e-2)
    return np.asarray((size < 1e3) & (~near | (quotient == np.rint(quotient)))) & (np.abs(y.astype(float)) > 1e-3)


def _floor_mod(x: Array, y: Array) -> Array:
    """The remainder of the divisor's sign; of an infinite divisor, x itself or the divisor, as in Python."""
    if x.dtype.kind in "iu":
        return np.mod(x, y)
    rest = np.fmod(x, y)
    return np.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def _truncated(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.trunc(x / y)
    quotient = np.floor_divide(x, y)
    return np.asarray(quotient + ((np.mod(x, y) != 0) & ((x < 0) != (y < 0)))).astype(x.dtype)


def _fmod(x: Array, y: Array) -> Array:
    return np.fmod(x, y)


declare("floor_div", two(_divides_exactly), own(lambda x, y: np.floor(x / y) if x.dtype.kind not in "iu"
        else np.floor_divide(x, y)), NUMBERS, tensorflow="FloorDiv",
        openvino=plain("Divide-1", m_pythondiv=True, dtypes=INTEGERS), ge="FloorDiv")  # fmt: skip
declare("truncate_div", two(_divides_exactly), own(_truncated), NUMBERS, tensorflow="TruncateDiv",
        openvino=plain("Divide-1", m_pythondiv=False, dtypes=INTEGERS))  # fmt: skip
declare("floor_mod", two(_divides), own(_floor_mod), NUMBERS, tensorflow="FloorMod", openvino="FloorMod-1",
        ge="FloorMod")  # fmt: skip
declare("truncate_mod", two(_divides), own(_fmod), NUMBERS, tensorflow="TruncateMod", openvino="Mod-1")
declare("divide", two(_divides), own(lambda x, y: x / y), FLOATS, tensorflow="RealDiv", openvino="Divide-1",
        ge="RealDiv", atb=plain("Elewise", elewiseType=10, dtypes=_ATB))  # fmt: skip
declare("divide_as_c", two(_divides), own(lambda x, y: x / y), FLOATS,
        openvino=plain("Divide-1", m_pythondiv=False))  # fmt: skip
declare("add", two(), own(np.add), NUMBERS, tensorflow="AddV2", openvino="Add-1", ge="Add",
        atb=plain("Elewise", elewiseType=8, dtypes=_ATB))  # fmt: skip
declare("subtract", two(), own(np.subtract), NUMBERS, tensorflow="Sub", openvino="Subtract-1", ge="Sub",
        atb=plain("Elewise", elewiseType=15, dtypes=_ATB))  # fmt: skip
declare("multiply", two(), own(np.multiply), NUMBERS, tensorflow="Mul", openvino="Multiply-1", ge="Mul",
        atb=plain("Elewise", elewiseType=9, dtypes=_ATB))  # fmt: skip
declare("maximum", two(), own(np.maximum), NUMBERS, tensorflow="Maximum", openvino="Maximum-1", ge="Maximum")
declare("minimum", two(), own(np.minimum), NUMBERS, tensorflow="Minimum", openvino="Minimum-1", ge="Minimum")


def _squared_difference(x: Array, y: Array) -> Array:
    difference = np.subtract(x, y)
    return np.multiply(difference, difference)


declare("squared_difference", two(), own(_squared_difference), NUMBERS, digits=8, tensorflow="SquaredDifference",
        openvino="SquaredDifference-1", ge="SquaredDifference")  # fmt: skip


def _powers(rng: np.random.Generator, dtype: np.dtype[Any]) -> Case:
    if dtype.kind in "iu":
        base = np.concatenate([ends(dtype), numbers(rng, dtype, (40,))])
        exponent = rng.integers(0, 9, base.shape).astype(dtype)
        return Case([base, exponent])
    base, exponent = (part.ravel() for part in np.meshgrid(ends(dtype), ends(dtype)))
    return Case([np.concatenate([base, np.abs(numbers(rng, dtype, (40,)))]),
                 np.concatenate([exponent, numbers(rng, dtype, (40,))])])  # fmt: skip


def _power(case: Case) -> Array:
    base, exponent = case.operands
    if base.dtype.kind in "iu":
        bits = 8 * base.dtype.itemsize
        exact = [pow(int(b), int(e)) % 2**bits for b, e in zip(base, exponent, strict=True)]
        return np.array(exact, np.uint64).astype(f"u{base.dtype.itemsize}").view(base.dtype)
    return wide(np.power)(case)


declare("power", _powers, _power, NUMBERS, digits=16, tensorflow="Pow", openvino="Power-1", ge="Pow")


def _shifts(rng: np.random.Generator, dtype: np.dtype[Any]) -> Case:
    """All amounts of a type and beyond its width, below zero, and at its ends."""
    bits, least = 8 * dtype.itemsize, 0 if dtype.kind == "u" else -2
    amounts = np.array([*range(least, bits + 3), np.iinfo(dtype).max], dtype)
    x = np.concatenate([ends(dtype), numbers(rng, dtype, (4,))])
    x, by = (part.ravel() for part in np.meshgrid(x, amounts))
    return Case([x, by])


def _shift(compute: Callable[..., Array]) -> Callable[[Case], Array]:
    def meaning(case: Case) -> Array:
        x, by = case.operands
        return np.asarray(compute(x, np.clip(by, 0, 8 * x.dtype.itemsize - 1))).astype(x.dtype)

    return meaning


declare("shift_left", _shifts, _shift(np.left_shift), INTEGERS, tensorflow="LeftShift",
        openvino="BitwiseLeftShift-15", ge="LeftShift")  # fmt: skip
declare("shift_right", _shifts, _shift(np.right_shift), INTEGERS, tensorflow="RightShift",
        openvino="BitwiseRightShift-15", ge="RightShift")  # fmt: skip

for _name, _compute, _tf, _ov, _ge, _atb in (
    ("less", np.less, "Less", "Less-1", "Less", 13),
    ("less_equal", np.less_equal, "LessEqual", "LessEqual-1", "LessEqual", None),
    ("greater", np.greater, "Greater", "Greater-1", "Greater", 14),
    ("greater_equal", np.greater_equal, "GreaterEqual", "GreaterEqual-1", "GreaterEqual", None),
    ("equal", np.equal, "Equal", "Equal-1", "Equal", 16),
    ("not_equal", np.not_equal, "NotEqual", "NotEqual-1", "NotEqual", None),
):
    declare(_name, two(), own(_compute), NUMBERS, tensorflow=_tf, openvino=_ov, ge=_ge,
            atb=None if _atb is None else plain("Elewise", elewiseType=_atb, dtypes=_ATB,
            meaning=lambda case, f=_compute: own(f)(case).astype(np.int8)))  # fmt: skip
for _name, _compute, _op in (
    ("logical_and", np.logical_and, "LogicalAnd"),
    ("logical_or", np.logical_or, "LogicalOr"),
):
    declare(_name, two(), own(_compute), BOOL, tensorflow=_op, openvino=f"{_op}-1", ge=_op)
declare("logical_not", one(), own(np.logical_not), BOOL, tensorflow="LogicalNot", openvino="LogicalNot-1",
        ge="LogicalNot")  # fmt: skip
for _name, _compute in (("And", np.bitwise_and), ("Or", np.bitwise_or), ("Xor", np.bitwise_xor)):
    declare(f"bitwise_{_name.lower()}", two(), own(_compute), INTEGERS, tensorflow=f"Bitwise{_name}",
            openvino=f"Bitwise{_name}-13", ge=f"Bitwise{_name}")  # fmt: skip
declare("bitwise_not", one(), own(np.invert), INTEGERS, tensorflow="Invert", openvino="BitwiseNot-13",
        ge="Invert")  # fmt: skip


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x.astype(np.float64))


def _inverse_erf_draw(rng: np.random.Generator, dtype: np.dtype[Any]) -> Case:
    inner = rng.uniform(-0.999, 0.999, 60)
    return Case([np.concatenate([[0, 1, -1, 1.5, np.nan], inner]).astype(dtype)])


def _inverse_erf(x: Array) -> Array:
    """By bisection of erf."""
    low, high = np.full(x.shape, -6.0), np.full(x.shape, 6.0)
    for _ in range(70):
        middle = (low + high) / 2
        below = _erf(middle) < x
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    made = np.where(np.abs(x) == 1, np.copysign(np.inf, x), (low + high) / 2)
    made = np.where(x == 0, 0, made)
    return np.where(np.abs(x) > 1, np.nan, np.where(np.isnan(x), np.nan, made))


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


_SCALE, _ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def _selu(x: Array) -> Array:
    return _SCALE * np.where(x > 0, x, _ALPHA * np.expm1(x))


def _of_all_exponents(rng: np.random.Generator, dtype: np.dtype[Any]) -> Case:
    """The ends, and numbers of all exponents that the type has."""
    limits = ml_dtypes.finfo(dtype)
    sizes = 2.0 ** rng.uniform(limits.minexp, limits.maxexp - 3, 48)
    return Case([np.concatenate([ends(dtype), np.asarray(rng.standard_normal(48) * sizes).astype(dtype)])])


def _numbers_of(case: Case, *values: float) -> list[Any]:
    return [*case.operands, *(Fixed(np.array(value, case.operands[0].dtype)) for value in values)]


#: Functions of floats: name, meaning, operands, TensorFlow, OpenVINO, GE, ATB's activation, digits.
_OF_FLOATS: tuple[tuple[Any, ...], ...] = (
    ("sigmoid", _sigmoid, one(), "Sigmoid", "Sigmoid-1", "Sigmoid", plain("Activation", activationType=8), 8),
    ("tanh", np.tanh, one(), "Tanh", "Tanh-1", "Tanh", plain("Elewise", elewiseType=20), 8),
    ("exp", np.exp, one(), "Exp", "Exp-1", "Exp", None, 8),
    ("log", np.log, one(), "Log", "Log-1", "Log", plain("Activation", activationType=5), 8),
    ("log1p", np.log1p, one(), "Log1p", None, "Log1p", None, 8),
    ("expm1", np.expm1, one(), "Expm1", None, "Expm1", None, 8),
    ("sqrt", np.sqrt, one(), "Sqrt", "Sqrt-1", "Sqrt", None, 4),
    ("rsqrt", lambda x: 1 / np.sqrt(x), one(), "Rsqrt", None, "Rsqrt", None, 4),
    ("reciprocal", lambda x: 1 / x, one(), "Reciprocal", None, "Reciprocal", None, 4),
    ("erf", _erf, one(), "Erf", "Erf-1", "Erf", None, 16),
    ("erf_inv", _inverse_erf, _inverse_erf_draw, "Erfinv", "ErfInv-17", "Erfinv", None, 400),
    ("sin", np.sin, one(-20, 20), "Sin", "Sin-1", "Sin", plain("Elewise", elewiseType=4), 64),
    ("cos", np.cos, one(-20, 20), "Cos", "Cos-1", "Cos", plain("Elewise", elewiseType=3), 64),
    ("tan", np.tan, one(-1.5, 1.5), "Tan", "Tan-1", "Tan", None, 256),
    ("asin", np.arcsin, one(), "Asin", "Asin-1", "Asin", None, 8),
    ("acos", np.arccos, one(), "Acos", "Acos-1", "Acos", None, 16),
    ("atan", np.arctan, _of_all_exponents, "Atan", "Atan-1", "Atan", None, 8),
    ("sinh", np.sinh, one(), "Sinh", "Sinh-1", "Sinh", None, 16),
    ("cosh", np.cosh, one(), "Cosh", "Cosh-1", "Cosh", None, 16),
    ("asinh", np.arcsinh, _of_all_exponents, "Asinh", "Asinh-4", "Asinh", None, 16),
    ("acosh", np.arccosh, _of_all_exponents, "Acosh", "Acosh-4", "Acosh", None, 16),
    ("atanh", np.arctanh, one(), "Atanh", "Atanh-4", "Atanh", None, 16),
    ("elu", lambda x: np.where(x > 0, x, np.expm1(x)), one(), "Elu", plain("Elu-1", alpha=1.0), "Elu", None, 64),
    ("selu", _selu, one(), "Selu", written("Selu-1", lambda case: _numbers_of(case, _ALPHA, _SCALE)), "Selu", None, 64),
    ("softplus", _softplus, one(), "Softplus", "SoftPlus-4", "Softplus", None, 16),
    ("softsign", lambda x: x / (1 + np.abs(x)), one(), "Softsign", "SoftSign-9", "Softsign", None, 8),
    ("gelu", _gelu, one(), None, "Gelu-2", plain("GeluV2", approximate="none"),
     plain("Activation", activationType=2, geluMode=1), 64),
    ("gelu_tanh", _gelu_tanh, one(), None, plain("Gelu-7", approximation_mode="TANH"), "Gelu",
     plain("Activation", activationType=2, geluMode=0), 64),
    ("swish", lambda x: x * _sigmoid(x), one(), None, "Swish-4", "Swish",
     plain("Activation", activationType=4, scale=1.0), 16),
    ("mish", lambda x: x * np.tanh(_softplus(x)), one(), None, "Mish-4", "Mish", None, 32),
    ("hard_swish", lambda x: x * np.clip(x / 6 + 0.5, 0, 1), one(), None, "HSwish-4", "HardSwish", None, 16),
    ("hard_sigmoid", lambda x: np.clip(x / 6 + 0.5, 0, 1), one(), None, "HSigmoid-5", "HardSigmoid", None, 16),
)  # fmt: skip
#: Functions that cancel out what is of the size of 1.
_NEAR_ONE = ("sin", "cos", "elu", "selu", "gelu", "gelu_tanh", "erf_inv", "hard_swish", "hard_sigmoid")
#: ONNX Runtime computes them in float32 only, and Ascend has no operator of doubles.
_WITHOUT_DOUBLE = (
    *("cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"),
    *("erf", "gelu"),
)
for _name, _compute, _draw, _tf, _ov, _ge, _atb, _digits in _OF_FLOATS:
    if _atb is not None:
        _atb = replace(_atb, dtypes=_ATB)
    if _name in _WITHOUT_DOUBLE:
        _ge = replace(plain(_ge) if isinstance(_ge, str) else _ge, dtypes=_HALVES)
    declare(_name, _draw, wide(_compute), FLOATS, digits=_digits, near=float(_name in _NEAR_ONE), tensorflow=_tf,
            openvino=_ov, ge=_ge, atb=_atb)  # fmt: skip

declare("angle", two(), wide(np.arctan2), FLOATS, digits=16, tensorflow="Atan2")
declare("leaky_relu", one(), wide(lambda x: np.where(x > 0, x, np.float64(np.float32(0.2)) * x)), FLOATS, digits=8,
        tensorflow=plain("LeakyRelu", alpha=0.2), ge=plain("LeakyRelu", negative_slope=0.2))  # fmt: skip
declare("relu", one(), own(lambda x: np.maximum(x, x.dtype.type(0))), NUMBERS, tensorflow="Relu",
        openvino="ReLU-1", ge="Relu", atb=plain("Activation", activationType=1, dtypes=_ATB))  # fmt: skip
for _name, _compute, _tf, _ov, _ge in (
    ("negative", np.negative, "Neg", "Negative-1", "Neg"),
    ("absolute", np.abs, "Abs", "Abs-1", "Abs"),
    ("sign", np.sign, "Sign", "Sign-1", "Sign"),
    ("square", np.square, "Square", None, "Square"),
):
    declare(_name, one(), own(_compute), tuple(d for d in NUMBERS if _name != "negative" or d not in UNSIGNED),
            tensorflow=_tf, openvino=_ov, ge=_ge)  # fmt: skip


def _whole(compute: Callable[[Array], Array]) -> Callable[[Case], Array]:
    """A rounding, which leaves integers as they are."""
    return lambda case: case.operands[0] if case.operands[0].dtype.kind in "iu" else own(compute)(case)


def _halves(rng: np.random.Generator, dtype: np.dtype[Any]) -> Case:
    x = one()(rng, dtype).operands[0]
    if dtype.kind in "iu":
        return Case([x])
    halves = (np.arange(-9, 10) + 0.5).astype(dtype)
    return Case([np.concatenate([x, halves, np.nextafter(halves.astype(np.float32), np.float32(0)).astype(dtype)])])


def _half_away(x: Array) -> Array:
    whole = np.floor(np.abs(x))
    return np.copysign(whole + (np.abs(x) - whole >= 0.5), x)


declare("floor", _halves, _whole(np.floor), NUMBERS, tensorflow=plain("Floor", dtypes=FLOATS), openvino="Floor-1",
        ge="Floor")  # fmt: skip
declare("ceil", _halves, _whole(np.ceil), NUMBERS, tensorflow=plain("Ceil", dtypes=FLOATS), openvino="Ceiling-1",
        ge="Ceil")  # fmt: skip
declare("truncate", _halves, _whole(np.trunc), NUMBERS, ge="Trunc")
declare("round_half_even", _halves, _whole(np.rint), NUMBERS, tensorflow=plain("Round", dtypes=FLOATS),
        openvino=plain("Round-5", mode="half_to_even"), ge="Round")  # fmt: skip
declare("round_half_away", _halves, _whole(_half_away), NUMBERS, openvino=plain("Round-5", mode="half_away_from_zero"))
for _name, _compute, _tf, _ov, _ge in (
    ("is_nan", np.isnan, "IsNan", "IsNaN-10", "IsNan"),
    ("is_infinite", np.isinf, "IsInf", "IsInf-10", "IsInf"),
    ("is_finite", np.isfinite, "IsFinite", "IsFinite-10", "IsFinite"),
):
    declare(_name, one(), own(_compute), FLOATS, tensorflow=_tf, openvino=_ov, ge=_ge)


def _bounds(rng: np.random.Generator, dtype: np.dtype[Any]) -> Case:
    low, high = sorted([0, 5] if rng.random() < 0.3 else [int(n) for n in rng.integers(0, 100, 2)])
    return Case(one()(rng, dtype).operands, {"low": low, "high": high})


def _clip(case: Case) -> Array:
    x, *bounds = _with_bounds(case)
    return np.asarray(np.clip(x, *bounds)).astype(x.dtype)


def _with_bounds(case: Case) -> list[Any]:
    return [*case.operands, *(np.array(case[name]).astype(case.operands[0].dtype) for name in ("low", "high"))]


declare("clip", _bounds, _clip, NUMBERS, tensorflow=written("ClipByValue", _with_bounds),
        openvino=written("Clamp-1", attributes=lambda case: {"min": case["low"], "max": case["high"]}),
        ge=written("ClipByValue", _with_bounds))  # fmt: skip


def _choice(rng: np.random.Generator, dtype: np.dtype[Any]) -> Case:
    x, y = two()(rng, dtype).operands
    return Case([rng.integers(0, 2, x.shape).astype(bool), x, y])


declare("select", _choice, lambda case: np.where(*case.operands), (*NUMBERS, *BOOL), tensorflow="SelectV2",
        openvino="Select-1", ge="SelectV2",
        atb=written("Where", lambda case: [case.operands[0].astype(np.int8), *case.operands[1:]],
                    dtypes=_ATB))  # fmt: skip
