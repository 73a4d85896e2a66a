"""Counting, with sparse results or by rows of ragged tensors, gives TensorFlow's results."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from support.tensorflow_functions import by_name, function, values  # noqa: E402
from support.tensorflow_imports import answers  # noqa: E402

from onnx_sparse.converters.tensorflow import convert  # noqa: E402
from onnx_sparse.converters.tensorflow.graph_source import from_graph  # noqa: E402
from onnx_sparse.converters.tensorflow.reading.messages import GraphDef  # noqa: E402

COUNTED = (tf.int32, tf.int64, tf.float32, tf.float64)
LENGTHS = [(-1, -1), (0, 0), (9, -1), (-1, 3), (9, 3), (9, 12)]
SPLITS = np.array([0, 2, 2, 6, 6])
NUMBERS = np.array([7, 1, 3, 3, 0, 3])


@pytest.mark.parametrize("dtype", COUNTED, ids=by_name)
def test_ragged_bincount(agree, dtype):
    @function(([None], tf.int64), ([None], tf.int32), ([], tf.int32), ([None], dtype))
    def count(splits, numbers, size, weights):
        wide = {"splits": splits, "values": tf.cast(numbers, tf.int64), "size": tf.cast(size, tf.int64)}
        return (
            tf.raw_ops.RaggedBincount(splits=splits, values=numbers, size=size, weights=weights),
            tf.raw_ops.RaggedBincount(weights=weights, binary_output=True, **wide),
            tf.raw_ops.RaggedBincount(weights=tf.constant([], dtype), **wide),
        )

    numbers = NUMBERS.astype(np.int32)
    for size in (0, 4, 9):
        agree(count, SPLITS, numbers, np.int32(size), values(dtype, 6))
    agree(count, SPLITS, numbers, np.int32(4), values(dtype, 0))
    agree(count, np.array([0, 0, 0]), numbers[:0], np.int32(4), values(dtype, 0))


@pytest.mark.parametrize("dtype", COUNTED, ids=by_name)
def test_counts_of_a_vector(agree, dtype):
    @function(([None], tf.int32), ([None], dtype))
    def count(numbers, weights):
        given = {"values": numbers, "weights": weights}
        results = [tf.raw_ops.DenseCountSparseOutput(binary_output=True, **given)]
        for low, high in LENGTHS:
            attributes = {"minlength": low, "maxlength": high, "binary_output": False}
            results.append(tf.raw_ops.DenseCountSparseOutput(**attributes, **given))
        return tuple(part for result in results for part in result)

    numbers = NUMBERS.astype(np.int32)
    agree(count, numbers, values(dtype, 6) - 2)
    agree(count, numbers, values(dtype, 0))
    agree(count, numbers[:0], values(dtype, 0))


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_of_rows(agree, weighted):
    attributes = {"minlength": 9, "maxlength": 5, "binary_output": False}
    width = None if weighted else 0

    @function(([None, None], tf.int64), ([None, width], tf.float32), ([None], tf.int64), ([None, 2], tf.int64))
    def count(numbers, weights, splits, indices):
        flat, by = tf.reshape(numbers, [-1]), tf.reshape(weights, [-1])
        shape = tf.stack([tf.size(splits, tf.int64), 9])
        given = {"values": flat, "weights": by, **attributes}
        return (
            *tf.raw_ops.DenseCountSparseOutput(values=numbers, weights=weights, **attributes),
            *tf.raw_ops.RaggedCountSparseOutput(splits=splits, **given),
            *tf.raw_ops.SparseCountSparseOutput(indices=indices, dense_shape=shape, **given),
            *tf.raw_ops.SparseCountSparseOutput(indices=indices[:, 1:], dense_shape=shape[1:], **given),
        )

    indices = np.array([[4, 0], [0, 1], [0, 0], [2, 2], [0, 5], [2, 1]])
    numbers = NUMBERS.reshape(2, 3)
    weights = np.float32([[1, 2, 3], [-3, 0, 5]]) if weighted else np.zeros((2, 0), np.float32)
    agree(count, numbers, weights, SPLITS, indices)
    nothing = np.zeros((2, 0), np.float32)
    agree(count, numbers[:, :0], nothing, SPLITS * 0, indices[:0])


def test_values_that_are_large(agree):
    """Their product with the number of rows is more than 64 bits."""

    @function(([None, 2], tf.int64))
    def count(numbers):
        return tuple(tf.raw_ops.DenseCountSparseOutput(values=numbers, weights=[], binary_output=False))

    large = 2**62
    agree(count, np.array([[large, 5], [large, large], [5, 0], [0, large + 1]]))


def test_buckets_of_features_of_old_keras():
    """TensorFlow has the operator's declaration, but no kernel since 2.15: a number is in the bucket of the first
    boundary that is not less, and in the last one if all are."""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None], "x")
        tf.raw_ops.BoostedTreesBucketize(float_values=[x], bucket_boundaries=[[-1.0, 0.5, 2.0]], name="buckets")
    graph_def = GraphDef.FromString(graph.as_graph_def().SerializeToString())
    model = convert(from_graph(graph_def, name="buckets", inputs=["x"], outputs=["buckets:0"]))
    numbers = np.array([-2, -1, -0.5, 0.5, 1, 2, 9, np.inf, -np.inf], np.float32)
    (found,) = answers(model, [numbers])
    assert found.dtype == np.int32
    assert found.tolist() == [0, 0, 1, 1, 2, 2, 2, 2, 0]
