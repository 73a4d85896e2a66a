"""Loops over lists of tensors: what is written where, how often, and how many rounds there are."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from support.tensorflow_functions import function  # noqa: E402

from onnx_sparse import InferenceSession  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402
from onnx_sparse.converters.tensorflow.graph_source import from_graph  # noqa: E402

V1 = tf.compat.v1
ROWS = ([None, 3], tf.float32)
X = np.arange(12, dtype=np.float32).reshape(4, 3)


def array(size, **options):
    return tf.TensorArray(tf.float32, size, element_shape=[3], **options)


def filled(rows, rounds, element, start=0, step=1, position=lambda i: i):
    """A list after a loop has written `element(i)` at `position(i)` of it for every `step`-th i below `rounds`."""
    return tf.while_loop(
        lambda i, _: i < rounds, lambda i, rows: (i + step, rows.write(position(i), element(i))), (start, rows)
    )[1]


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("rounds", [0, 1, 4])
def test_elements_of_different_lengths_are_joined(agree, rounds, dynamic):
    @function(([None], tf.float32), ([], tf.int32))
    def joined(x, rounds):
        parts = tf.TensorArray(tf.float32, 0 if dynamic else rounds, dynamic, infer_shape=False, element_shape=[None])
        return filled(parts, rounds, lambda i: x[:i]).concat()

    agree(joined, X[0], np.int32(rounds))


def writing(position, start=0, step=1):
    """A function whose loop writes the row of each round at `position(i, n)` of a list."""

    @function(ROWS, ([], tf.int32), ([], tf.int32))
    def written(x, rounds, size):
        n = tf.shape(x)[0]
        rows = filled(array(size), rounds, lambda i: x[i] * 2, start, step, lambda i: position(i, n))
        return rows.stack(), rows.gather([size - 1]), rows.read(0)

    return written


@pytest.mark.parametrize(
    ("position", "start", "step"),
    [
        (lambda i, n: i, 0, 1),
        (lambda i, n: n - 1 - i, 0, 1),
        (lambda i, n: i, 1, 1),
        (lambda i, n: i, 1, 2),
        (lambda i, n: n - i, 1, 1),
        (lambda i, n: tf.cast(1 - (1 - tf.cast(i, tf.int64)), tf.int32) - 1, 1, 1),
        (lambda i, n: 0, 0, 1),
        (lambda i, n: n - 1, 0, 1),
    ],
    ids=["forward", "backward", "from 1", "odd", "backward from 1", "shifted", "always 0", "always the same"],
)
def test_where_elements_are_written(agree, position, start, step):
    """All of them, some, none; in a list of just this size or a longer one."""
    written = writing(position, start, step)
    for rows, rounds, size in ((4, 4, 4), (4, 2, 4), (3, 0, 3), (1, 1, 1), (3, 3, 5)):
        agree(written, X[:rows], np.array(rounds, np.int32), np.array(size, np.int32))


def test_a_list_that_is_written_from_the_first_to_the_last_needs_no_more(agree):
    @function(ROWS)
    def written(x):
        n = tf.shape(x)[0]
        return filled(array(n), n, lambda i: x[i] * 2).stack()

    for rows in (4, 0):
        model = agree(written, X[:rows])
    assert "ScatterND" not in {node.op_type for node in model.graph.node}


@pytest.mark.parametrize("position", [lambda i: i, lambda i: 2 * i + 1], ids=["forward", "gaps"])
def test_a_list_that_grows(agree, position):
    @function(ROWS)
    def written(x):
        rows = array(0, dynamic_size=True)
        return filled(rows, tf.shape(x)[0], lambda i: x[i], position=position).stack()

    for rows in (4, 1, 0):
        agree(written, X[:rows])


@pytest.mark.parametrize("start", [0, 1])
def test_loops_of_python(agree, start):
    @function(ROWS)
    def written(x):
        n = tf.shape(x)[0]
        up, down = array(n), array(n)
        for i in tf.range(start, n):
            up = up.write(i, x[i] + 1)
        for i in tf.range(n - 1, -1 + start, -1):
            down = down.write(i, x[i] + 1)
        total = tf.zeros([3])
        for row in x:
            if tf.reduce_sum(row) > 15:
                break
            total += row
        return up.stack(), down.stack(), total

    for rows in (4, 1):
        agree(written, X[:rows])


def test_lists_of_strings_and_truth_values(agree):
    @function(([None], tf.string), ([], tf.int32))
    def written(words, rounds):
        texts, flags = (tf.TensorArray(dtype, tf.size(words), element_shape=[]) for dtype in (tf.string, tf.bool))
        texts, flags = filled(texts, rounds, lambda i: words[i]), filled(flags, rounds, lambda i: words[i] == "b")
        return texts.stack(), flags.stack()

    for rounds in (3, 1, 0):
        agree(written, np.array(["a", "b", "c"], object), np.array(rounds, np.int32))


def test_a_list_that_a_loop_wrote_and_another_reads(agree):
    @function(ROWS)
    def read(x):
        n = tf.shape(x)[0]
        first = filled(array(n + 2), n, lambda i: x[i] * 2, position=lambda i: i + 1)
        return filled(array(n), n, lambda i: first.read(i + 1) + 1).stack()

    agree(read, X)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("initializer", [None, np.float32([1, 2, 3])], ids=["first row", "given"])
def test_scans(agree, reverse, initializer):
    """Without an initial value, the first row is written before the loop."""

    @function(ROWS)
    def sums(x):
        return tf.scan(lambda total, row: total * 2 + row, x, initializer, reverse=reverse)

    for rows in (4, 1):
        agree(sums, X[:rows])


@pytest.mark.parametrize("rows", [4, None])
def test_maps(agree, rows):
    """Also of a known number of rows, which is a variable of the loop and the limit of its rounds."""

    @function(([rows, 3], tf.float32))
    def mapped(x):
        numbers, flags = tf.map_fn(
            lambda row: (tf.reduce_sum(row), row > 4), x, fn_output_signature=(tf.float32, tf.bool)
        )
        return numbers, flags, tf.map_fn(lambda row: tf.map_fn(lambda number: number * 2, row), x)

    for count in (4,) if rows else (4, 1, 0):
        agree(mapped, X[:count])


def test_a_map_over_no_rows_by_construction(agree):
    agree(function(ROWS)(lambda x: tf.map_fn(tf.reduce_sum, tf.tile(x, [0, 1]))), X)


def test_two_loops_of_one_function(agree):
    @function(ROWS)
    def doubled(x):
        return tf.map_fn(lambda row: tf.nn.relu(row) * 2, x)

    agree(function(ROWS, ROWS)(lambda x, y: doubled(x) + tf.reduce_sum(doubled(y))), X, X[:2])


def test_a_limit_of_rounds(agree):
    @function(([3], tf.float32))
    def sums(x):
        return tf.while_loop(
            lambda total: tf.reduce_sum(total) < 100, lambda total: total + x, [tf.zeros(3)], maximum_iterations=3
        )

    for row in (X[0], X[1], X[3] * 100):
        agree(sums, row)


def while_loop(condition, body, start, *specs):
    """The operator itself: its first variables are what they are, not a counter and a limit that Python adds."""
    specs = [tf.TensorSpec(*spec) for spec in specs]
    functions = [tf.function(function).get_concrete_function(*specs) for function in (condition, body)]
    return tf.raw_ops.While(input=start, cond=functions[0], body=functions[1])


def test_a_condition_on_the_counter(agree):
    @function(([3], tf.float32), ([], tf.int32))
    def sums(x, rounds):
        specs = *[([], tf.int32)] * 3, ([3], tf.float32)
        step = [0, -1, rounds, x]
        return while_loop(lambda i, _, n, x: i < n, lambda i, k, n, x: (i + 1, k, n, x * 2), step, *specs)[3]

    for rounds in (0, 1, 3):
        agree(sums, X[1], np.array(rounds, np.int32))


def test_elements_that_are_written_twice(agree):
    for rounds in (4, 1, 0):
        agree(writing(lambda i, n: i // 2), X, np.array(rounds, np.int32), np.array(4, np.int32))


def test_a_list_that_is_read_while_it_is_written(agree):
    @function(ROWS)
    def sums(x):
        rows = array(tf.shape(x)[0] + 1, clear_after_read=False).write(0, tf.ones(3))
        return tf.while_loop(
            lambda i, _: i < tf.shape(x)[0], lambda i, rows: (i + 1, rows.write(i + 1, rows.read(i) + x[i])), (0, rows)
        )[1].stack()

    for rows in (4, 1, 0):
        agree(sums, X[:rows])


def test_a_loop_without_a_counter(agree):
    @function(([None], tf.float32))
    def looped(x):
        specs = ([], tf.float32), ([], tf.int32), ([None], tf.float32)
        return while_loop(lambda a, b, c: a < 100, lambda a, b, c: (a * 2, b + 1, c + a), [3.0, 5, x], *specs)

    for count in (3, 0):
        agree(looped, np.arange(count, dtype=np.float32))


@pytest.fixture(params=["TensorFlow 1", "TensorFlow 2"])
def control_flow(request):
    """The loops and branches of a graph: cycles of switches, or nodes with functions."""
    before = V1.control_flow_v2_enabled()
    (V1.enable_control_flow_v2 if request.param == "TensorFlow 2" else V1.disable_control_flow_v2)()
    yield
    (V1.enable_control_flow_v2 if before else V1.disable_control_flow_v2)()


def agree_on_graph(body, *feeds):
    """Convert the graph of a function of placeholders, and compare its results with TensorFlow's to the last bits."""
    names = [f"x{k}" for k in range(len(feeds[0]))]
    with tf.Graph().as_default() as graph:
        shapes = [[*[None] * (value.ndim - 1), 3] if value.ndim > 1 else [None] * value.ndim for value in feeds[0]]
        given = zip(feeds[0], shapes, names, strict=True)
        placeholders = [V1.placeholder(value.dtype, shape, name) for value, shape, name in given]
        results = [tf.identity(result, f"y{k}") for k, result in enumerate(tf.nest.flatten(body(*placeholders)))]
    wanted = [result.op.name for result in results]
    source = from_graph(graph.as_graph_def(), name="graph", inputs=names, outputs=wanted)
    session = InferenceSession(convert(source))
    for values in feeds:
        fed = dict(zip(names, values, strict=True))
        for got, want in zip(session.run(wanted, fed), source.run(fed), strict=True):
            assert got.dtype == want.dtype
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def cell(x, *states):
    """A recurrent layer's step: weights, a gate, as many states as are given."""
    units = states[0].shape[-1]
    weights = np.random.default_rng(units).standard_normal((3 + units, units)).astype(np.float32)
    gate = tf.sigmoid(tf.concat([x, states[0]], 1) @ weights)
    new = [gate * state + (1 - gate) * tf.tanh(tf.concat([x, states[-1]], 1) @ weights) for state in states]
    return new[0], new


def dynamic_rnn(x, lengths=None, *, states=1):
    """What tf.nn.dynamic_rnn writes: rows beyond their length are zeros, and keep their state."""
    steps = tf.transpose(x, [1, 0, 2])
    count, rows = tf.shape(steps)[0], tf.shape(steps)[1]
    limit = count if lengths is None else tf.minimum(count, tf.maximum(1, tf.reduce_max(lengths)))
    taken = tf.TensorArray(tf.float32, count).unstack(steps)

    def step(time, written, *before):
        output, after = cell(taken.read(time), *before)
        if lengths is not None:
            done = (time >= lengths)[:, None]
            output = tf.where(done, tf.zeros_like(output), output)
            after = [tf.where(done, old, new) for old, new in zip(before, after, strict=True)]
        return time + 1, written.write(time, output), *after

    start = [tf.zeros([rows, 4]) for _ in range(states)]
    _, written, *last = tf.while_loop(
        lambda time, *_: time < limit, step, (0, tf.TensorArray(tf.float32, count), *start)
    )
    return tf.transpose(tf.ensure_shape(written.stack(), [None, None, 4]), [1, 0, 2]), *last


@pytest.mark.usefixtures("control_flow")
@pytest.mark.parametrize("states", [1, 2])
@pytest.mark.parametrize("with_lengths", [False, True])
def test_recurrent_layers_of_graphs(states, with_lengths):
    """Also without rows; without steps, TensorFlow does not know the shape of what it stacks."""
    rng = np.random.default_rng(0)
    feeds = []
    for rows, steps, longest in ((2, 5, 5), (3, 4, 2), (1, 1, 1), (0, 5, 0)):
        x = rng.standard_normal((rows, steps, 3)).astype(np.float32)
        lengths = np.arange(rows, dtype=np.int32) % (longest + 1)
        feeds.append((x, lengths) if with_lengths else (x,))
    agree_on_graph(lambda *given: dynamic_rnn(*given, states=states), *feeds)


@pytest.mark.usefixtures("control_flow")
def test_lists_of_graphs():
    """Written forward and backward, in part, beyond the end; scanned, mapped, of no rows."""

    def lists(x, rounds):
        n = tf.shape(x)[0]
        backward, other = (filled(array(n), n, lambda i: x[i] * 2, position=lambda i: n - 1 - i) for _ in range(2))
        begun = filled(array(n), rounds, lambda i: x[i] + 1)
        grown = filled(array(0, dynamic_size=True), n, lambda i: x[i])
        return backward.stack(), begun.stack(), grown.stack(), tf.map_fn(tf.reduce_sum, x), other.gather([1, 0])

    agree_on_graph(lists, (X, np.array(2, np.int32)), (X[:2], np.array(0, np.int32)))
    agree_on_graph(lambda x: tf.map_fn(lambda row: tf.map_fn(lambda number: number * 2, row), x), (X,), (X[:0],))
    agree_on_graph(lambda x: tf.scan(lambda total, row: total * 2 + row, x), (X,), (X[:1],))


@pytest.mark.usefixtures("control_flow")
def test_loops_and_branches_in_each_other():
    def nested(x):
        outer = lambda i, total: (i + 1, tf.while_loop(lambda j, _: j < i, inner, (0, total))[1])  # noqa: E731
        inner = lambda j, total: (j + 1, total * 2 + x[j])  # noqa: E731
        return tf.while_loop(lambda i, _: i < 3, outer, (0, tf.ones(3)))

    def branches(x):
        def step(i, total):
            return i + 1, tf.cond(tf.reduce_sum(x[i]) > 10, lambda: total + x[i], lambda: total * 2)

        def looped():
            return tf.while_loop(lambda i, _: i < 4, step, (0, tf.ones(3)))[1]

        return tf.cond(tf.reduce_sum(x) > 10, looped, lambda: x[0])

    for body in (nested, branches):
        agree_on_graph(body, (X,), (X * 0,))


@pytest.mark.usefixtures("control_flow")
def test_variables_that_grow_stay_or_change_places():
    def changing(x):
        shapes = tuple(tf.TensorShape(shape) for shape in ([], [None, 3], [3], [3], [3]))
        return tf.while_loop(
            lambda i, *_: i < 3,
            lambda i, rows, a, b, same: (i + 1, tf.concat([rows, x], 0), b, a + same, same),
            (0, x, x[0], x[1], x[2]),
            shape_invariants=shapes,
        )

    agree_on_graph(changing, (X,))


def test_loops_of_a_saved_model_of_tensorflow_1(tmp_path, run):
    before = V1.control_flow_v2_enabled()
    V1.disable_control_flow_v2()
    with tf.Graph().as_default(), V1.Session() as session:
        x = V1.placeholder(tf.float32, [None, 3], "x")
        weights = V1.get_variable("weights", initializer=np.float32([1, 2, 3]))
        sums = tf.map_fn(lambda row: tf.reduce_sum(row * weights), x)
        session.run(V1.global_variables_initializer())
        V1.saved_model.simple_save(session, str(tmp_path / "saved"), {"x": x}, {"sums": sums})
    (V1.enable_control_flow_v2 if before else V1.disable_control_flow_v2)()
    model = convert(tmp_path / "saved")
    for rows in (4, 0):
        np.testing.assert_array_equal(run(model, x=X[:rows])["sums"], X[:rows] @ [1, 2, 3])


def test_lists_of_pieces_that_differ_in_length(agree):
    """They are read in a loop, read outside of it, put together and counted."""

    @function(ROWS, ([None], tf.int32))
    def summed(rows, lengths):
        pieces = tf.TensorArray(tf.float32, tf.size(lengths), infer_shape=False).split(rows, lengths)
        sums = tf.while_loop(
            lambda i, _: i < tf.size(lengths),
            lambda i, total: (i + 1, total * 2.0 + tf.reduce_sum(tf.ensure_shape(pieces.read(i), [None, 3]), 0)),
            (0, tf.zeros([3])),
        )[1]
        return sums, pieces.read(1), pieces.concat(), pieces.size()

    for lengths in ([1, 3], [4, 0], [0, 1, 0, 3]):
        agree(summed, X, np.array(lengths, np.int32))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_computed_axes(agree, axis):
    @function(ROWS, ([], tf.int32))
    def along(x, axis):
        return (
            *(
                tf.math.argmax(x, axis),
                tf.gather(x, [[1], [0]], axis=axis),
                tf.math.cumprod(x, axis),
                tf.roll(x, 1, axis),
            ),
            *(tf.concat([x, x * 2], axis), tf.reverse(x, [axis]), tf.split(x, 1, axis)[0]),
        )

    agree(along, X, np.array(axis, np.int32))


@pytest.mark.parametrize("has_peepholes", [False, True])
def test_lstm_whose_peepholes_may_be_unused(run, has_peepholes):
    """TensorFlow's graphs have the weights of peepholes, of any size, also if nothing reads them."""
    rng = np.random.default_rng(0)
    shapes = {"w": (7, 16), "b": (16,), **dict.fromkeys(("wci", "wcf", "wco"), (4,))}
    weights = {name: tf.constant(rng.normal(size=shape).astype(np.float32)) for name, shape in shapes.items()}

    @function(([None, 2, 3], tf.float32))
    def steps(x):
        given = {"cs_prev": tf.ones([2, 4]), "h_prev": tf.ones([2, 4]), "use_peephole": has_peepholes, **weights}
        long = tf.raw_ops.BlockLSTM(seq_len_max=tf.constant(2, tf.int64), x=x, **given)
        newer = tf.raw_ops.BlockLSTMV2(seq_len_max=tf.constant(2, tf.int64), x=x, **given)
        return long.h, newer.h, tf.raw_ops.LSTMBlockCell(x=x[0], **given).h

    x = rng.normal(size=(3, 2, 3)).astype(np.float32)
    for got, want in zip(run(convert(steps), x=x).values(), steps(x), strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-6)
