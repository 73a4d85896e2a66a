"""Scattering and gathering at positions gives TensorFlow's results, also of positions out of range."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from support.tensorflow_functions import NUMBERS, VALUES, by_name, function, values  # noqa: E402

from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402

UPDATES = {"Update": VALUES} | dict.fromkeys(("Add", "Sub", "Max", "Min"), NUMBERS)
CASES = [(kind, dtype) for kind, types in UPDATES.items() for dtype in types]
#: Inside, below, above, twice the same place.
POSITIONS = np.array([[2], [0], [-1], [3], [0], [2**31 - 1]])


@pytest.mark.parametrize(("kind", "dtype"), CASES, ids=str)
def test_updates(agree, kind, dtype):
    @function(([None, 2], dtype), ([None, 1], tf.int32), ([None, 2], dtype))
    def update(tensor, indices, updates):
        operator = getattr(tf.raw_ops, f"TensorScatter{kind}")
        return (
            operator(tensor=tensor, indices=indices, updates=updates),
            operator(tensor=tensor, indices=indices, updates=updates, bad_indices_policy="IGNORE"),
        )

    given, places = values(dtype, 14), np.array([[2], [0], [2]], np.int32)
    agree(update, given[8:].reshape(3, 2), places, given[:6].reshape(3, 2))
    agree(update, given[8:].reshape(3, 2), places[:0], given[:0].reshape(0, 2))
    agree(update, given[:0].reshape(0, 2), places[:0], given[:0].reshape(0, 2))


@pytest.mark.parametrize("index", [tf.int32, tf.int64], ids=by_name)
@pytest.mark.parametrize("dtype", VALUES, ids=by_name)
def test_positions_that_are_ignored(agree, index, dtype):
    @function(([None, 2], dtype), ([None, 1], index), ([None, 2], dtype))
    def ignoring(tensor, indices, updates):
        updated = tf.raw_ops.TensorScatterUpdate(
            tensor=tensor, indices=indices, updates=updates, bad_indices_policy="IGNORE"
        )
        return updated, tf.raw_ops.GatherNd(params=tensor, indices=indices, bad_indices_policy="IGNORE")

    given = values(dtype, 18)
    tensor, updates = given[12:].reshape(3, 2), given[:12].reshape(6, 2)
    agree(ignoring, tensor, POSITIONS.astype(index.as_numpy_dtype), updates)
    agree(ignoring, tensor, POSITIONS[:0].astype(index.as_numpy_dtype), updates[:0])
    agree(ignoring, tensor[:0], POSITIONS[:0].astype(index.as_numpy_dtype), updates[:0])


@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (2, 0), (2, 3, 2), (2, 3, 0)], ids=str)
def test_positions_of_several_coordinates_that_are_ignored(agree, shape):
    rest = shape[2:]

    @function(([None] * len(shape), tf.float32), ([None, 2, 2], tf.int64), ([None, 2, *rest], tf.float32))
    def ignoring(tensor, indices, updates):
        given = {"indices": indices, "bad_indices_policy": "IGNORE"}
        return (
            tf.raw_ops.ScatterNd(updates=updates, shape=tf.shape(tensor, tf.int64), **given),
            tf.raw_ops.TensorScatterMax(tensor=tensor, updates=updates, **given),
            tf.raw_ops.GatherNd(params=tensor, **given),
        )

    places = np.array([[[1, 2], [0, 3]], [[0, 0], [-1, 0]], [[2, 0], [1, -1]], [[1, 1], [1, 2]]])
    size = int(np.prod(shape))
    tensor, updates = values(tf.float32, size).reshape(shape), values(tf.float32, 8 * int(np.prod(rest)))
    if size:  # otherwise TensorFlow raises
        agree(ignoring, tensor, places, updates.reshape(4, 2, *rest))
    agree(ignoring, tensor, places[:0], updates[:0].reshape(0, 2, *rest))


@pytest.mark.parametrize("policy", ["ERROR", "DEFAULT", ""])
def test_positions_out_of_range_are_errors_otherwise(agree, run, policy):
    @function(([None, 1], tf.int32), ([None], tf.float32))
    def strict(indices, updates):
        added = tf.raw_ops.ScatterNd(indices=indices, updates=updates, shape=[3], bad_indices_policy=policy)
        gathered = tf.raw_ops.GatherNd(params=added, indices=indices, bad_indices_policy=policy)
        return gathered, tf.raw_ops.TensorScatterSub(
            tensor=added, indices=indices, updates=updates, bad_indices_policy=policy
        )

    agree(strict, np.array([[2], [0]], np.int32), np.float32([1, 2]))
    with pytest.raises(Exception, match=r"out of bound|invalid index"):
        run(convert(strict), indices=np.array([[3], [0]], np.int32), updates=np.float32([1, 2]))


@pytest.mark.parametrize("name", ["ScatterNd", "GatherNd", "TensorScatterUpdate"])
def test_any_other_policy_is_refused(name):
    more = {
        "ScatterNd": lambda updates: {"updates": updates, "shape": [3]},
        "GatherNd": lambda updates: {"params": updates},
        "TensorScatterUpdate": lambda updates: {"updates": updates, "tensor": updates},
    }

    @function(([None, 1], tf.int32), ([None], tf.float32))
    def strange(indices, updates):
        return getattr(tf.raw_ops, name)(indices=indices, bad_indices_policy="WRAP", **more[name](updates))

    with pytest.raises(ConversionError, match="the attribute bad_indices_policy = 'WRAP' is not converted"):
        convert(strange)
