"""Branches, loops and lists of tensors, converted without TensorFlow, against TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import tensorflow as tf
from support.tensorflow_imports import answers, assert_equal, imported, text, traced

from onnx_sparse import InferenceSession
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow import convert
from onnx_sparse.converters.tensorflow.graph_source import from_graph
from onnx_sparse.converters.tensorflow.reading.messages import GraphDef

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def agree(function: Any, *batches: list[Any]) -> Any:
    """The model of a function, whose results on each batch are TensorFlow's to the bit."""
    concrete = traced(function, [np.asarray(array) for array in batches[0]], sizes_known=False)
    model = imported(concrete)
    for batch in batches:
        arrays = [np.asarray(array) for array in batch]
        expected = [text(tensor.numpy()) for tensor in tf.nest.flatten(concrete(*map(tf.constant, arrays)))]
        for got, want in zip(answers(model, arrays), expected, strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_array_equal(got, want)
    return model


@pytest.fixture(params=["TensorFlow 2", "TensorFlow 1"])
def control_flow(request: pytest.FixtureRequest) -> Any:
    """Loops and branches as nodes with functions, or as cycles of nodes."""
    (tf.compat.v1.enable_control_flow_v2 if request.param == "TensorFlow 2" else tf.compat.v1.disable_control_flow_v2)()
    yield request.param
    tf.compat.v1.enable_control_flow_v2()


def agree_on_graph(body: Any, *batches: list[Any]) -> None:
    """The results of a GraphDef, which a function writes into a graph of TensorFlow 1, are TensorFlow's to the bit."""
    v1 = tf.compat.v1
    first = [np.asarray(array) for array in batches[0]]
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        given = [v1.placeholder(array.dtype, [None] * array.ndim) for array in first]
        outputs = [tf.identity(tensor) for tensor in tf.nest.flatten(body(*given))]
        graph_def = GraphDef.FromString(graph.as_graph_def().SerializeToString())
        names = [[tensor.name for tensor in tensors] for tensors in (given, outputs)]
        model = convert(from_graph(graph_def, name="graph", inputs=names[0], outputs=names[1]))
        for batch in batches:
            arrays = [np.asarray(array) for array in batch]
            expected = session.run(outputs, dict(zip(given, arrays, strict=True)))
            for got, want in zip(answers(model, arrays), expected, strict=True):
                assert (got.dtype, got.shape) == (want.dtype, want.shape)
                np.testing.assert_array_equal(got, want)


def kinds(graph: Any) -> list[str]:
    return [node.op_type for node in graph.node]


def test_branches_of_different_sizes():
    model = agree(
        lambda x, yes: tf.cond(yes, lambda: (x * 2, tf.shape(x)[0]), lambda: (x[:1] + 1, 7)), [X, True], [X, False]
    )
    assert kinds(model.graph).count("If") == 1


def test_branch_that_returns_what_it_is_given():
    agree(lambda x, yes: tf.cond(yes, lambda: x, lambda: x * 0), [X, True], [X, False])


def test_condition_that_is_a_number():
    def chosen(x: Any, number: Any) -> Any:
        return tf.raw_ops.If(
            cond=number,
            input=[x],
            Tout=[tf.float32],
            then_branch=tf.function(lambda x: x + 1).get_concrete_function(tf.TensorSpec([None, None])),
            else_branch=tf.function(lambda x: x - 1).get_concrete_function(tf.TensorSpec([None, None])),
        )

    agree(chosen, [X, np.int32(0)], [X, np.int32(5)])


@pytest.mark.parametrize("count", [1, 3])
def test_cases(count):
    """An index out of range takes the last one."""
    choices = [lambda x, k=k: x * (k + 2) for k in range(count)]
    batches = [[X, np.int32(index)] for index in (0, 1, 2, 9, -1)]
    agree(lambda x, index: tf.switch_case(index, [lambda c=c: c(x) for c in choices]), *batches)


def test_what_only_a_dead_branch_needs_is_not_converted():
    def checked(x: Any) -> Any:
        tf.debugging.Assert(tf.reduce_all(x < 100), [tf.strings.format("too large: {}", x)])
        return x + 1

    agree(checked, [X])


def test_unsupported_nodes_of_all_branches_are_listed():
    def chosen(x: Any, yes: Any) -> Any:
        return tf.cond(yes, lambda: tf.math.bessel_i0e(x), lambda: tf.math.bessel_i1e(x))

    with pytest.raises(ConversionError) as caught:
        imported(traced(chosen, [X, np.array(True)], sizes_known=False))
    assert {node.op_type for node in caught.value.unsupported} == {"BesselI0e", "BesselI1e"}


def test_loops_with_and_without_rounds():
    def doubled(x: Any, rounds: Any) -> Any:
        return tf.while_loop(lambda i, _: i < rounds, lambda i, x: (i + 1, x * 2 + x[0]), (0, x))[1]

    agree(doubled, [X, np.int32(3)], [X, np.int32(0)], [X[:1], np.int32(1)])


def test_loop_whose_variable_grows():
    def longer(x: Any, rounds: Any) -> Any:
        shapes = (tf.TensorShape([]), tf.TensorShape([None, None]))
        step = lambda i, x: (i + 1, tf.concat([x, x[:1]], 0))  # noqa: E731
        return tf.while_loop(lambda i, _: i < rounds, step, (0, x), shape_invariants=shapes)[1]

    agree(longer, [X, np.int32(3)], [X[:1], np.int32(0)])


def test_loop_without_a_counter():
    agree(lambda x: tf.while_loop(lambda x: tf.reduce_sum(x) < 500, lambda x: (x * 2,), (x,))[0], [X], [X * 100])


def test_list_that_begins_empty_and_grows():
    """Only what the rounds write says of which shape its elements are."""

    def written(x: Any, first: Any) -> Any:
        rows = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        step = lambda i, rows: (i + 1, rows.write(i, x * tf.cast(i, tf.float32)))  # noqa: E731
        return tf.while_loop(lambda i, _: i < 4, step, (first, rows))[1].stack()

    agree(lambda i: written(tf.constant([1.0, 2]), i), [np.int32(0)], [np.int32(2)])


def test_maps_and_scans():
    def mapped(x: Any) -> Any:
        pairs = tf.map_fn(lambda r: (tf.reduce_sum(r), r > 4), x, fn_output_signature=(tf.float32, tf.bool))
        return *pairs, tf.map_fn(lambda row: tf.map_fn(lambda number: number * 2, row), x)

    agree(mapped, [X], [X[:1]])
    agree(lambda x: tf.scan(lambda total, row: total * 2 + row, x), [X], [X[:1]])
    agree(lambda x: tf.scan(lambda total, row: total + row, x, np.float32([1, 2, 3]), reverse=True), [X], [X[:2]])


def test_maps_of_no_rows():
    spec = [tf.TensorSpec([None, 3])]
    concrete = tf.function(lambda x: tf.map_fn(lambda row: row * 2, x), autograph=False).get_concrete_function(*spec)
    assert answers(imported(concrete), [X[:0]])[0].shape == (0, 3)


def test_loops_and_branches_in_each_other():
    def step(i: Any, total: Any, x: Any) -> Any:
        return i + 1, tf.cond(tf.reduce_sum(x[i]) > 10, lambda: total + x[i], lambda: total * 2), x

    def looped(x: Any) -> Any:
        return tf.while_loop(lambda i, _t, _x: i < 4, step, (0, tf.ones(3), x))[1]

    agree(lambda x: tf.cond(tf.reduce_sum(x) > 10, lambda: looped(x), lambda: x[0]), [X], [X * 0])


@pytest.mark.parametrize("position", ["forward", "backward", "twice", "read"])
def test_lists_that_loops_write(position):
    def written(x: Any) -> Any:
        n = tf.shape(x)[0]
        places = {"backward": lambda i: n - 1 - i, "twice": lambda i: i // 2}

        def step(i: Any, array: Any) -> Any:
            row = x[i] + (array.read(i) if position == "read" else 0)
            return i + 1, array.write(places.get(position, lambda i: i)(i), row)

        array = tf.TensorArray(tf.float32, n, element_shape=[3], clear_after_read=False)
        return tf.while_loop(lambda i, _: i < n, step, (0, array))[1].stack()

    agree(written, [X], [X[:1]])


def test_list_that_grows_with_the_rounds():
    def grown(x: Any, rounds: Any) -> Any:
        array = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[3])
        step = lambda i, array: (i + 1, array.write(i, x[i]))  # noqa: E731
        return tf.while_loop(lambda i, _: i < rounds, step, (0, array))[1].stack()

    agree(grown, [X, np.int32(3)], [X, np.int32(1)])


def test_lists_without_loops():
    def listed(x: Any) -> Any:
        handle = tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=[3])
        handle = tf.raw_ops.TensorListSetItem(input_handle=handle, index=1, item=x[0] * 2)
        handle = tf.raw_ops.TensorListPushBack(input_handle=handle, tensor=x[1])
        item = tf.raw_ops.TensorListGetItem(input_handle=handle, index=4, element_shape=[3], element_dtype=tf.float32)
        stacked = tf.raw_ops.TensorListStack(input_handle=handle, element_shape=[3], element_dtype=tf.float32)
        return item, stacked, tf.raw_ops.TensorListLength(input_handle=handle)

    agree(listed, [X])


def test_positions_that_make_a_list_longer():
    def gaps(x: Any) -> Any:
        array = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[3])
        step = lambda i, array: (i + 1, array.write(i * 2, x[i]))  # noqa: E731
        return tf.while_loop(lambda i, _: i < 3, step, (0, array))[1].stack()

    assert_equal(gaps, [X], sizes_known=[False, True])


@pytest.mark.usefixtures("control_flow")
def test_branches_of_graphs():
    def chosen(x: Any, yes: Any) -> Any:
        inner = lambda: tf.cond(tf.reduce_sum(x) > 10, lambda: x[:1], lambda: x * 3)  # noqa: E731
        return tf.cond(yes, inner, lambda: tf.constant([[7.0, 8, 9]])), tf.cond(yes, lambda: 1, lambda: 2)

    agree_on_graph(chosen, [X, True], [X * 0, True], [X, False])


@pytest.mark.usefixtures("control_flow")
def test_loops_of_graphs():
    def nested(x: Any, rounds: Any) -> Any:
        inner = lambda j, total: (j + 1, total * 2 + x[j])  # noqa: E731
        outer = lambda i, total: (i + 1, tf.while_loop(lambda j, _: j < i, inner, (0, total))[1])  # noqa: E731
        return tf.while_loop(lambda i, _: i < rounds, outer, (0, tf.ones(3)))

    agree_on_graph(nested, [X, np.int32(3)], [X, np.int32(0)])


@pytest.mark.usefixtures("control_flow")
def test_branches_in_loops_in_branches_of_graphs():
    def body(x: Any) -> Any:
        def step(i: Any, total: Any) -> Any:
            return i + 1, tf.cond(tf.reduce_sum(x[i]) > 10, lambda: total + x[i], lambda: total * 2)

        loop = lambda: tf.while_loop(lambda i, _: i < 4, step, (0, tf.ones(3)))[1]  # noqa: E731
        return tf.cond(tf.reduce_sum(x) > 10, loop, lambda: x[0])

    agree_on_graph(body, [X], [X * 0])


@pytest.mark.usefixtures("control_flow")
def test_lists_of_graphs():
    def lists(x: Any) -> Any:
        x = tf.ensure_shape(x, [None, 3])
        n = tf.shape(x)[0]
        step = lambda i, a: (i + 1, a.write(n - 1 - i, x[i] * 2))  # noqa: E731
        backward = tf.TensorArray(tf.float32, n, element_shape=[3])
        written = tf.while_loop(lambda i, _: i < n, step, (0, backward))[1]
        return written.stack(), tf.map_fn(tf.reduce_sum, x), tf.scan(lambda total, row: total + row, x)

    agree_on_graph(lists, [X], [X[:1]])


#: Conditions that follow from constants, whether they hold, by what decides.
DECIDED = {
    "constant": lambda _: tf.constant(False),
    "both": lambda _: tf.logical_and(tf.constant(False), tf.constant(True)),
    "one": lambda x: tf.logical_and(tf.reduce_sum(x) > 0, tf.constant(False)),
    "or": lambda x: tf.logical_not(tf.logical_or(tf.constant(True), tf.reduce_sum(x) > 0)),
    "compared": lambda _: tf.equal(tf.constant(3), tf.constant(4)),
}


@pytest.mark.parametrize("is_then", [False, True])
@pytest.mark.parametrize("decided", DECIDED)
def test_a_branch_that_never_runs_may_assign(decided: str, is_then: bool):
    """Layers that adapt while training store a statistic in the branch that is not taken."""
    seen = tf.Variable(2.0)
    assign = lambda x: seen.assign(tf.reduce_mean(x)) + 0.0  # noqa: E731
    read = lambda x: seen.read_value() + x[0, 0]  # noqa: E731

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x")])
    def function(x):
        inner = tf.function(lambda flag: tf.cond(flag, lambda: assign(x), lambda: read(x)), autograph=False)
        other = tf.function(lambda flag: tf.cond(flag, lambda: read(x), lambda: assign(x)), autograph=False)
        condition = DECIDED[decided](x)
        return x * (other(tf.logical_not(condition)) if is_then else inner(condition))

    model = convert(function)
    assert "If" not in {node.op_type for node in model.graph.node}
    (got,) = InferenceSession(model).run(None, {"x": X})
    np.testing.assert_array_equal(got, X * (2 + X[0, 0]))


def test_a_condition_that_is_a_vector_is_not_decided_by_one_operand():
    """TensorFlow's operator takes the branch of a vector that is not empty, whatever it holds."""
    then, other = (
        tf.function(lambda x, k=k: x * k).get_concrete_function(tf.TensorSpec([None, 3])) for k in (2.0, 3.0)
    )

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x")])
    def function(x):
        condition = tf.logical_and(tf.reduce_sum(x, 1) > 0, tf.constant(False))
        branches = {"then_branch": then, "else_branch": other}
        return tf.raw_ops.StatelessIf(cond=condition, input=[x], Tout=[tf.float32], **branches)[0]

    try:
        model = convert(function)
    except ConversionError:
        return
    for x in (X, X[:0]):
        np.testing.assert_array_equal(InferenceSession(model).run(None, {"x": x})[0], function(x).numpy())


def test_a_branch_that_may_run_may_not_assign():
    seen = tf.Variable(2.0)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x")])
    def function(x):
        wanted = tf.logical_and(tf.reduce_sum(x) > 0, tf.constant(True))
        return x * tf.cond(wanted, lambda: seen.assign(tf.reduce_mean(x)) + 0.0, seen.read_value)

    with pytest.raises(ConversionError, match="changes it in a branch or loop"):
        convert(function)


@pytest.mark.parametrize("kind", ["cond", "switch", "nested"])
def test_branches_next_to_their_gradient(kind: str):
    """In a graph with the gradient, branches return optional tensors, which only the gradient reads."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x, number = v1.placeholder(tf.float32, [None, 3], "x"), v1.placeholder(tf.int32, [], "number")
        makes = [lambda: tf.square(x * tf.exp(x)), lambda: tf.identity(x) * 2.0, lambda: tf.sin(x)]
        made = {
            "cond": lambda: tf.cond(number > 0, makes[0], makes[1]),
            "switch": lambda: tf.switch_case(number, makes),
            "nested": lambda: tf.cond(number > 0, lambda: tf.cond(number > 1, *makes[:2]), makes[2]),
        }[kind]()
        tf.identity(made, "y")
        tf.gradients(tf.reduce_sum(made), x)
        wanted = [session.run("y:0", {x: X, number: k}) for k in range(3)]
    graph_def = GraphDef.FromString(graph.as_graph_def().SerializeToString())
    assert any(node.op == "OptionalFromValue" for function in graph_def.library.function for node in function.node_def)
    model = convert(from_graph(graph_def, name="branches", inputs=["x", "number"], outputs=["y:0"]))
    for k, want in enumerate(wanted):
        np.testing.assert_allclose(answers(model, [X, np.array(k, np.int32)])[0], want, rtol=1e-6)
