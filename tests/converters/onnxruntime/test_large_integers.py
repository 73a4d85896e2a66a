"""Integers beyond 32 bits, which some of ONNX Runtime's operators compare as if their lower halves were signed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from onnx_sparse import InferenceSession  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402

RANDOM = np.random.default_rng(0)


def numbers(dtype, shape):
    """Numbers of every size, and pairs whose upper halves are equal."""
    info = np.iinfo(dtype)
    for bits in (3, 31, 32, 33, 40, 52, 54, 62, 64):
        low, high = max(info.min, -(1 << bits)), min(info.max, 1 << bits)
        yield RANDOM.integers(low, high, shape, dtype, endpoint=True)


ELEMENTWISE = {
    "Maximum": tf.maximum,
    "Minimum": tf.minimum,
    "ClipByValue": lambda x, y: tf.clip_by_value(x, tf.minimum(y, 3 * 10**9), tf.maximum(y, 3 * 10**9)),
    "Sign": lambda x, y: tf.sign(x) + tf.sign(y),
    "larger than a constant": lambda x, y: tf.maximum(x, 5) - tf.minimum(y, 3 * 10**9),
    "hashes": lambda x, y: tf.maximum(tf.strings.to_hash_bucket_fast(tf.strings.as_string(x), 2**40), y),
    "gathered": lambda x, y: tf.maximum(tf.gather(x, [0, 0, 1]), tf.gather(y, [0, 1, 1])),
    "in a loop": lambda x, y: tf.while_loop(lambda k, _: k < 2, lambda k, z: (k + 1, tf.maximum(z, y)), (0, x))[1],
    "in a branch": lambda x, y: tf.cond(tf.size(x) > 3, lambda: tf.maximum(x, y), lambda: tf.minimum(x, y)),
}


def compare(body: Any, dtype: Any) -> None:
    """Compare a function of two vectors with TensorFlow on numbers of all sizes."""
    spec = tf.TensorSpec([None], dtype)
    function = tf.function(body, input_signature=[spec, spec], autograph=False)
    session = InferenceSession(convert(function))
    names = [given.name for given in session.get_inputs()]
    for x, y in zip(numbers(dtype.as_numpy_dtype, 64), numbers(dtype.as_numpy_dtype, 64), strict=True):
        (got,) = session.run(None, dict(zip(names, (x, y), strict=True)))
        assert got.tolist() == function(tf.constant(x), tf.constant(y)).numpy().tolist()


@pytest.mark.parametrize("body", ELEMENTWISE.values(), ids=ELEMENTWISE)
def test_elementwise(body):
    compare(body, tf.int64)


COMPUTED = {
    "products": lambda x, y: tf.maximum(tf.cast(x, tf.int64) * 1000003, tf.cast(y, tf.int64)),
    "sums": lambda x, y: tf.maximum(tf.cast(x, tf.int64) + tf.cast(y, tf.int64), tf.cast(y, tf.int64)),
    "sums of sums": lambda x, y: tf.reduce_max(tf.cumsum(tf.cast(x, tf.int64))) + tf.cast(y, tf.int64),
    "a sum": lambda x, y: tf.maximum(tf.reduce_sum(tf.cast(x, tf.int64)), tf.cast(y, tf.int64)),
    "sums by segment": lambda x, y: tf.maximum(
        tf.math.unsorted_segment_sum(tf.cast(x, tf.int64), tf.range(64) // 4, 16), tf.cast(y[:16], tf.int64)
    ),
    "products of sums": lambda x, y: tf.minimum(tf.reduce_sum(tf.cast(x, tf.int64)) * 5, tf.cast(y, tf.int64) * 3),
}


@pytest.mark.parametrize("body", COMPUTED.values(), ids=COMPUTED)
def test_what_is_computed_of_int32(body):
    compare(body, tf.int32)


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["int64", "uint64", "uint32", "int16"])
@pytest.mark.parametrize("op_type", ["Max", "Min", "Sum", "Mean"])
@pytest.mark.parametrize("axes", [[0], [0, 1], [-1], []], ids=str)
def test_reductions(op_type, dtype, axes):
    @tf.function(input_signature=[tf.TensorSpec([None, None], getattr(tf, dtype), "x")])
    def reduced(x):
        operation = getattr(tf.raw_ops, op_type)
        return [operation(input=x, axis=tf.constant(axes, tf.int32), keep_dims=keep) for keep in (False, True)]

    session = InferenceSession(convert(reduced))
    for shape in ((3, 5), (40, 30), (1, 1), (0, 3), (3, 0)):
        if op_type == "Mean" and 0 in shape:
            continue  # TensorFlow divides by zero
        for x in numbers(dtype, shape):
            if op_type in ("Sum", "Mean") and dtype == "int16":
                x = x // 4096
            for got, want in zip(session.run(None, {"x": x}), reduced(tf.constant(x)), strict=True):
                assert got.dtype == want.numpy().dtype
                assert got.shape == want.shape
                assert got.tolist() == want.numpy().tolist()


def test_sizes_stay_as_they_are():
    """They are small: their maximum needs no care."""

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int64), tf.TensorSpec([None, None], tf.float32)])
    def longest(ragged, x):
        shape = tf.cast(tf.shape(x), tf.int64)  # of int32 first
        count = tf.reduce_sum(tf.cast(x > 0, tf.int64))
        return tf.reduce_max(ragged.row_lengths()), tf.maximum(shape * 2, 1), tf.reduce_sum(shape), count

    assert not [node for node in convert(longest).graph.node if node.op_type == "BitwiseAnd"]
