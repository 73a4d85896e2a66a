"""tf.map_fn over the rows of ragged tensors, and to ragged tensors, gives TensorFlow's results."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from support.tensorflow_functions import function  # noqa: E402

from onnx_sparse import InferenceSession  # noqa: E402
from onnx_sparse.converters.errors import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402

FLOATS, TEXTS, SPLITS = ([None], tf.float32), ([None], tf.string), ([None], tf.int64)
VALUES = np.float32([3, 1, 2, 5, 4, 7])
#: Rows of several lengths, all or some of them empty, and no rows.
ROWS = [[0, 3, 3, 6], [0, 6], [0, 0, 0, 6], [0]]


def ragged(values, splits):
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)


def row(dtype=tf.float32, shape=(None,), rank=0, splits_dtype=tf.int64):
    """What a round returns that is a row of a ragged tensor."""
    return tf.RaggedTensorSpec(shape, dtype, ragged_rank=rank, row_splits_dtype=splits_dtype)


def flat(result):
    return tuple(tf.nest.flatten(result, expand_composites=True))


@pytest.mark.parametrize("splits", ROWS, ids=str)
@pytest.mark.parametrize(
    ("of_row", "signature"),
    [
        (tf.reduce_sum, tf.float32),
        (tf.sort, row()),
        (lambda r: (tf.reduce_prod(r), r[:1]), (tf.float32, row())),
        (lambda r: tf.RaggedTensor.from_row_lengths(r, [1] * 0 + [tf.size(r)]), row(shape=(None, None), rank=1)),
        (lambda r: tf.map_fn(lambda x: x * 2, r), row()),
    ],
    ids=["number", "row", "both", "ragged", "loop"],
)
def test_rows_of_numbers(agree, of_row, signature, splits):
    @function(FLOATS, SPLITS)
    def mapped(values, splits):
        return flat(tf.map_fn(of_row, ragged(values, splits), fn_output_signature=signature))

    agree(mapped, VALUES[: splits[-1]], np.int64(splits))


@pytest.mark.parametrize("splits", ROWS, ids=str)
@pytest.mark.parametrize("splits_dtype", [tf.int32, tf.int64], ids=["int32", "int64"])
@pytest.mark.parametrize(("of_row", "signature"), [(tf.reduce_sum, tf.float32), (tf.square, None)], ids=["sum", "row"])
def test_a_known_number_of_rows(agree, of_row, signature, splits_dtype, splits):
    """TensorFlow writes the number into the node that joins the rows."""

    @function(FLOATS, ([len(splits)], splits_dtype))
    def mapped(values, splits):
        wanted = row(splits_dtype=splits_dtype) if signature is None else signature
        return flat(tf.map_fn(of_row, ragged(values, splits), fn_output_signature=wanted))

    agree(mapped, VALUES[: splits[-1]], np.array(splits, splits_dtype.as_numpy_dtype))


def test_rows_of_pairs(agree):
    """Of no rows, TensorFlow forgets that its values are pairs."""

    @function(FLOATS, SPLITS)
    def mapped(values, splits):
        pairs = tf.map_fn(
            lambda r: tf.stack([r, -r], axis=1), ragged(values, splits), fn_output_signature=row(shape=(None, 2))
        )
        return flat(pairs)

    for splits in ROWS[:-1]:
        agree(mapped, VALUES[: splits[-1]], np.int64(splits))
    feeds = {"values": VALUES[:0], "splits": np.int64([0])}
    values, splits = InferenceSession(convert(mapped)).run(None, feeds)
    assert (values.shape, splits.tolist()) == ((0, 2), [0])
    assert mapped(**feeds)[0].shape == (0,)


@pytest.mark.parametrize(
    ("outer", "inner"), [([0, 2, 2, 5], [0, 2, 2, 3, 3, 6]), ([0, 0], [0]), ([0], [0]), ([0, 1], [0, 6])], ids=str
)
@pytest.mark.parametrize(
    ("of_row", "signature"),
    [
        (lambda r: tf.reduce_sum(r, axis=1), row()),
        (lambda r: r * 2, row(shape=(None, None), rank=1)),
        (lambda r: tf.map_fn(tf.reduce_sum, r, fn_output_signature=tf.float32), row()),
        (lambda r: r.nrows(), tf.int64),
    ],
    ids=["sums", "ragged", "loop", "count"],
)
def test_rows_of_rows(agree, of_row, signature, outer, inner):
    @function(FLOATS, SPLITS, SPLITS)
    def mapped(values, inner, outer):
        return flat(tf.map_fn(of_row, ragged(ragged(values, inner), outer), fn_output_signature=signature))

    agree(mapped, VALUES[: inner[-1]], np.int64(inner), np.int64(outer))


def test_rows_of_text(agree):
    @function(TEXTS, SPLITS)
    def mapped(values, splits):
        rows = ragged(values, splits)
        upper = tf.map_fn(tf.strings.upper, rows, fn_output_signature=row(tf.string))
        return *flat(upper), tf.map_fn(tf.strings.reduce_join, rows, fn_output_signature=tf.string)

    agree(mapped, np.array(["b", "a", "c"], object), np.int64([0, 2, 2, 3]))
    agree(mapped, np.array([], object), np.int64([0]))


def test_from_dense_rows(agree):
    @function(([None], tf.int32), TEXTS)
    def mapped(counts, sentences):
        ranges = tf.map_fn(tf.range, counts, fn_output_signature=row(tf.int32))
        words = tf.map_fn(tf.strings.split, sentences, fn_output_signature=row(tf.string))
        return *flat(ranges), *flat(words)

    agree(mapped, np.int32([2, 0, 3]), np.array(["a b", "", "c d e"], object))


def test_int32_splits_and_several_inputs(agree):
    @function(FLOATS, ([None], tf.int32))
    def mapped(values, splits):
        rows = ragged(values, splits)
        weighted = tf.map_fn(
            lambda given: given[0] * tf.cast(given[1], tf.float32),
            (rows, rows.row_lengths()),
            fn_output_signature=row(splits_dtype=tf.int32),
        )
        return weighted.to_tensor(-1.0), weighted.row_splits

    agree(mapped, VALUES, np.int32([0, 3, 3, 6]))


def test_variants_that_leave_the_graph_are_refused():
    @function(FLOATS, SPLITS)
    def encoded(values, splits):
        return tf.raw_ops.RaggedTensorToVariant(rt_nested_splits=[splits], rt_dense_values=values, batched_input=True)

    with pytest.raises(ConversionError, match="variant"):
        convert(encoded)
