"""Unique elements and operations on sets give TensorFlow's results."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from support.tensorflow_functions import VALUES, by_name, function, values  # noqa: E402

ORDER = np.array([3, 1, 3, 0, 1, 2])


@pytest.mark.parametrize("dtype", VALUES, ids=by_name)
def test_unique_elements(agree, dtype):
    @function(([None], dtype))
    def unique(x):
        axis = tf.constant([], tf.int32)
        return (
            *tf.raw_ops.Unique(x=x, out_idx=tf.int64),
            *tf.raw_ops.UniqueWithCounts(x=x),
            *tf.raw_ops.UniqueV2(x=x, axis=[-1]),
            *tf.raw_ops.UniqueWithCountsV2(x=x, axis=axis, out_idx=tf.int64),
        )

    agree(unique, values(dtype, 4)[ORDER])
    agree(unique, values(dtype, 0))


@pytest.mark.parametrize(("axis", "dtype"), [(0, tf.int32), (1, tf.string), (-1, tf.float32), (-3, tf.bool)])
def test_unique_slices(agree, dtype, axis):
    @function(([None] * 3, dtype))
    def unique(x):
        return tuple(tf.raw_ops.UniqueWithCountsV2(x=x, axis=[axis]))

    x = np.moveaxis(values(dtype, 24).reshape(4, 2, 3)[ORDER], 0, axis)
    agree(unique, x)
    for empty in range(3):
        agree(unique, np.take(x, [], empty))


@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64], ids=by_name)
def test_nan_differs_from_everything(agree, dtype):
    @function(([None], dtype), ([None, 2], dtype))
    def unique(x, rows):
        return *tf.raw_ops.UniqueWithCounts(x=x), *tf.raw_ops.UniqueV2(x=rows, axis=[0])

    nan, inf = np.nan, np.inf
    for x in ([1, 2, nan, 2, 1, 3], [nan, 1, 2, 1, nan, nan], [0.0, -0.0, 1, inf, inf, -inf]):
        x = np.array(x, dtype.as_numpy_dtype)
        agree(unique, x, np.stack([x, x[::-1]], 1))


@pytest.mark.parametrize(
    "dtype", [tf.int8, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.float16, tf.double], ids=by_name
)
def test_the_largest_elements(agree, dtype):
    """Neighbors among the largest integers, which float32 does not tell apart; ties are in order of position."""

    @function(([None, None], dtype), ([], tf.int32))
    def largest(x, k):
        return *tf.math.top_k(x, k), *tf.math.top_k(x, 2), *tf.math.top_k(x, k, index_type=tf.int64)

    x = dtype.max - np.array([[3, 1, 2, 1, 0], [7, 7, 0, 5, 6]], dtype.as_numpy_dtype)
    agree(largest, x, np.int32(3))
    agree(largest, x, np.int32(0))
    agree(largest, x[:0], np.int32(5))


def test_targets_among_the_largest(agree):
    """Ties count for the target; a row that is not finite, or a target that is no class, is never among them."""

    @function(([None, None], tf.float32), ([None], tf.int32), ([], tf.int32))
    def among(predictions, targets, k):
        given = {"predictions": predictions, "targets": targets}
        wide = {"predictions": predictions, "targets": tf.cast(targets, tf.int64)}
        return (
            tf.raw_ops.InTopKV2(k=k, **given),
            tf.raw_ops.InTopKV2(k=2, **wide),
            tf.raw_ops.InTopK(k=1, **given),
        )

    plain, inf = [1, 2, 3], np.inf
    predictions = np.float32([plain, [inf, 2, 3], [3, 3, 3], [1, 2, -inf], plain, plain, [1, np.nan, 0]])
    targets = np.int32([2, 1, 0, 1, 5, -1, 0])
    for k in (-1, 0, 1, 2, 3):
        agree(among, predictions, targets, np.int32(k))
    agree(among, predictions[:0], targets[:0], np.int32(1))
    agree(among, predictions[:, :0], targets, np.int32(1))


OPERATIONS = ("a-b", "b-a", "intersection", "union")
IN_SETS = (tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.string)


@pytest.mark.parametrize("dtype", IN_SETS, ids=by_name)
def test_operations_on_dense_sets(agree, dtype):
    @function(([None, None], dtype), ([None, None], dtype))
    def operations(first, second):
        return tuple(
            part
            for operation in OPERATIONS
            for part in tf.raw_ops.DenseToDenseSetOperation(set1=first, set2=second, set_operation=operation)
        )

    given = values(dtype, 8)
    first, second = given[[[3, 1, 3], [0, 2, 2], [5, 5, 5]]], given[[[1, 7, 3, 3], [4, 4, 0, 6], [5, 5, 5, 5]]]
    agree(operations, first, second)
    agree(operations, first[:, :0], second)
    agree(operations, first, second[:, :0])
    agree(operations, first[:0], second[:0])


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_operations_on_sparse_sets(agree, rank):
    sparse = (([None, rank], tf.int64), ([None], tf.int64), ([rank], tf.int64))

    @function(*sparse, *sparse, ([None] * rank, tf.int64))
    def operations(indices, vals, shape, others, second, sizes, dense):
        given = {"set2_indices": others, "set2_values": second, "set2_shape": sizes}
        results = []
        for operation in OPERATIONS:
            results += tf.raw_ops.SparseToSparseSetOperation(
                set1_indices=indices, set1_values=vals, set1_shape=shape, set_operation=operation, **given
            )
            results += tf.raw_ops.DenseToSparseSetOperation(set1=dense, set_operation=operation, **given)
        return *results, tf.raw_ops.SetSize(set_indices=indices, set_values=vals, set_shape=shape)

    rng = np.random.default_rng(rank)
    shape = np.array([2, 2, 3, 4][-rank:])
    first, second = (np.argwhere(rng.random(shape) < 0.6) for _ in range(2))
    vals, others = (rng.integers(0, 4, len(where)) for where in (first, second))
    longer, dense = shape + np.eye(rank, dtype=np.int64)[-1], rng.integers(0, 4, shape)
    agree(operations, first, vals, shape, second, others, longer, dense)
    agree(operations, first[:0], vals[:0], shape, second, others, longer, dense)
    none = np.array([0, *shape[1:]])
    agree(operations, first[:0], vals[:0], none, second[:0], others[:0], none, dense[:0])
