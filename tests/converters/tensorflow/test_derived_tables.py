"""Partitioned tables are joined and rows are clipped at conversion: one table is left, and a lookup is one node."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from onnx_sparse.converters.tensorflow import convert  # noqa: E402
from onnx_sparse.schemas import DOMAIN  # noqa: E402

V1 = tf.compat.v1

ROWS = np.random.default_rng(0).standard_normal((13, 3)).astype(np.float32)
ROWS[4] = 0  # its norm is 0, by which nothing can be divided
INDICES = np.array([[0, 0], [0, 1], [2, 0], [2, 1], [2, 2], [3, 0]])
IDS = np.array([4, 12, 4, 0, 9, 5])
SHAPE = np.array([5, 3])
TRIPLE = [
    tf.TensorSpec([None, 2], tf.int64, "indices"),
    tf.TensorSpec([None], tf.int64, "ids"),
    tf.TensorSpec([2], tf.int64, "shape"),
]


def in_parts(*sizes):
    return [tf.Variable(part) for part in np.split(ROWS, np.cumsum(sizes)[:-1])]


def lookup(table, *, safe=True, version=tf.nn, **options):
    @tf.function(input_signature=TRIPLE)
    def function(indices, ids, shape):
        ids = tf.SparseTensor(indices, ids, shape)
        if safe:
            return version.safe_embedding_lookup_sparse(table, ids, combiner="mean", **options)
        return version.embedding_lookup_sparse(table, ids, None, combiner="mean", **options)

    return function


def explain(function):
    said = []
    model = convert(function, explain=said.append)
    return model, said[0]


def reasons(function):
    return {attempt.rule: attempt.reason for attempt in explain(function)[1].declined}


def tables(model):
    return [tensor for tensor in model.graph.initializer if list(tensor.dims) == [13, 3]]


class TestParts:
    @pytest.mark.parametrize(("safe", "count"), [(False, 5), (True, 3)], ids=["plain", "safe"])
    @pytest.mark.parametrize("strategy", ["div", "mod"])
    @pytest.mark.parametrize("sizes", [(13,), (7, 6), (5, 4, 4), (1,) * 13], ids=str)
    def test_become_one_table(self, agree, sizes, strategy, safe, count):
        """TensorFlow's graphs have up to 48 nodes."""
        function = lookup(in_parts(*sizes), safe=safe, version=V1.nn, partition_strategy=strategy)
        model = agree(function, INDICES, IDS, SHAPE)
        assert len(model.graph.node) == count
        assert len(tables(model)) == 1
        if safe:
            agree(function, INDICES[::-1], IDS, SHAPE)  # in any row order

    def test_an_id_that_is_in_no_part_is_an_error(self, run):
        model = convert(lookup(in_parts(5, 4, 4)))
        with pytest.raises(Exception, match=r"indices\[0\] = 13"):
            run(model, indices=INDICES, ids=IDS * 0 + 13, shape=SHAPE)

    def test_that_two_lookups_share_become_one_table(self, agree):
        parts = in_parts(5, 4, 4)

        @tf.function(input_signature=TRIPLE)
        def twice(indices, ids, shape):
            sums = tf.nn.embedding_lookup_sparse(parts, tf.SparseTensor(indices, ids, shape), None, combiner="sum")
            return sums, tf.nn.embedding_lookup_sparse(parts, tf.SparseTensor(indices, 12 - ids, shape), None)

        assert len(tables(agree(twice, INDICES, IDS, SHAPE))) == 1

    def test_that_are_not_filled_as_the_strategy_would_stay(self, agree):
        function = lookup(in_parts(4, 5, 4), safe=False, version=V1.nn, partition_strategy="mod")
        agree(function, INDICES, np.array([0, 1, 2, 11, 7, 6]), SHAPE)
        assert "rows of other ids" in reasons(function)["joined-parts"]

    def test_that_are_chosen_by_something_other_than_the_id_stay(self, agree):
        low, high = in_parts(6, 7)

        @tf.function(input_signature=[TRIPLE[1], tf.TensorSpec([None], tf.int32, "part")])
        def chosen(ids, part):
            places = tf.dynamic_partition(tf.range(tf.size(ids)), part, 2)
            rows = tf.dynamic_partition(ids, part, 2)
            return tf.dynamic_stitch(places, [tf.gather(low, rows[0]), tf.gather(high, rows[1])])

        agree(chosen, np.array([5, 0, 3, 6]), np.array([0, 1, 1, 1], np.int32))
        assert "from more than the id" in reasons(chosen)["joined-parts"]

    def test_that_are_put_elsewhere_stay(self, agree):
        low, high = in_parts(6, 7)

        @tf.function(input_signature=TRIPLE[1:2])
        def backwards(ids):
            part = tf.cast(ids % 2, tf.int32)
            places = tf.dynamic_partition(tf.reverse(tf.range(tf.size(ids)), [0]), part, 2)
            rows = tf.dynamic_partition(ids // 2, part, 2)
            return tf.dynamic_stitch(places, [tf.gather(low, rows[0]), tf.gather(high, rows[1])])

        agree(backwards, np.array([5, 0, 3, 6]))
        assert "not put at the positions of their ids" in reasons(backwards)["joined-parts"]

    def test_that_are_inputs_stay(self):
        specs = [TRIPLE[1], tf.TensorSpec([6, 3], tf.float32, "low"), tf.TensorSpec([7, 3], tf.float32, "high")]

        @tf.function(input_signature=specs)
        def fed(ids, low, high):
            return V1.nn.embedding_lookup([low, high], ids)

        assert "not constants" in reasons(fed)["joined-parts"]

    def test_of_a_graph_def(self, tmp_path, run):
        with tf.Graph().as_default() as graph:
            ids = V1.placeholder(tf.int64, [None, 2], "ids")
            parts = [tf.constant(part) for part in np.split(ROWS, [5, 9])]
            tf.identity(V1.nn.embedding_lookup(parts, ids, partition_strategy="div"), name="rows")
        (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
        model = convert(tmp_path / "graph.pb")
        assert len(tables(model)) == 1
        np.testing.assert_array_equal(run(model, ids=IDS.reshape(3, 2))["rows"], ROWS[IDS.reshape(3, 2)])

    def test_beyond_a_mebibyte_leave_nothing_behind(self, agree):
        rows = np.random.default_rng(1).standard_normal((700_001, 2)).astype(np.float32)
        function = lookup([tf.Variable(part) for part in np.array_split(rows, 3)])
        model = agree(function, INDICES, np.array([0, 700_000, 233_333, 233_334, 466_667, 466_668]), SHAPE)
        assert [value.name for value in model.graph.input] == ["indices", "ids", "shape"]
        assert sum(tensor.dims[0] > 1000 for tensor in model.graph.initializer if tensor.dims) == 1


class TestClippedRows:
    @pytest.mark.parametrize(("safe", "count"), [(False, 5), (True, 3)], ids=["plain", "safe"])
    @pytest.mark.parametrize("max_norm", [1.0, 0.3, 100.0])
    def test_are_rows_of_a_clipped_table(self, agree, max_norm, safe, count):
        """Equal to the bit, because TensorFlow itself clipped the rows."""
        function = lookup(tf.Variable(ROWS), safe=safe, max_norm=max_norm)
        model = agree(function, INDICES, IDS, SHAPE)
        assert len(model.graph.node) == count
        assert len(tables(model)) == 1
        if safe:
            agree(function, INDICES[::-1], IDS, SHAPE)  # in any row order

    def test_of_a_table_in_parts(self, agree):
        model = agree(lookup(in_parts(5, 4, 4), max_norm=0.5), INDICES, IDS, SHAPE)
        assert len(model.graph.node) == 3
        assert len(tables(model)) == 1

    def test_of_a_table_that_is_looked_up_without_a_norm_as_well(self, agree):
        table = tf.Variable(ROWS)

        @tf.function(input_signature=TRIPLE)
        def both(indices, ids, shape):
            ids = tf.SparseTensor(indices, ids, shape)
            clipped = tf.nn.embedding_lookup_sparse(table, ids, None, combiner="sum", max_norm=0.5)
            return clipped, tf.nn.embedding_lookup_sparse(table, ids, None, combiner="sum")

        model = agree(both, INDICES, IDS, SHAPE)
        assert len(tables(model)) == 2
        assert [node.op_type for node in model.graph.node if node.domain == DOMAIN] == ["EmbeddingSegmentsSum"] * 2

    def test_of_a_table_that_is_an_input(self):
        @tf.function(input_signature=[*TRIPLE, tf.TensorSpec([13, 3], tf.float32, "table")])
        def fed(indices, ids, shape, table):
            return tf.nn.embedding_lookup_sparse(table, tf.SparseTensor(indices, ids, shape), None, max_norm=1.0)

        assert "constant table" in reasons(fed)["clipped-rows"]

    def test_of_ids_of_any_rank_stay(self):
        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int64, "ids")])
        def dense(ids):
            return tf.nn.embedding_lookup(ROWS, ids, max_norm=1.0)

        assert "known to be a vector" in reasons(dense)["clipped-rows"]

    def test_other_quotients_are_not_looked_at(self, agree):
        @tf.function(input_signature=TRIPLE[1:2])
        def shares(ids):
            rows = tf.square(tf.gather(ROWS, ids)) + 1
            return rows / tf.reduce_sum(rows, axis=0, keepdims=True), rows / 3

        assert "clipped-rows" not in reasons(shares)
