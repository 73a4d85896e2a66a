"""Operators that compute each element by itself, or along axes."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from support.tensorflow_kernels import Row, constant, each, given, numbers, row

_BINARY = (
    *("Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference", "Equal", "NotEqual", "Less"),
    *("LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr", "BitwiseAnd", "BitwiseOr", "BitwiseXor"),
    *("Atan2", "MulNoNan", "DivNoNan", "Xdivy"),
)
_DIVIDING = ("RealDiv", "Div", "FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod")
_UNARY = (
    *("Abs", "Neg", "Sign", "Square", "Exp", "Sigmoid", "Tanh", "Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh"),
    *("Erf", "Ceil", "Floor", "Round", "Rint", "IsNan", "IsInf", "IsFinite", "LogicalNot", "Invert", "Expm1", "Erfc"),
    *("ZerosLike", "OnesLike", "Identity", "Softplus", "Softsign", "Elu", "Selu", "Relu", "Relu6", "LeakyRelu"),
)
_FEATURES = frozenset({"Softplus", "Softsign", "Elu", "Selu", "Relu", "Relu6", "LeakyRelu"})
_POSITIVE = ("Sqrt", "Rsqrt", "Log", "Log1p", "Reciprocal", "Inv")
_REDUCED = ("Sum", "Prod", "Mean", "Max", "Min", "All", "Any", "EuclideanNorm")
_AXES = each(constant([0]), constant(-1), constant([-1, 0]), constant([0, 1, 2]))
_IN_UNIT = ("Asin", "Acos", "Atanh", "Erfinv")


def _unary(op: str, low: float, high: float) -> Row:
    return row(op, **{_name(op): numbers("mn", low, high)})


def _name(op: str) -> str:
    return "features" if op in _FEATURES else "input" if op == "Identity" else "x"


ELEMENTWISE = (
    *(row(op, x=each(numbers("mn"), numbers("")), y=numbers("n")) for op in _BINARY),
    *(row(op, x=numbers("mn", -9, 9), y=numbers("n", 1, 4)) for op in _DIVIDING),
    *(row(op, x=numbers("mn", -9, 9), y=constant([-2])) for op in _DIVIDING),
    *(  # whose quotients are beyond an integer, and are not when they are rounded
        row(op, x=given([-7.77734375, 7.77734375]), y=given(1.2958984375), T=each(tf.float16, tf.bfloat16, tf.float32))
        for op in ("FloorDiv", "TruncateDiv")
    ),
    *(_unary(op, -4, 5) for op in _UNARY),
    *(_unary(op, 0.25, 5) for op in _POSITIVE),
    *(_unary(op, -1, 1) for op in _IN_UNIT),
    _unary("Acosh", 1, 5),
    _unary("Ndtri", 0, 1),
    *(
        row(op, x=each(numbers("mn", -4, 5), numbers("mn", 0, 1), given([-2, 1, 2, 30, 1e4])))
        for op in ("Lgamma", "Digamma")
    ),
    row("Pow", x=numbers("mn", 1, 4), y=numbers("n", 0, 4)),
    row("AddN", inputs=each([numbers("mn"), numbers("mn")], [numbers("mn")])),
    row("LeakyRelu", features=numbers("mn"), alpha=each(0.2, 0.0, 1.5)),
    row("Softmax", logits=each(numbers("mn"), numbers("lmn"))),
    row("LogSoftmax", logits=each(numbers("mn"), numbers("lmn"))),
    row("BiasAdd", value=each(numbers("mnlk"), numbers("mk")), bias=numbers("k")),
    row("BiasAdd", value=each(numbers("mkln"), numbers("mk")), bias=numbers("k"), data_format="NCHW"),
    row("ClipByValue", t=numbers("mn"), clip_value_min=each(numbers(""), given(-1)), clip_value_max=given(2)),
    row("Cast", x=numbers("mn", 0, 9)),
    *(
        row("Bitcast", input=given(np.array(value)), T=each(given_type), type=types)
        for given_type, types, value in (
            (tf.float32, each(tf.int32, tf.uint32, tf.uint8, tf.int16), [[1.5, -0.0], [1e-40, np.inf], [-3e38, 0]]),
            (tf.int32, each(tf.float32, tf.uint32, tf.uint8, tf.int16), [[1, -1], [2**31 - 1, -(2**31)], [2**30, 258]]),
            (tf.int64, each(tf.uint64, tf.int32, tf.uint8, tf.uint16), [[1, -1], [2**63 - 1, -(2**63)], [2**40, 258]]),
            (tf.uint8, each(tf.int32, tf.float32, tf.uint32, tf.int8), [[1, 2, 3, 255], [0, 0, 128, 127]]),
            (tf.float16, each(tf.int16, tf.uint16, tf.bfloat16, tf.uint8), [[1.5, -0.0, np.inf], [6e-8, -7e4, 3e-5]]),
            (tf.bfloat16, each(tf.int16, tf.uint16, tf.float16, tf.uint8), [[1.5, -0.0, np.inf], [1e-40, -3e38, 0]]),
            (tf.int16, each(tf.float16, tf.bfloat16), [[1, -1, 0x7BFF], [-(2**15), 0x0400, 0x7C00]]),
            (tf.float16, each(tf.float32, tf.int32, tf.uint32), [[1.5, -0.0], [6e-8, 2]]),
            (tf.bfloat16, each(tf.int64, tf.uint64), [[1.5, -0.0, -7, 3e-5], [1e-40, 2, 3, 1]]),
            (tf.int16, each(tf.int64, tf.uint64, tf.uint8), [[1, -2, 3, -(2**15)], [0, 0, 128, 2**15 - 1]]),
        )
    ),
    row("LeftShift", x=numbers("mn", 0, 5), y=numbers("n", 0, 4)),
    row("RightShift", x=numbers("mn", 0, 50), y=numbers("n", 0, 4)),
    row("SelectV2", condition=numbers("m"), t=numbers("lm"), e=each(numbers("m"), numbers(""))),
    row("Select", condition=numbers("mn"), t=numbers("mn"), e=numbers("mn")),
    row("Select", condition=numbers("m"), t=numbers("mn"), e=numbers("mn")),
    *(row(op, input=numbers("lmn", 1, 4), reduction_indices=constant([0])) for op in _REDUCED),
    *(row(op, input=numbers("lmn", 1, 4), reduction_indices=_AXES) for op in ("Sum", "Max", "Mean", "Prod")),
    *(row(op, input=numbers("lmn", 1, 4), reduction_indices=given([0, -1])) for op in ("Sum", "Mean", "Max", "Min")),
    *(
        row(op, input=numbers("", 1, 4), reduction_indices=each(constant([]), given([])))
        for op in ("Sum", "Mean", "Max", "Min", "Prod")
    ),
    row("ArgMax", input=numbers("lmn", -90, 90), dimension=each(constant(0), constant(-1), constant(1))),
    row("ArgMin", input=numbers("lmn", -90, 90), dimension=each(constant(0), constant(-1), constant(1))),
    row("Cumsum", x=numbers("lmn"), axis=each(constant(0), constant(-1), given(1))),
    row("Cumprod", x=numbers("lmn", 1, 3), axis=each(constant(0), constant(-1), constant(1))),
    row("CumulativeLogsumexp", x=numbers("lmn"), axis=each(constant(0), constant(-1), constant(1))),
    row("TopKV2", input=numbers("mn", -90, 90), k=each(constant(2), given(1), constant(0)), sizes={"n": 4}),
    row("InTopKV2", predictions=numbers("mn"), targets=numbers("m", 0, "n"), k=each(constant(1), constant(2))),
    row("L2Loss", t=numbers("mn")),
    row("Cross", a=each(numbers("mn"), numbers("lmn")), b=numbers("mn"), sizes={"n": 3}),
    row("Bincount", arr=numbers("n", 0, 6), size=constant(6), weights=each(numbers("n"), constant([]))),
    row("ApproximateEqual", x=numbers("mn"), y=numbers("mn"), tolerance=each(1e-5, 2.0)),
    row("Xlogy", x=numbers("mn"), y=numbers("n", 1, 4)),
    row(
        "QuantizeAndDequantizeV2",
        input=numbers("mn"),
        input_min=given(-3),
        input_max=given(2),
        num_bits=each(8, 3),
        signed_input=each(True, False),
        axis=-1,
    ),
    row(
        "QuantizeAndDequantizeV2",
        input=numbers("mn"),
        input_min=given([-3, -2, -1]),
        input_max=given([2, 1, 3]),
        axis=1,
        sizes={"n": 3},
        zeros="",
    ),
    row("QuantizeAndDequantizeV2", input=numbers("mn"), input_min=given(-3), input_max=given(2), axis=each(-1, 0, 1)),
    row(
        "QuantizeAndDequantizeV3",
        input=numbers("mn"),
        input_min=given(-3),
        input_max=given(2),
        num_bits=each(constant(8), constant(3), given(4)),
    ),
    row("QuantizeAndDequantizeV4", input=numbers("mn"), input_min=given(-3), input_max=given(2), num_bits=each(8, 3)),
    row("FakeQuantWithMinMaxArgs", inputs=numbers("mn"), min=each(-6.0, -1.0, 0.5), max=6.0, num_bits=each(8, 4, 16)),
    row(
        "FakeQuantWithMinMaxVars",
        inputs=numbers("mn"),
        min=each(given(-3), constant(-1), given(0)),
        max=each(given(2), given(0)),
        num_bits=each(8, 4),
    ),
    row(
        "FakeQuantWithMinMaxVarsPerChannel",
        inputs=each(numbers("mn"), numbers("lmkn")),
        min=given([-3, -1, 0.0]),
        max=given([2, 1, 3]),
        num_bits=each(8, 2),
        sizes={"n": 3},
    ),
)
