"""The form of converted models: bodies, names, tables, element types."""

from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto

tf = pytest.importorskip("tensorflow")

from onnx_sparse.converters.tensorflow import convert, large_tables, verify  # noqa: E402
from onnx_sparse.schemas import DOMAIN, OPS  # noqa: E402

TABLE = np.arange(15, dtype=np.float32).reshape(5, 3)
IDS = np.array([0, 4, 2])
BAGS = np.array([0, 0, 3], np.int32)
LOOKUP = (tf.TensorSpec([5, 3], name="table"), tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.int32))


def all_nodes(graph):
    """The nodes of a graph and of its subgraphs."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from all_nodes(attribute.g)


def assert_canonical(model):
    for node in all_nodes(model.graph):
        if node.domain == DOMAIN:
            op = OPS[node.op_type]
            assert len(node.input) == len(op.inputs)
            assert len(node.output) == len(op.outputs)
            assert all((*node.input, *node.output))
            assert {a.name for a in node.attribute} == {a.name for a in op.attributes}
        else:
            assert onnx.defs.has(node.op_type, 18, node.domain)


@pytest.mark.parametrize("left", [True, False])
def test_operators_in_the_branches_of_an_if(agree, left):
    @tf.function(input_signature=[*LOOKUP, tf.TensorSpec([], tf.bool)])
    def branches(table, ids, bags, left):
        if left:
            return tf.sparse.segment_sum(table, ids, bags)
        filled, empty = tf.sparse.fill_empty_rows(tf.SparseTensor(ids[:, None], ids, [5]), np.int64(7))
        return tf.where(empty[:4, None], tf.cast(filled.values[:4, None], tf.float32), 0.0)

    model = agree(branches, TABLE, np.sort(IDS), BAGS, np.bool_(left))
    assert_canonical(model)
    assert {n.op_type for n in all_nodes(model.graph)} >= {"If", "EmbeddingSegmentsSum", "SparseFillEmptyRows"}


def test_operators_in_an_if_in_an_if(agree):
    @tf.function(input_signature=[*LOOKUP, tf.TensorSpec([], tf.bool), tf.TensorSpec([], tf.bool)])
    def nested(table, ids, bags, outer, inner):
        if outer:
            if inner:
                return tf.sparse.segment_mean(table, ids, bags)
            return tf.sparse.segment_sqrt_n(table, ids, bags)
        return tf.sparse.segment_sum(table, ids, bags)

    for outer, inner in [(True, True), (True, False), (False, True)]:
        assert_canonical(agree(nested, TABLE, IDS, BAGS, np.bool_(outer), np.bool_(inner)))


def test_operators_in_the_body_of_a_loop(agree):
    @tf.function(input_signature=[*LOOKUP, tf.TensorSpec([], tf.int32)])
    def repeated(table, ids, bags, times):
        total = tf.zeros([4, 3])
        for _ in tf.range(times):
            total += tf.sparse.segment_sum(table, ids, bags, num_segments=4)
        return total

    model = agree(repeated, TABLE, IDS, BAGS, np.int32(3))
    assert_canonical(model)
    assert {n.op_type for n in all_nodes(model.graph)} >= {"Loop", "EmbeddingSegmentsSum"}


def test_models_are_of_ir_10_and_import_only_what_they_use():
    @tf.function(input_signature=LOOKUP)
    def pooled(table, ids, bags):
        return tf.sparse.segment_sum(table, ids, bags)

    model = convert(pooled)
    assert model.ir_version == 10
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": 18, DOMAIN: 1}
    onnx.checker.check_model(model, full_check=True)

    plain = convert(tf.function(lambda x: x + 1.0, input_signature=[tf.TensorSpec([2])]))
    assert [entry.domain for entry in plain.opset_import] == [""]


def test_every_output_of_our_operators_has_a_type():
    @tf.function(input_signature=LOOKUP)
    def pooled(table, ids, bags):
        return tf.nn.relu(tf.sparse.segment_sum(table, ids, bags))

    graph = convert(pooled).graph
    (node,) = (n for n in graph.node if n.domain == DOMAIN)
    types = {value.name: value.type.tensor_type for value in graph.value_info}
    assert types[node.output[0]].elem_type == TensorProto.FLOAT
    assert [d.dim_value for d in types[node.output[0]].shape.dim] == [0, 3]  # the first dimension is unknown


def test_node_names_start_with_those_of_the_source():
    @tf.function(input_signature=LOOKUP)
    def pooled(table, ids, bags):
        return tf.raw_ops.SparseSegmentSum(data=table, indices=ids, segment_ids=bags, name="tower/pool")

    names = [node.name for node in convert(pooled).graph.node if node.domain == DOMAIN]
    assert [name.startswith("tower/pool/EmbeddingSegmentsSum") for name in names] == [True]


class TestBfloat16:
    """bfloat16 stays bfloat16; operators without a bfloat16 kernel are computed in float32 and rounded at once."""

    @staticmethod
    def array(*values):
        return np.array(values, ml_dtypes.bfloat16)

    def test_elementwise_operators(self, agree):
        @tf.function(input_signature=[tf.TensorSpec([3], tf.bfloat16)])
        def elementwise(x):
            return tf.nn.relu(x * tf.constant(1.3, tf.bfloat16) - 1.0), tf.reduce_max(x), tf.where(x > 1.0, x, -x)

        model = agree(elementwise, self.array(0.1, 1.1, 2.7))
        assert {o.type.tensor_type.elem_type for o in model.graph.output} == {TensorProto.BFLOAT16}
        assert TensorProto.FLOAT16 not in {v.type.tensor_type.elem_type for v in model.graph.value_info}

    def test_operators_that_move_data_are_not_widened(self, agree):
        @tf.function(input_signature=[tf.TensorSpec([4, 2], tf.bfloat16), tf.TensorSpec([None], tf.int32)])
        def moved(x, rows):
            return tf.transpose(tf.concat([tf.gather(x, rows), x[:1]], axis=0))

        model = agree(moved, self.array(*range(8)).reshape(4, 2), np.array([3, 0], np.int32))
        assert "Cast" not in {node.op_type for node in model.graph.node if TensorProto.FLOAT in _cast_targets(node)}

    def test_results_whose_type_is_an_attribute(self, agree):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.bfloat16)])
        def ones(x):
            return tf.ones_like(x)

        agree(ones, self.array(3, 4))

    def test_our_operators_beside_others_in_a_branch(self, agree):
        specs = [tf.TensorSpec([5, 3], tf.bfloat16), *LOOKUP[1:], tf.TensorSpec([], tf.bool)]

        @tf.function(input_signature=specs)
        def branches(table, ids, bags, left):
            if left:
                return tf.sparse.segment_mean(table, ids, bags) + tf.constant(1, tf.bfloat16)
            return tf.zeros([4, 3], tf.bfloat16)

        for left in (True, False):
            model = agree(branches, TABLE.astype(ml_dtypes.bfloat16), IDS, BAGS, np.bool_(left))
            assert_canonical(model)

    def test_variables(self, agree):
        table = tf.Variable(TABLE, dtype=tf.bfloat16)

        @tf.function(input_signature=LOOKUP[1:])
        def pooled(ids, bags):
            return tf.sparse.segment_sum(table, ids, bags)

        model = agree(pooled, IDS, BAGS)
        assert [t.data_type for t in model.graph.initializer if list(t.dims) == [5, 3]] == [TensorProto.BFLOAT16]


def _cast_targets(node):
    return [attribute.i for attribute in node.attribute if attribute.name == "to"]


def test_strings_that_are_not_ascii(agree):
    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.int64), tf.TensorSpec([None], tf.string)])
    def fill(indices, words):
        return tf.sparse.fill_empty_rows(tf.SparseTensor(indices, words, [3, 1]), "größe")[0].values

    agree(fill, np.array([[1, 0]]), np.array(["naïve"], object))


def make_table():
    initializer = tf.lookup.KeyValueTensorInitializer(["red", "blue"], tf.constant([4, 7], tf.int64))
    return tf.lookup.StaticHashTable(initializer, default_value=-1)


def test_lookup_tables_of_a_function(agree):
    """The function works afterwards, and can be converted again."""
    table = make_table()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def look_up(words):
        return table.lookup(words)

    words = np.array(["blue", "green", "red"], object)
    for _ in range(2):
        assert [node.op_type for node in agree(look_up, words).graph.node] == ["LabelEncoder"]


def test_lookup_tables_of_a_saved_model(tmp_path, run):
    module = tf.Module()
    module.table = make_table()
    spec = tf.TensorSpec([None], tf.string, "words")
    module.look_up = tf.function(lambda words: {"ids": module.table.lookup(words)}, input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path), signatures=module.look_up)
    model = convert(tmp_path)
    assert {entry.domain for entry in model.opset_import} == {"", "ai.onnx.ml"}
    assert run(model, words=np.array(["blue", "green"], object))["ids"].tolist() == [7, -1]


class TestLargeTables:
    """Tables of a megabyte and more are not copied while a model is converted."""

    IDS = np.array([1023, 5])

    @pytest.fixture(params=[tf.float32, tf.bfloat16], ids=lambda t: t.name)
    def table(self, request):
        values = np.random.default_rng(0).standard_normal((1024, 512)).astype(request.param.as_numpy_dtype)
        return tf.Variable(values)

    @staticmethod
    def tables_in(model):
        return [tensor.data_type for tensor in model.graph.initializer if list(tensor.dims) == [1024, 512]]

    def test_that_are_only_looked_up(self, agree, table):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
        def look_up(ids):
            return tf.sparse.segment_sum(table, ids, ids - 5), tf.gather(table, ids)

        model = agree(look_up, np.sort(self.IDS))
        assert len(self.tables_in(model)) == 1
        assert len(model.graph.input) == 1

    def test_that_are_used_in_other_ways_too(self, agree, table):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
        def mixed(ids):
            return tf.gather(table, ids), tf.transpose(tf.gather(tf.transpose(table), [3])), tf.identity(table)

        agree(mixed, self.IDS)

    def test_that_are_looked_up_in_a_branch(self, agree, table):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.bool)])
        def branches(ids, left):
            if left:
                return tf.gather(table, ids)
            return tf.gather(table, ids + 1 - 1) + tf.constant(1, table.dtype)

        agree(branches, self.IDS, np.bool_(True))
        agree(branches, self.IDS, np.bool_(False))

    def test_that_stay_beside_the_model(self, monkeypatch):
        monkeypatch.setattr(large_tables, "LARGE_MODEL", 1 << 20)  # a gibibyte is too much for a test
        table = tf.Variable(np.random.default_rng(0).standard_normal((1024, 512)).astype(np.float32))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
        def look_up(ids):
            return tf.sparse.segment_sum(table, ids, ids - 5)

        beside = {}
        model = convert(look_up, tables=beside)
        (values,) = beside.values()
        assert not values.flags.owndata  # TensorFlow's memory, not a copy
        assert model.ByteSize() < 10_000
        assert all(record.ok for record in verify(look_up, model, tables=beside))
        assert not any(record.ok for record in verify(look_up, model, tables=dict.fromkeys(beside, values + 1)))

    def test_of_a_saved_model_and_of_a_graph_def(self, table, tmp_path, run):
        module = tf.Module()
        module.table = table
        spec = tf.TensorSpec([None], tf.int64, "ids")
        module.look_up = tf.function(lambda ids: {"rows": tf.gather(table, ids)}, input_signature=[spec])
        tf.saved_model.save(module, str(tmp_path), signatures=module.look_up)
        values = table.numpy()
        with tf.Graph().as_default() as graph:
            ids = tf.compat.v1.placeholder(tf.int64, [None], "ids")
            tf.gather(tf.constant(values), ids, name="rows")
        (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
        for source in (tmp_path, tmp_path / "graph.pb"):
            model = convert(source)
            assert len(self.tables_in(model)) == 1
            assert [value.name for value in model.graph.input] == ["ids"]
            np.testing.assert_array_equal(run(model, ids=self.IDS)["rows"], values[self.IDS])


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32", "int64", "uint8", "int8"])
@pytest.mark.parametrize("stored", [0, 1])
def test_large_constants_of_one_value_take_no_memory(tmp_path, run, dtype, stored):
    """A file of a few hundred bytes may hold a constant of gigabytes, used in any way."""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(dtype, [None, 8], "x")
        filled = tf.constant(3 * stored, dtype, [1 << 17, 8], name="filled")
        tf.identity(x + filled[:2], "sum")
        tf.gather(filled, [5], name="row")
        tf.identity(filled, "itself")
    definition = graph.as_graph_def()
    (constant,) = (node for node in definition.node if node.name == "filled")
    constant.attr["value"].tensor.CopyFrom(tf.compat.v1.make_tensor_proto(3 * stored, dtype, [1 << 17, 8]))
    assert constant.ByteSize() < 200
    (tmp_path / "graph.pb").write_bytes(definition.SerializeToString())
    model = convert(tmp_path / "graph.pb")
    assert model.ByteSize() < 10_000
    given = np.arange(16).reshape(2, 8).astype(dtype)
    found = run(model, x=given)
    np.testing.assert_array_equal(found["sum"], given + np.array(3 * stored, dtype))
    np.testing.assert_array_equal(found["row"], np.full((1, 8), 3 * stored, dtype))
    np.testing.assert_array_equal(found["itself"], np.full((1 << 17, 8), 3 * stored, dtype))


def test_functions_called_by_functions(agree):
    @tf.function
    def inner(table, ids, bags):
        return tf.sparse.segment_sum(table, ids, bags)

    @tf.function(input_signature=LOOKUP)
    def outer(table, ids, bags):
        return inner(table, ids, bags) + inner(table, ids, bags)

    agree(outer, TABLE, IDS, BAGS)


def test_internal_tensors_with_the_name_of_an_output_are_renamed(agree):
    """An output may have the name of a tensor in the middle of the graph."""

    @tf.function(input_signature=[tf.TensorSpec([2], name="x")])
    def confusing(x):
        return {"mul:0": tf.identity(tf.multiply(x, 2.0, name="mul") + 1.0), "x:0": -x}

    model = agree(confusing, np.float32([1, 2]))
    assert [value.name for value in model.graph.output] == ["mul:0", "x:0"]


def test_stages_are_reported_as_they_begin():
    stages = []
    convert(tf.function(lambda x: x + 1.0, input_signature=[tf.TensorSpec([2])]), progress=stages.append)
    assert stages == ["loading", "converting", "rewriting", "checking"]


def test_tables_have_the_names_of_their_variables(tmp_path):
    """A variable without a name is called by its place in the model's objects."""
    module = tf.Module()
    module.items = tf.Variable(np.ones((5, 2), np.float32), name="items")
    module.users = tf.Variable(np.zeros((6, 2), np.float32))
    module.more = [tf.Variable(np.full((7, 2), 2, np.float32))]
    spec = tf.TensorSpec([None], tf.int64, "ids")

    @tf.function(input_signature=[spec])
    def rows(ids):
        return {str(k): tf.gather(table, ids) for k, table in enumerate((module.items, module.users, *module.more))}

    module.rows = rows
    tf.saved_model.save(module, str(tmp_path), signatures=rows)
    tables = [tensor for tensor in convert(tmp_path).graph.initializer if tensor.data_type == TensorProto.FLOAT]
    assert {tensor.name for tensor in tables} == {"items", "users", "more/0"}
    assert "items" in {tensor.name for tensor in convert(rows).graph.initializer}


def test_conversions_in_threads_do_not_disturb_each_other(tmp_path):
    module = tf.Module()
    module.table = tf.Variable(np.ones((5, 2), np.float32), name="table")
    spec = tf.TensorSpec([None, None], tf.int64, "ids")
    module.sums = tf.function(lambda ids: {"y": tf.reduce_sum(tf.gather(module.table, ids), 1)}, input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path), signatures=module.sums)
    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(lambda _: convert(tmp_path), range(12)))
    assert all(model == models[0] for model in models)
