"""Gathered rows and their sum or mean by segment become one node: its answers, and what is left alone."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402
from onnx_sparse.reference.segment import segment_mean, segment_sum  # noqa: E402
from onnx_sparse.schemas import DOMAIN  # noqa: E402

REDUCTIONS = {"sum": tf.math.segment_sum, "mean": tf.math.segment_mean}
#: Numbers of entries and the largest step between sorted segment ids: none, one segment, short ones, gaps.
SIZES = ((0, 1), (1, 1), (1, 4), (100, 0), (100, 1), (60, 4))
#: The shapes of one row.
ROWS = ((), (1,), (3,), (16,), (2, 5))
VOCABULARY = 12


def reduced(how, dtype=tf.float32, row=(3,), ids=tf.int64, segments=tf.int64, body=None):
    """`segment_sum(gather(table, ids), segments)` for tables that are given."""
    specs = [
        tf.TensorSpec([VOCABULARY, *row], dtype, "table"),
        tf.TensorSpec([None], ids, "ids"),
        tf.TensorSpec([None], segments, "segments"),
    ]
    reduce = REDUCTIONS[how]
    return tf.function(body or (lambda table, ids, segments: reduce(tf.gather(table, ids), segments)), specs)


def feeds(rng, dtype, row, count, step, ids=np.int64, segments=np.int64):
    """Sorted segments of lengths that the order of a sum depends on; whole numbers, whose sums are exact."""
    table = rng.integers(0 if dtype.is_unsigned else -8, 9, (VOCABULARY, *row)).astype(dtype.as_numpy_dtype)
    places = np.cumsum(rng.integers(0, step + 1, count) * (rng.random(count) < 0.4))
    return table, rng.integers(0, VOCABULARY, count).astype(ids), places.astype(segments)


def domain_nodes(model):
    return [node.op_type for node in model.graph.node if node.domain == DOMAIN]


def why_not(function):
    """Why the rule left a function alone."""
    said = []
    model = convert(function, explain=said.append)
    assert not any(kind.startswith("Embedding") for kind in domain_nodes(model))
    return {attempt.rule: attempt.reason for attempt in said[0].declined}["reduced-lookup"]


@pytest.mark.pairwise
@pytest.mark.parametrize("how", REDUCTIONS)
@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64], ids=lambda t: t.name)
def test_floats_are_those_of_tensorflow(agree, how, dtype, row):
    rng, function = np.random.default_rng(1), reduced(how, dtype, row)
    for size in SIZES:
        model = agree(function, *feeds(rng, dtype, row, *size))
    assert domain_nodes(model) == [f"EmbeddingSegments{how.capitalize()}"]
    assert "Gather" not in [node.op_type for node in model.graph.node if node.input[0] == "table"]


@pytest.mark.parametrize("dtype", [tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.int64], ids=lambda t: t.name)
def test_integers_wrap_as_in_tensorflow(agree, dtype):
    rng, function = np.random.default_rng(2), reduced("sum", dtype)
    for size in SIZES:
        table, *entries = feeds(rng, dtype, (3,), *size)
        model = agree(function, table * 15, *entries)
    assert domain_nodes(model) == ["EmbeddingSegmentsSum"]


@pytest.mark.parametrize("how", REDUCTIONS)
@pytest.mark.parametrize("ids", [tf.int32, tf.int64], ids=lambda t: t.name)
@pytest.mark.parametrize("segments", [tf.int32, tf.int64], ids=lambda t: t.name)
def test_every_type_of_ids(agree, how, ids, segments):
    rng, function = np.random.default_rng(3), reduced(how, ids=ids, segments=segments)
    for size in SIZES:
        model = agree(function, *feeds(rng, tf.float32, (3,), *size, ids.as_numpy_dtype, segments.as_numpy_dtype))
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("Cast") == (ids != segments)


@pytest.mark.parametrize("how", REDUCTIONS)
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64], ids=lambda t: t.name)
def test_the_bits_are_those_of_the_reduction_of_gathered_rows(run, how, dtype):
    """Of fractions, whose sums depend on their order, and of zeros with a sign, infinities and NaN."""
    rng, model = np.random.default_rng(4), convert(reduced(how, dtype))
    kernel = {"sum": segment_sum, "mean": segment_mean}[how]
    for size in SIZES:
        table, ids, segments = feeds(rng, dtype, (3,), *size)
        table = (table / 7).astype(dtype.as_numpy_dtype)
        table[0], table[1], table[2, 0] = -0.0, np.inf, np.nan
        (got,) = run(model, table=table, ids=ids, segments=segments).values()
        want = kernel(table[ids], segments)
        width = f"u{got.dtype.itemsize}"
        np.testing.assert_array_equal(got.view(width)[~np.isnan(want)], want.view(width)[~np.isnan(want)])
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))


@pytest.mark.parametrize("how", REDUCTIONS)
class TestIllegalInput:
    """What TensorFlow refuses is refused."""

    TABLE = np.ones((VOCABULARY, 3), np.float32)

    @pytest.mark.parametrize("bad", [-1, -VOCABULARY, VOCABULARY, 2**40])
    def test_ids_out_of_range(self, run, how, bad):
        function, ids = reduced(how), np.array([3, bad, 0])
        with pytest.raises(tf.errors.InvalidArgumentError):
            function(self.TABLE, ids, np.array([0, 0, 2]))
        with pytest.raises(onnx_sparse.KernelError, match=rf"indices\[1\] = {bad} is out of range \[0, 12\)"):
            run(convert(function), table=self.TABLE, ids=ids, segments=np.array([0, 0, 2]))

    @pytest.mark.parametrize("segments", [[0, 2, 1], [5, 2, 3], [-1, 0, 1], [0, 1, -1]])
    def test_segments_that_are_not_sorted(self, run, how, segments):
        function, ids = reduced(how), np.array([3, 1, 0])
        with pytest.raises(tf.errors.InvalidArgumentError):
            function(self.TABLE, ids, np.array(segments))
        with pytest.raises(onnx_sparse.KernelError, match=rf"{how.capitalize()}: segment_ids\["):
            run(convert(function), table=self.TABLE, ids=ids, segments=np.array(segments))

    @pytest.mark.parametrize("count", [0, 2, 4])
    def test_other_numbers_of_ids_than_of_segments(self, run, how, count):
        function, ids = reduced(how), np.zeros(count, np.int64)
        with pytest.raises(tf.errors.InvalidArgumentError):
            function(self.TABLE, ids, np.array([0, 0, 2]))
        with pytest.raises(onnx_sparse.KernelError, match="segment_ids"):
            run(convert(function), table=self.TABLE, ids=ids, segments=np.array([0, 0, 2]))


class TestLeftAlone:
    """Conditions that do not hold."""

    def test_a_mean_of_integers(self, agree):
        """EmbeddingSegmentsMean has none."""
        function, rng = reduced("mean", tf.int32), np.random.default_rng(5)
        agree(function, *feeds(rng, tf.int32, (3,), 60, 2))
        assert why_not(function) == "the table is int32"

    def test_rows_that_are_used_twice(self, agree):
        def both(table, ids, segments):
            rows = tf.gather(table, ids)
            return tf.math.segment_sum(rows, segments), tf.math.segment_max(rows, segments)

        function, rng = reduced("sum", body=both), np.random.default_rng(6)
        agree(function, *feeds(rng, tf.float32, (3,), 60, 2))
        assert "used for something else" in why_not(function)

    def test_rows_that_are_fetched(self, agree):
        def both(table, ids, segments):
            rows = tf.gather(table, ids)
            return rows, tf.math.segment_sum(rows, segments)

        function, rng = reduced("sum", body=both), np.random.default_rng(7)
        agree(function, *feeds(rng, tf.float32, (3,), 60, 2))
        assert "used for something else" in why_not(function)

    def test_ids_that_are_a_matrix(self, agree):
        def of_pairs(table, ids, segments):
            return tf.math.segment_sum(tf.gather(table, tf.reshape(ids, [-1, 2])), segments)

        function, rng = reduced("sum", body=of_pairs), np.random.default_rng(8)
        table, ids, _ = feeds(rng, tf.float32, (3,), 60, 2)
        agree(function, table, ids, feeds(rng, tf.float32, (3,), 30, 2)[2])
        assert why_not(function) == "the ids are not a vector"

    def test_columns_are_not_rows(self, agree):
        def of_columns(table, ids, segments):
            return tf.math.segment_sum(tf.gather(table, ids % 3, axis=1), segments)

        said, function, rng = [], reduced("sum", body=of_columns), np.random.default_rng(9)
        table, ids, _ = feeds(rng, tf.float32, (3,), 60, 2)
        agree(function, table, ids, feeds(rng, tf.float32, (3,), VOCABULARY, 2)[2])
        assert domain_nodes(convert(function, explain=said.append)) == ["SegmentSum"]
        assert "reduced-lookup" not in said[0].fired

    def test_other_reductions(self, agree):
        function = reduced("sum", body=lambda t, i, s: tf.math.segment_max(tf.gather(t, i), s))
        rng = np.random.default_rng(10)
        assert domain_nodes(agree(function, *feeds(rng, tf.float32, (3,), 60, 2))) == ["SegmentMax"]


class TestBesideOtherRules:
    def test_a_weighted_mean_keeps_its_divisor(self, agree):
        """Weights that are gathered as well: the sum that divides is the mean's, and no lookup of weights."""
        specs = [*(tf.TensorSpec([None], dtype) for dtype in (tf.int64, tf.int64, tf.float32))]
        table = tf.Variable(np.arange(36, dtype=np.float32).reshape(12, 3))

        @tf.function(input_signature=specs)
        def weighted(ids, segments, weights):
            by = tf.gather(weights, ids)
            total = tf.math.segment_sum(tf.gather(table, ids) * by[:, None], segments)
            return tf.math.divide_no_nan(total, tf.math.segment_sum(by[:, None], segments))

        ids, segments = np.array([3, 1, 1, 11, 0]), np.array([0, 0, 2, 2, 3])
        model = agree(weighted, ids, segments, np.float32(2.0 ** np.arange(12)))
        assert domain_nodes(model) == ["EmbeddingSegmentsMean"]

    def test_unique_ids(self, agree):
        """Rows of unique ids that are picked by position are rows of the ids first."""

        def unique(table, ids, segments):
            values, places = tf.unique(ids)
            return tf.math.segment_sum(tf.gather(tf.gather(table, values), places), segments)

        function, rng = reduced("sum", body=unique), np.random.default_rng(11)
        model = agree(function, *feeds(rng, tf.float32, (3,), 60, 2))
        assert domain_nodes(model) == ["EmbeddingSegmentsSum"]
        assert "Unique" not in [node.op_type for node in model.graph.node]

    def test_empty_rows_that_were_filled(self, agree):
        specs = [tf.TensorSpec([None, 2], tf.int64), tf.TensorSpec([None], tf.int64), tf.TensorSpec([2], tf.int64)]
        table = tf.Variable(np.arange(36, dtype=np.float32).reshape(12, 3))

        @tf.function(input_signature=specs)
        def filled(indices, ids, shape):
            full, _ = tf.sparse.fill_empty_rows(tf.SparseTensor(indices, ids, shape), np.int64(3))
            return tf.math.segment_sum(tf.gather(table, full.values), full.indices[:, 0])

        indices = np.array([[0, 0], [0, 1], [2, 0]])
        model = agree(filled, indices, np.array([1, 11, 4]), np.array([4, 2]))
        assert domain_nodes(model) == ["EmbeddingSegmentsSum"]

    @pytest.mark.parametrize("how", REDUCTIONS)
    def test_rows_of_a_ragged_tensor(self, agree, how):
        """The fused lookup takes row splits, as others of ragged tensors do; rows at the end may be empty."""
        table = tf.Variable(np.arange(36, dtype=np.float32).reshape(12, 3))
        specs = [tf.TensorSpec([None], tf.int64, name) for name in ("values", "splits")]

        @tf.function(input_signature=specs)
        def of_rows(values, splits):
            ragged = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
            return REDUCTIONS[how](tf.gather(table, ragged.values), ragged.value_rowids())

        for splits in ([0, 2, 2, 5], [0, 0, 3, 5, 5, 5], [0, 5]):
            model = agree(of_rows, np.array([3, 1, 1, 11, 0]), np.array(splits))
        agree(of_rows, np.zeros(0, np.int64), np.zeros(3, np.int64))
        assert domain_nodes(model) == [f"EmbeddingBagOffsets{how.capitalize()}"]

    @pytest.mark.parametrize("how", REDUCTIONS)
    def test_the_table_can_be_quantized(self, run, how):
        rng = np.random.default_rng(12)
        table = tf.Variable(rng.standard_normal((2000, 16)).astype(np.float32))
        specs = [tf.TensorSpec([None], tf.int64, name) for name in ("ids", "segments")]
        function = tf.function(lambda ids, segments: REDUCTIONS[how](tf.gather(table, ids), segments), specs)
        model = onnx_sparse.quantize_tables(convert(function), "int8")
        assert domain_nodes(model) == [f"QuantizedEmbeddingSegments{how.capitalize()}"]
        ids, segments = rng.integers(0, 2000, 60), np.sort(rng.integers(0, 9, 60))
        (got,) = run(model, ids=ids, segments=segments).values()
        np.testing.assert_allclose(got, function(ids, segments), atol=0.1)
