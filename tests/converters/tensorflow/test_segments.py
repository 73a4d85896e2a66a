"""The Segment and UnsortedSegment operators; tf2onnx's conversions of them give NaN, ±inf and wrong sums."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from support.tensorflow_functions import NUMBERS, by_name  # noqa: E402

from onnx_sparse.schemas import DOMAIN  # noqa: E402

SORTED = {
    "Sum": tf.math.segment_sum,
    "Mean": tf.math.segment_mean,
    "Max": tf.math.segment_max,
    "Min": tf.math.segment_min,
    "Prod": tf.math.segment_prod,
}
UNSORTED = {
    "Sum": tf.math.unsorted_segment_sum,
    "Max": tf.math.unsorted_segment_max,
    "Min": tf.math.unsorted_segment_min,
    "Prod": tf.math.unsorted_segment_prod,
}


def data(dtype, *shape):
    """Small numbers, some negative if the type has negative numbers; every sum and product of them is exact."""
    values = np.random.default_rng(0).integers(1, 4, shape)
    if not dtype.is_unsigned:
        values = values * np.random.default_rng(1).choice([-1, 1], shape)
    return values.astype(dtype.as_numpy_dtype)


def domain_ops(model):
    return [node.op_type for node in model.graph.node if node.domain == DOMAIN]


@pytest.mark.parametrize("dtype", NUMBERS, ids=by_name)
@pytest.mark.parametrize("reduction", SORTED)
def test_sorted(agree, reduction, dtype):
    """Segments 1 and 2 are empty: 0, or 1 for the product."""
    specs = [tf.TensorSpec([None, 3], dtype), tf.TensorSpec([None], tf.int32)]
    function = tf.function(lambda x, ids: SORTED[reduction](x, ids), input_signature=specs)
    model = agree(function, data(dtype, 4, 3), np.array([0, 0, 3, 3], np.int32))
    assert domain_ops(model) == [f"Segment{reduction}"]


@pytest.mark.parametrize("reduction", SORTED)
def test_sorted_without_entries(agree, reduction):
    specs = [tf.TensorSpec([None, 2]), tf.TensorSpec([None], tf.int64)]
    function = tf.function(lambda x, ids: SORTED[reduction](x, ids), input_signature=specs)
    agree(function, np.zeros((0, 2), np.float32), np.zeros(0, np.int64))


@pytest.mark.parametrize("dtype", NUMBERS, ids=by_name)
@pytest.mark.parametrize("reduction", UNSORTED)
def test_unsorted(agree, reduction, dtype):
    """A negative id drops its slice; segment 1 is empty: 0, 1, or the lowest or highest value of the type."""
    specs = [tf.TensorSpec([None, 3], dtype), tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.int32)]
    function = tf.function(lambda x, ids, n: UNSORTED[reduction](x, ids, n), input_signature=specs)
    model = agree(function, data(dtype, 4, 3), np.array([2, 0, -1, 2]), np.int32(3))
    assert domain_ops(model) == [f"UnsortedSegment{reduction}"]


@pytest.mark.parametrize("ids", [tf.int16, tf.int32, tf.int64], ids=by_name)
def test_unsorted_ids_of_rank_two(agree, ids):
    specs = [tf.TensorSpec([2, 2, 3]), tf.TensorSpec([2, 2], ids), tf.TensorSpec([], tf.int64)]
    function = tf.function(lambda x, i, n: tf.math.unsorted_segment_sum(x, i, n), input_signature=specs)
    agree(function, data(tf.float32, 2, 2, 3), np.array([[1, 0], [1, -1]], ids.as_numpy_dtype), np.int64(3))


def test_composites_of_these(agree):
    specs = [tf.TensorSpec([None, 3]), tf.TensorSpec([None], tf.int32)]

    @tf.function(input_signature=specs)
    def composites(x, ids):
        return tf.math.unsorted_segment_mean(x, ids, 4), tf.math.unsorted_segment_sqrt_n(x, ids, 4)

    # One entry and four: the root of four is exact.
    agree(composites, data(tf.float32, 5, 3), np.array([3, 0, 3, 3, 3], np.int32))


def test_a_segment_of_a_hundred_thousand_entries(agree):
    """tf2onnx pads every segment to the longest one."""
    specs = [tf.TensorSpec([None, 2]), tf.TensorSpec([None], tf.int32)]
    function = tf.function(lambda x, ids: tf.math.segment_sum(x, ids), input_signature=specs)
    ids = np.concatenate([np.zeros(100_000), np.arange(1, 2000)]).astype(np.int32)
    agree(function, np.ones((len(ids), 2), np.float32), ids)


MEANS = {
    "any": [tf.TensorSpec([None, 4]), tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.int32)],
    "known sizes": [tf.TensorSpec([5, 4]), tf.TensorSpec([5], tf.int32), tf.TensorSpec([], tf.int64)],
    "double": [tf.TensorSpec([None, 4], tf.float64), tf.TensorSpec([None], tf.int32), tf.TensorSpec([], tf.int32)],
    "scalars": [tf.TensorSpec([None]), tf.TensorSpec([None], tf.int32), tf.TensorSpec([], tf.int32)],
    "images": [tf.TensorSpec([None, 2, 3]), tf.TensorSpec([None], tf.int32), tf.TensorSpec([], tf.int32)],
}


def feeds(specs, count):
    """Ids in any order, among them a negative one; segment 2 is empty."""
    shape = [count, *specs[0].shape[1:]]
    values = np.random.default_rng(0).standard_normal(shape).astype(specs[0].dtype.as_numpy_dtype)
    ids = np.array([3, -1, 0, 3, 1])[:count].astype(specs[1].dtype.as_numpy_dtype)
    return values, ids, np.array(4, specs[2].dtype.as_numpy_dtype)


@pytest.mark.parametrize("specs", MEANS.values(), ids=MEANS)
def test_the_mean_of_slices_is_one_node(agree, specs):
    function = tf.function(lambda x, ids, n: tf.math.unsorted_segment_mean(x, ids, n), input_signature=specs)
    assert domain_ops(agree(function, *feeds(specs, 5))) == ["UnsortedSegmentMean"]
    if specs[0].shape[0] is None:
        agree(function, *feeds(specs, 0))


@pytest.mark.parametrize(
    "compute",
    {
        "the root": tf.math.unsorted_segment_sqrt_n,
        "other ids": lambda x, ids, n: (
            tf.math.unsorted_segment_sum(x, ids, n)
            / tf.maximum(tf.math.unsorted_segment_sum(tf.ones_like(x), tf.maximum(ids, 0), n), 1)
        ),
        "at least 2": lambda x, ids, n: (
            tf.math.unsorted_segment_sum(x, ids, n)
            / tf.maximum(tf.math.unsorted_segment_sum(tf.ones_like(x), ids, n), 2)
        ),
        "twos": lambda x, ids, n: (
            tf.math.unsorted_segment_sum(x, ids, n)
            / tf.maximum(tf.math.unsorted_segment_sum(2 * tf.ones_like(x), ids, n), 1)
        ),
        "half floats": lambda x, ids, n: tf.cast(
            tf.math.unsorted_segment_mean(tf.cast(tf.round(x), tf.float16), ids, n), tf.float32
        ),
    }.values(),
    ids=["the root", "other ids", "at least 2", "twos", "half floats"],
)
def test_other_quotients_stay(agree, compute):
    specs = MEANS["scalars"]
    model = agree(tf.function(compute, input_signature=specs), *feeds(specs, 5))
    assert "UnsortedSegmentMean" not in domain_ops(model)
