"""Lookups of ragged tensors in TensorFlow's graphs take the row splits, and have TensorFlow's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402

pytestmark = pytest.mark.pins(
    "RowsOfSplits",
    "ValidCoordinates",
    "ColumnOfCoordinates",
    "ShapeOfCoordinates",
    "ElementOfShape",
    "RowsOfFilled",
    "BagsOfSplits",
    "SumOfRows",
    "LengthsOfRows",
)

VOCABULARY = 12
TABLE = np.random.default_rng(0).standard_normal((VOCABULARY, 3)).astype(np.float32)
#: What computes with the row of each value.
BY_ROWS = {"ScatterElements", "CumSum", "UnsortedSegmentSum"}
BY_ROWS |= {f"EmbeddingSegments{kind}" for kind in ("Sum", "Mean", "SqrtN")}

RAGGED = tf.RaggedTensorSpec([None, None], tf.int64)
WEIGHTS = tf.RaggedTensorSpec([None, None], tf.float32)


def through_sparse(look_up: Any, **options: Any) -> Any:
    def looked_up(ids: Any, *weights: Any) -> Any:
        given = [part.to_sparse() for part in (ids, *weights)] + [None] * (not weights)
        return look_up(tf.constant(TABLE), *given, **options)

    return looked_up


def directly(look_up: Any, **options: Any) -> Any:
    def looked_up(ids: Any, *weights: Any) -> Any:
        return look_up(tf.constant(TABLE), ids, *(weights or [None]), **options)

    return looked_up


def gathered(ids: Any) -> Any:
    return tf.ragged.map_flat_values(tf.gather, tf.constant(TABLE), ids)


SAFE, PLAIN = tf.nn.safe_embedding_lookup_sparse, tf.nn.embedding_lookup_sparse
LOOKUPS = {
    f"{call.__name__} {way.__name__} {combiner}": way(call, combiner=combiner)
    for call in (SAFE, PLAIN)
    for way in (through_sparse, directly)
    for combiner in ("sum", "mean", "sqrtn")
} | {
    "of retained ids": lambda ids: PLAIN(
        tf.constant(TABLE), tf.sparse.retain(ids.to_sparse(), ids.flat_values > 5), None, combiner="mean"
    ),
    "default id": through_sparse(SAFE, combiner="mean", default_id=2),
    "sums of gathered": lambda ids: tf.reduce_sum(gathered(ids), axis=1),
    "means of gathered": lambda ids: tf.reduce_mean(gathered(ids), axis=1),
    "means of tf.gather": lambda ids: tf.reduce_mean(tf.gather(tf.constant(TABLE), ids), axis=1),
    "means without division by zero": lambda ids: tf.math.divide_no_nan(
        tf.reduce_sum(gathered(ids), axis=1), tf.cast(ids.row_lengths(), tf.float32)[:, None]
    ),
    "of a vector": lambda ids: tf.reduce_mean(tf.gather(tf.constant(TABLE[:, 0]), ids), axis=1),
}


def rows(rng: np.random.Generator, lowest: int) -> tuple[list[list[int]], list[list[int]]]:
    """Rows of ids, and weights for them, some not positive."""
    count = int(rng.choice([0, 1, 2, 8]))
    lengths = rng.integers(0, int(rng.choice([1, 3, 12])), count)
    return (
        [rng.integers(lowest, VOCABULARY, size).tolist() for size in lengths],
        [rng.integers(-1, 3, size).tolist() for size in lengths],
    )


def agree(function: Any, specs: list[Any], lowest: int = 0) -> set[str]:
    """Compare a conversion with its source on random rows; the operators of the model."""
    traced = tf.function(function, input_signature=specs, autograph=False)
    model = convert(traced)
    session = onnx_sparse.InferenceSession(model)
    known = onnx_sparse.features(session)
    rng = np.random.default_rng(1)
    for _ in range(30):
        drawn = rows(rng, lowest)[: len(specs)]
        columns = dict(zip(known, drawn, strict=True))
        given = [
            tf.RaggedTensor.from_row_lengths(
                tf.constant([v for row in part for v in row], spec.dtype), [len(row) for row in part]
            ).with_row_splits_dtype(spec.row_splits_dtype)
            for part, spec in zip(drawn, specs, strict=True)
        ]
        try:
            expected = traced(*given).numpy()
        except tf.errors.InvalidArgumentError:
            assert not drawn[0]  # a safe lookup of a ragged tensor without rows
            continue
        (got,) = session.run(None, known.feeds(columns))
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    return {node.op_type for node in model.graph.node}


@pytest.mark.parametrize("name", LOOKUPS)
def test_takes_splits(name):
    used = agree(LOOKUPS[name], [RAGGED], -3 if "safe" in name else 0)
    assert any(op.startswith("EmbeddingBagOffsets") for op in used)
    assert not used & (BY_ROWS - ({"CumSum"} if "retained" in name else set()))  # counts what is retained


@pytest.mark.pairwise
@pytest.mark.parametrize("way", [through_sparse, directly])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("call", [SAFE, PLAIN])
def test_with_weights(way, combiner, call):
    used = agree(way(call, combiner=combiner), [RAGGED, WEIGHTS], -3 if call is SAFE else 0)
    assert any(op.startswith("EmbeddingBagOffsets") for op in used)
    assert not used & BY_ROWS


def test_splits_of_int32():
    spec = tf.RaggedTensorSpec([None, None], tf.int64, row_splits_dtype=tf.int32)
    assert not agree(through_sparse(SAFE), [spec]) & BY_ROWS


def test_safe_lookups_are_one_node():
    function = tf.function(through_sparse(SAFE, combiner="mean"), input_signature=[RAGGED])
    (node,) = convert(function).graph.node
    assert node.op_type == "EmbeddingBagOffsetsMean"


def test_a_layer_of_keras():
    keras = pytest.importorskip("tf_keras")
    given = keras.Input([None], ragged=True, dtype=tf.int64, name="ids")
    made = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(VOCABULARY, 4)(given))
    model = convert(keras.Model(given, made))
    assert "EmbeddingBagOffsetsSum" in {node.op_type for node in model.graph.node}
    session = onnx_sparse.InferenceSession(model)
    ids = [[1, 2], [3], [4, 5, 6]]
    (got,) = session.run(None, onnx_sparse.features(session).feeds({"ids": ids}))
    expected = keras.Model(given, made)(tf.ragged.constant(ids, tf.int64)).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_a_saved_model_is_verified(tmp_path):
    """Its signature says nothing of ragged tensors: the operators tell which input has the splits."""
    module = tf.Module()
    module.table = tf.Variable(TABLE)

    @tf.function(input_signature=[RAGGED, WEIGHTS])
    def serve(ids, weights):
        return {"rows": SAFE(module.table, ids.to_sparse(), weights.to_sparse())}

    tf.saved_model.save(module, str(tmp_path / "saved"), signatures=serve)
    model = convert(tmp_path / "saved")
    assert onnx_sparse.features(model)["ids"].vocabulary_size == VOCABULARY
    assert [(record.ok, record.batches) for record in verify(tmp_path / "saved", model)] == [(True, 3)]


class TestWhatStays:
    def test_gathered_rows_that_are_used_again(self):
        def both(ids):
            rows_of_ids = gathered(ids)
            return tf.reduce_sum(rows_of_ids, axis=1) + tf.reduce_sum(rows_of_ids.flat_values)

        assert "UnsortedSegmentSum" in agree(both, [RAGGED])

    def test_a_table_of_integers(self):
        def sums(ids):
            return tf.reduce_sum(tf.gather(tf.range(VOCABULARY), ids), axis=1)

        assert "UnsortedSegmentSum" in agree(sums, [RAGGED])

    def test_another_number_of_rows(self):
        def sums(ids):
            looked_up = tf.gather(tf.constant(TABLE), ids.flat_values)
            return tf.math.unsorted_segment_sum(looked_up, ids.value_rowids(), ids.nrows() + 1)

        assert "UnsortedSegmentSum" in agree(sums, [RAGGED])

    def test_rows_of_other_splits(self):
        def sums(ids, weights):
            looked_up = tf.gather(tf.constant(TABLE), ids.flat_values)
            return tf.math.unsorted_segment_sum(looked_up, weights.value_rowids(), ids.nrows())

        used = agree(sums, [RAGGED, WEIGHTS])
        assert "UnsortedSegmentSum" in used or "EmbeddingBagOffsetsSum" in used

    def test_a_quotient_of_another_shape(self):
        def quotient(ids):
            ones = tf.math.unsorted_segment_sum(tf.ones_like(ids.flat_values), ids.value_rowids(), ids.nrows())
            return tf.constant([[1.0], [2.0]]) / tf.cast(ones, tf.float32)

        assert "UnsortedSegmentSum" in agree(quotient, [RAGGED])
