"""Sums, extremes, maxima and softmax of sparse tensors, also of empty ones, give TensorFlow's results."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402

FLOATS = (tf.float16, tf.bfloat16, tf.float32, tf.float64)
SIGNED = (tf.int8, tf.int16, tf.int32, tf.int64)

A = np.array([[0, 1], [0, 3], [2, 0], [3, 2]])
B = np.array([[0, 0], [0, 3], [3, 2]])
SHAPE = np.array([5, 4])
NONE = np.zeros((0, 2), np.int64)


def function(*specs):
    """Decorate a function of tensors `(shape, dtype)`."""
    return tf.function(input_signature=[tf.TensorSpec(shape, dtype) for shape, dtype in specs])


def triple(dtype):
    return ([None, 2], tf.int64), ([None], dtype), ([2], tf.int64)


def numbers(dtype, *values):
    return np.array(values, dtype.as_numpy_dtype)


@pytest.mark.parametrize("axis", [0, 1, -1, [0, 1], [], None], ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums_and_maxima(agree, axis, keepdims):
    @function(*triple(tf.float32))
    def largest(indices, values, shape):
        sparse = tf.SparseTensor(indices, values, shape)
        return [reduce(sparse, axis, keepdims) for reduce in (tf.sparse.reduce_max, tf.sparse.reduce_sum)]

    agree(largest, A, numbers(tf.float32, -1, -2, 3, -4), SHAPE)
    agree(largest, NONE, numbers(tf.float32), SHAPE)


@pytest.mark.parametrize("dtype", [*FLOATS, *SIGNED, tf.uint8, tf.uint16], ids=lambda t: t.name)
def test_maxima_of_every_type(agree, dtype):
    @function(*triple(dtype))
    def largest(indices, values, shape):
        return tf.sparse.reduce_max(tf.SparseTensor(indices, values, shape), axis=1)

    agree(largest, A, numbers(dtype, 1, 2, 3, 4), SHAPE)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: t.name)
def test_a_maximum_of_infinities_is_infinite(agree, dtype):
    """Not the lowest finite number, which a maximum by segment is."""

    @function(*triple(dtype))
    def largest(indices, values, shape):
        tensor = tf.SparseTensor(indices, values, shape)
        return [tf.sparse.reduce_max(tensor, axis) for axis in (0, 1, None)]

    agree(largest, A, numbers(dtype, -np.inf, -np.inf, -np.inf, np.inf), SHAPE)
    agree(largest, A, numbers(dtype, *[-np.inf] * 4), SHAPE)


@pytest.mark.parametrize("rank", [2, 3])
def test_softmax(rank):
    spec = tf.SparseTensorSpec([None] * rank, tf.float32)
    share = tf.function(lambda x: {"y": tf.sparse.softmax(x).values}, input_signature=[spec])
    (record,) = verify(share, convert(share))
    assert record.ok, record.note


@pytest.mark.parametrize("dtype", [*FLOATS, *SIGNED], ids=lambda t: t.name)
def test_sums_with_a_dense_tensor(agree, dtype):
    @function(*triple(dtype), ([None, 4], dtype))
    def add(indices, values, shape, dense):
        return tf.sparse.add(tf.SparseTensor(indices, values, shape), dense)

    dense = np.arange(20).reshape(5, 4).astype(dtype.as_numpy_dtype)
    agree(add, A, numbers(dtype, 1, 2, 3, 4), SHAPE, dense)
    agree(add, NONE, numbers(dtype), SHAPE, dense)


@pytest.mark.parametrize("threshold", [0, 2])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, *SIGNED], ids=lambda t: t.name)
def test_sums(agree, dtype, threshold):
    @function(*triple(dtype), *triple(dtype))
    def add(indices, values, shape, others, other_values, other_shape):
        both = (tf.SparseTensor(indices, values, shape), tf.SparseTensor(others, other_values, other_shape))
        made = tf.sparse.add(*both, threshold=tf.constant(threshold, dtype))
        return made.indices, made.values, made.dense_shape

    a, b = numbers(dtype, 1, -2, -3, 4), numbers(dtype, 1, 2, 3)
    agree(add, A, a, SHAPE, B, b, SHAPE)
    agree(add, NONE, a[:0], SHAPE, B, b, SHAPE)
    agree(add, NONE, a[:0], SHAPE, NONE, b[:0], SHAPE)
    # The smallest integer has no absolute value in its own type.
    ends = numbers(dtype, 1, dtype.min, -3, dtype.min)
    agree(add, A, ends, SHAPE, B, numbers(dtype, 1, 0, 0), SHAPE)


@pytest.mark.parametrize("reduce", [tf.sparse.maximum, tf.sparse.minimum], ids=["maximum", "minimum"])
@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, *SIGNED], ids=lambda t: t.name)
def test_extremes(agree, dtype, reduce):
    """An entry that is in only one of the tensors is compared with 0."""

    @function(*triple(dtype), *triple(dtype))
    def compare(indices, values, shape, others, other_values, other_shape):
        made = reduce(tf.SparseTensor(indices, values, shape), tf.SparseTensor(others, other_values, other_shape))
        return made.indices, made.values, made.dense_shape

    a, b = numbers(dtype, 1, -2, -3, 4), numbers(dtype, -1, 2, 3)
    agree(compare, A, a, SHAPE, B, b, SHAPE)
    agree(compare, NONE, a[:0], SHAPE, NONE, b[:0], SHAPE)
    if dtype.is_floating:
        for infinity in numbers(dtype, -np.inf, np.inf):
            agree(compare, A, np.full_like(a, infinity), SHAPE, B, np.full_like(b, infinity), SHAPE)
