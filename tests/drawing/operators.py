"""Draws a node of any standard operator that lacks kernels for some element types, of all types that ONNX allows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, defs, helper
from support.drawn_nodes import Drawn, Rng, i64, pick, types_of, values
from support.node_families import FAMILY_OF

from onnx_sparse.schemas.declaration import FLOATS

_ONE = ("Acos", "Asin", "Atanh", "Acosh", "Asinh", "Ceil", "Cosh", "Gelu", "Identity", "Log", "Tan", "Swish", "Flatten",
        "Shape", "Size", "Dropout", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Squeeze", "Unsqueeze",
        "CenterCropPad", "Trilu")  # fmt: skip
_TWO = ("Div", "GreaterOrEqual", "CumProd")
_WINDOWS = ("BlackmanWindow", "HammingWindow", "HannWindow")

_LATEST = defs.onnx_opset_version()


def opset_of(rng: Rng, op_type: str) -> int:
    """An opset that has the operator: often the last one, or one in which it was changed."""
    since = [s.since_version for s in defs.get_all_schemas_with_history() if s.name == op_type and not s.domain]
    usable = [max(version, 13) for version in since if version <= _LATEST and not _is_deprecated(op_type, version)]
    return int(pick(rng, *(usable or [9])))


def _is_deprecated(op_type: str, version: int) -> bool:
    return bool(defs.get_schema(op_type, max(version, 13)).deprecated)


def unary(rng: Rng, op_type: str) -> Drawn:
    opset = opset_of(rng, op_type)
    x = values(rng, pick(rng, *types_of(op_type, opset)), [2, 1, 3])
    if op_type in ("Log", "Acosh", "Asin", "Acos", "Atanh", "Bernoulli"):
        x = (np.abs(x) % 1 * 0.5 + (1 if op_type == "Acosh" else 0.2)).astype(x.dtype)
    given: dict[str, Any] = {"x": x}
    attributes: dict[str, Any] = {}
    if op_type in ("Squeeze", "Unsqueeze"):
        given["axes"] = i64(pick(rng, 1, -2))
    elif op_type == "CenterCropPad":
        given["shape"] = i64(3, 1, 2)
    elif op_type.startswith("Random"):
        attributes["dtype"] = int(TensorProto.FLOAT)
    elif op_type == "Flatten":
        attributes["axis"] = int(rng.integers(-3, 4))
    return Drawn(op_type, given, attributes, ("axes", "shape"), opset=opset, tolerance=1e-2)


def binary(rng: Rng, op_type: str) -> Drawn:
    opset = opset_of(rng, op_type)
    dtype = pick(rng, *types_of(op_type, opset))
    x, y = values(rng, dtype, [2, 3]), values(rng, dtype, [2, 3])
    if op_type == "CumProd":
        return Drawn(op_type, {"x": x, "axis": np.array(1)}, {}, ("axis",), opset=opset, tolerance=1e-2)
    if op_type == "Div":
        y = np.where(np.abs(y.astype(np.float64)) < 0.5, np.ones((), y.dtype), y).astype(y.dtype)
    return Drawn(op_type, {"x": x, "z": y}, opset=opset, tolerance=1e-2)


def reduction_of_logarithms(rng: Rng, op_type: str) -> Drawn:
    dtype = pick(rng, *types_of(op_type, 18))
    x = np.abs(values(rng, dtype, [2, 3])) + np.ones((), values(rng, dtype, []).dtype)
    return Drawn(op_type, {"x": x, "axes": i64(1)}, {"keepdims": int(pick(rng, 0, 1))}, ("axes",), tolerance=1e-2)


def window(rng: Rng, op_type: str) -> Drawn:
    to = pick(rng, *types_of(op_type, 17, "T2"))
    return Drawn(
        op_type, {"size": np.array(7, pick(rng, "int32", "int64"))}, {"output_datatype": to}, opset=17, tolerance=1e-1
    )


def drawn_at_random(rng: Rng, op_type: str) -> Drawn:
    opset, to = opset_of(rng, op_type), pick(rng, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
    if op_type == "Multinomial":
        x = values(rng, pick(rng, *types_of(op_type, opset)), [2, 4])
        return Drawn(op_type, {"x": x}, {"sample_size": 3, "dtype": int(pick(rng, 6, 7))}, opset=opset)
    return Drawn(op_type, {}, {"shape": [2, 3], "dtype": to}, opset=opset)


def normalization(rng: Rng, op_type: str) -> Drawn:
    opset = opset_of(rng, op_type)
    dtype = pick(rng, *types_of(op_type, opset))
    x = values(rng, dtype, [2, 4, 3])
    if op_type == "GroupNormalization":
        scale = values(rng, dtype, [4 if opset >= 21 else 2])
        return Drawn(op_type, {"x": x, "s": scale, "b": scale}, {"num_groups": 2}, opset=opset, tolerance=5e-2)
    axis = int(pick(rng, 1, 2, -1))
    attributes = {"axis": axis} if axis != -1 or rng.random() < 0.5 else {}
    return Drawn(op_type, {"x": x, "s": values(rng, dtype, x.shape[axis:])}, attributes, opset=opset, tolerance=5e-2)


def attention(rng: Rng, op_type: str) -> Drawn:
    opset = opset_of(rng, op_type)
    dtype = pick(rng, *types_of(op_type, opset, "T1" if op_type == "Attention" else "T"))
    x = values(rng, dtype, [1, 2, 3, 4])
    if op_type == "Attention":
        return Drawn(op_type, {"q": x, "k": x, "v": x}, opset=opset, tolerance=5e-2)
    if op_type == "RotaryEmbedding":
        angles = values(rng, dtype, [5, 2])
        return Drawn(
            op_type, {"x": x, "c": angles, "s": angles, "at": rng.integers(0, 5, (1, 3))}, opset=opset, tolerance=5e-2
        )
    update = values(rng, dtype, [1, 2, 1, 4])  # TensorScatter
    return Drawn(op_type, {"x": x, "u": update, "at": i64(1)}, opset=opset)


def loss(rng: Rng, op_type: str) -> Drawn:
    opset = opset_of(rng, op_type)
    dtype = pick(rng, *types_of(op_type, opset))
    labels = rng.integers(0, 3, 2).astype(pick(rng, "int32", "int64"))
    attributes = {"reduction": pick(rng, "mean", "sum", "none")}
    return Drawn(op_type, {"x": values(rng, dtype, [2, 3]), "l": labels}, attributes, opset=opset, tolerance=2e-2)


def image(rng: Rng, op_type: str) -> Drawn:
    opset = opset_of(rng, op_type)
    dtype = pick(rng, *types_of(op_type, opset)) if op_type != "ImageDecoder" else TensorProto.UINT8
    x = values(rng, dtype, [1, 2, 4, 4])
    if op_type == "GlobalLpPool":
        return Drawn(op_type, {"x": x}, {"p": 2}, opset=opset, tolerance=5e-2)
    if op_type == "MaxRoiPool":
        rois = np.array([[0, 0, 0, 3, 3]], x.dtype)
        return Drawn(op_type, {"x": x, "r": rois}, {"pooled_shape": [2, 2]}, opset=opset)
    if op_type == "MaxUnpool":
        return Drawn(
            op_type,
            {"x": x, "at": np.arange(32).reshape(1, 2, 4, 4) * 4},
            {"kernel_shape": [2, 2], "strides": [2, 2]},
            opset=opset,
        )
    if op_type == "DeformConv":
        w, offset = values(rng, dtype, [2, 2, 2, 2]), np.zeros([1, 8, 3, 3], x.dtype)
        return Drawn(op_type, {"x": x, "w": w, "o": offset}, opset=opset, tolerance=5e-2)
    if op_type == "AffineGrid":
        theta = values(rng, dtype, [1, 2, 3])
        return Drawn(op_type, {"x": theta, "size": i64(1, 2, 3, 4)}, {}, ("size",), opset=opset, tolerance=5e-2)
    if op_type == "Upsample":
        return Drawn(op_type, {"x": x, "s": np.array([1, 1, 2, 2], np.float32)}, {"mode": "nearest"}, ("s",), opset=9)
    data = np.frombuffer(b"BM", np.uint8)  # ImageDecoder
    return Drawn(op_type, {"x": data}, opset=opset)


def transform(rng: Rng, op_type: str) -> Drawn:
    length, kind = int(pick(rng, 1, 2, 5, 8, 12)), pick(rng, "float32", "float64", "float16")
    if op_type == "DFT":
        x = rng.standard_normal([2, length, int(pick(rng, 1, 2))]).astype(kind)
        attributes: dict[str, Any] = {"axis": 1} if rng.random() < 0.5 else {}
        given: dict[str, Any] = {"x": x}
        if rng.random() < 0.4:
            given["length"] = np.array(int(pick(rng, length, length + 1, max(length - 1, 1))))
        if rng.random() < 0.3:
            given = {"x": x, "length": given.get("length"), "axis": np.array(int(pick(rng, 1, -2)))}
            return Drawn(op_type, given, {}, ("axis",), opset=20, tolerance=1e-2)
        return Drawn(op_type, given, attributes, opset=17, tolerance=1e-2)
    signal = rng.standard_normal([1, length + 6, 1]).astype("float32" if kind == "float16" else kind)
    window = np.ones(length, signal.dtype)
    return Drawn(op_type, {"x": signal, "step": np.array(2), "w": window}, opset=17, tolerance=1e-2)


def spectrum(rng: Rng, op_type: str) -> Drawn:
    if op_type == "MelWeightMatrix":
        numbers: dict[str, Any] = {"bins": 4, "length": 16, "rate": 8000}
        given: dict[str, Any] = {name: np.array(n, pick(rng, "int32", "int64")) for name, n in numbers.items()}
        kind = dict.fromkeys(given, given["bins"].dtype)
        given = {name: value.astype(kind[name]) for name, value in given.items()}
        return Drawn(
            op_type,
            given | {"low": np.array(0, np.float32), "high": np.array(4000, np.float32)},
            opset=17,
            tolerance=1e-2,
        )
    return transform(rng, op_type)


def filled(rng: Rng, op_type: str) -> Drawn:
    to = pick(rng, *types_of(op_type, 21, "T2"))
    value = helper.make_tensor("value", to, [1], [1] if to not in FLOATS else [0.5])
    return Drawn(op_type, {"shape": i64(2, 0 if rng.random() < 0.3 else 3)}, {"value": value}, opset=21)


_FAMILIES: dict[str, Callable[[Rng, str], Drawn]] = {
    **dict.fromkeys(_ONE, unary),
    **dict.fromkeys(_TWO, binary),
    **dict.fromkeys(("ReduceLogSum", "ReduceLogSumExp"), reduction_of_logarithms),
    **dict.fromkeys(_WINDOWS, window),
    **dict.fromkeys(("RandomNormal", "RandomUniform", "Multinomial"), drawn_at_random),
    **dict.fromkeys(("GroupNormalization", "RMSNormalization"), normalization),
    **dict.fromkeys(("Attention", "RotaryEmbedding", "TensorScatter"), attention),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), loss),
    **dict.fromkeys(("GlobalLpPool", "MaxRoiPool", "MaxUnpool", "DeformConv", "AffineGrid", "Upsample"), image),
    **dict.fromkeys(("ImageDecoder",), image),
    **dict.fromkeys(("DFT", "STFT", "MelWeightMatrix"), spectrum),
    "ConstantOfShape": filled,
}


def can_draw(op_type: str) -> bool:
    """Whether there is a family of an operator."""
    return op_type in _FAMILIES or op_type in FAMILY_OF


def draw(rng: Rng, op_type: str) -> Drawn:
    """A node of the operator."""
    return (_FAMILIES.get(op_type) or FAMILY_OF[op_type])(rng, op_type)
