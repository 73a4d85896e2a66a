"""What is tidied in a converted graph, and that it computes the same for tensors of any size."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

tf = pytest.importorskip("tensorflow")
import keras  # noqa: E402
from support.tensorflow_functions import function  # noqa: E402

from onnx_sparse.converters.rewriting import graph  # noqa: E402
from onnx_sparse.converters.rewriting.simplification import simplify  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402


def kinds(model):
    return [node.op_type for node in model.graph.node]


def of_nodes(nodes, inputs, outputs, **constants):
    """A model of nodes; inputs and outputs are `name=(dtype, shape)`."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, *given) for name, given in inputs.items()],
        [helper.make_tensor_value_info(name, *given) for name, given in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


@pytest.mark.parametrize("rows", [0, 1, 16])
@pytest.mark.parametrize("columns", [0, 1, 4])
def test_products_with_one_column_before_a_transposition(agree, rows, columns):
    """A Reshape whose 0 copies a size of the result of another Reshape."""

    @function(([None, None, 8], tf.float32))
    def scores(x):
        return tf.transpose(tf.tensordot(x, tf.ones((8, 1)), 1), (0, 2, 1))

    agree(scores, np.ones((rows, columns, 8), np.float32))


@pytest.mark.parametrize("rows", [0, 3])
def test_a_size_of_zero_is_no_copied_size(agree, rows):
    """Among computed sizes it stays what it is; in a constant of ONNX it would copy a size."""

    @function(([None, 0], tf.float32))
    def turned(x):
        return tf.reshape(x, tf.stack([0, tf.shape(x)[0], 5]))

    agree(turned, np.ones((rows, 0), np.float32))


@pytest.mark.parametrize("seed", range(12))
def test_chains_of_reshapes(agree, seed):
    """Each target has constants, sizes of the tensor before it, sizes of the input, and sometimes a -1."""
    rng = np.random.default_rng(seed)

    @function(([None, 4, None], tf.float32))
    def chain(x):
        for _ in range(3):
            sizes = tf.shape(x)
            targets = (
                [sizes[0] * sizes[1], sizes[2]],
                [sizes[0], sizes[1] * sizes[2]],
                [sizes[2], sizes[0], sizes[1]],
                [-1, sizes[2]] if seed % 2 else [sizes[0], sizes[1], 1, sizes[2]],
            )
            x = tf.reshape(x, targets[rng.integers(4)])
            x = tf.reshape(x, [-1, 2, 2]) if rng.integers(2) else tf.reshape(x, [tf.size(x) // 4, 1, 4])
        return x

    for shape in [(2, 4, 3), (1, 4, 1), (3, 4, 5)]:
        agree(chain, np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


class TestCasts:
    @pytest.mark.parametrize("middle", ["float32", "float64", "int32", "int64", "int8", "uint8", "bool", "float16"])
    @pytest.mark.parametrize("first", ["int64", "int32", "int16", "uint8", "float32", "float64", "bool"])
    def test_two_in_a_row_become_one_only_if_nothing_is_lost(self, first, middle):
        """Every value of the extremes of the first type arrives as through both casts."""
        kinds_of = {name: helper.np_dtype_to_tensor_dtype(np.dtype(name)) for name in (first, middle, "int64")}
        nodes = [
            helper.make_node("Cast", ["x"], ["y"], to=kinds_of[middle]),
            helper.make_node("Cast", ["y"], ["z"], to=TensorProto.INT64),
        ]
        model = of_nodes(nodes, {"x": (kinds_of[first], [None])}, {"z": (TensorProto.INT64, [None])})
        dtype = np.dtype(first)
        values = np.array([0, 1] if first == "bool" else [0, 1, 3, 100, 2**24 + 1, 2**53 + 1, 2**62 + 1])
        if dtype.kind in "iu":
            values = values[values <= np.iinfo(dtype).max]
        elif dtype.kind == "f":
            values = np.array([0, 0.5, 1, 99.9])
        given = values.astype(dtype)
        expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": given})[0]
        simplify(model)
        assert len(model.graph.node) <= 2
        actual = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": given})[0]
        np.testing.assert_array_equal(actual, expected)

    def test_integers_pass_through_a_wider_type(self):
        nodes = [
            helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT64),
            helper.make_node("Cast", ["y"], ["z"], to=TensorProto.INT32),
            helper.make_node("Neg", ["z"], ["w"]),
        ]
        model = of_nodes(nodes, {"x": (TensorProto.INT32, [None])}, {"w": (TensorProto.INT32, [None])})
        simplify(model)
        assert kinds(model) == ["Neg"]


def test_bodies_use_constants_and_nodes_of_the_graph_around_them(agree):
    @function(([None], tf.float32), ([], tf.bool))
    def branches(x, left):
        y = tf.exp(x) + 2.0
        return tf.cond(left, lambda: tf.exp(x) * 2.0, lambda: tf.identity(y))

    for left in (True, False):
        model = agree(branches, np.float32([1, 2]), np.bool_(left))
        onnx.checker.check_model(model, full_check=True)
    assert kinds(model).count("Exp") == 1


def test_random_numbers_are_not_merged():
    nodes = [helper.make_node("RandomNormal", [], [name], shape=[100]) for name in "ab"]
    nodes.append(helper.make_node("Sub", ["a", "b"], ["y"]))
    model = of_nodes(nodes, {}, {"y": (TensorProto.FLOAT, [100])})
    simplify(model)
    assert len(model.graph.node) == 3


class TestImages:
    """Transpositions between layouts cancel out; what remains is at the ends."""

    @staticmethod
    def convolved(x, filters=4):
        return keras.layers.Conv2D(filters, 3, padding="same")(x)

    def converted(self, inputs, outputs):
        model = keras.Model(inputs, outputs)
        converted = convert(model)
        for record in verify(model, converted):
            assert record.ok, record.note
        return kinds(converted)

    def test_blocks_with_skips_concatenations_and_pooling(self):
        x = keras.Input((8, 8, 3))
        a = keras.layers.ReLU()(self.convolved(x))
        b = a + self.convolved(keras.layers.Activation("hard_silu")(a))
        c = keras.layers.Concatenate()([b, keras.layers.LeakyReLU()(self.convolved(b))])
        d = keras.layers.ZeroPadding2D()(c) * np.arange(8, dtype=np.float32)
        y = keras.layers.GlobalAveragePooling2D()(self.convolved(d))
        assert self.converted(x, y).count("Transpose") == 1

    def test_an_output_between(self):
        x = keras.Input((4, 4, 3))
        a = self.convolved(x)
        assert self.converted(x, [a, self.convolved(keras.layers.ReLU()(a))]).count("Transpose") == 3

    def test_sizes_that_are_computed(self):
        x = keras.Input((None, None, 3))
        y = keras.layers.UpSampling2D()(keras.layers.ReLU()(self.convolved(x)))
        self.converted(x, self.convolved(y))

    def test_an_operand_that_is_not_an_image(self):
        x, scale = keras.Input((4, 4, 3)), keras.Input((4,))
        y = self.convolved(x) * keras.layers.Reshape((1, 1, 4))(scale)
        self.converted([x, scale], self.convolved(y))


@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("inner", [True, False])
def test_branches_that_are_always_taken(outer, inner):
    """Names of different branches may be equal; a branch may hold another, pass a tensor on, or be a fed one."""

    def branch(nodes, outputs, **constants):
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        tensors = [numpy_helper.from_array(np.float32(value), name) for name, value in constants.items()]
        return helper.make_graph(nodes, "branch", [], results, tensors)

    def node(op_type, inputs, outputs, **attributes):
        return helper.make_node(op_type, inputs.split(), outputs.split(), **attributes)

    deep = [branch([node("Mul", "x c", "r"), node("Identity", "x", "s")], ["r", "s"], c=k) for k in (5, 7)]
    choice = node("If", "inner", "p q", then_branch=deep[0], else_branch=deep[1], name="choice")
    then = branch([choice, node("Add", "p k", "t")], ["t", "q"], k=100)
    other = branch([node("Neg", "x", "t"), node("Abs", "x", "q")], ["t", "q"])
    fed = [branch([node(op, "y", "t")], ["t"]) for op in ("Exp", "Neg")]
    nodes = [
        node("If", "outer", "y z", then_branch=then, else_branch=other),
        node("If", "flag", "w", then_branch=fed[0], else_branch=fed[1]),
        node("Sum", "y z w", "out"),
    ]
    given = {"x": (TensorProto.FLOAT, [None]), "flag": (TensorProto.BOOL, [])}
    model = of_nodes(nodes, given, {"out": (TensorProto.FLOAT, [None])}, outer=np.array(outer), inner=np.array(inner))
    feeds = {"x": np.float32([-1, 2]), "flag": np.array(False)}
    want = onnx.reference.ReferenceEvaluator(model).run(None, feeds)[0]
    simplify(model)
    assert kinds(model).count("If") == 1
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    np.testing.assert_allclose(session.run(None, feeds)[0], want)


def test_tables_are_not_read_to_fold_what_is_no_constant(monkeypatch):
    """Each lookup would copy its table, in every sweep."""
    lookups = [helper.make_node("Gather", ["table", f"ids{k}"], [f"rows{k}"]) for k in range(3)]
    ids = {f"ids{k}": (TensorProto.INT64, [None]) for k in range(3)}
    rows = {f"rows{k}": (TensorProto.FLOAT, [None, 2]) for k in range(3)}
    model = of_nodes(lookups, ids, rows, table=np.zeros((5, 2), np.float32))
    read = []
    monkeypatch.setattr(graph, "array_of", lambda tensor: read.append(tensor.name))
    simplify(model)
    assert not read


def test_a_body_may_use_the_name_of_a_tensor_outside():
    """Its own tensor stays when the outer one is replaced by what it is a copy of."""
    scalar = (TensorProto.FLOAT, [])
    state, element, s, e = (helper.make_tensor_value_info(n, *scalar) for n in ("state", "element", "s", "e"))
    step = [helper.make_node("Add", ["state", "element"], ["s"]), helper.make_node("Identity", ["s"], ["e"])]
    nodes = [
        helper.make_node("Identity", ["start"], ["state"]),
        helper.make_node(
            "Scan", ["state", "x"], ["y", "z"], num_scan_inputs=1,
            body=helper.make_graph(step, "step", [state, element], [s, e]),
        ),
    ]  # fmt: skip
    vector = (TensorProto.FLOAT, ["n"])
    model = of_nodes(nodes, {"x": vector}, {"y": scalar, "z": vector}, start=np.float32(1))
    simplify(model)
    total, steps = onnxruntime.InferenceSession(model.SerializeToString()).run(
        None, {"x": np.arange(3, dtype=np.float32)}
    )
    assert (total.tolist(), steps.tolist()) == (4, [1, 2, 4])
