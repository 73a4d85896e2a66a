"""The judge of each operator: exact arithmetic in numpy, or onnx's evaluator where it is right."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from atlas.values import Array

Judge = Callable[..., Any]

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _sigmoid(x: Array) -> Array:
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def _half_even(x: Array) -> Array:
    return np.rint(x)


#: Functions of one float, computed in long doubles and rounded once.
FLOAT_FUNCTIONS: Mapping[str, Judge] = {
    "Sqrt": np.sqrt, "Exp": np.exp, "Log": np.log, "Floor": np.floor, "Ceil": np.ceil, "Round": _half_even,
    "Sin": np.sin, "Cos": np.cos, "Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan,
    "Sinh": np.sinh, "Cosh": np.cosh, "Tanh": np.tanh, "Asinh": np.arcsinh, "Acosh": np.arccosh, "Atanh": np.arctanh,
    "Sigmoid": _sigmoid, "Softplus": _softplus, "Reciprocal": lambda x: 1 / x,
    "Erf": _erf, "Softsign": lambda x: x / (1 + np.abs(x)),
    "Elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "Selu": lambda x: 1.05070102214813232421875 * np.where(
        x > 0, x, 1.67326319217681884765625 * np.expm1(np.minimum(x, 0))),
    "HardSigmoid": lambda x: np.clip(np.float32(0.2) * x + 0.5, 0, 1),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "Mish": lambda x: x * np.tanh(_softplus(x)),
    "Gelu": lambda x: 0.5 * x * _erfc(-np.asarray(x, np.float64) / math.sqrt(2)),
    "Swish": lambda x: x * _sigmoid(x),
    "LeakyRelu": lambda x: np.where(x < 0, x * np.float32(0.01), x),
}  # fmt: skip

#: Functions of one number or bool of any type.
FUNCTIONS: Mapping[str, Judge] = {
    "Abs": np.abs, "Neg": np.negative, "Sign": np.sign, "Relu": lambda x: np.maximum(x, np.zeros((), x.dtype)),
    "Identity": lambda x: x, "IsNaN": np.isnan, "IsInf": np.isinf, "Not": np.logical_not, "BitwiseNot": np.invert,
}  # fmt: skip


def _quotient(x: Array, y: Array) -> Array:
    """Toward zero; the least integer divided by -1 wraps."""
    if x.dtype.kind not in "iu":
        return x / y
    found = [int(abs(int(a)) // abs(int(b))) * (1 if (a < 0) == (b < 0) else -1) for a, b in zip(x, y, strict=True)]
    return np.array([n & ((1 << 8 * x.itemsize) - 1) for n in found], np.uint64).astype(x.dtype)


def _remainder(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.fmod(x, y)
    return np.array([int(a) % int(b) for a, b in zip(x, y, strict=True)], x.dtype)


#: Functions of two numbers; floats are computed in long doubles.
PAIRS: Mapping[str, Judge] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _quotient, "Mod": _remainder, "Pow": np.power,
    "Max": np.maximum, "Min": np.minimum, "Sum": np.add, "PRelu": lambda x, y: np.where(x < 0, x * y, x),
    "Mean": lambda x, y: x / 2 + y / 2,
    "Equal": np.equal, "Less": np.less, "Greater": np.greater, "LessOrEqual": np.less_equal,
    "GreaterOrEqual": np.greater_equal, "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
    "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor, "BitShift": np.left_shift,
}  # fmt: skip


def _total(x: Array) -> Array:
    if x.dtype.kind in "iu":
        return x.sum(1, dtype=x.dtype)
    return x.sum(1)


def _log_sum_exp(x: Array) -> Array:
    most = x.max(1, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(most), most, 0)
    return np.log(np.exp(x - shift).sum(1)) + shift[:, 0]


#: Reductions of the rows of a matrix; floats are added in long doubles, integers wrap.
REDUCTIONS: Mapping[str, Judge] = {
    "ReduceSum": _total,
    "ReduceMean": lambda x: x.mean(1),
    "ReduceMax": lambda x: x.max(1, initial=_least(x.dtype)),
    "ReduceMin": lambda x: x.min(1, initial=_most(x.dtype)),
    "ReduceProd": lambda x: x.prod(1, dtype=x.dtype),
    "ReduceL1": lambda x: _total(np.abs(x)),
    "ReduceL2": lambda x: np.sqrt((x * x).sum(1)),
    "ReduceSumSquare": lambda x: _total(x * x),
    "ReduceLogSum": lambda x: np.log(x.sum(1)),
    "ReduceLogSumExp": _log_sum_exp,
}  # fmt: skip
#: Of floats only: what the mean or root of integers is, ONNX does not say.
OF_FLOATS = ("ReduceMean", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp")


def _least(dtype: Any) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _most(dtype: Any) -> Any:
    return np.iinfo(dtype).max if dtype.kind in "iu" else np.inf


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def log_softmax(x: Array) -> Array:
    shifted = x - x.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def unique(x: Array, *, is_sorted: bool) -> list[Array]:
    """The values, first places, inverse and counts; all NaN are one value, the last, as in numpy."""
    keys = [(1, 0) if v != v else (0, v.item()) for v in x]
    found = sorted(dict.fromkeys(keys)) if is_sorted else list(dict.fromkeys(keys))
    first = np.array([keys.index(key) for key in found], np.int64)
    inverse = np.array([found.index(key) for key in keys], np.int64)
    return [x[first], first, inverse, np.array([keys.count(key) for key in found], np.int64)]


def places(x: Array, *, largest: bool, last: bool) -> Array:
    """The place of the extreme of each row: of equal ones the first or last; a NaN is the extreme, as in numpy."""
    rows = x[:, ::-1] if last else x
    found = rows.argmax(1) if largest else rows.argmin(1)
    return x.shape[1] - 1 - found if last else found


def exact(judge: Judge, *arrays: Array) -> Array:
    """A judge's answer in the type of the first array."""
    dtype = arrays[0].dtype
    with np.errstate(all="ignore"):
        if dtype.kind in "iub":
            return np.asarray(judge(*arrays))
        answer = np.asarray(judge(*(array.astype(np.longdouble) for array in arrays)))
        return (
            answer
            if answer.dtype.kind in "biu"
            else answer.astype(np.float64 if dtype.itemsize < 8 else answer.dtype).astype(dtype)
        )


#: Operators that the walk leaves, by the reason.
LEFT: Mapping[str, tuple[str, ...]] = {
    "random numbers": ("Bernoulli", "Dropout", "Multinomial", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
    "graphs and sequences, which compute nothing": (
        "ConcatFromSequence", "Constant", "If", "Loop", "Optional", "OptionalGetElement", "OptionalHasElement", "Scan",
        "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
        "SequenceMap", "SplitToSequence"),
    "strings": ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"),
    "shapes, which are not values": (
        "CastLike", "ConstantOfShape", "Range", "Flatten", "Shape", "Size", "Squeeze", "Unsqueeze"),
    "quantization, whose tests draw all scales": ("DequantizeLinear", "QuantizeLinear"),
    "read in files, not written": ("BitCast", "MaxRoiPool", "TensorScatter"),
    "kernels of whole layers, whose tests draw ordinary numbers": (
        "DFT", "GRU", "GroupNormalization", "LSTM", "NonMaxSuppression", "QLinearConv", "QLinearMatMul",
        "ConvInteger", "Det", "MatMulInteger", "RNN", "STFT", "DynamicQuantizeLinear", "Col2Im", "RoiAlign"),
}  # fmt: skip
