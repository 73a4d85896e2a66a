"""The rewriting rules: what they turn TensorFlow's lookups into, and why they leave other graphs alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime as ort
import pytest

tf = pytest.importorskip("tensorflow")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402
from onnx_sparse.converters.tensorflow.phases import PHASES  # noqa: E402
from onnx_sparse.schemas import DOMAIN  # noqa: E402

pytestmark = pytest.mark.pins(
    "DropNegative",
    "DirectLookup",
    "WeightedSum",
    "WeightedMean",
    "ReducedLookup",
    "DefaultRow",
    "ZeroRow",
    "WeightPerId",
)

TABLE = tf.Variable(np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32))
INDICES = np.array([[0, 0], [0, 1], [2, 0], [2, 1], [2, 2]])
IDS = np.array([4, 9, 4, 0, 9])
SHAPE = np.array([4, 3])
WEIGHTS = np.float32([1, 2, 0.5, 4, 3])
TRIPLE = (
    tf.TensorSpec([None, 2], tf.int64, "indices"),
    tf.TensorSpec([None], tf.int64, "ids"),
    tf.TensorSpec([2], tf.int64, "shape"),
)


def lookup(*, safe=False, weights=False, ids=tf.int64, **options):
    specs = [TRIPLE[0], tf.TensorSpec([None], ids, "ids"), TRIPLE[2]]
    specs += [tf.TensorSpec([None], tf.float32, "weights")] if weights else []

    @tf.function(input_signature=specs)
    def function(indices, ids, shape, *by):
        sparse = tf.SparseTensor(indices, ids, shape)
        weighted = tf.SparseTensor(indices, by[0], shape) if by else None
        call = tf.nn.safe_embedding_lookup_sparse if safe else tf.nn.embedding_lookup_sparse
        return call(TABLE, sparse, weighted, **options)

    return function


def kinds(model):
    return [node.op_type for node in model.graph.node]


def explain(function):
    """The model, and the explanation of its conversion."""
    said = []
    model = convert(function, explain=said.append)
    (explanation,) = said
    return model, explanation


def reasons(explanation):
    return {attempt.rule: attempt.reason for attempt in explanation.declined}


class TestNodeCounts:
    """How few nodes remain of TensorFlow's 3 to 54, and tf2onnx's 27 to 178."""

    @pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
    @pytest.mark.parametrize(
        ("options", "count"),
        [
            ({}, 5),
            ({"weights": True}, 7),
            ({"safe": True}, 3),
            ({"safe": True, "default_id": 3}, 3),
            ({"safe": True, "weights": True}, 7),
            ({"safe": True, "weights": True, "default_id": 0}, 7),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
    )
    def test_of_lookups(self, combiner, options, count):
        model, explanation = explain(lookup(combiner=combiner, **options))
        if options.get("weights") and options.get("safe") and combiner == "sum":
            count -= 2  # entries with weights that are not positive are kept
        assert len(model.graph.node) == explanation.nodes == count < explanation.nodes_before
        ours = [node.op_type for node in model.graph.node if node.domain == DOMAIN]
        assert ours == ["EmbeddingSegments" + {"sum": "Sum", "mean": "Mean", "sqrtn": "SqrtN"}[combiner]]

    def test_of_a_lookup_of_rank_3(self):
        """One SparseReshape merges all dimensions but the last into rows, one Reshape restores them.

        Their sizes, which a caller gives, may be any integers: a Split and a Mul, which wraps, multiply them.
        """

        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.int64), TRIPLE[1], tf.TensorSpec([3], tf.int64)])
        def of_rank_3(indices, ids, shape):
            return tf.nn.safe_embedding_lookup_sparse(TABLE, tf.SparseTensor(indices, ids, shape))

        model, explanation = explain(of_rank_3)
        assert len(model.graph.node) == 17 < explanation.source_nodes
        assert [n.op_type for n in model.graph.node if n.domain == DOMAIN] == ["SparseReshape", "EmbeddingSegmentsMean"]
        assert kinds(model).count("Reshape") == 1


@pytest.mark.parametrize("options", [{}, {"weights": True}, {"safe": True}, {"safe": True, "weights": True}])
@pytest.mark.slow
def test_rewritten_models_are_valid(options):
    model = convert(lookup(**options))
    onnx.checker.check_model(model, full_check=True)
    made = {name for node in model.graph.node for name in node.output}
    assert {value.name for value in model.graph.value_info} <= made
    used = {name for node in model.graph.node for name in node.input}
    assert {tensor.name for tensor in model.graph.initializer} <= used


class TestDirectLookup:
    @pytest.mark.parametrize("dtype", [tf.int32, tf.int64], ids=lambda t: t.name)
    @pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
    def test_a_reduction_takes_the_table_itself(self, agree, combiner, dtype):
        model = agree(lookup(combiner=combiner, ids=dtype), INDICES, IDS.astype(dtype.as_numpy_dtype), SHAPE)
        (node,) = (node for node in model.graph.node if node.domain == DOMAIN)
        tables = {tensor.name for tensor in model.graph.initializer if list(tensor.dims) == [10, 3]}
        assert node.input[0] in tables
        assert "Unique" not in kinds(model)

    def test_rows_that_are_changed_before_the_reduction_stay_unique(self, agree):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
        def doubled(ids):
            values, positions = tf.unique(ids)
            return tf.sparse.segment_sum(2 * tf.gather(TABLE, values), positions, tf.zeros_like(positions))

        assert "Unique" in kinds(agree(doubled, IDS))
        assert "are changed before they are picked" in reasons(explain(doubled)[1])["direct-lookup"]

    def test_unique_values_that_something_else_uses_stay(self, agree):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
        def both(ids):
            values, positions = tf.unique(ids)
            return tf.sparse.segment_sum(tf.gather(TABLE, values), positions, tf.zeros_like(positions)), values

        model = agree(both, IDS)
        assert {"EmbeddingSegmentsSum", "Unique"} <= set(kinds(model))

    def test_other_positions_are_left_alone(self, agree):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
        def shifted(ids):
            values, positions = tf.unique(ids)
            return tf.sparse.segment_sum(tf.gather(TABLE, values), positions * 0, tf.zeros_like(positions))

        assert "Unique" in kinds(agree(shifted, IDS))

    def test_positions_in_other_ids_are_left_alone(self, agree):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
        def crossed(ids):
            (values, _), (_, positions) = tf.unique(ids), tf.unique(9 - ids)
            return tf.gather(tf.gather(TABLE, values), positions)

        assert "Unique" in kinds(agree(crossed, IDS))
        assert "other ids" in reasons(explain(crossed)[1])["direct-lookup"]

    def test_without_ids(self, agree):
        agree(lookup(combiner="mean"), np.zeros((0, 2), np.int64), np.zeros(0, np.int64), SHAPE)


SEGMENTED = [
    tf.TensorSpec([10, 3], tf.float32, "table"),
    tf.TensorSpec([None], tf.int64, "ids"),
    tf.TensorSpec([None], tf.float32, "weights"),
    tf.TensorSpec([None], tf.int64, "segments"),
]
SEGMENTS = np.array([0, 0, 2, 2, 2])


def segmented(body):
    return tf.function(body, input_signature=SEGMENTED)


class TestWeightedReductions:
    FEEDS = (TABLE.numpy(), IDS, WEIGHTS, SEGMENTS)

    def test_the_weights_may_stand_on_either_side(self, agree):
        @segmented
        def left(table, ids, weights, segments):
            return tf.math.segment_sum(weights[:, None] * tf.gather(table, ids), segments)

        assert "SegmentSum" not in kinds(agree(left, *self.FEEDS))

    def test_weights_per_element_stay_products(self, agree):
        @segmented
        def masked(table, ids, weights, segments):
            return tf.math.segment_sum(tf.gather(table, ids) * (weights[:, None] + tf.ones([1, 3])), segments)

        assert "SegmentSum" in kinds(agree(masked, *self.FEEDS))
        assert "not multiplied by a vector of one weight per id" in reasons(explain(masked)[1])["weighted-sum"]

    @pytest.mark.parametrize("power", [2.0, 3.0])
    def test_only_the_root_of_squares_makes_a_sqrt_n(self, power):
        @segmented
        def divided(table, ids, weights, segments):
            total = tf.math.segment_sum(tf.gather(table, ids) * weights[:, None], segments)
            return tf.math.divide_no_nan(total, tf.sqrt(tf.math.segment_sum(weights[:, None] ** power, segments)))

        model, explanation = explain(divided)
        assert ("EmbeddingSegmentsSqrtN" in kinds(model)) == (power == 2)
        assert ("weighted-mean" in explanation.fired) == (power == 2)

    def test_a_divisor_of_other_weights_stays_a_quotient(self, agree):
        @segmented
        def doubled(table, ids, weights, segments):
            total = tf.math.segment_sum(tf.gather(table, ids) * weights[:, None], segments)
            return tf.math.divide_no_nan(total, tf.math.segment_sum(2 * weights[:, None], segments))

        assert "Div" in kinds(agree(doubled, *self.FEEDS))
        assert "other weights" in reasons(explain(doubled)[1])["weighted-mean"]

    def test_a_sum_that_is_fetched_as_well_stays(self, agree):
        @segmented
        def both(table, ids, weights, segments):
            total = tf.math.segment_sum(tf.gather(table, ids) * weights[:, None], segments)
            return total, tf.math.divide_no_nan(total, tf.math.segment_sum(weights[:, None], segments))

        assert {"EmbeddingSegmentsSum", "EmbeddingSegmentsMean"} <= set(kinds(agree(both, *self.FEEDS)))

    def test_half_rows_are_weighted_in_float32(self):
        half = tf.constant(TABLE.numpy(), tf.float16)

        @tf.function(input_signature=SEGMENTED[1:])
        def halves(ids, weights, segments):
            return tf.math.segment_sum(tf.cast(tf.gather(half, ids), tf.float32) * weights[:, None], segments)

        assert "are cast before they are weighted" in reasons(explain(halves)[1])["weighted-sum"]


def filled(body):
    return tf.function(body, input_signature=TRIPLE)


class TestEmptyRows:
    def test_a_default_that_is_not_constant(self, agree):
        @filled
        def computed(indices, ids, shape):
            full, _ = tf.sparse.fill_empty_rows(tf.SparseTensor(indices, ids, shape), tf.reduce_max(ids))
            return tf.nn.embedding_lookup_sparse(TABLE, full, None, combiner="mean")

        assert "SparseFillEmptyRows" in kinds(agree(computed, INDICES, IDS, SHAPE))
        assert "not a constant" in reasons(explain(computed)[1])["default-row"]

    def test_other_values_for_empty_rows_are_still_selected(self, agree):
        @filled
        def ones(indices, ids, shape):
            full, empty = tf.sparse.fill_empty_rows(tf.SparseTensor(indices, ids, shape), np.int64(0))
            rows = tf.nn.embedding_lookup_sparse(TABLE, full, None, combiner="sum")
            return tf.where(empty[:, None], tf.ones_like(rows), rows)

        model = agree(ones, INDICES, IDS, SHAPE)
        assert {"EmbeddingSegmentsSum", "SparseFillEmptyRows", "Where"} <= set(kinds(model))
        assert "something other than 0" in reasons(explain(ones)[1])["zero-row"]

    def test_rows_of_another_tensor_that_are_empty(self, agree):
        @filled
        def crossed(indices, ids, shape):
            full, _ = tf.sparse.fill_empty_rows(tf.SparseTensor(indices, ids, shape), np.int64(0))
            _, empty = tf.sparse.fill_empty_rows(tf.SparseTensor(indices[1:], ids[1:], shape), np.int64(0))
            rows = tf.nn.embedding_lookup_sparse(TABLE, full, None, combiner="sum")
            return tf.where(empty[:, None], tf.zeros_like(rows), rows)

        agree(crossed, INDICES[1:], IDS[1:], SHAPE)
        assert "other rows" in reasons(explain(crossed)[1])["zero-row"]

    def test_weights_filled_with_something_else(self, agree):
        @tf.function(input_signature=[*TRIPLE, tf.TensorSpec([None], tf.float32)])
        def heavy(indices, ids, shape, weights):
            full, _ = tf.sparse.fill_empty_rows(tf.SparseTensor(indices, ids, shape), np.int64(1))
            by, _ = tf.sparse.fill_empty_rows(tf.SparseTensor(indices, weights, shape), 2.0)
            return tf.nn.embedding_lookup_sparse(TABLE, full, by, combiner="sum")

        agree(heavy, INDICES, IDS, SHAPE, WEIGHTS)
        assert "another weight than 1" in reasons(explain(heavy)[1])["default-row"]


def shuffled(rng, count, rows, ids=np.int64):
    """A sparse tensor whose entries are in any row order; some ids are pruned."""
    coordinates = [rng.integers(0, rows, count), rng.integers(0, 3, count)] if count else np.zeros((2, 0), np.int64)
    return np.stack(coordinates, 1), rng.integers(-2, 10, count).astype(ids), np.array([rows, 3])


#: Numbers of entries and of rows: none, long rows, rows without entries.
SIZES = ((0, 0), (0, 3), (1, 1), (40, 6), (40, 1), (5, 40))


class TestRowOrder:
    """Entries of a fused lookup may be in any row order, but not of any row, as in TensorFlow."""

    @pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
    @pytest.mark.parametrize("default", [None, 3])
    @pytest.mark.parametrize("dtype", [tf.int32, tf.int64], ids=lambda t: t.name)
    def test_entries_in_any_order(self, agree, combiner, default, dtype):
        """Equal to the bit: the entries of a row are summed in the order in which they came."""
        looked_up = lookup(safe=True, combiner=combiner, default_id=default, ids=dtype)
        rng = np.random.default_rng(2)
        for sizes in SIZES:
            model = agree(looked_up, *shuffled(rng, *sizes, dtype.as_numpy_dtype))
        assert "SparseFillEmptyRows" not in kinds(model)

    @pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
    @pytest.mark.parametrize("default", [None, 3])
    def test_weights_move_with_their_entries(self, run, combiner, default):
        weighted = lookup(safe=True, weights=True, combiner=combiner, default_id=default)
        model, rng = convert(weighted), np.random.default_rng(3)
        assert "SparseFillEmptyRows" not in kinds(model)
        for sizes in SIZES:
            indices, ids, shape = shuffled(rng, *sizes)
            feeds = {"indices": indices, "ids": ids, "shape": shape}
            feeds["weights"] = rng.uniform(-0.2, 2, len(ids)).astype(np.float32)
            if combiner != "sum":
                feeds["weights"] = np.abs(feeds["weights"])  # a divisor of 0 is another matter
            (actual,) = run(model, **feeds).values()
            np.testing.assert_allclose(actual, weighted(*feeds.values()).numpy(), rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
    @pytest.mark.parametrize("safe", [False, True], ids=["", "safe"])
    def test_too_few_weights_are_an_error(self, run, combiner, safe):
        """Also where there are none, or the ones that are there are pruned."""
        weighted = lookup(safe=safe, weights=True, combiner=combiner)
        model = convert(weighted)
        for ids in ([4], [4, 9], [-1, 9][: 2 * safe]):
            for weights in ([], [-1.0], [0.5])[: len(ids)]:
                feeds = {"indices": INDICES[: len(ids)], "ids": np.array(ids, np.int64), "shape": SHAPE}
                feeds["weights"] = np.float32(weights)
                with pytest.raises(Exception, match=r"cannot be reshaped|broadcast"):
                    run(model, **feeds)
                if safe and len(ids) > 1:  # else a single weight is for all ids, and no weights drop a single id
                    with pytest.raises(tf.errors.InvalidArgumentError):
                        weighted(*feeds.values())

    def test_in_standard_onnx(self):
        looked_up, rng = lookup(safe=True), np.random.default_rng(4)
        session = ort.InferenceSession(onnx_sparse.lower(convert(looked_up)).SerializeToString())
        for sizes in SIZES:
            feeds = dict(zip(("indices", "ids", "shape"), shuffled(rng, *sizes), strict=True))
            np.testing.assert_allclose(session.run(None, feeds)[0], looked_up(*feeds.values()).numpy(), rtol=1e-5)

    @pytest.mark.parametrize("row", [4, 2**40, -1])
    @pytest.mark.parametrize("order", [1, -1], ids=["sorted", "backwards"])
    @pytest.mark.parametrize("weights", [False, True], ids=["", "weights"])
    def test_an_entry_of_a_row_that_does_not_exist_is_an_error(self, run, row, order, weights):
        indices = INDICES[::order].copy()
        at = 0 if row < 0 else 4
        indices[at, 0] = row
        looked_up = lookup(safe=True, weights=weights)
        feeds = {"indices": indices, "ids": IDS, "shape": SHAPE} | ({"weights": WEIGHTS} if weights else {})
        with pytest.raises(tf.errors.InvalidArgumentError, match="is invalid"):
            looked_up(*feeds.values())
        with pytest.raises(onnx_sparse.KernelError, match=rf"segment_ids\[{at}\] = {row} is out of range \[0, 4\)"):
            run(convert(looked_up), **feeds)

    def test_an_entry_that_is_pruned_may_be_of_any_row(self, agree):
        indices = INDICES[::-1].copy()
        indices[4, 0] = 4
        agree(lookup(safe=True), indices, np.array([4, 9, 4, 0, -1]), SHAPE)

    def test_row_ids_of_a_ragged_tensor(self, agree):
        @tf.function(input_signature=[*[tf.TensorSpec([None], tf.int64)] * 2, tf.TensorSpec([], tf.int64)])
        def of_row_ids(ids, rows, count):
            filled = tf.raw_ops.RaggedFillEmptyRows(value_rowids=rows, values=ids, nrows=count, default_value=2)
            return tf.sparse.segment_mean(TABLE, filled.output_values, filled.output_value_rowids)

        model = agree(of_row_ids, IDS, np.array([2, 0, 0, 5, 2]), np.int64(7))
        assert "RaggedFillEmptyRows" not in kinds(model)

    def test_a_lookup_that_is_not_fused(self, agree):
        """A default that is not constant: the fill itself sorts."""

        @filled
        def computed(indices, ids, shape):
            full, _ = tf.sparse.fill_empty_rows(tf.SparseTensor(indices, ids, shape), tf.reduce_max(ids))
            return tf.nn.embedding_lookup_sparse(TABLE, full, None, combiner="mean")

        model = agree(computed, INDICES[::-1], IDS, SHAPE)
        (node,) = (node for node in model.graph.node if node.op_type.startswith("EmbeddingSegments"))
        assert [a.s for a in node.attribute] == [b"error", b"sorted"]


class TestPruning:
    @pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
    @pytest.mark.parametrize("options", [{}, {"weights": True}, {"default_id": 3}], ids=" ".join)
    @pytest.mark.parametrize("ids", [tf.int32, tf.int64], ids=lambda t: t.name)
    def test_a_lookup_drops_negative_ids_itself(self, run, combiner, options, ids):
        """Whether all ids are negative, some, or none; entries without a positive weight go with them."""
        looked_up = lookup(safe=True, combiner=combiner, ids=ids, **options)
        model, rng = convert(looked_up), np.random.default_rng(7)
        assert "Compress" not in kinds(model)
        for negative in (0, 0.5, 1):
            indices, drawn, shape = shuffled(rng, 40, 12, ids.as_numpy_dtype)
            drawn[rng.random(len(drawn)) < negative] = -3
            feeds = {"indices": indices, "ids": drawn, "shape": shape}
            if "weights" in options:
                feeds["weights"] = rng.uniform(-0.2 * (combiner != "sum"), 2, len(drawn)).astype(np.float32)
            (actual,) = run(model, **feeds).values()
            expected = looked_up(*feeds.values()).numpy()
            np.testing.assert_allclose(actual, expected, rtol=1e-5 if "weights" in options else 0)

    def test_ids_that_a_cast_may_make_negative_are_dropped_before(self, run):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)] * 2)
        def narrowed(ids, rows):
            kept = ids >= 0
            ids, rows = (tf.cast(tf.boolean_mask(x, kept), tf.int32) for x in (ids, rows))
            return tf.raw_ops.SparseSegmentSum(data=TABLE, indices=ids, segment_ids=rows)

        model = convert(narrowed)
        assert kinds(model).count("Compress") == 2
        with pytest.raises(onnx_sparse.KernelError, match=r"indices\[1\] = -1 is out of range"):
            run(model, ids=np.array([-1, 2, 2**32 - 1]), rows=np.array([0, 0, 1]))

    def test_a_mask_of_rows_is_not_a_mask_of_entries(self, agree):
        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32)])
        def kept(x):
            return tf.gather(tf.reshape(x, [-1]), tf.reshape(tf.where(x > 0), [-1]))

        assert "Compress" not in kinds(agree(kept, np.float32([[1, -1, 2], [0, 3, 4]])))
        assert "vector of booleans" in reasons(explain(kept)[1])["keep-by-mask"]

    def test_columns_of_matrices(self, agree):
        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32), tf.TensorSpec([None], tf.bool)])
        def columns(x, keep):
            return tf.boolean_mask(x, keep)[:, 2], x[:, 0], x[:, -1], x[1:, 1]

        model = agree(columns, np.arange(9, dtype=np.float32).reshape(3, 3), np.array([True, False, True]))
        assert Counter(kinds(model))["Compress"] == 1

    def test_reshapes_to_another_shape_stay(self, agree):
        @tf.function(input_signature=[tf.TensorSpec([2], tf.int64), tf.TensorSpec([None, None], tf.float32)])
        def reshaped(shape, x):
            return tf.reshape(x, tf.shape(x)) + 1, tf.reshape(x, shape), tf.reshape(x, [-1])

        model = agree(reshaped, np.array([3, 2]), np.arange(6, dtype=np.float32).reshape(2, 3))
        assert kinds(model).count("Reshape") == 2


@pytest.mark.slow
class TestStacks:
    """A stack is one Concat and one Reshape where its sizes are known."""

    @pytest.mark.pairwise
    @pytest.mark.parametrize("count", [1, 2, 5])
    @pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
    @pytest.mark.parametrize("shape", [[None, 4], [3, 4], [4, None], [None, None]], ids=str)
    def test_along_any_axis(self, agree, shape, axis, count):
        @tf.function(input_signature=[tf.TensorSpec(shape, tf.float32)])
        def stacked(x):
            return tf.stack([x + float(k) for k in range(count)], axis=axis)

        for rows, columns in ((0, 4), (3, 4), (4, 0)):
            given = [known or size for known, size in zip(shape, (rows, columns), strict=True)]
            x = np.arange(np.prod(given)).reshape(given).astype(np.float32)
            model = agree(stacked, x)
        splits_known_axis = (shape[axis % 3] if axis % 3 < 2 else None) is not None and shape.count(None) < 2
        assert ("Unsqueeze" not in kinds(model)) == (splits_known_axis and count > 1)

    def test_of_sizes_that_may_differ(self, agree):
        """Joined, they might have the right size in all."""

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([None, 4], tf.float32)])
        def stacked(x, y):
            return tf.stack([x, y], axis=1)

        assert "Unsqueeze" in kinds(agree(stacked, np.ones((2, 4), np.float32), np.ones((2, 4), np.float32)))


def test_rules_apply_inside_of_branches(agree):
    @tf.function(input_signature=[*TRIPLE, tf.TensorSpec([], tf.bool)])
    def branches(indices, ids, shape, safe):
        sparse = tf.SparseTensor(indices, ids, shape)
        if safe:
            return tf.nn.safe_embedding_lookup_sparse(TABLE, sparse, combiner="mean")
        return tf.zeros([4, 3])

    model = agree(branches, INDICES, IDS, SHAPE, np.bool_(True))
    (choice,) = (node for node in model.graph.node if node.op_type == "If")
    inner = {node.op_type for attribute in choice.attribute for node in attribute.g.node}
    assert "EmbeddingSegmentsMean" in inner
    assert not inner & {"Unique", "SparseFillEmptyRows"}


def test_every_rule_says_what_it_does():
    rules = {rule for phase in PHASES for rule in phase}
    assert all(type(rule).__doc__ for rule in rules)
    names = {type(rule): rule.name for rule in rules}
    assert len(set(names.values())) == len(names)
