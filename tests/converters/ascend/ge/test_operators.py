"""GE's other operators against numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.ascend_graphs import random, run
from support.ge_graphs import AT, BFLOAT16, F16, F32, I32, I64, c, check_case, evaluate, every_way, n

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.ascend.ge.handlers import HANDLERS

RNG = np.random.default_rng(23)
X = RNG.standard_normal((2, 3, 4)).astype(F32)
Y = (RNG.standard_normal((3, 1)) + 3).astype(F32)


def normalized(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


POWERS = np.exp(X.astype(np.float64))
POSITIVE = np.abs(X) + F32(0.5)
GAMMA, BETA = X[0, 0], X[0, 1]
RSTD = 1 / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-6)
POSITIONS = np.array([[2, 0, 1], [1, 1, 0]], I32)
SHORTS = np.array([-300, 7, 300], np.int16)

#: (operator, inputs, options of evaluate, expected results)
CASES = [
    ("Identity", [X], {}, [X]),
    ("Cast", [X * 10], {"dst_type": 3}, [(X * 10).astype(I32)]),
    ("Cast", [X], {"dst_type": 1}, [X.astype(F16)]),
    ("Add", [X, Y], {}, [X + Y]),
    ("AddV2", [X, Y], {}, [X + Y]),
    ("Sub", [X, Y], {}, [X - Y]),
    ("Mul", [X, Y], {}, [X * Y]),
    ("Div", [X, Y], {}, [X / Y]),
    ("RealDiv", [X, Y], {}, [X / Y]),
    ("Maximum", [X, Y], {}, [np.maximum(X, Y)]),
    ("Maximum", [SHORTS, SHORTS[::-1]], {}, [np.maximum(SHORTS, SHORTS[::-1])]),
    ("Minimum", [X, Y], {}, [np.minimum(X, Y)]),
    ("Pow", [POSITIVE, Y], {}, [POSITIVE**Y]),
    ("Less", [X, X[::-1]], {}, [X[::-1] > X]),
    ("LessEqual", [X, X], {}, [X <= X]),
    ("Greater", [X, X[::-1]], {}, [X[::-1] < X]),
    ("GreaterEqual", [X, X], {}, [np.ones_like(X, bool)]),
    ("Equal", [X, X[::-1]], {}, [X[::-1] == X]),
    ("NotEqual", [X, X[::-1]], {}, [X[::-1] != X]),
    ("LogicalNot", [X > 0], {}, [X <= 0]),
    ("LogicalAnd", [X > 0, X < 1], {}, [(X > 0) & (X < 1)]),
    ("LogicalOr", [X > 1, X < 0], {}, [(X > 1) | (X < 0)]),
    ("Select", [np.array([True, False]), X, -X], {}, [np.stack([X[0], -X[1]])]),
    ("SelectV2", [X > 0, X, Y], {}, [np.where(X > 0, X, Y)]),
    ("Muls", [X], {"value": 0.5}, [X / 2]),
    ("Adds", [n(3)], {"value": 2.0}, [n(5)]),
    ("Relu", [X], {}, [np.maximum(X, 0)]),
    ("Relu", [np.array([-5, 2**53 + 1], I64)], {}, [np.array([0, 2**53 + 1])]),
    ("Sigmoid", [X], {}, [1 / (1 + np.exp(-X))]),
    ("Tanh", [X], {}, [np.tanh(X)]),
    ("Exp", [X], {}, [np.exp(X)]),
    ("Log", [POSITIVE], {}, [np.log(POSITIVE)]),
    ("Sqrt", [POSITIVE], {}, [np.sqrt(POSITIVE)]),
    ("Rsqrt", [POSITIVE], {}, [1 / np.sqrt(POSITIVE)]),
    ("Reciprocal", [POSITIVE], {}, [1 / POSITIVE]),
    ("Neg", [X], {}, [-X]),
    ("Abs", [X], {}, [np.abs(X)]),
    ("Sin", [X], {}, [np.sin(X)]),
    ("Cos", [X], {}, [np.cos(X)]),
    ("Erf", [np.zeros(2, F32)], {}, [np.zeros(2, F32)]),
    ("Gelu", [X], {}, [0.5 * X * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X**3)))]),
    ("ClipByValue", [X, np.array(-0.5, F32), np.array(0.5, F32)], {}, [np.clip(X, -0.5, 0.5)]),
    ("MatMulV2", [X[0], X[1]], {"transpose_x2": True}, [X[0] @ X[1].T]),
    ("MatMul", [X[0], X[1], X[0, :, 0]], {"transpose_x1": False, "transpose_x2": True}, [X[0] @ X[1].T + X[0, :, 0]]),
    ("BatchMatMulV2", [X, X], {"adj_x1": True}, [np.swapaxes(X, 1, 2) @ X]),
    ("BatchMatMul", [X, X], {"adj_x2": True}, [X @ np.swapaxes(X, 1, 2)]),
    ("SoftmaxV2", [X], {}, [POWERS / POWERS.sum(-1, keepdims=True)]),
    ("SoftmaxV2", [X], {"axes": [1]}, [POWERS / POWERS.sum(1, keepdims=True)]),
    ("Transpose", [X, c(2, 0, 1)], AT, [X.transpose(2, 0, 1)]),
    ("TransposeD", [X], {"perm": [0, 2, 1]}, [X.transpose(0, 2, 1)]),
    ("Reshape", [X, c(4, -1)], AT, [X.reshape(4, 6)]),
    ("Reshape", [X, c(4, 6)], {"result": (F32, (4, 6))}, [X.reshape(4, 6)]),
    ("Shape", [X], {}, [np.array([2, 3, 4], I32)]),
    ("Shape", [X], {"dtype": 9}, [c(2, 3, 4)]),
    ("ExpandDims", [X, n(-1)], AT, [X[..., None]]),
    ("Unsqueeze", [X], {"axes": [0, 2]}, [X[None, :, None]]),
    ("Squeeze", [X[:1, :, :1]], {}, [X[0, :, 0]]),
    ("Squeeze", [X[:1, :, :1]], {"axis": [-1]}, [X[:1, :, 0]]),
    ("ConcatV2", [X, X[:, :1], n(1)], {"constants": (2,), "N": 2}, [np.concatenate([X, X[:, :1]], 1)]),
    ("Concat", [n(1), X, X[:, :1]], {"constants": (0,), "N": 2}, [np.concatenate([X, X[:, :1]], 1)]),
    ("ConcatD", [X, X, X], {"concat_dim": -1, "N": 3}, [np.concatenate([X, X, X], -1)]),
    ("SplitV", [X, c(1, -1), n(2)], {"constants": (1, 2), "results": 2, "num_split": 2}, np.split(X, [1], 2)),
    ("SplitD", [X], {"split_dim": 1, "num_split": 3, "results": 3}, np.split(X, 3, 1)),
    ("Split", [n(2), X], {"constants": (0,), "num_split": 2, "results": 2}, np.split(X, 2, 2)),
    ("Slice", [X, c(0, 1, 2), c(-1, 2, 1)], {"constants": (1, 2)}, [X[:, 1:3, 2:3]]),
    ("Slice", [X, c(0, 1, 2), c(-1, 2, 1)], {}, [X[:, 1:3, 2:3]]),
    ("SliceD", [X], {"offsets": [0, 1, 2], "size": [-1, 2, 1]}, [X[:, 1:3, 2:3]]),
    # parts without rows
    ("SplitV", [X, c(0, 2), n(0)], {"constants": (1, 2), "results": 2}, [X[:0], X]),
    ("SplitV", [X, c(0, -1, 1), n(0)], {"constants": (1, 2), "results": 3}, [X[:0], X[:1], X[1:]]),
    ("SplitV", [X, c(1, 2, 0), n(1)], {"constants": (2,), "num_split": 3, "results": 3}, np.split(X, [1, 3], 1)),
    ("SplitVD", [X], {"size_splits": [0, 4], "split_dim": -1, "results": 2}, [X[..., :0], X]),
    ("SplitD", [X[:0]], {"split_dim": 0, "num_split": 2, "results": 2}, [X[:0], X[:0]]),
    ("Slice", [X, c(1, 1, 2), c(0, 2, 1)], {"constants": (1, 2)}, [X[1:1, 1:3, 2:3]]),
    ("Reshape", [X[:0], c(3, 0)], AT, [np.zeros((3, 0), F32)]),
    ("Reshape", [X[:0], c(0, -1)], AT, [np.zeros((0, 12), F32)]),
    ("Reshape", [X[:0], c(3, 0)], {}, [np.zeros((3, 0), F32)]),
    ("Tile", [X, c(2, 1, 3)], AT, [np.tile(X, (2, 1, 3))]),
    ("Tile", [X, c(2, 1, 3)], {}, [np.tile(X, (2, 1, 3))]),
    ("TileD", [X], {"multiples": [2, 1, 0]}, [np.tile(X, (2, 1, 0))]),
    ("Pack", [X, X], {"axis": 1, "N": 2}, [np.stack([X, X], 1)]),
    ("BroadcastTo", [Y, c(2, 3, 4)], AT, [np.broadcast_to(Y, (2, 3, 4))]),
    ("PadV3", [X, c(0, 1, 2, 0, 0, 0)], {**AT, "mode": "constant"}, [np.pad(X, ((0, 1), (2, 0), (0, 0)))]),
    ("PadV3", [Y, c(1, 1, 0, 0), np.array(7, F32)], AT, [np.pad(Y, ((1, 1), (0, 0)), constant_values=7)]),
    *(("PadV3", [X, c(0, 0, 0, 2, 1, 3)], {**AT, "mode": mode}, [np.pad(X, ((0, 0), (0, 2), (1, 3)), mode=mode)])
      for mode in ("reflect", "edge")),
    ("Pad", [X, c(0, 0, 0, 2, 1, 3)], AT, [np.pad(X, ((0, 0), (0, 2), (1, 3)))]),
    ("Pad", [X, c(0, 0, 0, 2, 1, 3)], {}, [np.pad(X, ((0, 0), (0, 2), (1, 3)))]),
    ("PadV2", [POSITIONS, c(1, 0, 0, 2), n(7)], AT, [np.pad(POSITIONS, ((1, 0), (0, 2)), constant_values=7)]),
    ("GatherV2", [X, POSITIONS, n(1)], {"constants": (2,)}, [X[:, POSITIONS]]),
    ("GatherV2", [X, POSITIONS, n(1)], {"constants": (2,), "batch_dims": 1},
     [np.stack([X[i, POSITIONS[i]] for i in (0, 1)])]),
    ("GatherElements", [X[:, :, 0], POSITIONS], {"dim": 1}, [np.take_along_axis(X[:, :, 0], POSITIONS, 1)]),
    ("ReduceSum", [X, c(0, -1)], AT, [X.sum((0, 2))]),
    ("ReduceSumD", [X], {"axes": [1], "keep_dims": True}, [X.sum(1, keepdims=True)]),
    ("ReduceMax", [X, n(1)], {**AT, "keep_dims": True}, [X.max(1, keepdims=True)]),
    ("ReduceMaxD", [X], {"axes": [1]}, [X.max(1)]),
    ("ReduceMin", [X, n(1)], AT, [X.min(1)]),
    ("ReduceMinD", [X], {"axes": [1]}, [X.min(1)]),
    ("ReduceMean", [X, c(1, 2)], AT, [X.mean((1, 2))]),
    ("ReduceMeanD", [X], {"axes": [1]}, [X.mean(1)]),
    ("ReduceProd", [X, n(1)], AT, [X.prod(1)]),
    ("ReduceProdD", [X], {"axes": [1]}, [X.prod(1)]),
    ("Range", [n(2), n(11), n(3)], {"constants": (0, 1, 2)}, [np.arange(2, 11, 3, dtype=I32)]),
    ("Range", [n(2), n(11), n(3)], {}, [np.arange(2, 11, 3, dtype=I32)]),
    ("Tril", [X], {"diagonal": 1}, [np.tril(X, 1)]),
    ("Triu", [X], {}, [np.triu(X)]),
    ("Where", [X > 0], {}, [np.argwhere(X > 0)]),
    ("Cumsum", [X, n(2)], {**AT, "exclusive": True}, [np.cumsum(X, 2) - X]),
    ("Cumsum", [X, n(1)], {**AT, "reverse": True}, [np.flip(np.cumsum(np.flip(X, 1), 1), 1)]),
    ("TopKV2", [X, n(2)], {**AT, "results": 2}, [-np.sort(-X)[..., :2], np.argsort(-X)[..., :2].astype(I32)]),
    ("TopKV2", [X, n(2)], {"results": 2}, [-np.sort(-X)[..., :2], np.argsort(-X)[..., :2].astype(I32)]),
    ("TopKV2", [X, n(1)], {**AT, "dim": 1, "largest": False, "results": 1}, [np.sort(X, 1)[:, :1]]),
    # Numbers out of range have no one.
    ("OneHot", [np.array([-1, 0, 2, 3], I32), n(3), n(1), n(0)], AT,
     [np.array([[0, 0, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]], I32)]),
    *((kind, [np.roll(np.array([[np.nan, 1, 2]], F32), k, 1), n(1)], AT, [np.array([np.nan], F32)])
      for kind in ("ReduceMax", "ReduceMin") for k in range(3)),
    ("OneHot", [POSITIONS, n(3), n(5), n(1)], AT, [np.where(np.eye(3)[POSITIONS] > 0, 5, 1).astype(I32)]),
    ("OneHot", [POSITIONS, n(3), np.array(0.5, F32), np.array(-0.5, F32)], {**AT, "axis": 0},
     [np.moveaxis(np.eye(3)[POSITIONS] - 0.5, -1, 0).astype(F32)]),
    ("LayerNormV3", [X, GAMMA, BETA], {"begin_norm_axis": -1, "results": 3},
     [normalized(X) * GAMMA + BETA, X.mean(-1, keepdims=True), 1 / np.sqrt(X.var(-1, keepdims=True) + 1e-5)]),
    ("RmsNorm", [X, GAMMA], {"results": 2}, [X * RSTD * GAMMA, RSTD]),
]  # fmt: skip


@pytest.mark.parametrize(("case", "said"), every_way(CASES))
def test_operator(tmp_path, case, said):
    check_case(tmp_path, case, said)


def test_every_operator_has_a_case():
    """Those that are frequent and those of fills have modules of their own."""
    texts = [path.read_text() for path in Path(__file__).parent.glob("test_*.py")]
    assert [name for name in HANDLERS if not any(f'"{name}"' in text for text in texts)] == []


@pytest.mark.parametrize("dtype", [F16, BFLOAT16])
def test_half_floats_are_rounded_once(tmp_path, dtype):
    x, y = random(RNG, dtype, (8, 64)), random(RNG, dtype, (64, 8))
    (z,) = evaluate(tmp_path, run, "MatMulV2", [x, y])
    assert z.dtype == dtype
    exact = x.astype(np.float64) @ y.astype(np.float64)
    np.testing.assert_allclose(z.astype(np.float64), exact, 1e-3 if dtype is F16 else 8e-3, 1e-3)
    (z,) = evaluate(tmp_path, run, "SoftmaxV2", [x], half_to_float=True)
    assert z.dtype == F32


@pytest.mark.parametrize(
    ("begin", "end", "strides", "masks", "index"),
    [
        ([0, 1], [2, 3], [1, 1], {}, np.s_[0:2, 1:3]),
        ([0, 0, 3], [2, 3, -5], [1, 2, -1], {}, np.s_[:, ::2, ::-1]),
        ([-1, 0, 0], [9, 9, 9], [1, 1, 3], {}, np.s_[-1:, :, ::3]),
        ([5, 5, 1], [0, 0, 3], [1, 1, 1], {"begin_mask": 3, "end_mask": 3}, np.s_[:, :, 1:3]),
        ([1, 0, 1], [2, 0, 3], [1, 1, 1], {"ellipsis_mask": 2}, np.s_[1:2, ..., 1:3]),
        ([0, 1], [0, 3], [1, 1], {"ellipsis_mask": 1}, np.s_[..., 1:3]),
        ([0, -1], [0, 0], [1, 1], {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}, np.s_[:, -1]),
        ([0, 0, 1], [0, 0, 2], [1, 1, 1], {"new_axis_mask": 1, "shrink_axis_mask": 2}, np.s_[None, 0, 1:2]),
        ([0, 0, 0], [0, 0, 0], [1, 1, 1], {"ellipsis_mask": 1, "new_axis_mask": 2, "shrink_axis_mask": 4},
         np.s_[..., None, 0]),
    ],
)  # fmt: skip
def test_strided_slice(tmp_path, begin, end, strides, masks, index):
    arrays = [X, c(*begin), c(*end), c(*strides)]
    (y,) = evaluate(tmp_path, run, "StridedSlice", arrays, constants=(1, 2, 3), **masks)
    np.testing.assert_array_equal(y, X[index])


@pytest.mark.parametrize(
    ("op_type", "inputs", "options"),
    [
        ("Transpose", [X, c(0, 0, 1)], AT),
        ("Transpose", [X, c(2, 1, 0)], {}),  # not a constant
        ("Reshape", [X, c(5, 5)], AT),
        ("Reshape", [X, c(4, 6)], {**AT, "axis": 1}),
        ("ExpandDims", [X, n(7)], AT),
        ("Squeeze", [X], {"axis": [0]}),
        ("SplitD", [X], {"split_dim": 0, "num_split": 3}),
        ("Slice", [X, c(0, 0, 3), c(1, 1, 9)], {"constants": (1, 2)}),
        ("StridedSlice", [X, c(0), c(1), c(0)], {"constants": (1, 2, 3)}),
        ("PadV3", [X, c(0, 0, 0, 0, 0, 0)], {**AT, "mode": "wrap"}),
        ("BroadcastTo", [X, c(3, 4)], AT),
        ("MatMulV2", [X[0], X[1]], {}),
        ("Add", [X, n(1)], {}),
        ("Range", [n(0), n(3), n(0)], {"constants": (0, 1, 2)}),
        ("Muls", [X], {"value": "text"}),
    ],
)
def test_what_is_refused(tmp_path, op_type, inputs, options):
    with pytest.raises(ConversionError, match="1 node cannot be converted"):
        evaluate(tmp_path, run, op_type, inputs, **options)


@pytest.mark.parametrize(
    ("op_type", "inputs", "options"),
    [
        ("Transpose", [X, np.array([np.nan, 0, 1])], AT),
        ("ReduceSum", [X, np.array([np.inf], F32)], AT),
        ("BroadcastTo", [X, np.array([1.5], F32)], AT),
        ("Squeeze", [X], {"axis": 0.5}),
        ("GatherElements", [X, POSITIONS], {"dim": float("nan")}),
        ("Range", [np.array(v, F32) for v in (0, np.inf, 1)], {"constants": (0, 1, 2)}),
        ("Range", [np.array(v, F32) for v in (0, 1, np.nan)], {"constants": (0, 1, 2)}),
        ("Range", [c(), n(1), n(1)], {"constants": (0, 1, 2)}),
    ],
)
def test_numbers_that_are_not_whole(tmp_path, op_type, inputs, options):
    with pytest.raises(ConversionError, match=r"integer type expected|whole numbers?|start, limit and delta are"):
        evaluate(tmp_path, run, op_type, inputs, **options)


@pytest.mark.parametrize(
    ("op_type", "inputs", "options", "message"),
    [
        ("Sqrt", [POSITIONS], {}, r"Sqrt does not take d0 int32\[2, 3\]"),
        ("LogicalAnd", [POSITIONS, POSITIONS], {}, "And does not take d0 int32"),
        ("MatMul", [POSITIONS, POSITIONS.T.astype(I64)], {}, r"MatMul takes d0 .* d1 .* only with one element type"),
        ("Tril", [GAMMA], {}, "is not a matrix"),
        ("Reshape", [X, n(24)], AT, "a list of dimensions expected"),
        ("BroadcastTo", [GAMMA, n(4)], AT, "a list of dimensions expected"),
        ("TopKV2", [X, n(5)], AT, "k 5 is not from 0"),
    ],
)
def test_types_that_onnx_does_not_take(tmp_path, op_type, inputs, options, message):
    """They are refused at conversion; an error when a session loads the model would be hard to trace back."""
    with pytest.raises(ConversionError, match=message):
        evaluate(tmp_path, run, op_type, inputs, **options)


@pytest.mark.parametrize("place", [3, -4, 7])
@pytest.mark.parametrize("axis", [1, 2])
def test_a_batched_gather_stays_in_its_batch(tmp_path, place, axis):
    """A number out of range is an error, also where the next batch has elements."""
    x = np.arange(18, dtype=F32).reshape(2, 3, 3)
    inputs = [x, np.array([[place], [0]], I32), n(axis)]
    with pytest.raises(Exception, match=r"indices|indice|index"):
        evaluate(tmp_path, run, "GatherV2", inputs, constants=(2,), batch_dims=1)


def test_products_of_half_floats_described_as_floats(tmp_path):
    """They are not rounded to half floats before."""
    inputs = [np.full((2, 4), 300, np.float16), np.full((4, 3), 300, np.float16)]
    (product,) = evaluate(tmp_path, run, "MatMulV2", inputs, result=(F32, (2, 3)))
    np.testing.assert_array_equal(product, np.full((2, 3), 360000, F32))


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("terms", [0, 1, 5, 1500])
@pytest.mark.parametrize("kind", ["MatMulV2", "BatchMatMulV3"])
def test_products_of_int8_are_int32(tmp_path, rows, terms, kind):
    """All of them exactly, also the largest, with a bias and with either side turned."""
    rng = np.random.default_rng(terms)
    front = (2,) if kind.startswith("Batch") else ()
    one, other = (
        rng.choice([-128, -127, 3, 127], (*front, *size)).astype(np.int8) for size in ((rows, terms), (terms, 4))
    )
    one[..., :1, :] = -128
    bias = np.array([1, -(2**31) + 2**26, 0, 2**26], I32)
    name = "adj_x" if front else "transpose_x"
    want = one.astype(I64) @ other.astype(I64) + bias
    turned = [np.swapaxes(each, -1, -2).copy() for each in (one, other)]
    for options, inputs in (({}, [one, other]), ({f"{name}1": True, f"{name}2": True}, turned)):
        for result in ({}, {"result": (I32, want.shape)}):
            (product,) = evaluate(tmp_path, run, kind, [*inputs, bias], **options, **result)
            assert product.dtype == I32
            np.testing.assert_array_equal(product, want)
