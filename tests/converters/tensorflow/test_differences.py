"""Differences from TensorFlow that are tolerated, explained, or failures."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from onnx_sparse.converters.tensorflow import convert, load, verify  # noqa: E402
from onnx_sparse.converters.verification.comparison import compare  # noqa: E402
from onnx_sparse.converters.verification.intended_differences import IntendedDifferences  # noqa: E402


class TestIntendedDifferences:
    """Differences between the semantics and TensorFlow are noted, and are not failures."""

    def test_nan_in_a_maximum(self):
        specs = [tf.TensorSpec([None, 1]), tf.TensorSpec([None], tf.int32)]

        @tf.function(input_signature=specs)
        def highest(data, ids):
            return tf.math.segment_max(data, ids)

        feeds = {"data": floats(np.nan, 1, 2)[:, None], "ids": np.array([0, 0, 1], np.int32)}
        (record,) = verify(highest, convert(highest), feeds=feeds)
        assert record.ok
        assert record.note.startswith("by design: NaN propagates")

    @pytest.mark.parametrize("padding", ["valid", "same"])
    @pytest.mark.parametrize("axes", [1, 2, 3])
    def test_a_convolution_of_no_rows(self, axes, padding):
        """With oneDNN, TensorFlow's result has the shape of the input there: whole models were refused for it."""
        convolution = {1: tf.nn.conv1d, 2: tf.nn.conv2d, 3: tf.nn.conv3d}[axes]

        @tf.function(input_signature=[tf.TensorSpec([None] * (axes + 1) + [4], tf.float32)])
        def convolved(x):
            strides = [1] * (axes + 2) if axes == 3 else 2
            return convolution(x, tf.ones([3] * axes + [4, 2]), strides, padding.upper())

        (record,) = verify(convolved, convert(convolved))
        assert record.ok, record.note

    @pytest.mark.parametrize("seed", range(6))
    def test_a_result_of_no_elements_against_its_own_shape(self, seed):
        """With oneDNN, what follows a convolution of an input that is cropped to nothing has another shape."""
        rng = np.random.default_rng(seed)
        axes, width, crop = int(rng.integers(1, 3)), int(rng.integers(2, 6)), int(rng.integers(3, 40))

        @tf.function(input_signature=[tf.TensorSpec([None] * (axes + 1) + [4], name="x")])
        def cropped(x):
            inner = x[:, crop:-crop] if rng.integers(2) else x[:, crop:]
            return {"y": tf.nn.convolution(inner, tf.ones([1] * axes + [4, width]))}

        loaded = load(cropped)
        assert loaded.outputs[0].shape[-1] == width
        model, run = convert(loaded), loaded.run

        def contradict(feeds):
            """What oneDNN gives, with or without it here."""
            (y,) = run(feeds)
            return [y if y.size else np.empty((*y.shape[:-1], width + 1), y.dtype)]

        loaded.run = contradict
        (record,) = verify(loaded, model)
        assert record.ok, record.note
        assert "the source's result without elements is [" in record.note
        assert record.batches >= 3

    @pytest.mark.parametrize("shape", [(2, 0, 5), (2, 0, 4, 1)])
    def test_a_result_of_no_elements_that_fits_its_own_shape(self, shape):
        """The model's is another one: nothing explains that."""
        differences = IntendedDifferences(declared={"y": (None, None, 5)})
        found = differences.explain("y", np.empty(shape, np.float32), np.empty((2, 0, 4), np.float32), {})
        assert not found.note

    def test_nan_that_no_operator_explains(self):
        doubled = tf.function(lambda x: x * 2.0, input_signature=[tf.TensorSpec([2], name="x")])
        halved = tf.function(lambda x: x * np.float32("nan"), input_signature=[tf.TensorSpec([2], name="x")])
        (record,) = verify(doubled, convert(halved), feeds={"x": floats(np.nan, 1)})
        assert not record.ok

    def test_segments_beyond_their_number(self):
        specs = [tf.TensorSpec([4, 2]), tf.TensorSpec([None], tf.int32)]

        @tf.function(input_signature=specs)
        def summed(table, ids):
            return tf.sparse.segment_sum(table, ids, ids, num_segments=2)

        feeds = {"table": np.ones((4, 2), np.float32), "ids": np.array([0, 3], np.int32)}
        (record,) = verify(summed, convert(summed), feeds=feeds)
        assert not record.ok  # nothing was compared
        assert "by design: the model drops entries of segments that do not exist" in record.note

    def test_a_lookup_that_drops_nothing(self):
        """TensorFlow refuses the entry of a row beyond the dense shape, and so does the model."""
        specs = [tf.TensorSpec([None, 2], tf.int64), tf.TensorSpec([None], tf.int64), tf.TensorSpec([2], tf.int64)]

        @tf.function(input_signature=specs)
        def looked_up(indices, ids, shape):
            return tf.nn.safe_embedding_lookup_sparse(tf.ones([4, 2]), tf.SparseTensor(indices, ids, shape))

        feeds = dict(zip(("indices", "ids", "shape"), map(np.array, ([[7, 0]], [1], [2, 2])), strict=True))
        (record,) = verify(looked_up, convert(looked_up), feeds=feeds)
        assert not record.ok
        assert "by design" not in record.note


def floats(*values, dtype=np.float32):
    return np.array(values, dtype)


@pytest.mark.parametrize(
    ("want", "got", "ok"),
    [
        (floats(1, np.nan, np.inf), floats(1, np.nan, np.inf), True),
        (floats(1), floats(1.000001), True),
        (floats(1), floats(1.001), False),
        (floats(1000, 0), floats(1000, 0.0001), True),
        (floats(np.inf), floats(-np.inf), False),
        (floats(np.nan), floats(1), False),
        (floats(1), floats(np.nan), False),
        (floats(1, dtype=np.float16), floats(1.002, dtype=np.float16), True),
        (floats(1, dtype=np.float16), floats(1.1, dtype=np.float16), False),
        (floats(), floats(), True),
        (np.array([1]), np.array([2]), False),
        (np.array([1]), np.array([1], np.int32), False),
        (np.array([1]), np.array([[1]]), False),
        (np.array(["a"], object), np.array(["a"], object), True),
        (np.array(["a"], object), np.array(["b"], object), False),
    ],
)
def test_what_counts_as_equal(want, got, ok):
    record = compare("y", want, got, "ordinary")
    assert record.ok == ok
    assert bool(record.note) != ok


@pytest.mark.parametrize(("dtype", "off", "ok"), [("float16", 1e-4, True), ("float32", 1e-4, False)])
def test_a_float32_that_comes_of_half_floats_is_as_exact_as_they_are(dtype, off, ok):
    scale = tf.constant([1.0, 0.5], dtype)
    spec = tf.TensorSpec([2], tf.float32, "x")
    function = tf.function(lambda x: tf.cast(tf.cast(x, dtype) * scale, tf.float32), input_signature=[spec])
    other = tf.function(lambda x: tf.cast(tf.cast(x, dtype) * scale, tf.float32) + off, input_signature=[spec])
    (record,) = verify(function, convert(other), feeds={"x": np.ones(2, np.float32)})
    assert record.ok == ok
