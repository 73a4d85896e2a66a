"""Gathered rows that are reduced by segments in any order, or reshaped: the rules' answers, and what is left alone."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402
from onnx_sparse.reference.unsorted_segment import unsorted_segment_mean, unsorted_segment_sum  # noqa: E402
from onnx_sparse.schemas import DOMAIN  # noqa: E402

pytestmark = pytest.mark.pins("UnsortedLookup", "LookupOfColumn")

REDUCTIONS = {"sum": tf.math.unsorted_segment_sum, "mean": tf.math.unsorted_segment_mean}
VOCABULARY, WIDTH = 12, 16
#: Numbers of entries and of segments: none, no segments, one, short ones, more segments than entries.
SIZES = ((0, 0), (0, 3), (1, 1), (100, 1), (100, 20), (60, 100))
TABLE = np.ones((VOCABULARY, WIDTH), np.float32)


def reduced(how, dtype=tf.float32, row=(WIDTH,), ids=tf.int64, segments=tf.int64, body=None):
    """`unsorted_segment_sum(gather(table, ids), segments, count)`."""
    specs = [
        tf.TensorSpec([VOCABULARY, *row], dtype, "table"),
        tf.TensorSpec([None], ids, "ids"),
        tf.TensorSpec([None], segments, "segments"),
        tf.TensorSpec([], segments, "count"),
    ]
    reduce = REDUCTIONS[how]
    default = lambda table, ids, segments, count: reduce(tf.gather(table, ids), segments, count)  # noqa: E731
    return tf.function(body or default, specs)


def feeds(rng, dtype, count, segments, row=(WIDTH,), ids=np.int64, segment_ids=np.int64):
    """Whole numbers, whose sums are exact; segments in any order, some of them negative."""
    table = rng.integers(-8, 9, (VOCABULARY, *row)).astype(dtype.as_numpy_dtype)
    places = rng.integers(-2, max(segments, -1), count) if count else np.zeros(0)
    return table, rng.integers(0, VOCABULARY, count).astype(ids), places.astype(segment_ids), segment_ids(segments)


def domain_nodes(model):
    return [node.op_type for node in model.graph.node if node.domain == DOMAIN]


def attempts(function, rule):
    """How a rule ended: fired, or why not."""
    said = []
    convert(function, explain=said.append)
    reasons = {attempt.rule: attempt.reason for attempt in said[0].declined}
    return "fired" if rule in said[0].fired else reasons.get(rule, "")


@pytest.mark.parametrize("how", REDUCTIONS)
class TestUnsorted:
    @pytest.mark.parametrize("row", [(16,), (40,), (4, 5)], ids=str)
    @pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64], ids=lambda t: t.name)
    def test_floats_are_those_of_tensorflow(self, agree, how, dtype, row):
        rng, function = np.random.default_rng(1), reduced(how, dtype, row)
        for size in SIZES:
            model = agree(function, *feeds(rng, dtype, *size, row))
        expected = {f"EmbeddingSegments{how.capitalize()}"}
        if (how, dtype) == ("mean", tf.float16):  # TensorFlow rounds the sum before it divides it by the counts
            expected = {"EmbeddingSegmentsSum", "UnsortedSegmentSum", "Fill"}
        assert set(domain_nodes(model)) == expected

    @pytest.mark.parametrize("ids", [tf.int32, tf.int64], ids=lambda t: t.name)
    @pytest.mark.parametrize("segments", [tf.int32, tf.int64], ids=lambda t: t.name)
    def test_every_type_of_ids(self, agree, how, ids, segments):
        rng, function = np.random.default_rng(2), reduced(how, ids=ids, segments=segments)
        for size in SIZES:
            given = feeds(rng, tf.float32, *size, (WIDTH,), ids.as_numpy_dtype, segments.as_numpy_dtype)
            model = agree(function, *given)
        assert domain_nodes(model) == [f"EmbeddingSegments{how.capitalize()}"]

    @pytest.mark.parametrize("dtype", [tf.float32, tf.float64], ids=lambda t: t.name)
    def test_the_bits_are_those_of_the_reduction_of_gathered_rows(self, run, how, dtype):
        """Of fractions, whose sums depend on their order, and of infinities and NaN."""
        rng, model = np.random.default_rng(3), convert(reduced(how, dtype))
        kernel = {"sum": unsorted_segment_sum, "mean": unsorted_segment_mean}[how]
        for size in SIZES:
            table, ids, segments, count = feeds(rng, dtype, *size)
            table = (table / 7).astype(dtype.as_numpy_dtype)
            table[0], table[1, 3] = np.inf, np.nan
            (got,) = run(model, table=table, ids=ids, segments=segments, count=count).values()
            np.testing.assert_array_equal(got, kernel(table[ids], segments, count))

    @pytest.mark.parametrize("bad", [4, 5, 2**40])
    def test_segments_that_do_not_exist(self, run, how, bad):
        """Also the first one after the last: it is not the one that is cut off."""
        function, ids, segments = reduced(how), np.array([3, 1, 0]), np.array([0, bad, -1])
        with pytest.raises(tf.errors.InvalidArgumentError):
            function(TABLE, ids, segments, np.int64(4))
        with pytest.raises(onnx_sparse.KernelError, match=r"segment_ids\[1\] = \d+ is out of range"):
            run(convert(function), table=TABLE, ids=ids, segments=segments, count=np.int64(4))

    @pytest.mark.parametrize("bad", [-1, VOCABULARY])
    @pytest.mark.parametrize("segment", [0, -1], ids=["kept", "dropped"])
    def test_ids_out_of_range(self, run, how, bad, segment):
        """Also of rows that are dropped."""
        function, ids, segments = reduced(how), np.array([3, bad, 0]), np.array([0, segment, 2])
        with pytest.raises(tf.errors.InvalidArgumentError):
            function(TABLE, ids, segments, np.int64(4))
        with pytest.raises(onnx_sparse.KernelError, match=rf"indices\[1\] = {bad} is out of range \[0, 12\)"):
            run(convert(function), table=TABLE, ids=ids, segments=segments, count=np.int64(4))

    def test_a_negative_number_of_segments(self, run, how):
        function = reduced(how)
        for count in (-1, -5):
            given = [np.zeros(0, np.int64), np.zeros(0, np.int64), np.int64(count)]
            with pytest.raises(tf.errors.InvalidArgumentError):
                function(TABLE, *given)
            with pytest.raises(Exception, match=r"num_segments|must not be negative"):
                run(convert(function), **dict(zip(("table", "ids", "segments", "count"), [TABLE, *given], strict=True)))

    def test_narrow_rows_are_left_alone(self, agree, how):
        function, rng = reduced(how, row=(15,)), np.random.default_rng(4)
        agree(function, *feeds(rng, tf.float32, 60, 9, (15,)))
        assert "narrower ones are reduced as fast" in attempts(function, "unsorted-lookup")

    def test_rows_of_unknown_width_are_left_alone(self, agree, how):
        specs = [tf.TensorSpec([None, None], tf.float32), *[tf.TensorSpec([None], tf.int64)] * 2]
        function = tf.function(lambda table, ids, s: REDUCTIONS[how](tf.gather(table, ids), s, 9), specs)
        agree(function, *feeds(np.random.default_rng(5), tf.float32, 60, 9)[:3])
        assert "it is not known" in attempts(function, "unsorted-lookup")

    def test_rows_that_are_used_twice_are_left_alone(self, agree, how):
        def both(table, ids, segments, count):
            rows = tf.gather(table, ids)
            return REDUCTIONS[how](rows, segments, count), tf.math.unsorted_segment_max(rows, segments, count)

        function = reduced(how, body=both)
        agree(function, *feeds(np.random.default_rng(6), tf.float32, 60, 9))
        assert "used for something else" in attempts(function, "unsorted-lookup")

    def test_matrices_of_segments_are_left_alone(self, agree, how):
        def of_pairs(table, ids, segments, count):
            return REDUCTIONS[how](
                tf.gather(table, ids), tf.reshape(segments, [-1, 1]) + tf.zeros([1, 16], tf.int64), 9
            )

        function = reduced(how, body=of_pairs)
        agree(function, *feeds(np.random.default_rng(7), tf.float32, 60, 9))
        assert attempts(function, "unsorted-lookup") == "the segment ids are not a vector"


class TestColumns:
    SPEC = tf.TensorSpec([None, 3], tf.int64, "ids")
    IDS = np.array([[0, 4, 11], [3, 3, 3]])
    COLUMN = (IDS[:, :1], tf.TensorSpec([None, 1], tf.int64))

    def converted(self, agree, body, ids=IDS, spec=SPEC):
        function = tf.function(body, input_signature=[spec])
        model = agree(function, ids)
        return attempts(function, "lookup-of-column"), [node.op_type for node in model.graph.node]

    @pytest.mark.parametrize("row", [(), (4,), (2, 3)], ids=str)
    def test_a_table_for_each_column(self, agree, row):
        rng = np.random.default_rng(8)
        tables = [tf.Variable(rng.standard_normal((VOCABULARY, *row)).astype(np.float32)) for _ in range(3)]

        def stacked(ids):
            columns = tf.unstack(ids, 3, axis=1)
            return tf.stack([tf.gather(t, c) for t, c in zip(tables, columns, strict=True)], axis=1)

        for ids in (self.IDS, self.IDS[:0]):
            how, kinds = self.converted(agree, stacked, ids)
            assert how == "fired"
            assert not {"Squeeze", "Unsqueeze"} & set(kinds)

    def test_dimensions_from_the_end(self, agree):
        table = tf.Variable(np.arange(VOCABULARY, dtype=np.float32))
        how, kinds = self.converted(
            agree, lambda ids: tf.expand_dims(tf.gather(table, tf.squeeze(ids, [-1])), -1), *self.COLUMN
        )
        assert how == "fired"
        assert not {"Squeeze", "Unsqueeze"} & set(kinds)

    def test_several_dimensions(self, agree):
        table, spec = tf.Variable(np.ones((VOCABULARY, 4), np.float32)), tf.TensorSpec([1, None, 1], tf.int64)

        def of_row(ids):
            return tf.expand_dims(tf.expand_dims(tf.gather(table, tf.squeeze(ids, [0, 2])), 0), 2)

        how, kinds = self.converted(agree, of_row, self.IDS[:1, :, None], spec)
        assert how != "fired"  # two Unsqueeze nodes, each of other dimensions
        assert kinds.count("Unsqueeze") == 2

    @pytest.mark.parametrize("axis", [0, 2])
    def test_other_dimensions_are_left_alone(self, agree, axis):
        table = tf.Variable(np.ones((VOCABULARY, 4), np.float32))
        how, kinds = self.converted(
            agree, lambda ids: tf.expand_dims(tf.gather(table, tf.squeeze(ids, [1])), axis), *self.COLUMN
        )
        assert how == "the rows get other dimensions than the ids lose"
        assert "Unsqueeze" in kinds

    def test_columns_of_the_table_are_left_alone(self, agree):
        table = tf.Variable(np.ones((4, VOCABULARY), np.float32))
        how, kinds = self.converted(
            agree, lambda ids: tf.expand_dims(tf.gather(table, tf.squeeze(ids, [1]), axis=1), 1), *self.COLUMN
        )
        assert how == ""
        assert "Unsqueeze" in kinds
