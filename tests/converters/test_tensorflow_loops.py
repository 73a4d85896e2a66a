"""Loops over lists of tensors: what is written where, how often, and how many rounds there are."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from tensorflow_functions import function  # noqa: E402

from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402

ROWS = ([None, 3], tf.float32)
X = np.arange(12, dtype=np.float32).reshape(4, 3)


def array(size, **options):
    return tf.TensorArray(tf.float32, size, element_shape=[3], **options)


def filled(rows, rounds, element, start=0, step=1, position=lambda i: i):
    """A list after a loop has written `element(i)` at `position(i)` of it for every `step`-th i below `rounds`."""
    return tf.while_loop(
        lambda i, _: i < rounds, lambda i, rows: (i + step, rows.write(position(i), element(i))), (start, rows)
    )[1]


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
    ],
    ids=["forward", "backward", "from 1", "odd", "backward from 1", "shifted"],
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


def refusal(source):
    with pytest.raises(ConversionError) as caught:
        convert(source)
    return str(caught.value)


def test_elements_that_may_be_written_twice_are_refused():
    assert "at positions that may not be different" in refusal(writing(lambda i, n: i // 2))
    assert "at positions that may not be different" in refusal(writing(lambda i, n: 0))


def test_a_list_that_is_read_while_it_is_written_is_refused():
    @function(ROWS)
    def sums(x):
        rows = array(tf.shape(x)[0] + 1, clear_after_read=False).write(0, tf.ones(3))
        return tf.while_loop(
            lambda i, _: i < tf.shape(x)[0], lambda i, rows: (i + 1, rows.write(i + 1, rows.read(i) + x[i])), (0, rows)
        )[1].stack()

    assert "but not read what it wrote" in refusal(sums)


def test_a_loop_without_a_counter_is_refused():
    specs = [tf.TensorSpec([], tf.float32), tf.TensorSpec([], tf.int32), tf.TensorSpec([None], tf.float32)]
    condition = tf.function(lambda a, b, c: a < 100).get_concrete_function(*specs)
    body = tf.function(lambda a, b, c: (a * 2, b + 1, c + a)).get_concrete_function(*specs)

    @function(([None], tf.float32))
    def looped(x):
        return tf.raw_ops.While(input=[3.0, 5, x], cond=condition, body=body)

    assert "are not its counter and the number of its rounds" in refusal(looped)
