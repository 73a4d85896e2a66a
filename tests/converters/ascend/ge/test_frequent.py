"""GE's operators of sparse features and of transformers, and the small ones that torchair and TensorFlow make."""

from __future__ import annotations

import numpy as np
import pytest
from support.ascend_graphs import run
from support.ge_graphs import AT, BFLOAT16, F16, F32, I32, I64, Graph, c, check_case, evaluate, every_way, n

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.ascend import convert

RNG = np.random.default_rng(31)
X = RNG.standard_normal((2, 3, 4)).astype(F32)
Y = (RNG.standard_normal((3, 1)) + 3).astype(F32)
WIDE = np.array([-7.5, -2.5, -0.5, 0.0, 0.5, 2.5, 7.5], F32)
ROWS = RNG.standard_normal((6, 3)).astype(F32)
WHOLE, DIVISORS = np.array([7, -7, 7, -7, 6, 0], I32), np.array([3, 3, -3, -3, 3, 3], I32)
PARTS = (WHOLE + 0.25).astype(F32)
EXACT, SIGNS = np.array([6, -6, 6, -6, 0, 1.5], F32), np.array([3, 3, -3, -3, -3, -0.5], F32)
SORTED = np.array([0, 0, 2, 2, 2, 3], I32)
LOOKED_UP = np.array([5, 0, 0, 3, 1, 2], I32)
ANY_ORDER = np.array([2, -1, 0, 2, 3, 0], I32)
BYTES = RNG.integers(-9, 9, (4, 6)).astype(np.int8)
WEIGHT = RNG.integers(-9, 9, (6, 5)).astype(np.int8)
SCALE = RNG.uniform(0.01, 0.02, 5).astype(F32)
PLACES = np.array([[1, 2], [0, 0]], I64)
LOWEST, HIGHEST = np.finfo(F32).min, np.finfo(F32).max


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def segments(rows: np.ndarray, ids: np.ndarray, count: int, reduce: object, empty: float) -> np.ndarray:
    """One loop over the segments; negative ids are in none."""
    made = [reduce(rows[ids == i], 0) if (ids == i).any() else np.full(rows.shape[1:], empty) for i in range(count)]
    return np.stack(made).astype(rows.dtype)


def halves(x: np.ndarray) -> np.ndarray:
    first, second = np.split(x, 2, -1)
    return np.concatenate([-second, first], -1)


def normed(x: np.ndarray, gamma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    root = 1 / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    return x * root * gamma, root


def put(x: np.ndarray, index: object, values: object) -> np.ndarray:
    copy = x.copy()
    copy[index] = values
    return copy


def quantized(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scale = np.abs(x).max(-1) / 127
    return np.rint(x / scale[..., None]).astype(np.int8), scale


BAGS, IDS = np.array([0, 2, 2, 5], I64), np.array([5, 0, 0, 3, 1, 2], I64)
ENDS = (2, 2, 5, 6)
BAG_WEIGHTS = RNG.standard_normal(6).astype(F32)
BAG_ROWS = [ROWS[IDS[a:b]] for a, b in zip(BAGS, ENDS, strict=True)]
BAG_SUMS = np.stack([rows.sum(0) for rows in BAG_ROWS])
BAG_MEANS = np.stack([rows.mean(0) if len(rows) else np.zeros(3) for rows in BAG_ROWS])
BAG_MAXIMA = np.stack([rows.max(0) if len(rows) else np.zeros(3) for rows in BAG_ROWS])
WEIGHTED = np.stack([(ROWS[IDS[a:b]] * BAG_WEIGHTS[a:b, None]).sum(0) for a, b in zip(BAGS, ENDS, strict=True)])
WITHOUT_0 = np.stack([ROWS[[i for i in IDS[a:b] if i != 0]].sum(0) for a, b in zip(BAGS, ENDS, strict=True)])
TOTAL = X + 2 * X[::-1]
COSINE, SINE = X[:, :1], X[:, 1:2]

#: (operator, inputs, options of evaluate, expected results)
CASES = [
    # sparse features
    ("SparseFillEmptyRows", [c(0, 1, 2, 0, 2, 1).reshape(3, 2), ROWS[:3, 0], c(4, 5), np.array(9, F32)], {"results": 4},
     [c(0, 1, 1, 0, 2, 0, 2, 1, 3, 0).reshape(5, 2), np.array([ROWS[0, 0], 9, ROWS[1, 0], ROWS[2, 0], 9], F32),
      np.array([False, True, False, True]), c(0, 2, 3)]),
    ("RaggedFillEmptyRows", [c(0, 2), ROWS[:2, 0], np.array(4, I64), np.array(9, F32)], {"results": 3},
     [c(0, 1, 2, 3), np.array([ROWS[0, 0], 9, ROWS[1, 0], 9], F32), np.array([False, True, False, True])]),
    ("SparseSegmentSum", [ROWS, LOOKED_UP, SORTED], {}, [segments(ROWS[LOOKED_UP], SORTED, 4, np.sum, 0)]),
    ("SparseSegmentMean", [ROWS, LOOKED_UP, SORTED], {}, [segments(ROWS[LOOKED_UP], SORTED, 4, np.mean, 0)]),
    ("SparseSegmentMean", [ROWS, LOOKED_UP, SORTED.astype(I64)], {},
     [segments(ROWS[LOOKED_UP], SORTED, 4, np.mean, 0)]),
    ("SparseSegmentSqrtN", [ROWS, LOOKED_UP, SORTED], {},
     [segments(ROWS[LOOKED_UP], SORTED, 4, lambda r, a: r.sum(a) / np.sqrt(len(r)), 0)]),
    ("SparseSegmentSum", [ROWS, np.zeros(0, I32), np.zeros(0, I32)], {}, [np.zeros((0, 3), F32)]),
    ("SegmentSum", [ROWS, SORTED], {}, [segments(ROWS, SORTED, 4, np.sum, 0)]),
    ("SegmentMean", [ROWS, SORTED], {}, [segments(ROWS, SORTED, 4, np.mean, 0)]),
    ("SegmentMax", [ROWS, SORTED], {}, [segments(ROWS, SORTED, 4, np.max, 0)]),
    ("SegmentMin", [ROWS, SORTED], {}, [segments(ROWS, SORTED, 4, np.min, 0)]),
    ("SegmentProd", [ROWS, SORTED], {}, [segments(ROWS, SORTED, 4, np.prod, 1)]),
    ("UnsortedSegmentSum", [ROWS, ANY_ORDER, n(5)], {"constants": (2,), "is_preprocessed": False, "check_ids": False},
     [segments(ROWS, ANY_ORDER, 5, np.sum, 0)]),
    ("UnsortedSegmentMax", [ROWS, ANY_ORDER, n(5)], {}, [segments(ROWS, ANY_ORDER, 5, np.max, LOWEST)]),
    ("UnsortedSegmentMin", [ROWS, ANY_ORDER, n(5)], {}, [segments(ROWS, ANY_ORDER, 5, np.min, HIGHEST)]),
    ("UnsortedSegmentProd", [ROWS, ANY_ORDER, n(5)], {}, [segments(ROWS, ANY_ORDER, 5, np.prod, 1)]),
    ("UnsortedSegmentSumD", [ROWS, ANY_ORDER], {"num_segments": 5}, [segments(ROWS, ANY_ORDER, 5, np.sum, 0)]),
    ("UnsortedSegmentMaxD", [ROWS, ANY_ORDER], {"num_segments": 5}, [segments(ROWS, ANY_ORDER, 5, np.max, LOWEST)]),
    ("UnsortedSegmentMinD", [ROWS, ANY_ORDER], {"num_segments": 5}, [segments(ROWS, ANY_ORDER, 5, np.min, HIGHEST)]),
    ("UnsortedSegmentProdD", [ROWS, ANY_ORDER], {"num_segments": 5}, [segments(ROWS, ANY_ORDER, 5, np.prod, 1)]),
    ("SegmentMaxD", [ROWS], {"segment_ids": SORTED.tolist()}, [segments(ROWS, SORTED, 4, np.max, 0)]),
    ("EmbeddingBag", [ROWS, IDS, BAGS], {}, [BAG_MEANS]),
    ("EmbeddingBag", [ROWS, IDS, BAGS], {"mode": "sum"}, [BAG_SUMS]),
    ("EmbeddingBag", [ROWS, IDS, BAGS], {"mode": "max"}, [BAG_MAXIMA]),
    ("EmbeddingBag", [ROWS, IDS, BAGS, BAG_WEIGHTS], {"mode": "sum"}, [WEIGHTED]),
    ("EmbeddingBag", [ROWS, IDS, BAGS], {"mode": "sum", "padding_idx": 0}, [WITHOUT_0]),
    ("EmbeddingBag", [ROWS, IDS, c(*BAGS, 6)], {"mode": "sum", "include_last_offset": True}, [BAG_SUMS]),
    ("EmbeddingBag", [ROWS, IDS.reshape(2, 3)], {"mode": "sum"}, [ROWS[IDS.reshape(2, 3)].sum(1)]),
    ("SparseReshape", [c(0, 1, 1, 2).reshape(2, 2), c(2, 3), c(3, -1)], {"results": 2},
     [c(0, 1, 2, 1).reshape(2, 2), c(3, 2)]),
    ("SparseToDense", [c(0, 1, 1, 2).reshape(2, 2), c(2, 3), np.array([5, 6], F32), np.array(9, F32)],
     {"constants": (1,)}, [np.array([[9, 5, 9], [9, 9, 6]], F32)]),
    ("SparseToDense", [c(2, 0), c(4), np.array(5, F32), np.array(9, F32)], {}, [np.array([5, 9, 5, 9], F32)]),
    ("Bucketize", [WIDE], {"boundaries": [0, 2], "right": True}, [np.digitize(WIDE, [0, 2]).astype(I32)]),
    ("Bucketize", [WIDE], {"boundaries": [0, 2], "right": False, "dtype": 9}, [np.digitize(WIDE, [0, 2], right=True)]),
    ("Unique", [c(5, 2, 5, 9, 2)], {"results": 2}, [c(5, 2, 9), np.array([0, 1, 0, 2, 1], I32)]),
    # elementwise
    ("TensorMove", [X], {}, [X]),
    ("Floor", [WIDE], {}, [np.floor(WIDE)]),
    ("Floor", [WHOLE], {}, [WHOLE]),
    ("Ceil", [WIDE], {}, [np.ceil(WIDE)]),
    ("Round", [WIDE], {}, [np.rint(WIDE)]),
    ("Rint", [WIDE], {}, [np.rint(WIDE)]),
    ("Trunc", [WIDE], {}, [np.trunc(WIDE)]),
    ("Trunc", [WHOLE], {}, [WHOLE]),
    ("Sign", [WIDE], {}, [np.sign(WIDE)]),
    ("Sign", [WHOLE], {}, [np.sign(WHOLE)]),
    ("Tan", [X], {}, [np.tan(X.astype(np.float64))]),
    ("IsNan", [put(WIDE, 1, np.nan)], {}, [np.arange(7) == 1]),
    ("IsInf", [put(WIDE, 1, np.inf)], {}, [np.arange(7) == 1]),
    ("LogicalXor", [X > 0, X > 1], {}, [(X > 0) ^ (X > 1)]),
    ("Square", [WHOLE], {}, [WHOLE**2]),
    ("SquaredDifference", [X, Y], {}, [(X - Y) ** 2]),
    ("FloorDiv", [WHOLE, DIVISORS], {}, [WHOLE // DIVISORS]),
    ("FloorDiv", [WHOLE.astype(F32), DIVISORS.astype(F32)], {}, [(WHOLE // DIVISORS).astype(F32)]),
    ("FloorMod", [WHOLE, DIVISORS], {}, [WHOLE % DIVISORS]),
    ("FloorMod", [PARTS, DIVISORS.astype(F32)], {}, [PARTS % DIVISORS]),
    ("FloorMod", [EXACT, SIGNS], {}, [EXACT % SIGNS]),
    ("Axpy", [X, Y], {"alpha": 0.5}, [X + Y / 2]),
    ("AxpyV2", [X, Y, np.array([0.5], F32)], {}, [X + Y / 2]),
    ("AxpyV2", [WHOLE, DIVISORS, n(3)], {}, [WHOLE + 3 * DIVISORS]),
    ("AddN", [X, X, X], {"N": 3}, [3 * X]),
    ("BiasAdd", [X, X[0, 0]], {}, [X + X[0, 0]]),
    ("BiasAdd", [X, X[0, :, 0]], {"data_format": "NCHW"}, [X + X[0, :, 0][:, None]]),
    ("ClipByValueV2", [X, np.array(-0.5, F32), np.array(0.5, F32)], {}, [np.clip(X, -0.5, 0.5)]),
    ("Bitcast", [X], {"constants": (0,), "type": 3}, [X.view(I32)]),
    ("Bitcast", [X.view(I32)], {"type": 0}, [X]),
    ("Bitcast", [WHOLE], {"type": 8}, [WHOLE.view(np.uint32)]),
    ("Bitcast", [X], {"type": 0}, [X]),
    # activations
    ("Swish", [X], {"scale": 1.5}, [X * sigmoid(1.5 * X)]),
    ("Silu", [X], {}, [X * sigmoid(X)]),
    ("SwiGlu", [X], {}, [X[..., :2] * sigmoid(X[..., :2]) * X[..., 2:]]),
    ("LeakyRelu", [X], {"negative_slope": 0.1}, [np.where(X > 0, X, 0.1 * X)]),
    ("LeakyRelu", [X], {}, [np.maximum(X, 0)]),
    ("HardSwish", [4 * X], {}, [4 * X * np.clip(4 * X / 6 + 0.5, 0, 1)]),
    ("HardSigmoid", [4 * X], {"alpha": 0.25, "beta": 0.5}, [np.clip(X + 0.5, 0, 1)]),
    ("Elu", [X], {"alpha": 0.5}, [np.where(X > 0, X, 0.5 * np.expm1(X))]),
    ("Softplus", [X], {}, [np.log1p(np.exp(X))]),
    ("Softsign", [X], {}, [X / (1 + np.abs(X))]),
    ("Mish", [X], {}, [X * np.tanh(np.log1p(np.exp(X)))]),
    ("GeluV2", [X], {"approximate": "tanh"},
     [0.5 * X * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X**3)))]),
    ("FastGelu", [X], {}, [X * sigmoid(1.702 * X)]),
    ("FastGeluV2", [X], {}, [X * sigmoid(1.702 * X)]),
    # indices
    ("Gather", [ROWS, c(5, 0)], {}, [ROWS[[5, 0]]]),
    ("Gather", [X, PLACES], {"batch_dims": 1}, [np.stack([X[i, PLACES[i]] for i in (0, 1)])]),
    ("GatherNd", [X, PLACES], {}, [X[PLACES[:, 0] % 2, PLACES[:, 1]]]),
    ("ScatterElements", [ROWS, c(1, 0, 2).reshape(1, 3), X[0, :1, :3]], {},
     [put(ROWS, ([1, 0, 2], [0, 1, 2]), X[0, 0, :3])]),
    ("ScatterElements", [ROWS, c(1, 0, 2).reshape(1, 3), X[0, :1, :3]], {"reduction": "add", "axis": 0},
     [ROWS + put(np.zeros_like(ROWS), ([1, 0, 2], [0, 1, 2]), X[0, 0, :3])]),
    ("ScatterNdUpdate", [ROWS, c(4, 1).reshape(2, 1), X[0, :2, :3]], {}, [put(ROWS, [4, 1], X[0, :2, :3])]),
    ("TensorScatterUpdate", [ROWS, c(4, 1).reshape(2, 1), X[0, :2, :3]], {}, [put(ROWS, [4, 1], X[0, :2, :3])]),
    ("ScatterUpdate", [ROWS, c(4, 1), X[0, :2, :3]], {}, [put(ROWS, [4, 1], X[0, :2, :3])]),
    ("ArgMaxV2", [X, n(1)], {**AT, "dtype": 3}, [X.argmax(1).astype(I32)]),
    ("ArgMaxD", [X], {"dimension": -1}, [X.argmax(-1).astype(I32)]),
    ("ArgMin", [X, n(1)], AT, [X.argmin(1)]),
    ("ArgMinD", [X], {"dimension": -1, "dtype": 9}, [X.argmin(-1)]),
    ("TopK", [X, n(2)], {**AT, "results": 2}, [-np.sort(-X)[..., :2], np.argsort(-X)[..., :2].astype(I32)]),
    ("Sort", [X], {"results": 2}, [np.sort(X), np.argsort(X).astype(I32)]),
    ("Sort", [X], {"axis": 1, "descending": True, "results": 1}, [-np.sort(-X, 1)]),
    # reductions
    ("ReduceAll", [X > 0, n(1)], AT, [(X > 0).all(1)]),
    ("ReduceAllD", [X > 0], {"axes": [0, 2]}, [(X > 0).all((0, 2))]),
    ("ReduceAny", [X > 1, n(1)], {**AT, "keep_dims": True}, [(X > 1).any(1, keepdims=True)]),
    ("ReduceAnyD", [X > 1], {"axes": [-1]}, [(X > 1).any(-1)]),
    ("LogSoftmaxV2", [X], {}, [np.log(softmax(X.astype(np.float64)))]),
    ("BatchNormV3", [X, *([np.abs(X[0, :, 0])] * 4)], {"is_training": False, "results": 5},
     [(X - np.abs(X[0, :, :1])) / np.sqrt(np.abs(X[0, :, :1]) + 1e-5) * np.abs(X[0, :, :1]) + np.abs(X[0, :, :1]),
      *[np.abs(X[0, :, 0])] * 3, 1 / np.sqrt(np.abs(X[0, :, 0]) + 1e-5)]),
    # shapes
    ("Unpack", [X], {"num": 3, "axis": 1, "results": 3}, list(X.transpose(1, 0, 2))),
    ("Unpack", [X[:1]], {"num": 1, "results": 1}, [X[0]]),
    ("FlattenV2", [X], {}, [X.reshape(2, 12)]),
    ("FlattenV2", [X], {"axis": 0, "end_axis": 1}, [X.reshape(6, 4)]),
    ("Flatten", [X], {"axis": 1}, [X.reshape(2, 12)]),
    ("Permute", [X], {"order": [2, 0, 1]}, [X.transpose(2, 0, 1)]),
    ("Expand", [Y, c(2, 3, 4)], AT, [np.broadcast_to(Y, (2, 3, 4))]),
    ("AsStrided", [X, c(3, 2), c(1, 2), c(4)], {"constants": (1, 2, 3)},
     [np.lib.stride_tricks.as_strided(X.ravel()[4:], (3, 2), (4, 8))]),
    ("ReverseV2", [X, c(0, -1)], AT, [X[::-1, :, ::-1]]),
    ("StridedSliceD", [X], {"begin": [0, 1], "end": [2, 3], "strides": [1, 1]}, [X[:, 1:3]]),
    ("StridedSliceD", [X], {"begin": [0, -1], "end": [0, 0], "strides": [1, 1], "begin_mask": 1, "end_mask": 1,
                            "shrink_axis_mask": 2}, [X[:, -1]]),
    ("StridedSliceV2", [X, c(1, 3), c(3, 0), c(1, 2), c(1, -2)], {"constants": (1, 2, 3, 4)}, [X[:, 1:3, 3:0:-2]]),
    ("StridedSliceV2", [X, c(1, 1), c(2, 3)], {"constants": (1, 2)}, [X[1:2, 1:3]]),
    # transformers
    ("RotaryMul", [X, COSINE, SINE], {}, [X * COSINE + halves(X) * SINE]),
    ("ApplyRotaryPosEmb", [X, X[:, :1], COSINE, SINE], {"results": 2, "layout": 1},
     [X * COSINE + halves(X) * SINE, X[:, :1] * COSINE + halves(X[:, :1]) * SINE]),
    ("ScaledMaskedSoftmax", [X, X > 1], {"scale": 0.5}, [softmax(np.where(X > 1, -10000, X / 2))]),
    ("ScaledMaskedSoftmax", [X], {"scale": 2.0, "fixed_triu_mask": True},
     [softmax(np.where(np.triu(np.ones((3, 4)), 1) > 0, -10000, X * 2))]),
    ("AddRmsNorm", [X, 2 * X[::-1], X[0, 0]], {"results": 3}, [*normed(TOTAL, X[0, 0]), TOTAL]),
    ("DynamicQuant", [X], {"results": 2}, [*quantized(X)]),
    ("DynamicQuant", [X, np.abs(X[0, 0])], {"results": 2}, [*quantized(X * np.abs(X[0, 0]))]),
    ("QuantBatchMatmulV3", [BYTES, WEIGHT, SCALE], {"dtype": 3}, [BYTES.astype(I32) @ WEIGHT.astype(I32)]),
]  # fmt: skip


@pytest.mark.parametrize(("case", "said"), every_way(CASES))
def test_operator(tmp_path, case, said):
    check_case(tmp_path, case, said)


@pytest.mark.parametrize(("number", "dtype"), [(1, F16), (27, BFLOAT16)])
@pytest.mark.parametrize("per_token", [False, True])
def test_quantized_products(tmp_path, number, dtype, per_token):
    """The optional inputs are an offset, a bias and a scale for each row; the second and third are given here."""
    bias, own = RNG.integers(-99, 99, 5).astype(I32), RNG.uniform(0.5, 1, 4).astype(F32)
    stored = SCALE.view(np.uint32).astype(np.uint64) if number == 1 else SCALE
    inputs = [BYTES, WEIGHT.T.copy(), stored, None, bias, own if per_token else None]
    (y,) = evaluate(tmp_path, run, "QuantBatchMatmulV3", inputs, dtype=number, transpose_x2=True)
    exact = (BYTES.astype(I64) @ WEIGHT.astype(I64) + bias) * SCALE.astype(np.float64)
    exact = exact * own[:, None] if per_token else exact
    assert y.dtype == dtype
    np.testing.assert_allclose(y.astype(np.float64), exact, 2e-3 if number == 1 else 1e-2, 1e-3)


@pytest.mark.parametrize("dtype", [F16, BFLOAT16])
@pytest.mark.parametrize("op_type", ["Swish", "FloorDiv", "SquaredDifference", "AddRmsNorm", "RotaryMul", "SegmentSum"])
def test_half_floats(tmp_path, dtype, op_type):
    """ONNX Runtime lacks kernels for many of them: they are computed in float32."""
    x = (np.abs(X) + 1).astype(dtype)
    inputs = {
        "FloorDiv": [x, x[::-1].copy()],
        "SquaredDifference": [x, x[::-1].copy()],
        "AddRmsNorm": [x, x, x[0, 0]],
        "RotaryMul": [x, x, x],
        "SegmentSum": [x, np.array([0, 1], I32)],
    }
    (y, *_) = evaluate(tmp_path, run, op_type, inputs.get(op_type, [x]))
    assert y.dtype == dtype


def test_strings_are_hashed_as_in_tensorflow(tmp_path):
    """The buckets are those of tf.strings.to_hash_bucket_fast."""
    words = np.array(["a", "Hello", ""], object)
    (y,) = evaluate(tmp_path, run, "StringToHashBucketFast", [words], num_buckets=1000)
    assert y.tolist() == [939, 151, 263]


def test_saturation_reaches_every_operator(tmp_path):
    graph = Graph()
    graph.output(graph.op("Square", graph.data("x", F16, (2,))))
    x = np.array([300, -2], F16)
    path = graph.write(tmp_path)
    assert run(convert(path), x)[0][0] == np.inf
    assert run(convert(path, fp16_overflow="saturate"), x)[0][0] == 65504


@pytest.mark.parametrize(
    ("op_type", "inputs", "options", "message"),
    [
        ("EmbeddingBag", [ROWS, IDS, BAGS], {"mode": "median"}, "mode median is none of"),
        ("EmbeddingBag", [ROWS, IDS, BAGS, BAG_WEIGHTS], {"mode": "mean"}, "only for sums"),
        ("EmbeddingBag", [ROWS, IDS], {}, "expected"),
        ("SegmentSum", [ROWS, SORTED.astype(F32)], {}, "int32 or int64 expected"),
        ("Bitcast", [X.astype(np.float64)], {"type": 9}, "the bits of d0"),
        ("Bitcast", [X.astype(np.float16)], {"type": 3}, "its last dimension must be 2"),
        ("Bitcast", [X], {"type": 34}, "type 34 is not an element type"),
        ("Unpack", [X], {"num": 2, "axis": 1}, "has not 2 parts"),
        ("ScatterElements", [ROWS, c(1).reshape(1, 1), ROWS[:1, :1]], {"reduction": "max"}, "reduction max"),
        ("BatchNormV3", [X, *([X[0, :, 0]] * 4)], {}, "is_training is true"),
        ("ApplyRotaryPosEmb", [X, X, X, X], {"rotary_mode": "interleave"}, "is not half"),
        ("AsStrided", [X, c(5), c(9), c(0)], {"constants": (1, 2, 3)}, "it reads elements"),
        ("StridedSliceV2", [X, c(0), c(1), c(7)], {"constants": (1, 2, 3)}, "axis 7 is out of range"),
        ("FlattenV2", [X], {"axis": 2, "end_axis": 0}, "is after end_axis"),
        ("QuantBatchMatmulV3", [X[0], X[1].T.copy(), SCALE[:3]], {"dtype": 1}, "int8 expected"),
    ],
)
def test_what_is_refused(tmp_path, op_type, inputs, options, message):
    with pytest.raises(ConversionError, match=message):
        evaluate(tmp_path, run, op_type, inputs, **options)
