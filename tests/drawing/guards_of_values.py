"""What draws graphs around the faults of ONNX Runtime that are in values, for each anchor of each guard."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.drawn_nodes import Drawn, Rng, pick

from drawing.declaration import draws
from drawing.operands import any_axis, floats, integers, reduction, sizes
from onnx_sparse.converters.onnxruntime import guards as known


@draws(known.DivisionByMinusOne, "Div", "Mod")
def division(rng: Rng, op_type: str) -> Drawn:
    kind = np.dtype(pick(rng, "int32", "int64", "int64", "int8", "uint8"))
    shape = sizes(rng, int(rng.integers(0, 3)))
    x = integers(rng, kind, shape)
    y = integers(rng, kind, shape if rng.random() < 0.7 else shape[-1:])
    if kind.kind == "i" and rng.random() < 0.5:
        x = np.where(rng.random(x.shape) < 0.5, np.array(np.iinfo(kind).min, kind), x)
        y = np.where(rng.random(y.shape) < 0.7, np.array(-1, kind), y)
    y = np.where(y == 0, np.array(3, kind), y)
    attributes = {"fmod": 1} if op_type == "Mod" and rng.random() < 0.3 else {}
    return Drawn(op_type, {"x": x, "z": y}, attributes)


@draws(known.WideComparison, "Max", "Min", "Clip", "Relu", "Sign")
def comparison(rng: Rng, op_type: str) -> Drawn:
    kind = np.dtype(pick(rng, "int64", "int64", "int64", "int32", "uint64" if op_type != "Sign" else "int64"))
    kind = kind if op_type != "Relu" or kind.kind == "i" else np.dtype("int64")
    shape = sizes(rng, int(rng.integers(0, 3)))
    names = {"Max": ["x", "b", "c"][: int(rng.integers(1, 4))], "Clip": ["x", "low", "high"]}
    names["Min"] = names["Max"]
    inputs: dict[str, Any] = {}
    for name in names.get(op_type, ["x"]):
        inputs[name] = integers(rng, kind, [] if name in ("low", "high") else shape)
    if op_type == "Clip":
        inputs["low"], inputs["high"] = sorted((inputs["low"], inputs["high"]))
        for name in ("low", "high"):
            inputs[name] = None if rng.random() < 0.2 else np.asarray(inputs[name], kind)
        inputs = {name: value for name, value in inputs.items() if value is not None or name == "low"}
        if list(inputs) == ["x", "low"] and inputs["low"] is None:
            del inputs["low"]
    return Drawn(op_type, inputs)


@draws(known.WideExtreme, "ReduceMax", "ReduceMin")
@draws(known.IntegerSum, "ReduceSum", "ReduceL1", "ReduceSumSquare")
@draws(known.IntegerProduct)
def integer_reduction(rng: Rng, op_type: str) -> Drawn:
    names = {"ReduceMax": ("int64", "int32", "int8", "uint8"), "ReduceProd": ("int64", "int32")}
    names["ReduceMin"] = names["ReduceMax"]
    kind = pick(rng, "int64", *names.get(op_type, ("int32", "int64")))
    x = integers(rng, kind, sizes(rng, int(rng.integers(0, 4))))
    # In opsets without a scatter that multiplies, products stay as they are.
    return reduction(rng, op_type, x, opset=18 if op_type == "ReduceProd" else None)


@draws(known.ExtremeOfNaN, "ReduceMax", "ReduceMin")
def extreme_of_nan(rng: Rng, op_type: str) -> Drawn:
    x = floats(rng, pick(rng, "float32", "float32", "float64", "float16"), sizes(rng, int(rng.integers(0, 4))))
    return reduction(rng, op_type, x)


@draws(known.PlaceOfNaN, "ArgMax", "ArgMin")
def place_of_nan(rng: Rng, op_type: str) -> Drawn:
    rank = int(rng.integers(1, 4))
    x = floats(rng, pick(rng, "float32", "float32", "float64", "float16"), sizes(rng, rank, least=1))
    attributes = {"axis": any_axis(rng, rank), "keepdims": int(pick(rng, 0, 1))}
    if rng.random() < 0.2:
        return Drawn(op_type, {"x": np.nan_to_num(x)}, attributes | {"select_last_index": 1})
    return Drawn(op_type, {"x": x}, attributes)


@draws(known.SignOfNaN)
def sign_of_nan(rng: Rng, op_type: str) -> Drawn:
    return Drawn(op_type, {"x": floats(rng, pick(rng, "float16", "float32", "float64"), sizes(rng, 2))})


@draws(known.MeanOfNothing)
def mean(rng: Rng, op_type: str) -> Drawn:
    kind = pick(rng, "float32", "float32", "float64", "float16", "int32", "int64")
    rank = int(rng.integers(0, 4))
    least = 0 if np.dtype(kind).kind == "f" else 1
    x = (rng.integers(-2, 3, sizes(rng, rank, least=least)) * 60).astype(kind)
    return reduction(rng, op_type, x)


@draws(known.VarianceOfGroups)
def groups(rng: Rng, op_type: str) -> Drawn:
    opset, count = int(pick(rng, 18, 21)), int(pick(rng, 1, 2))
    channels = 2 * count
    x = rng.standard_normal([2, channels, *sizes(rng, int(rng.integers(1, 3)), least=2)])
    scale = rng.standard_normal(channels if opset >= 21 else count)
    kind = pick(rng, "float32", "float64")
    given = {"x": x.astype(kind), "s": scale.astype(kind), "b": scale.astype(kind)}
    return Drawn(op_type, given, {"num_groups": count, "epsilon": 1e-3}, opset=opset, tolerance=1e-3)


@draws(known.SmallSigmoid)
@draws(known.SmallSwish)
@draws(known.SmallSoftplus)
@draws(known.LogSoftmaxOfDouble)
def of_small_results(rng: Rng, op_type: str) -> Drawn:
    """Numbers of which the result is small, so that a logarithm of it or a quotient by it matters."""
    opsets = {"Swish": 24, "Mish": 18}
    kind = pick(rng, "float32", "float64")
    is_judged = op_type != "LogSoftmax"  # of which the evaluator loses small powers
    scale = float(pick(rng, 1, 10, 40 if is_judged else 5))
    x = (rng.standard_normal(sizes(rng, int(rng.integers(1, 3)), least=1)) * scale).astype(kind)
    attributes: dict[str, Any] = {} if is_judged else {"axis": any_axis(rng, x.ndim)}
    if op_type == "Swish" and rng.random() < 0.5:
        attributes["alpha"] = float(pick(rng, 0.5, 1.7, -1))
    return Drawn(op_type, {"x": x}, attributes, opset=opsets.get(op_type, 18))


@draws(known.LogSumExpOfHalf)
def powers_of_halves(rng: Rng, op_type: str) -> Drawn:
    x = (rng.standard_normal(sizes(rng, 2, least=1)) * float(pick(rng, 1, 20, 1000))).astype(np.float16)
    return reduction(rng, op_type, x, opset=18)
