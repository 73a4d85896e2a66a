"""Inputs that are valid because the model shows what they are for, and the comparison with TensorFlow on them."""

import os

import numpy as np
import pytest
from onnx import numpy_helper

tf = pytest.importorskip("tensorflow")

from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, load, verify  # noqa: E402
from onnx_sparse.converters.verification.comparison import Verdict  # noqa: E402
from onnx_sparse.converters.verification.sample_inputs import (  # noqa: E402
    KINDS,
    CompositeSpecs,
    RaggedInput,
    SparseInput,
    sample,
)
from onnx_sparse.models.graphs import graphs  # noqa: E402
from onnx_sparse.rows.input_roles import find_roles  # noqa: E402
from onnx_sparse.sessions import runtime  # noqa: E402

VOCABULARY = 10
EIGHT = tf.constant(np.arange(32, dtype=np.float32).reshape(8, 4))


@pytest.fixture(scope="module")
def lookup():
    """A safe lookup whose inputs' names say nothing."""
    table = tf.Variable(np.random.default_rng(0).standard_normal((VOCABULARY, 4)).astype(np.float32))
    specs = [
        tf.TensorSpec([None, 2], tf.int64, "a"),
        tf.TensorSpec([None], tf.int64, "b"),
        tf.TensorSpec([2], tf.int64, "c"),
        tf.TensorSpec([None], tf.float32, "d"),
        tf.TensorSpec([None, 4], tf.float32, "e"),
    ]

    @tf.function(input_signature=specs)
    def weighted(a, b, c, d, e):
        ids, weights = tf.SparseTensor(a, b, c), tf.SparseTensor(a, d, c)
        plain = tf.nn.safe_embedding_lookup_sparse(table, ids, combiner="mean") + e
        return {"plain": plain, "weighted": tf.nn.safe_embedding_lookup_sparse(table, ids, weights, combiner="sum")}

    return weighted


@pytest.fixture(scope="module")
def model(lookup):
    return convert(lookup)


def test_roles_are_read_from_the_graph(model):
    roles = find_roles(model)
    assert roles.coordinates == {"a": "c"}
    assert roles.entries == {"b", "d"}
    assert roles.bounds == {"b": VOCABULARY}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_sparse_inputs_are_valid(model, kind, seed):
    inputs = sample(model, seed=seed, kind=kind)
    a, b, c, d, e = (inputs[name] for name in "abcde")
    assert len(a) == len(b) == len(d)
    assert len(e) == c[0]
    assert ((a >= 0) & (a < c)).all()
    assert [tuple(row) for row in a] == sorted({tuple(row) for row in a})  # row-major, no duplicates
    assert ((b >= 0) & (b < VOCABULARY)).all()
    assert [x.dtype for x in (a, b, c, d, e)] == [np.int64, np.int64, np.int64, np.float32, np.float32]
    empty = set(range(c[0])) - set(a[:, 0])
    assert bool(empty) == (kind in ("with empty rows", "without entries"))
    assert (len(a) == 0) == (kind in ("without entries", "of no rows"))
    assert c[0] == {"of one row": 1, "of no rows": 0}.get(kind, c[0])


def test_the_same_seed_gives_the_same_inputs(model):
    first, again, other = (sample(model, seed=seed, kind="ordinary") for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not all(np.array_equal(first[name], other[name]) for name in first)


def test_names_help_where_the_graph_says_nothing():
    specs = [
        tf.TensorSpec([None, 2], tf.int64, "tags_indices"),
        tf.TensorSpec([None], tf.string, "tags_values"),
        tf.TensorSpec([2], tf.int64, "tags_dense_shape"),
    ]
    function = tf.function(lambda i, v, s: {"i": i + 1, "v": v, "s": s + 1}, input_signature=specs)
    roles = find_roles(convert(function))
    assert roles.coordinates == {"tags_indices": "tags_dense_shape"}
    assert roles.entries == {"tags_values"}


@pytest.mark.parametrize(("rows", "width"), [(None, 1), (None, 7), (2, 3), (9, None)])
def test_the_spec_of_a_sparse_tensor_bounds_its_coordinates(rows, width):
    spec = tf.SparseTensorSpec([rows, width], tf.float32)
    function = tf.function(lambda sp: tf.sparse.fill_empty_rows(sp, 0.0)[0], input_signature=[spec])
    assert all(record.ok for record in verify(function, convert(function)))
    specs = CompositeSpecs((SparseInput("sp", "sp_1", "sp_2", (rows, width)),))
    inputs = sample(convert(function), seed=0, kind="ordinary", specs=specs)
    assert inputs["sp_2"][0] == (rows or inputs["sp_2"][0])
    assert inputs["sp_2"][1] == (width or inputs["sp_2"][1])
    assert (inputs["sp"] < inputs["sp_2"]).all()


@pytest.mark.slow
def test_row_splits_of_a_ragged_tensor():
    spec = tf.RaggedTensorSpec([None, None], tf.int64)
    table = tf.constant(np.ones((VOCABULARY, 2), np.float32))
    lookup = tf.nn.safe_embedding_lookup_sparse
    function = tf.function(lambda ids: lookup(table, ids, combiner="mean"), input_signature=[spec])
    (record,) = verify(function, convert(function))
    assert record.ok
    # TensorFlow's own kernel fails on a batch of size zero.
    assert record.note == "TensorFlow refuses the batch 'of no rows': segment_ids should be a vector."


@pytest.mark.slow
def test_row_splits_without_a_spec():
    """The signatures of a SavedModel have the parts of its ragged inputs, but do not say what they are."""
    names = ("ids", "ids_splits", "weights", "weights_splits")
    specs = [tf.TensorSpec([None], tf.float32 if name == "weights" else tf.int64, name) for name in names]

    @tf.function(input_signature=specs)
    def weighted(ids, ids_splits, weights, weights_splits):
        ids = tf.RaggedTensor.from_row_splits(ids, ids_splits, validate=False)
        weights = tf.RaggedTensor.from_row_splits(weights, weights_splits, validate=False)
        return tf.nn.safe_embedding_lookup_sparse(np.ones((VOCABULARY, 2), np.float32), ids, weights)

    model = convert(weighted)
    assert find_roles(model).splits == {"ids_splits", "weights_splits"}
    (record,) = verify(weighted, model)
    assert record.ok
    assert record.note == "TensorFlow refuses the batch 'of no rows': segment_ids should be a vector."


RAGGED, SPARSE, DENSE = tf.RaggedTensorSpec, tf.SparseTensorSpec, tf.TensorSpec


class TestReloadedSignatures:
    """A SavedModel's signature has plain tensors only; what they are parts of is found nevertheless."""

    @pytest.mark.parametrize("kept", [True, False])
    def test_the_parts_of_composite_tensors(self, kept, tmp_path):
        """In the object that is saved, or only in the functions that the signature calls."""
        specs = {
            "ids": RAGGED([None, None], tf.int64),
            "nested": RAGGED([None, None, None], tf.float32),
            "wide": RAGGED([None, None, 3], tf.float32, ragged_rank=1),
            "sparse": SPARSE([None, 7], tf.float32),
            "mask": DENSE([None], tf.int32, name="mask"),
        }

        def sums(ids, nested, wide, sparse, mask):
            kept = tf.reduce_sum(tf.gather(tf.ones([VOCABULARY]), ids), 1) * tf.cast(mask, tf.float32)
            several = tf.reduce_sum(tf.reduce_sum(nested, 2), 1) + tf.reduce_sum(tf.reduce_sum(wide, 2), 1)
            return {"y": kept + several + tf.reduce_sum(tf.sparse.to_dense(sparse), 1)}

        module = tf.Module()
        function = tf.function(sums, input_signature=list(specs.values()))
        if kept:
            module.sums = function
        tf.saved_model.save(module, str(tmp_path), signatures=function)
        loaded = load(tmp_path)
        assert set(loaded.specs.ragged) == {
            RaggedInput("ids", ("ids_1",)),
            RaggedInput("nested", ("nested_1", "nested_2")),
            RaggedInput("wide", ("wide_1",)),
        }
        shape = (None, 7) if kept else None
        assert loaded.specs.sparse == (SparseInput("sparse", "sparse_1", "sparse_2", shape),)
        if kept:
            (record,) = verify(loaded, convert(loaded))
            assert (record.verdict, record.batches, record.note) == (Verdict.EQUAL, 3, "")

    @pytest.mark.parametrize("structure", [dict, list])
    def test_composite_tensors_in_one_argument(self, structure, tmp_path):
        parts = {"a": SPARSE([None, 3], tf.float32), "b": DENSE([None, 3]), "c": RAGGED([None, None], tf.float32)}
        argument = parts if structure is dict else list(parts.values())

        @tf.function(input_signature=[argument])
        def function(x):
            a, b, c = (x["a"], x["b"], x["c"]) if structure is dict else x
            return tf.sparse.to_dense(a) + b + tf.reduce_sum(c, 1)[:, None]

        module = tf.Module()
        module.function = function
        tf.saved_model.save(module, str(tmp_path), signatures=function)
        specs = load(tmp_path).specs
        assert len(specs.sparse) == len(specs.ragged) == 1

    def test_plain_tensors_are_not_taken_for_parts(self, tmp_path):
        module = tf.Module()
        signature = [DENSE([None], tf.int64, "x"), DENSE([None], tf.int64, "x_1"), DENSE([None], tf.int64, "x_2")]
        module.f = tf.function(lambda x, y, z: x + y + z, input_signature=signature)
        tf.saved_model.save(module, str(tmp_path), signatures=module.f)
        assert load(tmp_path).specs == CompositeSpecs()


@pytest.mark.parametrize(
    ("specs", "call"),
    [
        (
            [DENSE([None, None]), SPARSE([None, None], tf.float32)],
            lambda x, a: tf.sparse.sparse_dense_matmul(a, x @ EIGHT),
        ),
        ([DENSE([None, None, None]), DENSE([None, None, None])], lambda x, a: a @ (x @ EIGHT)),
        ([DENSE([None, None])], lambda x: tf.reshape(x, [-1, 4, 8])),
        ([DENSE([None, None])], lambda x: tf.math.top_k(x, 5)[0]),
        ([DENSE([None, None]), DENSE([None, None])], lambda x, y: tf.concat([x, y], 1) @ tf.ones([20, 3])),
        (
            [DENSE([None, 8]), DENSE([None], tf.int32), DENSE([None], tf.int32)],
            lambda x, a, b: tf.math.unsorted_segment_sum(tf.gather(x @ EIGHT, a), b, tf.shape(x)[0]),
        ),
        (
            [DENSE([None, 8]), DENSE([None], tf.int32)],
            lambda x, graph: tf.math.segment_sum(tf.nn.relu(x @ EIGHT), graph),
        ),
    ],
    ids=["adjacency", "batch of adjacencies", "reshape", "top", "concat", "edges", "graphs"],
)
def test_sizes_that_tensorflow_demands_are_found(specs, call):
    function = tf.function(call, input_signature=specs)
    loaded = load(function)
    (record,) = verify(loaded, convert(loaded))
    assert record.verdict == Verdict.EQUAL
    assert record.batches >= 2


@pytest.mark.parametrize("stride", [1, 2, 3, 7])
def test_inputs_are_as_long_as_a_window(stride):
    """TensorFlow answers something for inputs that are shorter by less than a stride, and ONNX Runtime refuses them."""

    @tf.function(input_signature=[tf.TensorSpec([None, None, 4], tf.float32)])
    def convolved(x):
        return tf.nn.conv1d(x, tf.ones([9, 4, 2]), stride, "VALID")

    (record,) = verify(convolved, convert(convolved))
    assert record.ok, record.note


def test_inputs_are_as_long_as_all_windows_need():
    """Each window takes the results of those before it; TensorFlow's pooling of too few has no result, ours one."""

    @tf.function(input_signature=[tf.TensorSpec([None, None, 4], tf.float32)])
    def pooled(x):
        x = tf.nn.conv1d(x, tf.ones([3, 4, 2]), 1, "VALID")
        x = tf.nn.conv1d(tf.nn.max_pool1d(x, 3, 3, "VALID"), tf.ones([3, 2, 2]), 1, "VALID")
        return tf.nn.avg_pool1d(x, 2, 2, "VALID")

    (record,) = verify(pooled, convert(pooled))
    assert record.ok, record.note


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("unread", [0, 2])
def test_columns_that_are_looked_up_like_sparse_tensors_have_as_many_rows(width, unread):
    """Without trying sizes one by one: next to inputs that nothing reads, none of the solver's attempts was right."""
    words = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([0, 1], tf.int64)), 1
    )
    kinds = {"uid": tf.int64, "city": tf.string, "dev": tf.string, "iid": tf.int64}
    tables = {name: tf.random.stateless_normal([20, 4], (1, k)) for k, name in enumerate(kinds)}

    def pooled(name, x, combiner):
        at = tf.where(tf.not_equal(x, "" if x.dtype == tf.string else -1))
        found = tf.gather_nd(x, at)
        ids = {"city": words.lookup, "dev": lambda v: tf.strings.to_hash_bucket_fast(v, 20)}.get(name, tf.identity)
        entries = tf.SparseTensor(at, ids(found), tf.shape(x, out_type=tf.int64))
        return tf.nn.safe_embedding_lookup_sparse(tables[name], entries, combiner=combiner)

    def together(given, combiner):
        return tf.concat([pooled(name, given[name], combiner) for name in kinds], 1)

    specs = {name: DENSE([None, width], dtype, name) for name, dtype in kinds.items()}
    specs |= {f"unread_{k}": DENSE([None, 4], tf.int64, f"unread_{k}") for k in range(unread)}
    made = []
    for combiner in ("mean", "sum"):
        call = tf.function(lambda combiner=combiner, **given: {"y": together(given, combiner)})
        made.append(call.get_concrete_function(**specs))
    right, wrong = map(convert, made)
    (record,) = verify(made[0], right)
    assert record.verdict == Verdict.EQUAL, record.note
    assert record.batches >= 4
    (record,) = verify(made[0], wrong)
    assert (record.verdict == Verdict.DIFFERENT) == (width > 1)  # of one value a row, mean and sum are the same


def test_a_wrong_combiner_is_found_where_rows_may_have_several_entries():
    """A batch of one entry a row would not tell them apart: inputs that delimit rows are no columns."""

    def pooled(combiner):
        specs = [DENSE([None], tf.int64, "ids"), DENSE([None], tf.int64, "rows"), DENSE([None, 4], name="q")]

        @tf.function(input_signature=specs)
        def look_up(ids, rows, q):
            found = tf.math.segment_sum if combiner == "sum" else tf.math.segment_mean
            return found(tf.gather(tf.reshape(tf.range(40.0), [10, 4]), ids), rows)[: tf.shape(q)[0]] + q

        return look_up

    (record,) = verify(pooled("mean"), convert(pooled("sum")))
    assert record.verdict != Verdict.EQUAL, record.note


def test_a_function_that_tensorflow_never_runs():
    def refuse(x):
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_sum(x) > 1e30, ["never"])]):
            return tf.identity(x)

    function = tf.function(refuse, input_signature=[DENSE([None, 2])])
    (record,) = verify(function, convert(function))
    assert record.verdict == Verdict.REFUSED
    assert "TensorFlow refuses the batches 'ordinary', " in record.note


def test_a_model_that_ends_onnx_runtime_is_found_to_differ(lookup, model, monkeypatch):
    class Fatal(runtime.InferenceSession):
        def run(self, names, feeds):
            if not feeds["c"][0]:
                os.abort()
            return super().run(names, feeds)

    monkeypatch.setattr(runtime, "InferenceSession", Fatal)
    for record in verify(lookup, model):
        assert (record.verdict, record.batches) == (Verdict.DIFFERENT, 3)
        assert "ONNX Runtime ends on the batch 'of no rows': the process ends by SIGABRT" in record.note


def test_weights_that_are_multiplied_with_rows_have_their_length():
    specs = [tf.TensorSpec([None], tf.int64), tf.TensorSpec([None])]
    table = tf.constant(np.ones((VOCABULARY, 2), np.float32))

    @tf.function(input_signature=specs)
    def weighted(ids, weights):
        return tf.math.segment_sum(tf.gather(table, ids) * weights[:, None], tf.cast(ids * 0, tf.int32))

    assert find_roles(convert(weighted)).entries >= {"weights"}


def test_segment_ids_are_sorted():
    specs = [tf.TensorSpec([None, 3]), tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int64)]
    function = tf.function(lambda t, i, s: tf.sparse.segment_mean(t, i, s), input_signature=specs)
    model = convert(function)
    table, ids, segments = sample(model, seed=0, kind="ordinary").values()
    assert (np.diff(segments) >= 0).all()
    assert len(ids) == len(segments)
    assert ids.max() < len(table)
    assert all(record.ok for record in verify(function, model))


@pytest.mark.parametrize("segments", [2, None])
def test_ids_stay_below_the_number_of_segments(segments):
    specs = [tf.TensorSpec([None, 3]), tf.TensorSpec([None], tf.int32), tf.TensorSpec([], tf.int32)]

    @tf.function(input_signature=specs)
    def reduce(x, ids, given):
        count = given if segments is None else segments
        return tf.math.unsorted_segment_sum(x, ids, count), tf.cast(given, tf.float32)

    @tf.function(input_signature=[specs[0], specs[1]])
    def lookup(x, ids):
        return tf.sparse.segment_sum(tf.ones([4, 2]), ids, tf.cast(ids * 0, tf.int32), num_segments=segments or 9), x

    for function in (reduce, lookup):
        assert [record.ok for record in verify(function, convert(function), batch_count=6)] == [True, True]


def test_data_and_sorted_segment_ids_have_the_same_length():
    specs = [tf.TensorSpec([None, 3]), tf.TensorSpec([None], tf.int32)]
    function = tf.function(lambda x, ids: tf.math.segment_max(x, ids), input_signature=specs)
    (record,) = verify(function, convert(function), batch_count=6)
    assert (record.ok, record.note) == (True, "")


def test_strings_are_drawn_from_the_tables_of_the_model():
    initializer = tf.lookup.KeyValueTensorInitializer(["known"], tf.constant([4], tf.int64))
    table = tf.lookup.StaticHashTable(initializer, default_value=-1)
    function = tf.function(lambda w: table.lookup(w), input_signature=[tf.TensorSpec([100], tf.string)])
    model = convert(function)
    assert "known" in next(iter(sample(model, seed=0, kind="ordinary").values()))
    assert all(record.ok for record in verify(function, model))


def test_a_faithful_model_is_found_to_be_one(lookup, model):
    plain, weighted = verify(lookup, model, seed=5, batch_count=6)
    assert (plain.output, plain.dtype, plain.ok, plain.note) == ("plain", "float32", True, "")
    assert (weighted.output, weighted.ok, weighted.note) == ("weighted", True, "")
    assert plain.shape[1] == 4
    assert plain.max_abs < 1e-5


def test_an_unfaithful_model_is_found_out(lookup, model):
    changed = type(model)()
    changed.CopyFrom(model)
    (table,) = (t for t in changed.graph.initializer if list(t.dims) == [VOCABULARY, 4])
    array = numpy_helper.to_array(table) * np.float32(1.001)
    table.CopyFrom(numpy_helper.from_array(array, table.name))
    plain, weighted = verify(lookup, changed)
    assert not plain.ok
    assert not weighted.ok
    assert "values differ in the batch 'ordinary'" in plain.note
    assert 1e-4 < plain.max_abs < 1e-2
    assert plain.worst in KINDS


def test_given_inputs(lookup, model):
    feeds = sample(model, seed=0, kind="ordinary")
    assert all(record.ok for record in verify(lookup, model, feeds=feeds))


def test_given_inputs_must_be_complete(lookup, model):
    with pytest.raises(ConversionError, match=r"^no value is given for input b, c, d, e$"):
        verify(lookup, model, feeds={"a": np.zeros((0, 2), np.int64)})


def test_ids_stay_inside_a_table_that_is_an_input():
    specs = [tf.TensorSpec([None, 3]), tf.TensorSpec([None], tf.int64)]
    function = tf.function(lambda table, ids: tf.gather(table, ids), input_signature=specs)
    (record,) = verify(function, convert(function), batch_count=6)
    assert (record.ok, record.note) == (True, "")


def test_inputs_that_tensorflow_refuses_prove_nothing(lookup, model):
    feeds = sample(model, seed=0, kind="ordinary")
    feeds["b"] = feeds["b"] + VOCABULARY
    for record in verify(lookup, model, feeds=feeds):
        assert record.verdict == Verdict.REFUSED
        assert record.note.startswith("TensorFlow refuses the batch 'given': ")


def test_a_source_that_cannot_be_read(model, tmp_path):
    with pytest.raises(ConversionError, match="no such file"):
        verify(tmp_path / "nothing", model)


def test_words_that_are_hashed_are_of_every_length():
    """A hash treats short, medium, long and very long strings differently; a verification uses all of them."""

    @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.string, "words")])
    def hashed(words):
        return tf.strings.to_hash_bucket_fast(words, 100)

    model = convert(hashed)
    words = [w for seed in range(5) for w in sample(model, seed=seed, kind="ordinary")["words"].ravel()]
    lengths = {len(word.encode()) for word in words}
    for shortest, longest in ((0, 0), (1, 3), (8, 16), (17, 32), (33, 64), (65, 1000)):
        assert any(shortest <= length <= longest for length in lengths)


VALUES, SPLITS = tf.TensorSpec([None], tf.float32, "v"), tf.TensorSpec([None], tf.int64, "s")
OUTER = tf.TensorSpec([None], tf.int64, "o")


def rows_of(values, splits):
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)


def totals(values, splits):
    """A loop over the rows, which TensorFlow checks."""
    rows = tf.RaggedTensor.from_row_splits(values, splits)
    start = (tf.constant(0, tf.int64), tf.zeros([]))
    return tf.while_loop(lambda i, _: i < rows.nrows(), lambda i, t: (i + 1, t * 0.5 + tf.reduce_sum(rows[i])), start)[
        1
    ]


#: Functions of parts of ragged tensors, with what nothing in their models says.
RAGGED_PARTS = {
    "loop": (totals, (VALUES, SPLITS)),
    "stack": (lambda v, s: tf.stack([rows_of(v, s), rows_of(v * 2, s)]).to_tensor(), (VALUES, SPLITS)),
    "stack within rows": (
        lambda v, s: tf.reduce_sum(tf.stack([rows_of(v, s), rows_of(v * 2, s)], 1).to_tensor(), [1, 2]),
        (VALUES, SPLITS),
    ),
    "two levels": (lambda v, s, o: tf.reduce_sum(rows_of(rows_of(v, s), o), [1, 2]), (VALUES, SPLITS, OUTER)),
    "two tensors": (
        lambda v, s, w, o: tf.reduce_sum(rows_of(tf.abs(v), s), 1) + tf.reduce_max(rows_of(w, o).to_tensor(), 1),
        (VALUES, SPLITS, tf.TensorSpec([None], tf.float32, "w"), OUTER),
    ),
}


@pytest.mark.parametrize("name", RAGGED_PARTS)
def test_row_splits_are_found_by_trying(name):
    body, specs = RAGGED_PARTS[name]
    function = tf.function(body, input_signature=specs, autograph=False)
    records = verify(function, convert(function))
    assert [record.verdict for record in records] == [Verdict.EQUAL]
    assert records[0].batches >= 3


def test_a_wrong_loop_over_rows_is_found():
    """Only with row splits are the numbers computed that a changed model has wrong."""
    body, specs = RAGGED_PARTS["loop"]
    function = tf.function(body, input_signature=specs, autograph=False)
    model = convert(function)
    (half,) = (
        each
        for graph in graphs(model.graph)
        for each in graph.initializer
        if numpy_helper.to_array(each).tolist() == 0.5
    )
    half.CopyFrom(numpy_helper.from_array(np.float32(0.25), half.name))
    assert not verify(function, model)[0].ok
