"""Shapes that are not known, in the middle and at the end of a graph, and sizes that TensorFlow infers."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import onnx
import pytest

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402
from support.tensorflow_functions import function, values  # noqa: E402

from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402
from onnx_sparse.converters.tensorflow import passes as tensorflow_passes  # noqa: E402


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


class TestOutputsOfUnknownRank:
    def test_squeezed(self, agree):
        @function(([None, None, 3], tf.float32))
        def squeezed(x):
            return tf.squeeze(x)

        for shape in [(2, 1, 3), (1, 1, 3), (0, 1, 3)]:
            assert not agree(squeezed, numbers(*shape)).graph.output[0].type.tensor_type.HasField("shape")

    def test_of_a_shape_that_is_fed(self, agree):
        @function(([None, 3], tf.float32), ([None], tf.int32))
        def reshaped(x, shape):
            return tf.reshape(x, shape)

        for rows, shape in [(2, [3, -1]), (2, [6]), (0, [0, -1]), (0, [4, 0, 2])]:
            agree(reshaped, numbers(rows, 3), np.array(shape, np.int32))

    def test_reduced_along_axes_that_are_fed(self, agree):
        @function(([None, None, 2], tf.float32), ([None], tf.int32))
        def reduced(x, axes):
            return tf.reduce_sum(x, axes), tf.reduce_max(x, axes)

        for rows, columns in itertools.product((0, 1, 3), repeat=2):
            for axes in ([-1], [0], [-2, 0], []):
                agree(reduced, numbers(rows, columns, 2), np.array(axes, np.int32))

    def test_verification(self):
        spec = tf.TensorSpec([None, 1, 3], name="x")
        squeezed = tf.function(lambda x: tf.squeeze(x), input_signature=[spec])
        assert all(record.ok for record in verify(squeezed, convert(squeezed)))


class TestInputsOfUnknownRank:
    """Their rank is the only one that the operators behind them take."""

    def test_parts_of_sparse_tensors(self, agree):
        @function((None, tf.int64), (None, tf.float32), (None, tf.int64), ([3, 2], tf.float32))
        def sums(indices, vals, shape, matrix):
            sparse = {"a_indices": tf.identity(indices), "a_values": -vals, "a_shape": shape}
            return tf.raw_ops.SparseTensorDenseMatMul(b=matrix, **sparse)

        for indices in ([[0, 1], [1, 2]], []):
            given = np.reshape(np.array(indices, np.int64), (-1, 2))
            agree(sums, given, numbers(len(given)) + 1, np.array([2, 3]), numbers(3, 2))

    def test_segments(self, agree):
        @function(([None, 2], tf.float32), (None, tf.int32), (None, tf.int32))
        def sums(table, ids, segments):
            return tf.raw_ops.SparseSegmentSum(data=table, indices=ids, segment_ids=segments)

        for ids in ([0, 2, 1], []):
            agree(sums, numbers(3, 2), np.array(ids, np.int32), np.zeros(len(ids), np.int32))

    def test_in_a_function_that_is_called(self, agree):
        multiply = tf.function(lambda x, y: tf.raw_ops.MatMul(a=x, b=y))

        @function((None, tf.float32), ([3, 2], tf.float32))
        def product(x, y):
            return multiply(tf.nn.relu(x), y)

        for rows in (2, 0):
            agree(product, numbers(rows, 3), numbers(3, 2))


def legal_slices(count):
    """Masks and bounds of StridedSlice that TensorFlow takes for a tensor of 4 x 5 x 6."""
    source, x = np.random.default_rng(0), tf.zeros((4, 5, 6))
    found = []
    while len(found) < count:
        bounds = int(source.integers(1, 5))
        masks = {
            f"{name}_mask": int(source.integers(0, 1 << bounds) if source.random() < 0.5 else 0)
            for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
        }
        masks["end_mask"] |= -(2**31) if source.random() < 0.2 else 0  # a bit that stands for no bound
        masks["new_axis_mask"] |= 1 << 30 if source.random() < 0.2 else 0
        begin, end = source.integers(-3, 4, bounds), source.integers(-5, 6, bounds)
        end[source.random(bounds) < 0.1] = 2**31 - 1
        strides = source.choice([1, 1, 1, 2, -1, -2], bounds)
        given = [np.int32(array) for array in (begin, end, strides)]
        try:
            tf.raw_ops.StridedSlice(input=x, begin=given[0], end=given[1], strides=given[2], **masks)
        except (ValueError, tf.errors.InvalidArgumentError):
            continue
        found.append((given, masks))
    return found


@pytest.mark.parametrize("fed", [False, True], ids=["constant bounds", "fed bounds"])
def test_strided_slices_ignore_what_their_masks_say(agree, fed):
    slices = legal_slices(60)

    @function(([4, 5, 6], tf.float32), ([], tf.int32))
    def sliced(x, zero):
        offset = zero if fed else 0
        return [
            tf.raw_ops.StridedSlice(input=x, begin=begin + offset, end=end + offset, strides=strides, **masks)
            for (begin, end, strides), masks in slices
        ]

    agree(sliced, numbers(4, 5, 6), np.array(0, np.int32))


def test_a_model_that_does_not_load_is_refused(monkeypatch):
    """Shape inference refuses what ONNX Runtime would, whatever let it through before."""

    @function(([None, 3], tf.float32))
    def expanded(x):
        return tf.expand_dims(x, 1) * 2.0

    def misplace(draft):
        for initializer in draft.model.graph.initializer:
            if initializer.data_type == onnx.TensorProto.INT64:
                initializer.CopyFrom(onnx.numpy_helper.from_array(np.array([31]), initializer.name))

    passes = [replace(step, apply=misplace) if step.name == "guard" else step for step in tensorflow_passes.passes()]
    monkeypatch.setattr("onnx_sparse.converters.tensorflow.passes.passes", lambda **_: passes)
    with pytest.raises(ConversionError, match=r"the converted model is not valid: .*Unexpected axis value: 31"):
        convert(expanded)


@pytest.mark.parametrize("mask", [0, None])
def test_lookups_with_a_mask_token(mask):
    ids = keras.Input((None,), dtype="int64", name="ids")
    model = keras.Model(ids, keras.layers.IntegerLookup(vocabulary=[1, 3, 5], mask_token=mask)(ids))
    given = np.array([[0, 1, 5], [3, 9, 0]])
    (record,) = verify(model, convert(model), feeds={"ids": given})
    assert record.ok, record.note


@pytest.mark.parametrize("mask", ["", None])
def test_words_with_a_mask_token(mask):
    words = keras.Input((None,), dtype="string", name="words")
    model = keras.Model(words, keras.layers.StringLookup(vocabulary=["a", "b"], mask_token=mask)(words))
    (record,) = verify(model, convert(model), feeds={"words": np.array([["a", "", "c"], ["b", "a", ""]], object)})
    assert record.ok, record.note


@pytest.mark.parametrize("known", [True, False], ids=["sizes known", "sizes unknown"])
def test_sizes_that_tensorflow_infers(agree, known):
    @function(([None, 3 if known else None, 4], tf.float32))
    def reshaped(x):
        sizes = tf.shape(x)
        return (
            tf.reshape(x, [sizes[0], -1]),
            tf.reshape(x, [sizes[0], sizes[1], -1, 2]),
            tf.reshape(x, [-1, 2]),
            tf.reshape(x, [sizes[0], -1, 2, 1]),
        )

    for rows, columns in itertools.product((0, 1, 2), (3,) if known else (0, 1, 3)):
        if rows or columns:
            agree(reshaped, numbers(rows, columns, 4))


def test_a_size_that_tensorflow_infers_beside_a_0(agree):
    @function(([2, 0, 3], tf.float32))
    def reshaped(x):
        return tf.reshape(x, [-1, 0]), tf.reshape(x, [0, 2, -1])

    agree(reshaped, numbers(2, 0, 3))

    unknown = tf.function(lambda x: tf.reshape(x, [-1, 0]), input_signature=[tf.TensorSpec([None, 0])])
    with pytest.raises(ConversionError, match="must be known"):
        convert(unknown)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64], ids=lambda dtype: dtype.name)
def test_inverted_permutations(agree, dtype):
    @function(([None], dtype))
    def inverted(x):
        return tf.math.invert_permutation(x)

    for numbers_of in ([2, 0, 1], []):
        agree(inverted, np.array(numbers_of, dtype.as_numpy_dtype))


def test_a_range_in_the_body_of_a_loop(agree):
    @function(([None, 3], tf.float32))
    def counted(x):
        return tf.map_fn(lambda row: row + tf.reduce_sum(tf.range(row[0])), x)

    for rows in (3, 0):
        agree(counted, numbers(rows, 3))


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (3, 0), (1, 1)], ids=str)
def test_slices_of_every_place_and_size(agree, shape, dtype):
    """Of those that TensorFlow takes; -1 stands for what is left from any place on."""

    @function(([None, None], tf.string), ([2], dtype), ([2], dtype))
    def slices(words, begin, size):
        return (
            tf.slice(words, begin, size),
            tf.slice(words, begin, [-1, -1]),
            tf.slice(words, [0, begin[1]], [-1, size[1]]),
            tf.slice(words, tf.zeros_like(begin), size),
        )

    words = values(tf.string, shape[0] * shape[1]).reshape(shape)
    for row, column in np.ndindex(shape[0] + 1, shape[1] + 1):
        for rows in (-1, shape[0] - row):
            for columns in range(-1, shape[1] + 1 - column):
                agree(
                    slices, words, *(np.array(pair, dtype.as_numpy_dtype) for pair in ((row, column), (rows, columns)))
                )


@pytest.mark.parametrize("shift", [0, 1, -2, 5])
@pytest.mark.parametrize("axis", [0, -1, [0, 1]])
def test_rolled(agree, axis, shift):
    @function(([None, None], tf.float32))
    def rolled(x):
        return tf.roll(x, [shift] * len(axis) if isinstance(axis, list) else shift, axis)

    for shape in itertools.product((0, 1, 3), repeat=2):
        agree(rolled, numbers(*shape))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(
    "reduction",
    ["sum", "mean", "max", "min", "prod", "any", "all", "logsumexp", "variance", "std", "euclidean_norm"],
)
def test_reductions_of_nothing(agree, reduction, keep):
    """All that TensorFlow has, along every axis, of tensors of every combination of small sizes."""
    reduce = getattr(tf, f"reduce_{reduction}", None) or getattr(tf.math, f"reduce_{reduction}")

    @function(([None, None, 2], tf.bool if reduction in ("any", "all") else tf.float32))
    def reduced(x):
        return [reduce(x, axis, keepdims=keep) for axis in (0, -1, -2, [0, 1], [-3, 2], None, [])]

    for shape in itertools.product((0, 1), repeat=2):
        x = np.zeros((*shape, 2), reduced.input_signature[0].dtype.as_numpy_dtype)
        agree(reduced, x)


@pytest.mark.parametrize("reduction", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize("dtype", [tf.int8, tf.int32, tf.int64, tf.uint8, tf.float16, tf.float64], ids=lambda t: t.name)
def test_reductions_of_nothing_of_every_type(agree, reduction, dtype):
    @function(([None, 2], dtype))
    def reduced(x):
        return getattr(tf, f"reduce_{reduction}")(x, -2)

    for rows in (0, 1, 3):
        agree(reduced, numbers(rows, 2).astype(dtype.as_numpy_dtype))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("reverse", [True, False])
def test_cumulative_products(agree, axis, exclusive, reverse):
    @function(([None, None, 2], tf.float32))
    def products(x):
        return tf.math.cumprod(x, axis, exclusive, reverse)

    for shape in itertools.product((0, 1, 3), repeat=2):
        agree(products, numbers(*shape, 2) % 4 + 1)


@pytest.mark.parametrize("kind", [tf.float32, tf.int64, tf.string], ids=lambda t: t.name)
def test_masked_rows_of_any_size(agree, kind):
    """Along the first axis, along another, and of elements; rows may have no width."""

    @function(([None, None, None], kind), ([None], tf.bool), ([None], tf.bool), ([None, None], tf.bool))
    def masked(x, first, second, both):
        return tf.boolean_mask(x, first), tf.boolean_mask(x, second, axis=1), tf.boolean_mask(x, both)

    for shape in itertools.product((0, 1, 3), repeat=3):
        first, second = np.arange(shape[0]) % 2 == 0, np.arange(shape[1]) % 2 == 1
        agree(masked, values(kind, int(np.prod(shape))).reshape(shape), first, second, first[:, None] ^ second)


def test_broadcast_shapes(agree):
    @function(([None], tf.int32), ([None], tf.int32))
    def broadcast(first, second):
        wide = tf.raw_ops.BroadcastArgs(s0=tf.cast(second, tf.int64), s1=tf.cast(first, tf.int64))
        return tf.raw_ops.BroadcastArgs(s0=first, s1=second), wide

    for first, second in (([2, 1, 3], [4, 1]), ([], [4, 1]), ([0], [4, 1]), ([], []), ([1], [0]), ([-1], [1])):
        agree(broadcast, np.array(first, np.int32), np.array(second, np.int32))
