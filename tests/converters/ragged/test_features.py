"""Sparse features made ragged: the results of the source on the same rows, and a reason where that is not possible."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest

tf = pytest.importorskip("tensorflow")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters.errors import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402
from onnx_sparse.schemas.features import METADATA_KEY, features_of, write_features  # noqa: E402

VOCABULARY = 20
TABLE = np.random.default_rng(0).standard_normal((VOCABULARY, 3)).astype(np.float32)
BY_SPLITS = ("EmbeddingBagOffsetsSum", "EmbeddingBagOffsetsMean", "EmbeddingBagOffsetsSqrtN")

SPARSE = tf.SparseTensorSpec([None, None], tf.int64)
WEIGHTS = tf.SparseTensorSpec([None, None], tf.float32)


def ragged(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with ragged features, none of which stays sparse."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return onnx_sparse.to_ragged(model)


def of(*specs: Any) -> Any:
    """A tf.function with these inputs."""
    return tf.function(input_signature=specs)


def operators(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in model.graph.node}


def sparse(rows: list[list[Any]], dtype: Any, width: int | None = None) -> Any:
    """Rows as a SparseTensor."""
    indices = [[r, c] for r, row in enumerate(rows) for c in range(len(row))]
    values = [value for row in rows for value in row]
    shape = [len(rows), width if width is not None else max(map(len, rows), default=0)]
    indices = np.array(indices, np.int64).reshape(-1, 2)
    return tf.SparseTensor(indices, tf.constant(values, dtype, [len(values)]), shape)


@dataclass
class Model:
    """A random model of several sparse features, each used in one of many ways."""

    seed: int
    steps: list[str] = field(default_factory=list)
    specs: list[Any] = field(default_factory=list)
    uses_positions: list[bool] = field(default_factory=list)
    lowest: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.table = tf.Variable(TABLE)
        parts = [self._part() for _ in range(self.rng.integers(1, 4))]

        @tf.function(input_signature=self.specs, autograph=False)
        def compute(*given: Any) -> dict[str, Any]:
            taken = iter(given)
            return {f"y{k}": part(taken) for k, part in enumerate(parts)}

        self.function = compute

    def _add(self, dtype: Any, *, uses_positions: bool = False, lowest: int = 0, width: int | None = None) -> None:
        self.specs.append(tf.SparseTensorSpec([None, width], dtype))
        self.uses_positions.append(uses_positions)
        self.lowest.append(lowest)

    def _part(self) -> Any:
        choices = [self._lookup] * 4 + [self._hashed, self._filled, self._summed, self._count, self._positions]
        choices += [self._retained] * 2
        return choices[self.rng.integers(len(choices))]()

    def _lookup(self) -> Any:
        safe, weighted = (bool(self.rng.integers(2)) for _ in range(2))
        options: dict[str, Any] = {"combiner": str(self.rng.choice(["sum", "mean", "sqrtn"]))}
        if safe and self.rng.integers(2):
            options["default_id"] = int(self.rng.integers(VOCABULARY))
        if not self.rng.integers(4):
            options["max_norm"] = 0.5
        self.steps.append(f"{'safe ' * safe}{'weighted ' * weighted}{options}")
        look_up = tf.nn.safe_embedding_lookup_sparse if safe else tf.nn.embedding_lookup_sparse
        self._add(tf.int64, lowest=-3 if safe else 0, width=6 if self.rng.integers(2) else None)
        if weighted:
            self._add(tf.float32, width=self.specs[-1].shape[1])
        return lambda given: look_up(self.table, next(given), next(given) if weighted else None, **options)

    def _retained(self) -> Any:
        safe, combiner = bool(self.rng.integers(2)), str(self.rng.choice(["sum", "mean", "sqrtn"]))
        self.steps.append(f"{'safe ' * safe}retained {combiner}")
        self._add(tf.int64, lowest=-3)

        def retained(given: Any) -> Any:
            ids = next(given)
            kept = tf.sparse.retain(ids, ids.values > 5)
            if safe:
                return tf.nn.safe_embedding_lookup_sparse(self.table, kept, combiner=combiner)
            return tf.nn.embedding_lookup_sparse(self.table, kept, None, combiner=combiner)

        return retained

    def _hashed(self) -> Any:
        self.steps.append("hashed")
        self._add(tf.string)

        def hashed(given: Any) -> Any:
            words = next(given)
            ids = tf.SparseTensor(
                words.indices, tf.strings.to_hash_bucket_fast(words.values, VOCABULARY), words.dense_shape
            )
            return tf.nn.safe_embedding_lookup_sparse(self.table, ids, combiner="mean")

        return hashed

    def _filled(self) -> Any:
        self.steps.append("filled")
        self._add(tf.int64)

        def filled(given: Any) -> Any:
            entries, is_empty = tf.sparse.fill_empty_rows(next(given), 7)
            return entries.indices[:, 0], entries.values, is_empty

        return filled

    def _summed(self) -> Any:
        self.steps.append("summed")
        self._add(tf.float32)
        return lambda given: tf.sparse.reduce_sum(next(given), axis=1)

    def _count(self) -> Any:
        self.steps.append("counted")
        self._add(tf.int64)

        def count(given: Any) -> Any:
            ids = next(given)
            return tf.zeros([ids.dense_shape[0], 2]), tf.shape(ids.indices)

        return count

    def _positions(self) -> Any:
        uses = {
            "dense": lambda ids: tf.sparse.to_dense(ids),
            "columns": lambda ids: ids.indices[:, 1],
            "width": lambda ids: ids.dense_shape[1] + 1,
            "flat": lambda ids: tf.sparse.reshape(ids, [-1]).indices,
        }
        name = str(self.rng.choice(list(uses)))
        self.steps.append(name)
        self._add(tf.int64, uses_positions=True)
        return lambda given: uses[name](next(given))

    def rows(self) -> list[list[list[Any]]]:
        """Rows of every feature: weights have the lengths of the ids before them."""
        count = int(self.rng.choice([0, 1, 2, 7]))
        most = int(self.rng.choice([1, 4, 7]))
        made: list[list[list[Any]]] = []
        for k, spec in enumerate(self.specs):
            lengths = self.rng.integers(0, most, count)
            if spec.dtype == tf.string:
                made.append([[f"wört {v}" for v in self.rng.integers(9, size=size)] for size in lengths])
            elif spec.dtype == tf.float32:
                lengths = [len(row) for row in made[-1]] if made and self.specs[k - 1].dtype == tf.int64 else lengths
                made.append([self.rng.integers(-1, 4, size).tolist() for size in lengths])
            else:
                made.append([self.rng.integers(self.lowest[k], VOCABULARY, size).tolist() for size in lengths])
        return made


def compare(model: Model, batches: int) -> None:
    converted = convert(model.function)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = onnx_sparse.to_ragged(converted)
    named = [feature.name for feature in features_of(converted)]
    kinds = {feature.name: feature.kind for feature in features_of(made)}
    stay = [name for name, uses in zip(named, model.uses_positions, strict=True) if uses]
    assert kinds == {name: "sparse" if name in stay else "ragged" for name in named}
    assert [str(warning.message).partition(":")[0] for warning in caught] == [
        f"feature {name!r} stays sparse" for name in stay
    ]
    before, after = onnx_sparse.InferenceSession(converted), onnx_sparse.InferenceSession(made)
    for _ in range(batches):
        rows = model.rows()
        columns = dict(zip(named, rows, strict=True))
        given = [sparse(row, spec.dtype, spec.shape[1]) for row, spec in zip(rows, model.specs, strict=True)]
        expected = [value.numpy() for value in tf.nest.flatten(model.function(*given))]
        of_triples = before.run(None, onnx_sparse.features(before).feeds(columns))
        results = after.run(None, onnx_sparse.features(after).feeds(columns))
        for want, same, got in zip(expected, of_triples, results, strict=True):
            np.testing.assert_array_equal(got, same)
            assert got.dtype == want.dtype
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_random_models(seed):
    compare(Model(seed), batches=25)


@pytest.mark.slow
@pytest.mark.one_of(3)
@pytest.mark.parametrize("seed", range(100, 160))
def test_more_random_models(seed):
    compare(Model(seed), batches=25)


@of(SPARSE)
def mean(items):
    return tf.nn.safe_embedding_lookup_sparse(tf.constant(TABLE), items, combiner="mean")


@of(SPARSE)
def plain_mean(items):
    return tf.nn.embedding_lookup_sparse(tf.constant(TABLE), items, None, combiner="mean")


@of(SPARSE, WEIGHTS)
def weighted(items, weights):
    return tf.nn.safe_embedding_lookup_sparse(tf.constant(TABLE), items, weights, combiner="sqrtn")


class TestInputs:
    def test_of_a_feature(self):
        made = ragged(convert(mean))
        inputs = [(value.name, value.type.tensor_type.elem_type) for value in made.graph.input]
        assert inputs == [("items_1", onnx.TensorProto.INT64), ("items_row_splits", onnx.TensorProto.INT64)]
        (feature,) = features_of(made)
        assert dict(feature.inputs) == {"values": "items_1", "row_splits": "items_row_splits"}
        assert feature.source == {"indices": "items", "values": "items_1", "dense_shape": "items_2"}
        assert feature.vocabulary_size == VOCABULARY

    def test_of_weights_are_their_own(self):
        made = ragged(convert(weighted))
        assert [value.name for value in made.graph.input] == [
            "items_1",
            "items_row_splits",
            "weights_1",
            "weights_row_splits",
        ]

    def test_keep_clear_of_other_names(self):
        @of(SPARSE, tf.TensorSpec([None], tf.float32, "items_row_splits"))
        def add(items, other):
            return tf.nn.safe_embedding_lookup_sparse(tf.constant(TABLE), items)[:, 0] + other

        made = ragged(convert(add))
        assert features_of(made)[0].inputs["row_splits"] == "items_row_splits_1"

    def test_are_ragged_once(self):
        made = ragged(convert(mean))
        assert ragged(made) == made


@pytest.mark.parametrize("function", [mean, plain_mean, weighted])
def test_lookups_take_splits(function):
    made = ragged(convert(function))
    assert operators(made) & {*BY_SPLITS}
    assert not operators(made) & {"ScatterElements", "EmbeddingSegmentsMean", "EmbeddingSegmentsSqrtN"}


@pytest.mark.parametrize("function", [mean, plain_mean])
@pytest.mark.parametrize(
    ("splits", "said"),
    [
        ([1, 2, 3], "offsets[0] = 1 must be 0"),
        ([0, 3, 2, 3], "offsets[2] = 2 is less than offsets[1] = 3"),
        ([0, 2], "offsets[1] = 2 must be 3, the number of values"),
        ([0, 5], "offsets[1] = 5 must be 3, the number of values"),
    ],
)
def test_bad_splits_are_errors(function, splits, said):
    session = onnx_sparse.InferenceSession(ragged(convert(function)))
    with pytest.raises(Exception, match=re.escape(said)):
        session.run(None, {"items_1": np.arange(3), "items_row_splits": np.array(splits, np.int64)})


@pytest.mark.parametrize(
    ("splits", "said"),
    [
        ([1, 2, 3], "row_splits[0] = 1 must be 0"),
        ([0, 3, 2, 3], "row_splits[2] = 2 is less than row_splits[1] = 3"),
        ([0, 2], "row_splits[1] = 2 must be 3, the number of values"),
        ([], "row_splits has 0 elements"),
    ],
)
def test_bad_splits_are_errors_where_nothing_is_looked_up(splits, said):
    @of(WEIGHTS)
    def total(items):
        return tf.sparse.reduce_sum(items, axis=1)

    session = onnx_sparse.InferenceSession(ragged(convert(total)))
    with pytest.raises(Exception, match=re.escape(said)):
        session.run(None, {"items_1": np.ones(3, np.float32), "items_row_splits": np.array(splits, np.int64)})


def reason(function: Any) -> str:
    """Why the feature `items` of a function stays sparse."""
    converted = convert(function)
    with pytest.warns(UserWarning, match="feature 'items' stays sparse: ") as caught:
        made = onnx_sparse.to_ragged(converted)
    assert made == converted
    return str(caught[0].message).partition("sparse: ")[2]


class TestReasons:
    def test_a_node_uses_positions(self):
        @of(SPARSE)
        def dense(items):
            return tf.sparse.to_dense(items)

        said = reason(dense)
        assert said.startswith("node 'SparseToDense")
        assert said.endswith("(ScatterND) uses the positions of values in rows")

    def test_a_node_uses_the_width(self):
        @of(SPARSE)
        def width(items):
            return items.dense_shape[1] * 2

        assert "(Mul) uses the longest row" in reason(width)

    def test_the_model_returns_positions(self):
        @of(SPARSE)
        def returned(items):
            return items.indices

        assert reason(returned) == "the model returns the positions of values in rows"

    def test_a_branch_uses_positions(self):
        @tf.function(input_signature=[SPARSE, tf.TensorSpec([], tf.bool, "flag")], autograph=False)
        def branch(items, flag):
            return tf.cond(flag, lambda: items.indices[:, 1] * 2, lambda: items.indices[:, 1] + 1)

        assert "uses the positions of values in rows" in reason(branch)

    def test_rank(self):
        @of(tf.SparseTensorSpec([None, None, None], tf.int64))
        def deep(items):
            return tf.sparse.to_dense(items)

        assert reason(deep) == "it has 3 dimensions; rows of values have 2"

    def test_one_feature_keeps_no_other_sparse(self):
        @of(SPARSE, SPARSE)
        def both(items, path):
            return tf.nn.safe_embedding_lookup_sparse(tf.constant(TABLE), path), tf.sparse.to_dense(items)

        converted = convert(both)
        with pytest.warns(UserWarning, match="'items' stays sparse") as caught:
            made = onnx_sparse.to_ragged(converted)
        assert len(caught) == 1
        assert {feature.name: feature.kind for feature in features_of(made)} == {"items": "sparse", "path": "ragged"}


class TestOtherForms:
    def test_a_model_with_function_bodies(self):
        embedded = onnx_sparse.embed_functions(convert(mean))
        made = ragged(embedded)
        assert {function.name for function in made.functions} == {"EmbeddingBagOffsetsMean"}

    def test_lowered_afterwards(self):
        converted = convert(mean)
        made = ragged(converted)
        lowered = onnx_sparse.lower(made)
        records = verify(mean, lowered, described_by=made)
        assert [record.ok for record in records] == [True]

    def test_the_given_model_is_not_changed(self):
        converted = convert(mean)
        copy = converted.SerializeToString(deterministic=True)
        ragged(converted)
        assert converted.SerializeToString(deterministic=True) == copy

    def test_a_model_without_a_record_is_copied(self):
        converted = convert(mean)
        del converted.metadata_props[:]
        assert ragged(converted) == converted

    def test_a_record_that_is_none(self):
        converted = convert(mean)
        converted.metadata_props[0].value = "[]"
        with pytest.raises(ValueError, match=f"{METADATA_KEY} have no list of features"):
            onnx_sparse.to_ragged(converted)

    def test_a_record_of_other_inputs(self):
        converted = convert(mean)
        (feature,) = features_of(converted)
        renamed = {role: f"other_{name}" for role, name in feature.inputs.items()}
        write_features(converted, [type(feature)("items", "sparse", renamed)])
        assert reason_of(converted) == "the model has no input 'other_items'"


def reason_of(model: onnx.ModelProto) -> str:
    with pytest.warns(UserWarning, match="stays sparse") as caught:
        onnx_sparse.to_ragged(model)
    return str(caught[0].message).partition("sparse: ")[2]


class TestVerification:
    def test_generated_inputs(self):
        records = verify(weighted, ragged(convert(weighted)))
        assert [(record.ok, record.batches) for record in records] == [(True, 3)]

    def test_a_wrong_model_differs(self):
        made = ragged(convert(mean))
        (node,) = (node for node in made.graph.node if node.op_type in BY_SPLITS)
        node.op_type = "EmbeddingBagOffsetsSum"
        assert [record.ok for record in verify(mean, made)] == [False]

    @pytest.mark.parametrize(
        "feeds",
        [
            {"items_1": [5, 7, 3], "items_row_splits": [0, 2, 2, 3]},
            {"items": [[0, 0], [0, 1], [2, 0]], "items_1": [5, 7, 3], "items_2": [3, 2]},
        ],
        ids=["of the model", "of the source"],
    )
    def test_given_inputs(self, feeds):
        arrays = {name: np.array(value) for name, value in feeds.items()}
        (record,) = verify(mean, ragged(convert(mean)), feeds=arrays)
        assert record.ok
        assert record.shape == (3, 3)

    def test_given_splits_that_are_none(self):
        feeds = {"items_1": np.array([5, 7, 3]), "items_row_splits": np.array([0, 2])}
        with pytest.raises(ConversionError, match=r"items_row_splits: \[0, 2\] are not row splits of 3 values"):
            verify(mean, ragged(convert(mean)), feeds=feeds)

    def test_of_a_graph_def(self, tmp_path):
        """Its inputs are placeholders; only operators say what they are for."""
        v1 = tf.compat.v1
        with tf.Graph().as_default() as graph:
            indices = v1.placeholder(tf.int64, [None, 2], "at")
            values, shape = v1.placeholder(tf.int64, [None], "ids"), v1.placeholder(tf.int64, [2], "size")
            items = tf.SparseTensor(indices, values, shape)
            tf.identity(tf.nn.safe_embedding_lookup_sparse(tf.constant(TABLE), items), "mean")
        path = tmp_path / "graph.pb"
        path.write_bytes(graph.as_graph_def().SerializeToString())
        options = {"inputs": ["at:0", "ids:0", "size:0"], "outputs": ["mean:0"]}
        made = ragged(convert(path, **options))
        assert operators(made) & {*BY_SPLITS}
        assert [(record.ok, record.batches) for record in verify(path, made, **options)] == [(True, 3)]
