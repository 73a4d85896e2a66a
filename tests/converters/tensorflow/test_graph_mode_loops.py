"""Loops that were built in graph mode carry a list of every intermediate value, which nothing reads: drawn loops."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from support.tensorflow_imports import answers  # noqa: E402

from onnx_sparse.converters.tensorflow import convert  # noqa: E402
from onnx_sparse.converters.tensorflow.graph_source import from_graph  # noqa: E402

X = np.float32(np.random.default_rng(0).normal(size=(2, 4, 3)))
STEPS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda t, x: tf.tanh(t + x),
    lambda t, x: t * 0.5 + tf.cumsum(x, 1),
    lambda t, x: tf.where(t > x, t, x * 0.5),
    lambda t, x: tf.cond(tf.reduce_sum(x) > 0, lambda: t + x, lambda: t - x),
    lambda t, x: tf.while_loop(lambda i, _: i < 2, lambda i, s: (i + 1, s * 0.5 + x), [0, t])[1],
)


def loop(seed: int, x: Any) -> list[Any]:
    """The results of a drawn loop over the second axis: its last values, and perhaps a list of those of each round."""
    draw = random.Random(seed)
    steps = draw.choices(STEPS, k=draw.randint(1, 3))
    rows = tf.TensorArray(tf.float32, 4) if draw.random() < 0.5 else None
    limit = draw.randint(0, 4) if rows is None else 4
    starts = [x[:, 0] * k for k in range(len(steps))]

    def body(i: Any, *values: Any) -> tuple[Any, ...]:
        rest, states = (values[:1], values[1:]) if rows is not None else ((), values)
        made = [step(state, x[:, i]) for step, state in zip(steps, states, strict=True)]
        return i + 1, *(kept.write(i, made[0]) for kept in rest), *made

    carried = [0, *([rows] if rows is not None else []), *starts]
    _, *after = tf.while_loop(lambda i, *_: i < limit, body, carried)
    return [kept.stack() if kept is after[0] and rows is not None else kept for kept in after]


@pytest.fixture(autouse=True)
def as_keras_builds_it() -> Iterator[None]:
    """TensorFlow adds the lists for layers of Keras that are built in graph mode."""
    from tensorflow.python.ops import control_flow_util_v2

    control_flow_util_v2.set_output_all_intermediates(True)
    yield
    control_flow_util_v2.set_output_all_intermediates(None)


@pytest.mark.parametrize("seed", range(12))
def test_intermediate_values_leave_the_loop(seed: int) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, X.shape, "x")
        outputs = [tf.identity(tensor).name for tensor in loop(seed, x)]
        with tf.compat.v1.Session(graph=graph) as session:
            expected = session.run(outputs, {x: X})
    definition = graph.as_graph_def()
    assert any(node.op == "EmptyTensorList" for node in definition.node)
    model = convert(from_graph(definition, name="loop", inputs=["x:0"], outputs=outputs))
    for got, want in zip(answers(model, [X]), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
