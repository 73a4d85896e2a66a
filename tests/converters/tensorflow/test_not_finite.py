"""Infinities, NaN, zeros and the ends of float32 go through arithmetic, reductions and searches as in TensorFlow.

Orders are left out: what a maximum, a softmax, a sort or top_k of NaN is depends on the kernel, in TensorFlow as well.
"""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from onnx_sparse.converters.tensorflow import convert  # noqa: E402

NUMBERS = np.float32(
    [np.nan, np.inf, -np.inf, 0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3e38, -3e38, 1e-30, 100, -100, 88.8, -104, 7]
)

MATH = """abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp expm1 floor is_finite is_inf is_nan log log1p
log_sigmoid negative reciprocal reciprocal_no_nan rint round rsqrt sigmoid sign sin sinh softplus softsign sqrt square
tan tanh count_nonzero reduce_sum reduce_mean reduce_prod reduce_logsumexp cumsum cumprod zero_fraction l2_normalize"""
NN = "relu relu6 elu selu leaky_relu gelu silu l2_loss"

OF_ONE = {name: getattr(tf.math, name) for name in MATH.split()} | {name: getattr(tf.nn, name) for name in NN.split()}
OF_ONE |= {
    "as_string": tf.as_string,
    "bool": lambda x: tf.cast(x, tf.bool),
    "bfloat16": lambda x: tf.cast(tf.cast(x, tf.bfloat16), tf.float32),
    "boolean_mask": lambda x: tf.boolean_mask(x, tf.math.is_nan(x)),
    "Bucketize": lambda x: tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.0, 1.0]),
    "clip_by_value": lambda x: tf.clip_by_value(x, -1.0, 1.0),
    "double": lambda x: tf.cast(x, tf.float64),
    "einsum": lambda x: tf.einsum("ij,jk->ik", tf.reshape(x, [4, 5]), tf.zeros([5, 2])),
    "from_dense": lambda x: tf.sparse.from_dense(x).values,
    "half": lambda x: tf.cast(x, tf.float16),
    "matmul": lambda x: tf.matmul(tf.reshape(x, [4, 5]), tf.zeros([5, 3])),
    "nearest": lambda x: tf.searchsorted([-1.0, 0.0, 0.0, 1.0], x),
    "nearest, right": lambda x: tf.searchsorted([-1.0, 0.0, 0.0, 1.0], x, side="right"),
    "one_hot": lambda x: tf.one_hot([0, 1, 5], 3, on_value=x[0], off_value=x[1]),
    "segment_sum": lambda x: tf.math.segment_sum(x, [k // 3 for k in range(20)]),
    "unique": lambda x: tf.unique(x).idx,
    "where": tf.where,
}
OF_TWO = {
    "add": tf.add,
    "atan2": tf.atan2,
    "sub": tf.subtract,
    "mul": tf.multiply,
    "div": tf.divide,
    "divide_no_nan": tf.math.divide_no_nan,
    "multiply_no_nan": tf.math.multiply_no_nan,
    "equal": tf.equal,
    "not_equal": tf.not_equal,
    "floormod": tf.math.floormod,
    "greater": tf.greater,
    "greater_equal": tf.greater_equal,
    "less": tf.less,
    "less_equal": tf.less_equal,
    "maximum": tf.maximum,
    "minimum": tf.minimum,
    "pow": tf.pow,
    "squared_difference": tf.math.squared_difference,
    "xdivy": tf.math.xdivy,
    "xlogy": tf.math.xlogy,
}


@pytest.mark.parametrize("size", [None, 20], ids=["of unknown size", "of known size"])
def test_functions_of_one_number(run, size):
    @tf.function(input_signature=[tf.TensorSpec([size], tf.float32, "x")])
    def every(x):
        return {name: of(x) for name, of in OF_ONE.items()}

    assert_same(run(convert(every), x=NUMBERS), every(tf.constant(NUMBERS)))


@pytest.mark.parametrize("size", [None, 20], ids=["of unknown size", "of known size"])
def test_functions_of_two_numbers(run, size):
    @tf.function(
        input_signature=[tf.TensorSpec(shape, tf.float32, n) for n, shape in {"x": [size, 1], "y": [size]}.items()]
    )
    def every(x, y):
        return {name: of(x, y) for name, of in OF_TWO.items()}

    assert_same(run(convert(every), x=NUMBERS[:, None], y=NUMBERS), every(NUMBERS[:, None], NUMBERS))


def assert_same(got, wanted):
    for name, tensor in wanted.items():
        want = tensor.numpy()
        assert got[name].shape == want.shape, name
        if want.dtype == object:
            assert [text.encode() for text in got[name].reshape(-1)] == want.reshape(-1).tolist(), name
            continue
        assert got[name].dtype == want.dtype, name
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(
                got[name].astype(np.float64), want.astype(np.float64), rtol=1e-4, atol=1e-6, err_msg=name
            )
