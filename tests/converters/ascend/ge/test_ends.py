"""GE's operators at the ends of types, of NaN and infinities, and of nothing, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.ascend_graphs import run
from support.ge_graphs import evaluate

F32, I32, I64 = np.float32, np.int32, np.int64
NAN, INF = np.nan, np.inf
#: Rows with a NaN in each position, infinities, and numbers whose sum, square or product leaves the type.
ROWS = np.array([[NAN, 1, 2], [1, NAN, 2], [1, 2, NAN], [INF, 1, 2], [-INF, -INF, -INF], [-INF, INF, 0],
                 [1e38, 3e38, -0.0], [1e-40, 0, 0]], F32)  # fmt: skip
NUMBERS = np.array([NAN, -INF, -20, -0.0, 0, 1e-8, 1e-4, 1, 88, INF], F32)
NOTHING = np.zeros((0, 3), F32)
AT = {"constants": (1,)}
ALONG = np.array([1])
INTEGERS = [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint32, np.uint64]
REDUCTIONS = {
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
    "ReduceProd": np.prod,
    "ReduceLogSum": lambda x, axis: np.log(x.sum(axis)),
    "ReduceLogSumExp": np.logaddexp.reduce,
    "EuclideanNorm": lambda x, axis: np.sqrt((x**2).sum(axis)),
}
FUNCTIONS = {
    "Atan": np.arctan, "Asinh": np.arcsinh, "Sinh": np.sinh, "Cosh": np.cosh, "Acos": np.arccos, "Asin": np.arcsin,
    "Atanh": np.arctanh, "Acosh": np.arccosh, "Inv": np.reciprocal, "Relu6": lambda x: np.clip(x, 0, 6),
}  # fmt: skip


def check(folder: Any, op_type: str, inputs: list[np.ndarray], *expected: np.ndarray, **options: Any) -> None:
    made = evaluate(folder, run, op_type, inputs, results=len(expected), **options)
    for result, wanted in zip(made, expected, strict=True):
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        if wanted.dtype.kind == "f":
            np.testing.assert_allclose(result, wanted, 1e-5, 1e-6)
        else:
            np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("op_type", REDUCTIONS)
def test_reductions_of_numbers_that_are_not_finite(tmp_path, op_type):
    with np.errstate(all="ignore"):
        check(tmp_path, op_type, [ROWS, ALONG], np.asarray(REDUCTIONS[op_type](ROWS, axis=1), F32), **AT)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("op_type", REDUCTIONS)
def test_reductions_over_no_axes(tmp_path, op_type, dtype, rank):
    """Each number is reduced alone: its norm is its size."""
    for x in np.array([-2.5, 3, -0.0, NAN, -INF], dtype)[:, *[None] * rank]:
        with np.errstate(all="ignore"):
            want = REDUCTIONS[op_type](x[..., None], axis=-1)
        check(tmp_path, op_type, [np.asarray(x), np.zeros(0, np.int64)], np.asarray(want, dtype), **AT)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, INF])
def test_norms_of_a_number(tmp_path, p):
    for x in np.array([-2.5, 0], F32):
        want = np.linalg.norm(x[None], p).astype(F32)
        check(tmp_path, "LpNormV2", [np.asarray(x)], want, p=p, epsilon=0.0)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd"])
def test_reductions_of_integers_wrap(tmp_path, op_type, dtype):
    ends = np.iinfo(dtype)
    x = np.array([[ends.max, 2, 3], [ends.min, ends.max, 7], [ends.max, ends.max, ends.max]], dtype)
    with np.errstate(all="ignore"):
        check(tmp_path, op_type, [x, ALONG], REDUCTIONS[op_type](x, axis=1).astype(dtype), **AT)


@pytest.mark.parametrize("op_type", FUNCTIONS)
def test_functions_of_numbers_that_are_not_finite(tmp_path, op_type):
    with np.errstate(all="ignore"):
        check(tmp_path, op_type, [NUMBERS], FUNCTIONS[op_type](NUMBERS))


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.__name__)
def test_integers_at_their_ends(tmp_path, dtype):
    ends = np.iinfo(dtype)
    a, b = np.array([ends.min, ends.max, 1, 5, 7], dtype), np.array([ends.max, ends.min, 3, ends.max, 2], dtype)
    divisors = np.array([3, 7, 1, 2, 2], dtype)
    for op_type, function in (("BitwiseAnd", np.bitwise_and), ("BitwiseOr", np.bitwise_or)):
        check(tmp_path, op_type, [a, b], function(a, b))
    check(tmp_path, "BitwiseXor", [a, b], a ^ b)
    check(tmp_path, "Invert", [a], ~a)
    check(tmp_path, "TruncateMod", [a, divisors], np.fmod(a, divisors))
    check(tmp_path, "DivNoNan", [a, np.array([0, 1, 0, 2, 7], dtype)], np.array([0, ends.max, 0, 2, 1], dtype))
    check(tmp_path, "Pow", [np.array([2, 3, 7], dtype), np.array([6, 4, 2], dtype)], np.array([64, 81, 49], dtype))
    with np.errstate(all="ignore"):
        more = a + np.array([2, 1, 0, 0, 0], dtype)
    check(tmp_path, "ScatterAdd", [a, np.array([0, 0, 1]), np.array([1, 1, 1], dtype)], more)
    kept = a > 0
    check(tmp_path, "MaskedSelect", [a, kept], a[kept])
    check(tmp_path, "DynamicPartition", [a, kept.astype(I32)], a[~kept], a[kept], num_partitions=2)
    check(tmp_path, "UniqueWithCounts", [np.append(a, a[0])], a, np.array([0, 1, 2, 3, 4, 0], I32),
          np.array([2, 1, 1, 1, 1], I32), out_idx=3)  # fmt: skip
    check(tmp_path, "SearchSorted", [np.sort(a), np.array([1, ends.max], dtype)], np.array([1, 4]))
    check(tmp_path, "TopKD", [a, np.arange(8, dtype=np.float16)], np.array([ends.max, 7], dtype),
          np.array([1, 4], I32), k=2)  # fmt: skip


def test_powers_of_integers_are_exact(tmp_path):
    rng = np.random.default_rng(3)
    bases, exponents = rng.integers(-40, 40, 500), rng.integers(0, 40, 500)
    check(tmp_path, "Pow", [bases, exponents], bases**exponents)


def test_nan_is_kept_or_named(tmp_path):
    row, two = np.array([[3, NAN, 1]], F32), np.array([[0], [1]])
    check(tmp_path, "Sort", [row], np.array([[1, 3, NAN]], F32), np.array([[2, 0, 1]], I32))
    check(tmp_path, "ArgMaxWithValue", [row], np.array([1], I32), np.array([NAN], F32), dimension=1)
    check(tmp_path, "ArgMinWithValue", [row], np.array([1], I32), np.array([NAN], F32), dimension=1)
    old, new = np.array([1, NAN], F32), np.array([NAN, 2], F32)
    check(tmp_path, "TensorScatterMin", [old, two, new], np.array([NAN, NAN], F32))
    zeros, others = np.array([0, 0, NAN, 2], F32), np.array([NAN, INF, 1, 0], F32)
    check(tmp_path, "Xlogy", [zeros, others], np.array([0, 0, NAN, -INF], F32))
    limited = np.where(NUMBERS <= 0, F32(7), NUMBERS)
    check(tmp_path, "ThresholdV2", [NUMBERS, np.array(0, F32), np.array(7, F32)], limited)


#: (operator, inputs, options, expected results)
OF_NOTHING = [
    ("ReduceAny", [NOTHING > 0, np.array([0])], {**AT, "keep_dims": False}, [np.zeros(3, bool)]),
    ("ReduceAll", [NOTHING > 0, np.array([0])], {**AT, "keep_dims": False}, [np.ones(3, bool)]),
    ("ReduceSum", [NOTHING, np.zeros(0, I32)], {**AT, "keep_dims": True}, [NOTHING]),
    ("ScatterAdd", [NOTHING.T, np.zeros(0, I32), np.zeros((0, 0), F32)], {}, [NOTHING.T]),
    ("DynamicStitch", [np.zeros(0, I32), np.zeros(0, I32), NOTHING, NOTHING], {}, [NOTHING]),
    ("MaskedSelect", [NOTHING, NOTHING > 0], {}, [NOTHING[:, 0]]),
    ("NonZero", [NOTHING], {}, [np.zeros((0, 2), I64)]),
    ("UniqueWithCounts", [NOTHING[:, 0]], {"out_idx": 9}, [NOTHING[:, 0], np.zeros(0, I64), np.zeros(0, I64)]),
    ("LayerNormV4", [NOTHING, np.array([3])], AT, [NOTHING]),
    ("GroupNormV2", [np.zeros((0, 4, 2), F32), np.ones(4, F32), np.ones(4, F32)], {"num_groups": 2},
     [np.zeros((0, 4, 2), F32)]),
    ("SearchSorted", [NOTHING[:, 0], NUMBERS], {}, [np.zeros(10, I64)]),
    ("Einsum", [NOTHING, np.ones((3, 2), F32)], {"equation": "ij,jk->ik"}, [np.zeros((0, 2), F32)]),
    ("LinSpace", [np.array(1, F32), np.array(2, F32), np.array(0, I32)], {}, [NOTHING[:, 0]]),
    ("SplitD", [NOTHING], {"split_dim": 0, "num_split": 2}, [NOTHING, NOTHING]),
    ("FlattenV2", [np.zeros((2, 0, 3), F32)], {}, [np.zeros((2, 0), F32)]),
    ("Unpack", [np.zeros((2, 0), F32)], {"num": 2}, [NOTHING[:, 0]] * 2),
    ("SoftmaxV2", [np.zeros((0, 3, 2), F32)], {"axes": [1, 2]}, [np.zeros((0, 3, 2), F32)]),
]  # fmt: skip


@pytest.mark.parametrize("said", ["all", "no rows"])
@pytest.mark.parametrize(("op_type", "inputs", "options", "expected"), OF_NOTHING, ids=[case[0] for case in OF_NOTHING])
def test_nothing(tmp_path, op_type, inputs, options, expected, said):
    check(tmp_path, op_type, inputs, *expected, said=said, **options)
