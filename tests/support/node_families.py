"""Draws nodes of standard operators by family, of all types, ranks, modes and layouts that ONNX allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto
from support.drawn_nodes import Array, Drawn, Rng, i64, pick, shape_of, types_of, values

from onnx_sparse.schemas.element_types import FLOATS, numpy_dtype

#: The operators of each family.
POOLS = ("MaxPool", "AveragePool", "LpPool", "GlobalMaxPool", "GlobalAveragePool")
CONVOLUTIONS = ("Conv", "ConvTranspose")
REDUCTIONS = tuple(f"Reduce{kind}" for kind in ("Sum", "Max", "Min", "Mean", "Prod", "L1", "L2", "SumSquare"))
ARG_EXTREMES = ("ArgMax", "ArgMin")
_TWO = ("Add", "Sub", "Mul", "Mod", "Equal", "Less", "Greater", "LessOrEqual", "Max", "Min", "PRelu", "BitwiseXor")
_ONE = (
    "Abs",
    "Neg",
    "Sign",
    "Relu",
    "Sqrt",
    "Exp",
    "Floor",
    "Round",
    "Sin",
    "Cos",
    "Tanh",
    "Sigmoid",
    "Erf",
    "HardSigmoid",
    "HardSwish",
    "Elu",
    "Selu",
    "Softplus",
    "Softsign",
    "Mish",
    "IsNaN",
    "IsInf",
    "Not",
    "Atan",
    "Sinh",
    "LeakyRelu",
    "ThresholdedRelu",
    "Celu",
    "Reciprocal",
    "BitwiseNot",
    "NonZero",
)
ELEMENTWISE = (*_TWO, *_ONE, "Pow", "Clip", "Where")
MOVES = (
    "Gather",
    "GatherElements",
    "GatherND",
    "ScatterElements",
    "ScatterND",
    "Expand",
    "Tile",
    "Transpose",
    "Slice",
    "Concat",
    "Trilu",
    "DepthToSpace",
    "SpaceToDepth",
    "ReverseSequence",
    "Compress",
    "CumSum",
    "Split",
    "Reshape",
    "OneHot",
    "Unique",
)
NORMALIZATIONS = (
    "LayerNormalization",
    "InstanceNormalization",
    "BatchNormalization",
    "LRN",
    "Softmax",
    "LogSoftmax",
    "Hardmax",
    "LpNormalization",
    "MeanVarianceNormalization",
)
PRODUCTS = (
    "MatMul",
    "Gemm",
    "Einsum",
    "GridSample",
    "RoiAlign",
    "Col2Im",
    "Range",
    "EyeLike",
    "Mean",
    "Sum",
    "BitShift",
    "NonMaxSuppression",
    "Det",
)
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def resize(rng: Rng, op_type: str = "Resize") -> Drawn:
    rank, mode = int(rng.integers(1, 6)), pick(rng, "nearest", "linear", "cubic")
    opset = int(pick(rng, 11, 13, 18, 19))
    floats = [dtype for dtype in types_of("Resize", opset) if dtype in FLOATS]
    dtype = pick(rng, *(types_of("Resize", opset) if mode == "nearest" else floats))
    shape = [int(size) for size in rng.integers(2, 7, rank)]
    changed = [axis for axis in range(rank) if rng.random() < 0.6] or [rank - 1]
    scales = np.array([pick(rng, 0.5, 2.0, 1.5) if axis in changed else 1.0 for axis in range(rank)], np.float32)
    x = values(rng, dtype, shape, wide=True)
    coordinates = pick(rng, "half_pixel", "asymmetric", "align_corners")
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = pick(rng, "floor", "round_prefer_floor", "ceil")
    own = [*range(rank)]
    if opset >= 18 and rng.random() < 0.5:
        own = changed
        attributes["axes"] = [axis - rank if rng.random() < 0.3 else axis for axis in own]
    inputs: dict[str, Array | None] = {"x": x, "roi": None if opset > 11 else np.zeros(0, np.float32)}
    # Of align_corners, ONNX Runtime and the evaluator differ where a scale times a size is not a whole number.
    if rng.random() < 0.5 and coordinates != "align_corners":
        inputs["scales"] = scales[own]
    else:
        inputs["scales"] = None if opset > 11 else np.zeros(0, np.float32)
        inputs["sizes"] = np.floor(np.array(shape) * scales)[own].clip(1).astype(np.int64)
    return Drawn("Resize", inputs, attributes, ("roi", "scales", "sizes"), opset=opset, tolerance=1e-3)


def pool(rng: Rng, op_type: str = "") -> Drawn:
    op_type = op_type or pick(rng, *POOLS)
    rank = int(rng.integers(2 if op_type.startswith("Global") else 3, 8))
    opset = int(pick(rng, 12, 18, 22))
    x = values(rng, pick(rng, *types_of(op_type, opset)), [1, 2, *[3] * (rank - 2)])
    attributes: dict[str, Any] = {}
    if not op_type.startswith("Global"):
        attributes = {"kernel_shape": [2] * (rank - 2), "strides": [pick(rng, 1, 2)] * (rank - 2)}
    return Drawn(op_type, {"x": x}, attributes, opset=opset)


def conv(rng: Rng, op_type: str = "") -> Drawn:
    op_type, rank, group = op_type or pick(rng, *CONVOLUTIONS), int(rng.integers(3, 7)), int(pick(rng, 1, 2))
    dtype, opset = pick(rng, *types_of("Conv", 22)), 22
    x = values(rng, dtype, [1, 4, *[4] * (rank - 2)])
    w = values(rng, dtype, [4, 4 // group, *[2] * (rank - 2)])
    return Drawn(op_type, {"x": x, "w": w}, {"group": group}, ("w",), opset=opset, tolerance=1e-3)


def pad(rng: Rng, op_type: str = "Pad") -> Drawn:
    rank, opset = int(rng.integers(1, 6)), int(pick(rng, 13, 18, 19, 21))
    dtype = pick(rng, *(t for t in types_of("Pad", opset) if t != TensorProto.STRING))
    mode = pick(rng, "constant", "edge", "reflect", *(["wrap"] if opset >= 19 else []))
    x = values(rng, dtype, [int(size) for size in rng.integers(2, 5, rank)], wide=True)
    inputs: dict[str, Array | None] = {"x": x, "pads": rng.integers(0, 2, 2 * rank)}
    if mode == "constant" and rng.random() < 0.5:
        inputs["value"] = values(rng, dtype, [])
    return Drawn("Pad", inputs, {"mode": mode}, ("pads",), opset=opset)


def reduction(rng: Rng, op_type: str = "") -> Drawn:
    op_type = op_type or pick(rng, *REDUCTIONS)
    opset = int(pick(rng, 13, 18, 20)) if op_type != "ReduceSum" else int(pick(rng, 13, 18))
    dtype = pick(rng, *types_of(op_type, opset))
    rank = int(rng.integers(1, 5))
    x = values(rng, dtype, shape_of(rng, rank, 4), wide=op_type in ("ReduceMax", "ReduceMin"))
    axis = int(rng.integers(rank))
    attributes: dict[str, Any] = {"keepdims": int(pick(rng, 0, 1))}
    inputs: dict[str, Array | None] = {"x": x}
    if op_type == "ReduceSum" or opset >= 18:
        inputs["axes"] = i64(axis)
    else:
        attributes["axes"] = [axis]
    return Drawn(op_type, inputs, attributes, ("axes",), opset=opset, tolerance=1e-2)


def arg_extreme(rng: Rng, op_type: str = "") -> Drawn:
    op_type, rank = op_type or pick(rng, *ARG_EXTREMES), int(rng.integers(1, 5))
    x = values(rng, pick(rng, *types_of(op_type, 13)), shape_of(rng, rank), wide=True)
    attributes = {"axis": int(rng.integers(-rank, rank)), "keepdims": int(pick(rng, 0, 1)),
                  "select_last_index": int(pick(rng, 0, 1))}  # fmt: skip
    return Drawn(op_type, {"x": x}, attributes, opset=18)


def top_k(rng: Rng, op_type: str = "TopK") -> Drawn:
    opset, rank = int(pick(rng, 11, 18, 24)), int(rng.integers(1, 4))
    x = values(rng, pick(rng, *types_of("TopK", opset)), [4] * rank, wide=True)
    attributes = {"axis": int(rng.integers(-rank, rank)), "largest": int(pick(rng, 0, 1))}
    return Drawn("TopK", {"x": x, "k": i64(int(rng.integers(1, 4)))}, attributes, ("k",), outputs=2, opset=opset)


def elementwise(rng: Rng, op_type: str = "") -> Drawn:
    op_type = op_type or pick(rng, *ELEMENTWISE)
    opset = int(pick(rng, 13, 18, 22)) if not op_type.startswith(("Bitwise", "Mish")) else 18
    if op_type == "HardSwish" and opset < 14:
        opset = 18
    dtype = pick(rng, *types_of(op_type, opset, "T" if op_type == "Where" else None))
    shape = shape_of(rng, int(rng.integers(0, 4)) if op_type != "NonZero" else int(rng.integers(1, 4)))
    x = values(rng, dtype, shape, wide=op_type in ("Equal", "Less", "Greater", "LessOrEqual", "Max", "Min", "Where"))
    if op_type in ("Sqrt", "Reciprocal"):
        x = np.abs(x) + np.array(0.5, x.dtype)
    inputs: dict[str, Array | None] = {"x": x}
    attributes: dict[str, Any] = {}
    if op_type in _TWO:
        inputs["z"] = values(rng, dtype, shape, wide=op_type in ("Less", "Max", "Min"))
    if op_type == "Mod":
        inputs["z"] = np.where(inputs["z"] == 0, np.ones((), x.dtype), inputs["z"]).astype(x.dtype)
        attributes["fmod"] = int(dtype in FLOATS)
    if op_type == "Pow":
        inputs["x"] = np.abs(x)
        inputs["z"] = values(rng, pick(rng, *types_of("Pow", opset, "T1")), shape)
        inputs["z"] = np.abs(inputs["z"].astype(np.float64)).clip(0, 3).astype(inputs["z"].dtype)
    if op_type == "Clip":
        inputs |= {"low": values(rng, dtype, []), "high": values(rng, dtype, [])}
        inputs["high"] = np.maximum(inputs["low"], inputs["high"])
    if op_type == "Where":
        inputs = {"condition": rng.random(shape) < 0.5, **inputs, "z": values(rng, dtype, shape, wide=True)}
    return Drawn(op_type, inputs, attributes, opset=opset, tolerance=1e-2)


def moving(rng: Rng, op_type: str = "") -> Drawn:
    op_type = op_type or pick(rng, *MOVES)
    opset = 18
    variable = {"OneHot": "T3"}.get(op_type)
    dtype = pick(rng, *types_of(op_type, opset, variable))
    rank = 4 if op_type.endswith(("Space", "Depth")) else int(rng.integers(2, 5))
    x = values(rng, dtype, [4] * rank, wide=op_type != "CumSum")
    places = rng.integers(0, 4, [4] * rank)
    rows = np.stack([rng.permutation(4)] * 4 ** (rank - 1), -1).reshape([4] * rank)
    parts: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "Gather": ({"at": rng.integers(-4, 4, (2, 3)).astype(pick(rng, np.int32, np.int64))}, {"axis": 1}),
        "GatherElements": ({"at": places}, {"axis": 1}),
        "GatherND": ({"at": rng.integers(0, 4, (3, 2))}, {}),
        "ScatterElements": ({"at": rows, "u": x[::-1]}, {"axis": 0}),
        "ScatterND": ({"at": rng.permutation(4)[:2, None], "u": x[:2]}, {}),
        "Expand": ({"shape": i64(2, *[4] * rank)}, {}),
        "Tile": ({"repeats": rng.integers(1, 3, rank)}, {}),
        "Transpose": ({}, {"perm": [int(axis) for axis in rng.permutation(rank)]}),
        "Slice": ({"s": i64(1), "e": i64(3), "a": i64(1)}, {}),
        "Concat": ({"z": x}, {"axis": 1}),
        "Trilu": ({}, {"upper": int(pick(rng, 0, 1))}),
        "DepthToSpace": ({}, {"blocksize": 2, "mode": pick(rng, "DCR", "CRD")}),
        "SpaceToDepth": ({}, {"blocksize": 2}),
        "ReverseSequence": ({"lens": rng.integers(1, 5, 4)}, {"batch_axis": 1, "time_axis": 0}),
        "Compress": ({"keep": np.array([True, False, True, True])}, {"axis": 0}),
        "CumSum": ({"axis": np.array(1)}, {"reverse": int(pick(rng, 0, 1))}),
        "Split": ({}, {"axis": 0, "num_outputs": 2}),
        "Reshape": ({"shape": i64(-1, 2)}, {}),
        "Unique": ({}, {}),
    }  # fmt: skip
    if op_type == "OneHot":
        index, count = (numpy_dtype(pick(rng, *types_of("OneHot", opset, variable))) for variable in ("T1", "T2"))
        at = rng.integers(0, 5, 3).astype(index)
        inputs = {"at": at, "depth": np.array(5, count), "v": values(rng, dtype, [2], wide=True)}
        return Drawn(op_type, inputs, {"axis": -1}, opset=opset)
    others, attributes = parts[op_type]
    constants = [name for name in others if name not in ("u", "z")]
    count = 2 if op_type == "Split" else 1
    return Drawn(op_type, {"x": x, **others}, attributes, constants, outputs=count, opset=opset)


def normalization(rng: Rng, op_type: str = "") -> Drawn:
    op_type = op_type or pick(rng, *NORMALIZATIONS)
    opset = int(pick(rng, 18, 22))
    rank = 4 if op_type == "MeanVarianceNormalization" else int(rng.integers(2, 6))
    dtype = pick(rng, *types_of(op_type, opset))
    x = values(rng, dtype, [2, 3, *[4] * (rank - 2)])
    scale, bias = (values(rng, dtype, [3]) for _ in range(2))
    if op_type == "LayerNormalization":
        scale = values(rng, dtype, [x.shape[-1]])
        return Drawn(op_type, {"x": x, "s": scale}, {"axis": -1}, opset=opset, tolerance=2e-2)
    if op_type == "InstanceNormalization":
        return Drawn(op_type, {"x": x, "s": scale, "b": bias}, opset=opset, tolerance=2e-2)
    if op_type == "BatchNormalization":
        four = {"x": x, "s": scale, "b": bias, "m": bias, "v": np.abs(scale)}
        return Drawn(op_type, four, opset=opset, tolerance=5e-2)
    attributes = {"LRN": {"size": 3}, "LpNormalization": {"axis": 1}}.get(op_type, {"axis": -1})
    if op_type == "MeanVarianceNormalization":
        attributes = {}
    return Drawn(op_type, {"x": x}, attributes, opset=opset, tolerance=2e-2)


def products(rng: Rng, op_type: str = "") -> Drawn:
    op_type = op_type or pick(rng, *PRODUCTS)
    opset = 16 if op_type == "RoiAlign" else int(pick(rng, 18, 22)) if op_type not in ("Range",) else 18
    dtype = pick(rng, *(types_of(op_type, opset) if op_type != "NonMaxSuppression" else [TensorProto.FLOAT]))
    a, b = values(rng, dtype, [3, 4]), values(rng, dtype, [4, 2])
    if op_type == "MatMul":
        return Drawn(op_type, {"a": a, "b": b}, opset=opset, tolerance=5e-2)
    if op_type == "Gemm":
        c = values(rng, dtype, [2])
        three = {"a": a.T.copy(), "b": b, "c": c}
        return Drawn(op_type, three, {"transA": 1, "beta": 2.0}, opset=opset, tolerance=5e-2)
    if op_type == "Einsum":
        return Drawn(op_type, {"a": a, "b": b}, {"equation": "ij,jk->ki"}, opset=opset, tolerance=5e-2)
    if op_type == "GridSample":
        mode = pick(rng, "nearest", "linear", "cubic") if opset >= 20 else pick(rng, "nearest", "bilinear", "bicubic")
        spatial = int(pick(rng, 2, 3)) if opset >= 20 else 2
        grid = rng.uniform(-0.9, 0.9, [1, *[3] * spatial, spatial]).astype(np.float32)
        float_type = pick(rng, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
        x = values(rng, float_type, [1, 2, *[4] * spatial])
        grid = grid.astype(x.dtype if opset < 20 else np.float32)
        return Drawn(op_type, {"x": x, "g": grid}, {"mode": mode}, opset=opset, tolerance=5e-2)
    if op_type == "RoiAlign":
        x = values(rng, dtype, [1, 2, 6, 6])
        rois = np.array([[0, 0, 4, 4], [1, 1, 5, 3]], x.dtype)
        sizes = {"output_height": 2, "output_width": 2}
        return Drawn(op_type, {"x": x, "r": rois, "i": i64(0, 0)}, sizes, opset=opset, tolerance=5e-2)
    if op_type == "Col2Im":
        x = values(rng, dtype, [1, 8, 4])
        return Drawn(op_type, {"x": x, "s": i64(4, 4), "k": i64(2, 2)}, {"strides": [2, 2]}, ("s", "k"), opset=opset)
    if op_type == "Range":
        numbers = {name: np.array(n).astype(numpy_dtype(dtype)) for name, n in zip("abc", (1, 9, 3), strict=True)}
        return Drawn(op_type, numbers, opset=opset)
    if op_type == "EyeLike":
        to = pick(rng, *types_of(op_type, opset, "T2"))
        return Drawn(op_type, {"x": a}, {"dtype": to, "k": 1}, opset=opset)
    if op_type in ("Mean", "Sum"):
        return Drawn(op_type, {"a": a, "b": a}, opset=opset, tolerance=2e-2)
    if op_type == "BitShift":
        return Drawn(op_type, {"a": a, "b": np.abs(a) % 3}, {"direction": pick(rng, "LEFT", "RIGHT")}, opset=opset)
    if op_type == "Det":
        return Drawn(op_type, {"a": values(rng, dtype, [2, 3, 3])}, opset=opset, tolerance=5e-2)
    boxes = np.sort(rng.random((1, 6, 4)).astype(np.float32), -1)
    scores = rng.random((1, 2, 6)).astype(np.float32)
    most, iou = i64(3), np.array([0.5], np.float32)
    return Drawn(op_type, {"b": boxes, "s": scores, "m": most, "i": iou}, opset=opset)


def recurrent(rng: Rng, op_type: str = "") -> Drawn:
    op_type = op_type or pick(rng, *GATES)
    gates = GATES[op_type]
    opset, layout = int(pick(rng, 14, 22)), int(pick(rng, 0, 1))
    dtype = pick(rng, *types_of(op_type, opset))
    x = values(rng, dtype, [2, 3, 4])
    w, r = values(rng, dtype, [1, gates * 5, 4]), values(rng, dtype, [1, gates * 5, 5])
    return Drawn(op_type, {"x": x, "w": w, "r": r}, {"hidden_size": 5, "layout": layout}, ("w", "r"), outputs=2,
                 opset=opset, tolerance=5e-2)  # fmt: skip


FAMILIES: tuple[Callable[..., Drawn], ...] = (
    resize, pool, conv, pad, reduction, arg_extreme, top_k, elementwise, moving, normalization, products, recurrent,
)  # fmt: skip

#: The family of each operator.
FAMILY_OF: dict[str, Callable[..., Drawn]] = {
    **{"Resize": resize, "Pad": pad, "TopK": top_k},
    **dict.fromkeys(POOLS, pool),
    **dict.fromkeys(CONVOLUTIONS, conv),
    **dict.fromkeys(REDUCTIONS, reduction),
    **dict.fromkeys(ARG_EXTREMES, arg_extreme),
    **dict.fromkeys(ELEMENTWISE, elementwise),
    **dict.fromkeys(MOVES, moving),
    **dict.fromkeys(NORMALIZATIONS, normalization),
    **dict.fromkeys(PRODUCTS, products),
    **dict.fromkeys(GATES, recurrent),
}
