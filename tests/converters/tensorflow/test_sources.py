"""Every kind of source, and the names of the inputs and outputs of its model."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from google.protobuf import text_format  # noqa: E402

from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, load, verify  # noqa: E402

V1 = tf.compat.v1

# Keras 3 has not caught up with numpy 2.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def input_and_output_names(model):
    return [v.name for v in model.graph.input], [v.name for v in model.graph.output]


def dims(value):
    return [d.dim_value if d.HasField("dim_value") else d.dim_param for d in value.type.tensor_type.shape.dim]


class Lookup(tf.Module):
    """An embedding with two signatures."""

    def __init__(self):
        self.table = tf.Variable(np.arange(20, dtype=np.float32).reshape(10, 2), name="table")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "ids"), tf.TensorSpec([None], tf.int32, "bags")])
    def sums(self, ids, bags):
        return {"total": tf.sparse.segment_sum(self.table, ids, bags), "bags": bags}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "ids")])
    def rows(self, ids):
        return {"rows": tf.gather(self.table, ids)}


FEEDS = {"ids": np.array([1, 9]), "bags": np.array([0, 2], np.int32)}
TOTAL = [[2, 3], [0, 0], [18, 19]]


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "lookup"
    module = Lookup()
    tf.saved_model.save(module, str(path), signatures={"serving_default": module.sums, "rows": module.rows})
    return path


@pytest.fixture(scope="module")
def graph_def():
    """ids, bags -> lookup/SparseSegmentSum, with a lookup/table in between."""
    with tf.Graph().as_default() as graph:
        ids = V1.placeholder(tf.int64, [None], "ids")
        bags = V1.placeholder(tf.int32, [None], "bags")
        with tf.name_scope("lookup"):
            table = tf.constant(np.arange(20, dtype=np.float32).reshape(10, 2), name="table")
            doubled = tf.add(ids, ids, name="doubled")
            tf.raw_ops.SparseSegmentSum(data=table, indices=doubled // 2, segment_ids=bags)
    return graph.as_graph_def()


@pytest.fixture(scope="module", params=["pb", "pbtxt"])
def graph_file(request, graph_def, tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / f"lookup.{request.param}"
    if request.param == "pb":
        path.write_bytes(graph_def.SerializeToString())
    else:
        path.write_text(text_format.MessageToString(graph_def))
    return path


def test_saved_model_keeps_the_names_of_its_signature(saved_model, run):
    model = convert(saved_model)
    inputs, outputs = input_and_output_names(model)
    assert sorted(inputs) == ["bags", "ids"]
    assert sorted(outputs) == ["bags_1", "total"]  # names must differ in ONNX
    assert model.graph.name == "lookup"


def test_a_signature_by_its_name(saved_model, run):
    model = convert(str(saved_model), signature="rows")
    assert input_and_output_names(model) == (["ids"], ["rows"])
    np.testing.assert_array_equal(run(model, ids=[3])["rows"], [[6, 7]])


def test_some_of_the_outputs_of_a_signature(saved_model, run):
    model = convert(saved_model, outputs=["total"])
    assert input_and_output_names(model)[1] == ["total"]
    np.testing.assert_array_equal(run(model, **FEEDS)["total"], TOTAL)


def test_a_saved_model_of_tensorflow_1(tmp_path, run):
    with tf.Graph().as_default(), V1.Session() as session:
        ids = V1.placeholder(tf.int64, [None], "in_ids")
        table = V1.get_variable("table", initializer=np.arange(6, dtype=np.float32).reshape(3, 2))
        out = tf.raw_ops.SparseSegmentSum(data=table, indices=ids, segment_ids=ids, name="sum")
        session.run(V1.global_variables_initializer())
        V1.saved_model.simple_save(session, str(tmp_path / "old"), {"ids": ids}, {"out": out})
    model = convert(tmp_path / "old")
    assert input_and_output_names(model) == (["ids"], ["out"])
    np.testing.assert_array_equal(run(model, ids=[0, 2])["out"], [[0, 1], [0, 0], [4, 5]])


def test_a_saved_model_of_tensorflow_1_with_a_lookup_table(tmp_path, run):
    with tf.Graph().as_default(), V1.Session() as session:
        words = V1.placeholder(tf.string, [None])
        initializer = tf.lookup.KeyValueTensorInitializer(["red", "blue"], tf.constant([2, 1], tf.int64))
        ids = tf.lookup.StaticHashTable(initializer, default_value=0).lookup(words)
        rows = tf.gather(V1.get_variable("rows", initializer=np.arange(3, dtype=np.float32)), ids)
        session.run([V1.global_variables_initializer(), V1.tables_initializer()])
        V1.saved_model.simple_save(
            session, str(tmp_path / "old"), {"words": words}, {"rows": rows}, V1.tables_initializer()
        )
    model = convert(tmp_path / "old")
    assert run(model, words=np.array(["blue", "green", "red"], object))["rows"].tolist() == [1, 0, 2]


def test_graph_def_with_names(graph_file, run):
    model = convert(graph_file, inputs=["bags:0", "ids:0"], outputs=["lookup/SparseSegmentSum:0"])
    assert input_and_output_names(model) == (["bags:0", "ids:0"], ["lookup/SparseSegmentSum:0"])
    outputs = run(model, **{"ids:0": FEEDS["ids"], "bags:0": FEEDS["bags"]})
    np.testing.assert_array_equal(outputs["lookup/SparseSegmentSum:0"], TOTAL)


def test_graph_def_without_names(graph_file, run):
    model = convert(graph_file)
    assert input_and_output_names(model) == (["ids", "bags"], ["lookup/SparseSegmentSum"])
    np.testing.assert_array_equal(run(model, **FEEDS)["lookup/SparseSegmentSum"], TOTAL)


def test_only_the_placeholders_that_an_output_needs(graph_file, run):
    model = convert(graph_file, outputs=["lookup/doubled"])
    assert input_and_output_names(model) == (["ids"], ["lookup/doubled"])
    assert run(model, ids=FEEDS["ids"])["lookup/doubled"].tolist() == [2, 18]


def test_graph_def_cut_in_the_middle(graph_file, run):
    """Any tensors can be inputs and outputs; the nodes before the inputs are cut off."""
    model = convert(
        graph_file, inputs=["lookup/doubled", "bags"], outputs=["lookup/SparseSegmentSum", "lookup/doubled:0"]
    )
    assert input_and_output_names(model) == (
        ["lookup/doubled", "bags"],
        ["lookup/SparseSegmentSum", "lookup/doubled:0"],
    )
    outputs = run(model, **{"lookup/doubled": 2 * FEEDS["ids"], "bags": FEEDS["bags"]})
    np.testing.assert_array_equal(outputs["lookup/SparseSegmentSum"], TOTAL)
    np.testing.assert_array_equal(outputs["lookup/doubled:0"], [2, 18])


@pytest.mark.parametrize("name", ["more", "keras_learning_phase"])
def test_a_placeholder_with_a_default_is_an_input_only_on_request(name, tmp_path, run):
    with tf.Graph().as_default() as graph:
        x = V1.placeholder(tf.float32, [2], "x")
        tf.add(x, V1.placeholder_with_default(tf.constant(3.0), [], name), name="sum")
    (tmp_path / "g.pb").write_bytes(graph.as_graph_def().SerializeToString())
    model = convert(tmp_path / "g.pb")
    assert input_and_output_names(model) == (["x"], ["sum"])
    assert run(model, x=np.float32([1, 2]))["sum"].tolist() == [4, 5]
    model = convert(tmp_path / "g.pb", inputs=["x", name])
    assert run(model, **{"x": np.float32([1, 2]), name: np.float32(1)})["sum"].tolist() == [2, 3]


def test_an_input_with_which_other_nodes_are_to_share_a_device(tmp_path, run):
    """As the switches of TensorFlow 1 do, whose names for it outlive the input that they name."""
    with tf.Graph().as_default() as graph:
        x = V1.placeholder(tf.float32, [None], "x")
        with graph.colocate_with(x.op):
            doubled = V1.raw_ops.Mul(x=x, y=tf.constant(2.0))
        tf.identity(doubled, "y")
    path = tmp_path / "colocated.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    np.testing.assert_array_equal(run(convert(path), x=np.float32([1, 2]))["y"], [2, 4])


def test_concrete_function(run):
    lookup = Lookup()
    model = convert(lookup.sums.get_concrete_function())
    assert model.graph.name == "sums"
    assert input_and_output_names(model)[0] == ["ids", "bags"]
    np.testing.assert_array_equal(run(model, **FEEDS)["total"], TOTAL)


def test_inputs_without_names_are_named_after_the_parameters(run):
    @tf.function(input_signature=[tf.TensorSpec([None]), tf.TensorSpec([None])])
    def subtract(left, right):
        return left - right

    model = convert(subtract)
    assert input_and_output_names(model) == (["left", "right"], ["output_0"])
    assert run(model, left=np.float32([3]), right=np.float32([1]))["output_0"] == [2]


def test_structures_in_and_out():
    spec = {"b": tf.TensorSpec([2], name="b"), "a": tf.TensorSpec([2], name="a")}

    @tf.function(input_signature=[spec])
    def nested(x):
        return {"pair": (x["a"], x["b"]), "one": x["a"] + x["b"]}

    assert input_and_output_names(convert(nested)) == (["a", "b"], ["one", "pair_0", "pair_1"])


def test_sparse_tensors_in_and_out(run):
    @tf.function(input_signature=[tf.SparseTensorSpec([None, None], tf.string), tf.TensorSpec([1], name="bias")])
    def fill(sp, bias):
        return {"filled": tf.sparse.fill_empty_rows(sp, "?")[0], "bias": bias + 1.0}

    model = convert(fill)
    inputs, outputs = input_and_output_names(model)
    assert inputs == ["sp", "sp_1", "sp_2", "bias"]
    assert outputs == ["bias_1", "filled_indices", "filled_values", "filled_dense_shape"]
    feeds = {"sp": [[1, 0]], "sp_1": np.array(["x"], object), "sp_2": [2, 3], "bias": np.float32([1])}
    assert run(model, **feeds)["filled_values"].tolist() == ["?", "x"]


def test_an_unused_input_stays():
    @tf.function(input_signature=[tf.TensorSpec([2], name="used"), tf.TensorSpec([2], name="unused")])
    def first(used, unused):
        return {"out": used * 2.0}

    assert input_and_output_names(convert(first))[0] == ["used", "unused"]


@pytest.mark.parametrize(
    "argument",
    [tf.nn.relu, object(), (1, len), {"a": tf.nn.relu}, tf.float32, "text", None, 2.5, True],
    ids=["function", "object", "tuple", "dictionary", "dtype", "text", "none", "number", "bool"],
)
def test_arguments_that_are_no_tensors_are_part_of_the_trace(argument, run):
    """TensorFlow does not tell what they were, so that a call of the trace cannot name them."""

    def scale(rows, option, sp):
        return (tf.nn.relu if option == argument else tf.negative)(rows) + tf.sparse.to_dense(sp)

    def scale_by_default(rows, option=argument):
        return scale(rows, option, tf.sparse.from_dense(tf.zeros([1, 2])))

    rows = tf.TensorSpec([None, 2], name="rows")
    given = tf.function(scale).get_concrete_function(rows, argument, tf.SparseTensorSpec([None, 2]))
    for function in (given, tf.function(scale_by_default, input_signature=[rows])):
        (record,) = verify(function, convert(function))
        assert record.ok, record.note
        assert record.batches


def test_an_input_returned_under_several_names(run):
    @tf.function(input_signature=[tf.TensorSpec([2], tf.string, name="x")])
    def through(x):
        return {"a": x, "b": x}

    model = convert(through)
    assert input_and_output_names(model) == (["x"], ["a", "b"])
    assert run(model, x=np.array(["p", "q"], object))["b"].tolist() == ["p", "q"]


def test_a_constant_made_outside_the_function_is_not_an_input(run):
    table = tf.constant(np.arange(6, dtype=np.float32).reshape(3, 2))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "ids")])
    def look_up(ids):
        return {"out": tf.sparse.segment_sum(table, ids, ids)}

    model = convert(look_up)
    assert input_and_output_names(model) == (["ids"], ["out"])
    np.testing.assert_array_equal(run(model, ids=[1])["out"], [[0, 0], [2, 3]])


def test_known_dimensions_are_numbers_and_unknown_ones_have_names(saved_model):
    (ids,) = convert(saved_model, signature="rows").graph.input
    assert dims(ids) == ["ids_0"]

    @tf.function(input_signature=[tf.TensorSpec([None, 3], name="x")])
    def double(x):
        return {"y": x + x}

    assert dims(convert(double).graph.output[0]) == ["y_0", 3]


@pytest.fixture(scope="module", params=["functional", "sequential"])
def keras_model(request):
    keras.utils.set_random_seed(0)
    if request.param == "functional":
        ids = keras.Input([None], dtype="int32", name="ids")
        weights = keras.Input([4], name="features")
        pooled = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(10, 4)(ids))
        score = keras.layers.Dense(1, activation="sigmoid", name="score")(pooled * weights)
        return keras.Model([ids, weights], score), {
            "ids": np.array([[1, 2, 3], [4, 5, 6]], np.int32),
            "features": np.ones((2, 4), np.float32),
        }
    layers = [keras.Input([4], name="features"), keras.layers.Dense(3, "relu"), keras.layers.Dense(2, name="logits")]
    return keras.Sequential(layers), {"features": np.eye(4, dtype=np.float32)}


def test_keras_file(keras_model, tmp_path, run):
    original, feeds = keras_model
    original.save(tmp_path / "model.keras")
    files = [tmp_path / "model.keras"]
    if isinstance(original, keras.Sequential):  # Keras cannot read back an HDF5 file with the product of two tensors
        files.append(tmp_path / "model.h5")
        original.save(files[-1])
    for source in (original, *files):
        model = convert(source)
        assert input_and_output_names(model) == (list(feeds), ["score"] if len(feeds) == 2 else ["logits"])
        expected = original(list(feeds.values()) if len(feeds) > 1 else feeds["features"]).numpy()
        (actual,) = run(model, **feeds).values()
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("structure", [list, dict])
def test_sparse_and_ragged_inputs_of_keras_keep_their_names(structure):
    tags, dense = keras.Input([6], sparse=True, name="tags"), keras.Input([4], name="dense")
    words = keras.Input([None], ragged=True, dtype="int64", name="words")
    rows = keras.ops.sum(keras.layers.Embedding(10, 4)(words), axis=1)
    inputs = [tags, dense, words]
    score = keras.layers.Dense(4, name="score")(tags) + dense + rows
    original = keras.Model(inputs if structure is list else {given.name: given for given in inputs}, score)
    loaded = load(original)
    model = convert(loaded)
    order = inputs if structure is list else [dense, tags, words]
    parts = {"tags": ["tags", "tags_1", "tags_2"], "dense": ["dense"], "words": ["words", "words_1"]}
    assert input_and_output_names(model)[0] == [name for given in order for name in parts[given.name]]
    (record,) = verify(loaded, model)
    assert (record.ok, record.batches) == (True, 4)  # one of ids without a row in the table


class TestKeras2:
    """Models of the package tf_keras, in memory and as files."""

    @pytest.fixture(scope="class")
    def tf_keras(self):
        return pytest.importorskip("tf_keras")

    def test_in_memory(self, tf_keras):
        tags, dense = tf_keras.Input([6], sparse=True, name="tags"), tf_keras.Input([4], name="numbers")
        words = tf_keras.Input([None], ragged=True, dtype="int64", name="words")
        rows = tf.reduce_sum(tf_keras.layers.Embedding(10, 4)(words), axis=1)
        hidden = tf_keras.layers.Concatenate()([tf_keras.layers.Dense(4)(tags), dense, rows])
        original = tf_keras.Model({"w": words, "t": tags, "d": dense}, tf_keras.layers.Dense(1, name="score")(hidden))
        loaded = load(original)
        model = convert(loaded)
        names = (["numbers", "tags", "tags_1", "tags_2", "words", "words_1"], ["score"])
        assert input_and_output_names(model) == names
        (record,) = verify(loaded, model)
        assert (record.ok, record.batches) == (True, 3)

    @pytest.mark.parametrize("suffix", [".keras", ".h5"])
    def test_files(self, tf_keras, tmp_path, suffix, run):
        layers = [tf_keras.Input([4], name="features"), tf_keras.layers.Dense(2, name="logits")]
        original = tf_keras.Sequential(layers)
        path = tmp_path / f"model{suffix}"
        original.save(path)
        model = convert(path)
        assert input_and_output_names(model) == (["features"], ["logits"])
        (actual,) = run(model, features=np.eye(4, dtype=np.float32)).values()
        np.testing.assert_allclose(actual, original(np.eye(4, dtype=np.float32)).numpy(), rtol=1e-6)

    def test_a_model_without_inputs(self, tf_keras):
        class Subclassed(tf_keras.Model):
            def call(self, x):
                return x

        with pytest.raises(ConversionError, match="does not know its inputs"):
            convert(Subclassed())


@pytest.mark.parametrize("inlined_by", ["saved_model", "memory", "graph_def"])
@pytest.mark.parametrize("options", [{"jit_compile": True}, {"experimental_attributes": {"_noinline": True}}])
def test_functions_that_tensorflow_keeps_are_inlined(options, inlined_by, tmp_path, run):
    table = tf.Variable(np.arange(6, dtype=np.float32).reshape(3, 2))
    inner = tf.function(lambda ids: tf.gather(table, ids) * 2.0, **options)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "ids")])
    def outer(ids):
        return {"y": inner(ids) + inner(ids + 0)}

    source = outer
    module = tf.Module()
    module.table, module.outer = table, outer
    if inlined_by == "saved_model":
        tf.saved_model.save(module, str(tmp_path), signatures=outer)
        source = tmp_path
    elif inlined_by == "graph_def":
        rows = table.numpy()
        kept = tf.function(lambda ids: tf.gather(rows, ids) * 4.0, **options)
        with tf.Graph().as_default() as graph:
            tf.identity(kept(V1.placeholder(tf.int64, [None], "ids")), "y")
        source = tmp_path / "graph.pb"
        source.write_bytes(graph.as_graph_def().SerializeToString())
    np.testing.assert_array_equal(run(convert(source), ids=[2])["y"], [[16, 20]])


@pytest.mark.parametrize("package", ["keras", "tf_keras"])
def test_a_subclassed_model_of_keras_that_was_called(package, run):
    """Its inputs are those of the call, of any number of rows."""
    package = pytest.importorskip(package)

    class Scores(package.Model):
        def __init__(self):
            super().__init__(name="scores")
            self.dense = package.layers.Dense(2)

        def call(self, features):
            return self.dense(features["a"]) * features["b"]

    rng = np.random.default_rng(0)
    features = {"a": rng.standard_normal((4, 3)).astype(np.float32), "b": np.full((4, 2), 2, np.float32)}
    model = Scores()
    want = model(features).numpy()
    converted = convert(model)
    assert input_and_output_names(converted) == (["features_a", "features_b"], ["output_0"])
    for rows in (4, 1):
        given = {f"features_{name}": array[:rows] for name, array in features.items()}
        np.testing.assert_allclose(run(converted, **given)["output_0"], want[:rows], rtol=1e-5)


def test_a_subclassed_model_of_which_keras_knows_one_argument():
    class Sum(keras.Model):
        def call(self, one, other):
            return one + other

    model = Sum(name="total")
    model(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
    with pytest.raises(
        ConversionError, match="total takes the arguments one, other, and Keras does not know all of them"
    ):
        convert(model)


def test_keras_outputs_in_a_dictionary():
    x = keras.Input([2], name="x")
    model = keras.Model({"x": x}, {"late": x + 1.0, "early": x * 2.0})
    assert input_and_output_names(convert(model)) == (["x"], ["early", "late"])


def test_a_loaded_model_is_converted_and_verified(tmp_path):
    """Its variables are read when it is converted; so its files must be there until then."""
    lookup = Lookup()
    tf.saved_model.save(lookup, str(tmp_path / "model"), signatures={"sums": lookup.sums, "rows": lookup.rows})
    loaded = load(tmp_path / "model", signature="rows")
    model = convert(loaded)
    assert input_and_output_names(model) == (["ids"], ["rows"])
    assert all(record.ok for record in verify(loaded, model))
    with pytest.raises(ConversionError, match="chosen already"):
        convert(loaded, signature="sums")
    (tmp_path / "model").rename(tmp_path / "elsewhere")
    with pytest.raises(ConversionError, match=r"variables\.data-00000-of-00001 cannot be read"):
        convert(loaded)
