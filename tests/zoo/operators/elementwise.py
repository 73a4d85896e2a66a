"""Operators that compute element by element, and reductions.

OpenVINO's CPU plugin makes numbers of NaN (Exp, ReLU, Clamp, HSigmoid), and the greatest float32 of an infinity in
float64: neither is among the inputs.
"""

from __future__ import annotations

import itertools

import numpy as np
from zoo.operators import F, Opset, declare, normal, spelled, variants, whole

FLOATS = (np.float32, np.float16, np.float64)
INTEGERS = (np.int8, np.uint8, np.int32, np.int64)
SPECIAL = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1.0, -1.0, 3.7, -3.7, 1e-8, 60.0, -60.0, np.inf, -np.inf]

UNARY = {
    1: "absolute acos asin atan ceiling cos cosh erf exp floor log negative relu sigmoid sign sin sinh sqrt tan tanh",
    4: "acosh asinh atanh hswish mish softplus swish",
    5: "hsigmoid",
    9: "softsign",
    10: "is_finite is_inf",
    17: "erfinv",
}
OF_INTEGERS = {"absolute", "ceiling", "floor", "negative", "relu", "sign"}

for version, names in UNARY.items():
    for name in names.split():
        for dtype in (*FLOATS, *(INTEGERS if name in OF_INTEGERS else ())):
            numbers = np.array(SPECIAL, dtype) if dtype in FLOATS else np.array([0, 1, 7, 100, 3, 2], dtype)
            if dtype == np.float64:
                numbers = np.array([0.6, 1.5, 2.5] if name in ("log", "acosh") else [0.0, 0.5, -0.5, 0.9], dtype)
            if dtype in (np.int32, np.int64):
                numbers = numbers - 5
            if name == "negative" and dtype == np.uint8:
                continue
            declare(f"{name}-{version}", np.dtype(dtype).name, getattr(Opset(version), name), numbers)
#: Operators whose results for integers are rounded, and the least and the largest integer that they have one of.
ROUNDED = {
    1: {"acos": (-1, 1), "asin": (-1, 1), "atan": (-20, 20), "cos": (-20, 20), "cosh": (-5, 5), "erf": (-3, 3),
        "exp": (-5, 5), "log": (1, 100), "sigmoid": (-5, 5), "sin": (-20, 20), "sinh": (-5, 5), "sqrt": (0, 100),
        "tan": (-20, 20), "tanh": (-3, 3)},
    4: {"acosh": (1, 100), "asinh": (-100, 100), "atanh": (0, 0)},
}  # fmt: skip
for version, ends in ROUNDED.items():
    for (name, (low, high)), dtype in itertools.product(ends.items(), INTEGERS):
        declare(
            f"{name}-{version}",
            f"rounded {dtype.__name__}",
            getattr(Opset(version), name),
            np.arange(max(low, np.iinfo(dtype).min), high + 1).clip(0 if dtype == np.uint8 else None).astype(dtype),
        )
for dtype in INTEGERS:
    numbers = whole(0 if dtype == np.uint8 else -6, 7, 2, 3, 4, dtype=dtype)
    declare("elu-1", f"rounded {dtype.__name__}", lambda x: Opset(1).elu(x, 1.3), numbers)
    for axis in (0, 1, 2):
        declare("softmax-8", f"rounded {axis} {dtype.__name__}", lambda x, a=axis: Opset(8).softmax(x, a), numbers)
for approximation in ("erf", "tanh"):
    declare("gelu-7", approximation, lambda x, a=approximation: Opset(7).gelu(x, a), np.array(SPECIAL[:-2], F))
declare("gelu-2", "", lambda x: Opset(2).gelu(x), np.array(SPECIAL[:-2], F))
for mode in ("half_to_even", "half_away_from_zero"):
    declare("round-5", mode, lambda x, m=mode: Opset(5).round(x, m), np.array([*SPECIAL, 0.4999, -0.4999], F))
for alpha in (0.5, 1.0, -0.25):
    declare("elu-1", alpha, lambda x, a=alpha: Opset(1).elu(x, a), np.array(SPECIAL, F))
for low, high in ((-1.0, 2.0), (-np.inf, 0.5), (0.3, 0.7)):
    for dtype in (np.float32, np.float16, np.int32, np.uint8):
        if np.isfinite(low) or np.dtype(dtype).kind == "f":
            declare("clamp-1", f"{low} {high} {np.dtype(dtype).name}",
                    lambda x, a=low, b=high: Opset(1).clamp(x, a, b), np.array([0, 1, 2, 3, 100], dtype))  # fmt: skip
declare("swish-4", "beta", lambda x: Opset(4).swish(x, np.array(0.7, F)), np.array(SPECIAL[:-2], F))
declare("selu-1", "", lambda x: Opset(1).selu(x, np.array([1.6], F), np.array([1.05], F)), np.array(SPECIAL, F))
declare("hard_sigmoid-1", "", lambda x: Opset(1).hard_sigmoid(x, np.array(0.3, F), np.array(0.4, F)),
        np.array(SPECIAL, F))  # fmt: skip
for shape in ((1,), (3,), (2, 3, 1), (1, 3, 4), (4,)):
    declare("prelu-1", shape, lambda x, s=shape: Opset(1).prelu(x, normal(*s)), normal(2, 3, 4))
declare("is_nan-10", "", Opset(10).is_nan, np.array([1, np.nan, np.inf, 0], F))
for options in ({}, {"detect_negative": False}, {"detect_positive": False}):
    declare("is_inf-10", f"options {options}", lambda x, o=options: Opset(10).is_inf(x, o), np.array(SPECIAL, F))

SHAPES = (((2, 3, 4), (4,)), ((2, 1, 4), (1, 3, 1)), ((), (2, 3)), ((3,), (3,)), ((0, 2), (1, 2)))
BINARY = "add subtract multiply divide power maximum minimum mod floor_mod squared_difference"
COMPARISONS = "equal not_equal less less_equal greater greater_equal"
for name in (*BINARY.split(), *COMPARISONS.split()):
    for one, other in SHAPES:
        x, y = normal(*one) * 3, normal(*other, seed=1) * 2
        x, y = (np.abs(x), y) if name == "power" else (x, y)
        declare(f"{name}-1", f"{one} {other}", getattr(Opset(1), name), x.astype(F), y.astype(F))
    for dtype in (*INTEGERS, np.float16, np.float64, np.uint16, np.int16):
        small = np.array([[7, 4, 9, 2], [1, 3, 5, 8]], dtype), np.array([1, 2, 1, 2], dtype)
        declare(f"{name}-1", np.dtype(dtype).name, getattr(Opset(1), name), *small)
        if np.dtype(dtype).kind == "i" and name not in ("divide", "power"):
            declare(f"{name}-1", f"negative {np.dtype(dtype).name}", getattr(Opset(1), name),
                    np.array([7, -7, 5, -5], dtype), np.array([3, 3, -3, -3], dtype))  # fmt: skip
for name in ("logical_and", "logical_or", "logical_xor"):
    for one, other in SHAPES:
        declare(f"{name}-1", f"{one} {other}", getattr(Opset(1), name), normal(*one) > 0, normal(*other, seed=1) > 0)
declare("logical_not-1", "", Opset(1).logical_not, normal(3, 4) > 0)
for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    for dtype in (*INTEGERS, np.uint16, np.int16, np.bool_):
        declare(f"{name}-13", np.dtype(dtype).name, getattr(Opset(13), name), np.array([5, 100, 0, 1]).astype(dtype),
                np.array([3, 77, 1, 1]).astype(dtype))  # fmt: skip
for dtype in (*INTEGERS, np.bool_):
    declare("bitwise_not-13", np.dtype(dtype).name, Opset(13).bitwise_not, np.array([5, 100, 0, 1]).astype(dtype))
for name in ("bitwise_left_shift", "bitwise_right_shift"):
    for dtype in (np.uint8, np.uint16, np.uint32, np.int32, np.int8):
        declare(f"{name}-15", np.dtype(dtype).name, getattr(Opset(15), name), np.array([1, 5, 100], dtype),
                np.array([1, 2, 0], dtype))  # fmt: skip

AXES = ([0], [1, 2], [-1], [], [0, 1, 2], 1)
REDUCTIONS = {1: "reduce_sum reduce_mean reduce_max reduce_min reduce_prod", 4: "reduce_l1 reduce_l2"}
for version, names in REDUCTIONS.items():
    for name in names.split():
        for v in variants(axes=AXES, keep_dims=(False, True)):
            declare(f"{name}-{version}", spelled(v), lambda x, n=name, o=version, v=v: getattr(Opset(o), n)(
                x, np.array(v["axes"], np.int64), v["keep_dims"]), normal(2, 3, 4))  # fmt: skip
        for dtype in (np.int32, np.int64, np.float16, np.float64, np.uint8, np.int8):
            declare(f"{name}-{version}", np.dtype(dtype).name, lambda x, n=name, o=version: getattr(Opset(o), n)(
                x, np.array([1]), False), np.array([[1, 2, 3], [4, 1, 1]], dtype))  # fmt: skip
        if name not in ("reduce_max", "reduce_min"):
            declare(f"{name}-{version}", "nothing", lambda x, n=name, o=version: getattr(Opset(o), n)(
                x, np.array([1]), False), np.zeros((2, 0), F))  # fmt: skip
for name in ("reduce_logical_and", "reduce_logical_or"):
    for v in variants(axes=AXES, keep_dims=(False, True)):
        declare(f"{name}-1", spelled(v), lambda x, n=name, v=v: getattr(Opset(1), n)(
            x, np.array(v["axes"], np.int64), v["keep_dims"]), normal(2, 3, 4) > -1)  # fmt: skip
for v in variants(axis=(0, 1, -1), exclusive=(False, True), reverse=(False, True)):
    for dtype in (np.float32, np.int32, np.int64):
        declare("cum_sum-3", f"{np.dtype(dtype).name} {spelled(v)}", lambda x, v=v: Opset(3).cum_sum(
            x, np.array(v["axis"]), v["exclusive"], v["reverse"]), (normal(2, 3, 4) * 5).astype(dtype))  # fmt: skip
for axis in (0, 1, 2):
    declare("softmax-1", axis, lambda x, a=axis: Opset(1).softmax(x, a), normal(2, 3, 4))
for axis in (-3, -1, 1):
    declare("softmax-8", axis, lambda x, a=axis: Opset(8).softmax(x, a), normal(2, 3, 4) * 50)
    declare("log_softmax-5", axis, lambda x, a=axis: Opset(5).log_softmax(x, a), normal(2, 3, 4) * 50)
TYPES = {"f32": F, "f16": np.float16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "i8": np.int8, "boolean": bool}
for source, target in ((s, t) for s in TYPES for t in TYPES if s != t):
    declare("convert-1", f"{source} to {target}", lambda x, t=target: Opset(1).convert(x, t),
            np.array([0, 1, 2.6, 100]).astype(TYPES[source]))  # fmt: skip
declare("convert_like-1", "", lambda x, y: Opset(1).convert_like(x, y), np.array([1.5, -2.5], F), np.array([1]))
for promote in (False, True):
    declare("convert_promote_types-14", f"unsafe={promote}", lambda x, y, p=promote: Opset(14).convert_promote_types(
        x, y, p), np.array([1, 2], np.int32), np.array([1.5, 2], F))  # fmt: skip
for shapes in (((2, 3), (2, 3), (2, 3)), ((2, 1), (1, 3), ()), ((3,), (2, 3), (1, 3))):
    declare("select-1", shapes, Opset(1).select, normal(*shapes[0]) > 0, normal(*shapes[1]), normal(*shapes[2], seed=1))
for levels, dims in ((256, ()), (2, (3, 1, 1)), (16, (1, 3, 1, 1)), (255, (1,))):

    def quantized(x: object, n: int = levels, s: tuple[int, ...] = dims) -> object:
        low, high = np.full(s, -1.2, F), np.full(s, 1.7, F)
        return Opset(1).fake_quantize(x, low, high, low * F(1.5), high * F(0.5), n)

    declare("fake_quantize-1", f"{levels} {dims}", quantized, normal(2, 3, 4, 5))  # fmt: skip
for kind, dtype, scale, shift in itertools.product(
    ("f8e4m3", "f8e5m2"), (F, np.float16), ([[2.0]], [[0.3], [7.0], [20.0]]), (None, [[0.3]], [[0.1], [0.0], [-4.0]])
):
    if shift is None or len(shift) == len(scale):
        given = [np.array(scale, dtype)] if shift is None else [np.array(scale, dtype), np.array(shift, dtype)]
        declare("fake_convert-13", f"{kind} {dtype.__name__} {scale} {shift}", lambda x, g=given, k=kind: Opset(
            13).fake_convert(x, *g, destination_type=k), (normal(2, 3, 40) * 20).astype(dtype))  # fmt: skip
        declare("fake_convert-13", f"fed {kind} {dtype.__name__} {scale} {shift}", lambda x, *g, k=kind: Opset(
            13).fake_convert(x, *g, destination_type=k), (normal(2, 3, 40) * 20).astype(dtype), *given)  # fmt: skip
declare("identity-16", "", Opset(16).identity, normal(2, 3))
