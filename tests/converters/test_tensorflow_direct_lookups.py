"""Lookups of unique ids become lookups of the ids, with the same bits in the result."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from onnx_sparse.schemas import DOMAIN  # noqa: E402

TABLE = tf.Variable(np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32))
INDICES = np.array([[0, 0], [0, 1], [2, 0], [2, 1], [2, 2]])
IDS = np.array([4, 9, 4, 0, 9])
SHAPE = np.array([4, 3])


def lookup(combiner, dtype=tf.int64, **options):
    specs = [tf.TensorSpec([None, 2], tf.int64), tf.TensorSpec([None], dtype), tf.TensorSpec([2], tf.int64)]

    @tf.function(input_signature=specs)
    def function(indices, ids, shape):
        sparse = tf.SparseTensor(indices, ids, shape)
        return tf.nn.embedding_lookup_sparse(TABLE, sparse, None, combiner=combiner, **options)

    return function


def kinds(model):
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64], ids=lambda t: t.name)
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_a_reduction_takes_the_table_itself(agree, combiner, dtype):
    model = agree(lookup(combiner, dtype), INDICES, IDS.astype(dtype.as_numpy_dtype), SHAPE)
    (node,) = (node for node in model.graph.node if node.domain == DOMAIN)
    tables = {tensor.name for tensor in model.graph.initializer if list(tensor.dims) == [10, 3]}
    assert node.input[0] in tables
    assert "Unique" not in kinds(model)
    assert {value.name for value in model.graph.value_info} <= {name for n in model.graph.node for name in n.output}


def test_weighted_lookups_gather_from_the_table(agree):
    specs = [tf.TensorSpec([None, 2], tf.int64), tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.float32)]

    @tf.function(input_signature=specs)
    def weighted(indices, ids, weights):
        sparse, by = tf.SparseTensor(indices, ids, SHAPE), tf.SparseTensor(indices, weights, SHAPE)
        return tf.nn.embedding_lookup_sparse(TABLE, sparse, by, combiner="sum")

    model = agree(weighted, INDICES, IDS, np.arange(1, 6, dtype=np.float32))
    assert "Unique" not in kinds(model)
    assert kinds(model).count("Gather") == 1


def test_rows_that_are_changed_before_the_reduction_stay_unique(agree):
    """With max_norm the unique rows are clipped: they are no longer the table's."""
    model = agree(lookup("sum", max_norm=100.0), INDICES, IDS, SHAPE)
    assert "Unique" in kinds(model)


def test_unique_values_that_something_else_uses_stay(agree):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
    def both(ids):
        values, positions = tf.unique(ids)
        return tf.sparse.segment_sum(tf.gather(TABLE, values), positions, tf.zeros_like(positions)), values

    model = agree(both, IDS)
    assert {"EmbeddingSegmentsSum", "Unique"} <= set(kinds(model))


def test_other_positions_are_left_alone(agree):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
    def shifted(ids):
        values, positions = tf.unique(ids)
        return tf.sparse.segment_sum(tf.gather(TABLE, values), positions * 0, tf.zeros_like(positions))

    assert "Unique" in kinds(agree(shifted, IDS))


def test_without_ids(agree):
    agree(lookup("mean"), np.zeros((0, 2), np.int64), np.zeros(0, np.int64), SHAPE)
