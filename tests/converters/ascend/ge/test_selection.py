"""GE's operators that deal out, pick and write slices, and functions that ONNX has under other names, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from support.ascend_graphs import run
from support.ge_graphs import AT, BFLOAT16, F16, F32, I32, I64, Graph, c, check_case, described, evaluate, every_way, n

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.ascend import convert

RNG = np.random.default_rng(47)
X = RNG.standard_normal((4, 3)).astype(F32)
CUBE = RNG.standard_normal((2, 3, 4)).astype(F32)
PARTS = np.array([1, 0, 1, 1], I32)
ENDS = np.array([np.nan, np.inf, -np.inf, 1.5, -0.0], F32)
INTEGERS = np.array([[5, -7, 2**31 - 1], [-(2**31), 0, 12]], I32)
SHIFTS = np.array([[1, 2, 30], [31, 3, 0]], I32)
REPEATED = np.array([3, 3, 1, 1, 1, 3, 2], I64)


def added(x: np.ndarray, places: np.ndarray, updates: np.ndarray, ufunc: np.ufunc = np.add) -> np.ndarray:
    made = x.copy()
    ufunc.at(made, places, updates)
    return made


def put(x: np.ndarray, places: object, values: object) -> np.ndarray:
    made = x.copy()
    made[places] = values
    return made


def gelu(x: np.ndarray) -> np.ndarray:
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def normalized(x: np.ndarray, axes: tuple[int, ...], epsilon: float = 1e-5) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


ROWS = np.array([2, 0, 2], I32)
UPDATES = RNG.standard_normal((3, 3)).astype(F32)
PLACES = np.array([[0, 1], [3, 2], [0, 1]], I64)
FLAT = np.array([0.5, -1, 2], F32)
MASK = X > 0
FIRST, SECOND = np.array([[0, 1], [1, 0]], I64), np.array([[2], [-1]], I64)
GROUPED = RNG.standard_normal((2, 4, 3, 2)).astype(F32)
GAMMA, BETA = RNG.standard_normal((2, 4)).astype(F32)
BY_GROUP = normalized(GROUPED.reshape(2, 2, 12), (2,)).reshape(GROUPED.shape)
SCALED = BY_GROUP * GAMMA[:, None, None] + BETA[:, None, None]
MEANS, DEVIATIONS = GROUPED.reshape(2, 2, 12).mean(2), GROUPED.reshape(2, 2, 12).std(2)
SORTED = np.array([-1, 0.5, 0.5, 2, np.nan], F32)
ASKED = np.array([[0.5, -3], [7, np.nan]], F32)
LAST = RNG.standard_normal(4).astype(F32)

CASES = [
    ("DynamicPartition", [X, PARTS], {"num_partitions": 3, "results": 3}, [X[k == PARTS] for k in range(3)]),
    ("DynamicPartition", [X[:0], PARTS[:0]], {"num_partitions": 2, "results": 2}, [X[:0], X[:0]]),
    ("DynamicPartition", [CUBE, np.array([[0, 1, 1], [1, 0, 0]], I32)], {"num_partitions": 2, "results": 2},
     [CUBE[[0, 1, 1], [0, 1, 2]], CUBE[[0, 0, 1], [1, 2, 0]]]),
    ("DynamicStitch", [np.array([0, 3], I32), np.array([2, 1, 3], I32), X[:2], X[1:]], {"N": 2},
     [np.stack([X[0], X[2], X[1], X[3]])]),
    ("ParallelDynamicStitch", [np.array([0, 3], I32), np.array([[2], [1]], I32), X[:2], X[2:, None]], {"N": 2},
     [np.stack([X[0], X[3], X[2], X[1]])]),
    ("UniqueWithCounts", [REPEATED], {"out_idx": 9, "results": 3}, [c(3, 1, 2), c(0, 0, 1, 1, 1, 0, 2), c(3, 3, 1)]),
    ("UniqueWithCounts", [np.array([1, np.nan, 1, np.nan], F32)], {"out_idx": 3, "results": 3},
     [np.array([1, np.nan, np.nan], F32), np.array([0, 1, 0, 2], I32), np.array([2, 1, 1], I32)]),
    ("UniqueExt2", [np.array([[1, 2], [3, 4], [1, 2]], I32), c(0)], {**AT, "results": 2},
     [np.array([[1, 2], [3, 4]], I32), np.array([0, 1, 0], I32)]),
    ("UniqueWithCountsExt2", [REPEATED, c(0)], {**AT, "results": 3, "out_idx": 9},
     [c(3, 1, 2), c(0, 0, 1, 1, 1, 0, 2), c(3, 3, 1)]),
    ("UniqueConsecutive", [REPEATED], {"results": 3}, [c(3, 1, 3, 2), c(0, 0, 1, 1, 1, 2, 3), c(2, 3, 1, 1)]),
    ("UniqueConsecutive", [REPEATED[:0]], {"results": 3, "axis": 0}, [c(), c(), c()]),
    ("UniqueConsecutive", [np.array([[1, 1], [1, 2]], F32)], {"results": 3, "return_counts": True},
     [np.array([1, 2], F32), np.array([[0, 0], [0, 1]]), c(3, 1)]),
    ("MaskedSelect", [X, MASK], {}, [X[MASK]]),
    ("MaskedSelect", [X, MASK[:, :1]], {}, [X[np.broadcast_to(MASK[:, :1], X.shape)]]),
    ("MaskedSelect", [X[:1], MASK], {}, [np.broadcast_to(X[:1], MASK.shape)[MASK]]),
    ("MaskedScatter", [X, MASK, np.arange(12, dtype=F32)], {}, [put(X, MASK, np.arange(MASK.sum(), dtype=F32))]),
    ("MaskedScatter", [X, np.zeros_like(MASK), X[0, :0]], {}, [X]),
    ("NonZero", [np.where(MASK, X, 0)], {}, [np.argwhere(MASK)]),
    ("NonZero", [MASK], {"transpose": True, "dtype": 3}, [np.argwhere(MASK).T.astype(I32)]),
    ("IndexByTensor", [CUBE, FIRST, SECOND], {"indices_mask": [1, 1]}, [CUBE[FIRST, SECOND]]),
    ("IndexByTensor", [CUBE, FIRST, SECOND], {"indices_mask": [0, 1, 1]}, [CUBE[:, FIRST, SECOND]]),
    ("IndexByTensor", [CUBE, FIRST, SECOND], {"indices_mask": [1, 0, 1]}, [CUBE[FIRST, :, SECOND]]),
    ("IndexByTensor", [CUBE, SECOND], {"indices_mask": [0, 1]}, [CUBE[:, SECOND]]),
    ("Index", [CUBE, c(1, 1), c(1, 1), FIRST, SECOND], {"constants": (1, 2)}, [CUBE[FIRST, SECOND]]),
    ("IndexPutV2", [CUBE, LAST, c(1, 1), c(1, 1), FIRST[0], c(2, 0)], {"constants": (2, 3)},
     [put(CUBE, (FIRST[0], c(2, 0)), LAST)]),
    ("IndexPutV2", [CUBE, 2 * CUBE[..., :2], c(0, 0, 1), c(1, 1), c(3, 1)], {"constants": (2, 3)},
     [put(CUBE, np.s_[:, :, [3, 1]], 2 * CUBE[..., :2])]),
    ("IndexPutV2", [CUBE, np.array([2], F32), c(1, 0, 1), c(1, 1), c(1, 1), c(3, 3)],
     {"constants": (2, 3), "accumulate": True}, [added(CUBE, (c(1, 1), slice(None), c(3, 3)), np.array(2, F32))]),
    ("ScatterAdd", [X, ROWS, UPDATES], {"use_locking": False}, [added(X, ROWS, UPDATES)]),
    ("ScatterSub", [X, ROWS, UPDATES], {}, [added(X, ROWS, UPDATES, np.subtract)]),
    ("ScatterMul", [X, ROWS, UPDATES], {}, [added(X, ROWS, UPDATES, np.multiply)]),
    ("ScatterMax", [X, ROWS, UPDATES], {}, [added(X, ROWS, UPDATES, np.maximum)]),
    ("ScatterMin", [X, ROWS, UPDATES], {}, [added(X, ROWS, UPDATES, np.minimum)]),
    ("ScatterAdd", [X, n(1), X[0]], {}, [added(X, np.array(1), X[0])]),
    ("ScatterNdAdd", [X, PLACES, FLAT], {}, [added(X, tuple(PLACES.T), FLAT)]),
    ("ScatterNdSub", [X, PLACES[:, :1], UPDATES], {}, [added(X, PLACES[:, 0], UPDATES, np.subtract)]),
    ("TensorScatterAdd", [INTEGERS, np.array([[0, 1], [0, 1]], I32), np.array([3, 4], I32)], {},
     [added(INTEGERS, ([0, 0], [1, 1]), np.array([3, 4], I32))]),
    ("TensorScatterSub", [X, PLACES, FLAT], {}, [added(X, tuple(PLACES.T), FLAT, np.subtract)]),
    ("TensorScatterMax", [X, PLACES, FLAT], {}, [added(X, tuple(PLACES.T), FLAT, np.maximum)]),
    ("TensorScatterMin", [X, PLACES, FLAT], {}, [added(X, tuple(PLACES.T), FLAT, np.minimum)]),
    ("ScatterNd", [PLACES, FLAT, c(4, 3)], {"constants": (2,)}, [added(np.zeros_like(X), tuple(PLACES.T), FLAT)]),
    ("InplaceIndexAdd", [X, c(2, 0), X[:, :2], np.array(2, F32)], {"axis": 1}, [added(X.T, c(2, 0), 2 * X[:, :2].T).T]),
    # shapes and numbers
    ("Size", [X], {}, [n(12)]),
    ("Size", [X[:0]], {"dtype": 9}, [np.array(0)]),
    ("Rank", [X], {}, [n(2)]),
    ("ShapeN", [X, CUBE], {"results": 2, "N": 2}, [np.array([4, 3], I32), np.array([2, 3, 4], I32)]),
    ("GatherV2D", [CUBE, ROWS], {"axis": 1}, [CUBE[:, ROWS]]),
    ("LinSpace", [np.array(-1, F32), np.array(2, F32), n(7)], {}, [np.linspace(-1, 2, 7, dtype=F32)]),
    ("LinSpace", [np.array(5, F32), np.array(2, F32), n(1)], {}, [np.array([5], F32)]),
    ("Eye", [], {"num_rows": 2, "num_columns": 3, "batch_shape": [2], "dtype": 3}, [np.array([np.eye(2, 3)] * 2, I32)]),
    ("TopKD", [X, np.arange(8, dtype=F16)], {"k": 2, "results": 2, "sorted": True},
     [-np.sort(-X)[:, :2], np.argsort(-X)[:, :2].astype(I32)]),
    ("TopKV2D", [X, n(2), np.arange(8, dtype=F16)], {**AT, "results": 2},
     [-np.sort(-X)[:, :2], np.argsort(-X)[:, :2].astype(I32)]),
    ("ArgMaxWithValue", [X], {"dimension": 1, "results": 2}, [X.argmax(1).astype(I32), X.max(1)]),
    ("ArgMinWithValue", [X], {"dimension": 0, "keep_dims": True, "results": 2},
     [X.argmin(0, keepdims=True).astype(I32), X.min(0, keepdims=True)]),
    ("SearchSorted", [SORTED, ASKED], {}, [np.array([[1, 0], [4, 4]])]),
    ("SearchSorted", [SORTED, ASKED], {"right": True, "dtype": 3}, [np.array([[3, 0], [4, 5]], I32)]),
    ("SearchSorted", [np.sort(X), X], {}, [np.argsort(np.argsort(X))]),
    ("Einsum", [X, UPDATES], {"equation": "ij,jk->ik", "N": 2}, [X @ UPDATES]),
    ("MirrorPad", [X, c(0, 1, 2, 1)], {**AT, "mode": "REFLECT"}, [np.pad(X, ((0, 1), (2, 1)), "reflect")]),
    ("MirrorPad", [X, c(0, 1, 2, 1)], {**AT, "mode": "SYMMETRIC"}, [np.pad(X, ((0, 1), (2, 1)), "symmetric")]),
    ("Roll", [CUBE], {"shifts": [1, -5], "dims": [0, -1]}, [np.roll(CUBE, (1, -5), (0, 2))]),
    ("Roll", [X], {"shifts": [5]}, [np.roll(X, 5)]),
    ("RollV2", [CUBE, c(1, -5), c(0, -1)], {"constants": (2,)}, [np.roll(CUBE, (1, -5), (0, 2))]),
    ("ReverseSequence", [CUBE, c(2, 3)], {"seq_dim": 1}, [np.stack([CUBE[0, [1, 0, 2]], CUBE[1, ::-1]])]),
    ("SpaceToDepth", [GROUPED[:, :, :2]], {"block_size": 2},
     [GROUPED[:, :, :2].reshape(2, 2, 2, 1, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(2, 2, 1, 8)]),
    ("DepthToSpace", [GROUPED], {"block_size": 2, "data_format": "NCHW"},
     [GROUPED.reshape(2, 2, 2, 1, 3, 2).transpose(0, 3, 4, 1, 5, 2).reshape(2, 1, 6, 4)]),
    ("SpaceToBatchND", [CUBE, c(2), c(1, 0).reshape(1, 2)], {"constants": (1, 2)},
     [np.pad(CUBE, ((0, 0), (1, 0), (0, 0))).reshape(2, 2, 2, 4).transpose(2, 0, 1, 3).reshape(4, 2, 4)]),
    ("BatchToSpaceND", [CUBE, c(2), c(1, 0).reshape(1, 2)], {"constants": (1, 2)},
     [CUBE.transpose(1, 0, 2).reshape(1, 6, 4)[:, 1:]]),
    ("TransQuantParamV2", [np.abs(X[0])], {},
     [(np.abs(X[0]).view(np.uint32) & 0xFFFFE000).astype(I64) + 2**46]),
    ("Bitcast", [np.append(ENDS[1:], F32([0, 1e-40, -1e-45, 3.4e38]))], {"type": 3},
     [np.append(ENDS[1:], F32([0, 1e-40, -1e-45, 3.4e38])).view(I32)]),
    # functions of each element
    ("Log1p", [np.abs(X) * F32(1e-5)], {}, [np.log1p(np.abs(X) * F32(1e-5))]),
    ("Expm1", [X * F32(1e-5)], {}, [np.expm1(X * F32(1e-5))]),
    ("Erfinv", [np.array([0, 1, -1, 0.5], F32)], {}, [np.array([0, np.inf, -np.inf, 0.4769363], F32)]),
    ("Erfc", [np.array([0, np.inf, -np.inf], F32)], {}, [np.array([1, 0, 2], F32)]),
    ("LeftShift", [INTEGERS, SHIFTS], {}, [np.left_shift(INTEGERS, SHIFTS)]),
    ("RightShift", [INTEGERS, SHIFTS], {}, [np.right_shift(INTEGERS, SHIFTS)]),
    ("TruncateDiv", [np.array([7, -7, 7], I32), np.array([2, 2, -2], I32)], {}, [np.array([3, -3, -3], I32)]),
    ("TruncateDiv", [np.array([7, -7], F32), np.array([2, 2], F32)], {}, [np.array([3, -3], F32)]),
    ("LogSigmoid", [np.array([-90, -1, 0, 90], F32)], {}, [-np.logaddexp(0, F32([90, 1, 0, -90])).astype(F32)]),
    ("Selu", [X], {}, [np.where(MASK, 1.0507009873554805 * X, 1.7580993408473766 * np.expm1(X))]),
    *((name, [X / 8], {}, [getattr(np, f"arc{name[1:].lower()}" if name[0] == "A" else name.lower())(X / 8)])
      for name in ("Atan", "Asin", "Acos", "Sinh", "Cosh", "Asinh", "Atanh")),
    ("Acosh", [np.abs(X) + F32(1)], {}, [np.arccosh(np.abs(X) + F32(1))]),
    ("Inv", [X], {}, [1 / X]),
    ("StopGradient", [X], {}, [X]),
    ("IdentityN", [X, CUBE], {"results": 2}, [X, CUBE]),
    ("PreventGradient", [X], {"message": "no"}, [X]),
    ("Snapshot", [X], {}, [X]),
    ("IsFinite", [ENDS], {}, [np.isfinite(ENDS)]),
    ("BitwiseAnd", [INTEGERS, SHIFTS], {}, [INTEGERS & SHIFTS]),
    ("BitwiseAnd", [MASK, ~MASK[:, :1]], {}, [MASK & ~MASK[:, :1]]),
    ("BitwiseOr", [INTEGERS, SHIFTS], {}, [INTEGERS | SHIFTS]),
    ("BitwiseXor", [INTEGERS, SHIFTS], {}, [INTEGERS ^ SHIFTS]),
    ("Invert", [INTEGERS], {}, [~INTEGERS]),
    ("DivNoNan", [X, np.where(MASK, X, 0)], {}, [MASK.astype(F32)]),
    ("DivNoNan", [ENDS, np.zeros(5, F32)], {}, [np.zeros(5, F32)]),
    ("MulNoNan", [ENDS, np.zeros(5, F32)], {}, [np.zeros(5, F32)]),
    ("Xlogy", [np.zeros(5, F32), ENDS], {}, [np.zeros(5, F32)]),
    ("Xdivy", [np.array([0, 6], F32), np.array([0, 3], F32)], {}, [np.array([0, 2], F32)]),
    ("TruncateMod", [np.array([7, -7, 7], I32), np.array([3, 3, -3], I32)], {}, [np.array([1, -1, 1], I32)]),
    ("Mod", [np.array([7.5, -7.5], F32), np.array([2, 2], F32)], {}, [np.array([1.5, -1.5], F32)]),
    ("Addcmul", [X, X, UPDATES[:1], np.array(0.5, F32)], {}, [X + 0.5 * X * UPDATES[:1]]),
    ("Addcdiv", [X, X, UPDATES[:1], np.array(2, F32)], {}, [X + 2 * X / UPDATES[:1]]),
    ("Lerp", [X, UPDATES[:1], np.array(0.25, F32)], {}, [X + 0.25 * (UPDATES[:1] - X)]),
    ("Sxpy", [X, UPDATES[:1], np.array(3, F32)], {}, [X - 3 * UPDATES[:1]]),
    ("Sxpy", [X, UPDATES[:1]], {}, [X - UPDATES[:1]]),
    ("NanToNum", [ENDS], {"nan": 7.0, "posinf": 9.0, "neginf": -9.0}, [np.array([7, 9, -9, 1.5, -0.0], F32)]),
    ("NanToNum", [ENDS.astype(F16)], {}, [np.array([0, 65504, -65504, 1.5, -0.0], F16)]),
    ("PRelu", [GROUPED, GAMMA], {}, [np.where(GROUPED > 0, GROUPED, GROUPED * GAMMA[:, None, None])]),
    ("PRelu", [X, np.array([0.5], F32)], {}, [np.where(MASK, X, X / 2)]),
    ("ThresholdV2", [X, np.array(0, F32), np.array(7, F32)], {}, [np.where(MASK, X, 7)]),
    ("GLU", [CUBE], {}, [CUBE[..., :2] / (1 + np.exp(-CUBE[..., 2:]))]),
    ("Relu6", [X * 9], {}, [np.clip(X * 9, 0, 6)]),
    # reductions and normalizations
    ("Cumprod", [X, n(1)], {**AT, "reverse": True}, [np.cumprod(X[:, ::-1], 1)[:, ::-1]]),
    ("Cumprod", [INTEGERS, n(0)], {**AT, "exclusive": True}, [np.stack([np.ones(3, I32), INTEGERS[0]])]),
    ("CumulativeLogsumexp", [X, n(0)], AT, [np.logaddexp.accumulate(X, 0)]),
    ("ReduceLogSumExp", [X * 50, c(1)], AT, [np.logaddexp.reduce((X * 50).astype(np.float64), 1).astype(F32)]),
    ("ReduceLogSum", [np.abs(X), c(1)], AT, [np.log(np.abs(X).sum(1))]),
    ("EuclideanNorm", [X, c(0)], {**AT, "keep_dims": True}, [np.sqrt((X**2).sum(0, keepdims=True))]),
    ("EuclideanNormD", [X], {"axes": [1]}, [np.sqrt((X**2).sum(1))]),
    ("ReduceMean", [X[:0], c(0)], AT, [np.full(3, np.nan, F32)]),
    ("ReduceStdV2", [X], {"dim": [1], "results": 2}, [X.std(1, ddof=1), X.mean(1)]),
    ("ReduceStdV2", [X], {"correction": 0, "keepdim": True, "results": 2},
     [X.std(keepdims=True), X.mean(keepdims=True)]),
    *(("LpNormV2", [X], {"p": p, "axes": [1]}, [np.linalg.norm(X, p, 1)]) for p in (0.0, 1.0, 2.0, 3.0, np.inf)),
    ("L2Loss", [X], {}, [np.array((X**2).sum() / 2, F32)]),
    ("BNInfer", [X[:, :, None], UPDATES[0], UPDATES[1], UPDATES[2], np.abs(X[0])], {"epsilon": 1e-3},
     [((X - UPDATES[2]) / np.sqrt(np.abs(X[0]) + 1e-3) * UPDATES[0] + UPDATES[1])[:, :, None]]),
    ("MatMulV3", [X, UPDATES], {"transpose_x2": True}, [X @ UPDATES.T]),
    ("BatchMatMulV3", [CUBE, CUBE], {"adj_x2": True}, [CUBE @ CUBE.swapaxes(1, 2)]),
    ("LayerNorm", [CUBE, LAST, LAST + 1], {"begin_norm_axis": -1, "begin_params_axis": -1, "results": 3},
     [normalized(CUBE, (2,), 1e-7) * LAST + LAST + 1, CUBE.mean(-1, keepdims=True), CUBE.var(-1, keepdims=True)]),
    ("LayerNormV4", [CUBE, c(4), LAST, LAST + 1], {**AT, "results": 3},
     [normalized(CUBE, (2,)) * LAST + LAST + 1, CUBE.mean(-1, keepdims=True),
      1 / np.sqrt(CUBE.var(-1, keepdims=True) + 1e-5)]),
    ("LayerNormV4", [CUBE, c(3, 4)], AT, [normalized(CUBE, (1, 2))]),
    ("GroupNormV2", [GROUPED, GAMMA, BETA], {"num_groups": 2, "results": 3},
     [SCALED, MEANS, 1 / np.sqrt(DEVIATIONS**2 + 1e-5)]),
    ("GroupNorm", [GROUPED, GAMMA, BETA], {"num_groups": 2, "eps": 1e-5}, [SCALED]),
    ("GroupNormSilu", [GROUPED, GAMMA, BETA], {"num_groups": 2, "eps": 1e-5}, [SCALED / (1 + np.exp(-SCALED))]),
    *(("GeGluV2", [CUBE], {"activate_left": is_left, "results": 2},
       [CUBE[..., 2 * is_left : 2 * is_left + 2] * gelu(CUBE[..., 2 - 2 * is_left : 4 - 2 * is_left]),
        gelu(CUBE[..., 2 - 2 * is_left : 4 - 2 * is_left])]) for is_left in (False, True)),
]  # fmt: skip


@pytest.mark.parametrize(("case", "said"), every_way(CASES))
def test_operator(tmp_path, case, said):
    check_case(tmp_path, case, said)


@pytest.mark.parametrize("op_type", ["ScatterAdd", "ScatterNdAdd", "MaskedScatter", "IndexPutV2", "NanToNum"])
@pytest.mark.parametrize("dtype", [F16, BFLOAT16])
def test_half_floats_are_rounded_once(tmp_path, op_type, dtype):
    x, small = np.full((3, 2), 256, dtype), np.full((4, 2), 0.4, dtype)
    once = (256 + 4 * small[:1].astype(F32)).astype(dtype)
    places = np.zeros((4, 1), I64)
    inputs: dict[str, list[np.ndarray]] = {
        "ScatterAdd": [x, places[:, 0], small],
        "ScatterNdAdd": [x, places, small],
        "MaskedScatter": [x, np.ones((3, 2), bool), np.broadcast_to(once, (3, 2)).copy()],
        "IndexPutV2": [x, small, c(1), c(1), places[:, 0]],
        "NanToNum": [np.where([[True], [False], [False]], np.nan, x.astype(F32)).astype(dtype)],
    }
    options = {"IndexPutV2": {"accumulate": True, "constants": (2, 3)}, "NanToNum": {"nan": float(once[0, 0])}}
    (made,) = evaluate(tmp_path, run, op_type, inputs[op_type], **options.get(op_type, {}))
    assert made.dtype == dtype
    np.testing.assert_array_equal(made[0].astype(F32), once[0].astype(F32))


def test_too_few_updates_are_an_error(tmp_path):
    with pytest.raises(Exception, match=r"indices|Gather"):
        evaluate(tmp_path, run, "MaskedScatter", [X, np.ones_like(MASK), X[:2]])


@pytest.mark.parametrize(("batch", "names"), [(1, ["next"]), (2, ["next_0", "next_1"])])
@pytest.mark.parametrize("is_said", [False, True])
def test_the_next_batch_of_an_iterator_is_an_input(tmp_path, batch, names, is_said):
    """Its types are in the descriptions, or in the attributes only."""
    graph = Graph()
    graph.node("iterator", "IteratorV2", [])
    types = {} if is_said else {"output_types": [0] * batch}
    node = graph.node("next", "DynamicGetNext", ["iterator:0"], output_shapes=[], **types)
    for _ in range(batch if is_said else 0):
        described(node.output_desc.add(), F32, (-1, 3))
    total = graph.op("Add", "next:0", f"next:{batch - 1}")
    model = convert(graph.output(f"{total}:0").write(tmp_path))
    assert [value.name for value in model.graph.input] == names
    (made,) = run(model, *[X] * batch)
    np.testing.assert_array_equal(made, X + X)


@pytest.mark.parametrize(
    ("op_type", "reason"),
    [
        ("ReluGrad", "it computes losses or gradients"),
        ("HcomAllReduce", "other ranks"),
        ("StatelessRandomUniformV2", "random numbers"),
        ("FusedInferAttentionScore", "attention in plain operators"),
        ("Conv2D", "from the framework's own file"),
        ("Assign", "in which order"),
        ("Unheard", "this operator is not supported$"),
    ],
)
def test_a_refusal_has_a_reason(tmp_path, op_type, reason):
    with pytest.raises(ConversionError, match=reason):
        evaluate(tmp_path, run, op_type, [X])
