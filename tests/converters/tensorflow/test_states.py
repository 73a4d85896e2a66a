"""Variables that a call reads and assigns: drawn programs of reads and assignments run as TensorFlow runs them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from onnx import ModelProto  # noqa: E402

import onnx_sparse  # noqa: E402
from onnx_sparse.converters.errors import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert, verify  # noqa: E402
from onnx_sparse.converters.tensorflow.importing.states import VariableValues  # noqa: E402
from onnx_sparse.converters.verification.comparison import Verdict  # noqa: E402
from onnx_sparse.schemas.states import states_of  # noqa: E402

STEPS = 5
X = tf.TensorSpec([None, 2], tf.float32, name="x")


class Program(tf.Module):
    """A drawn program: it reads, assigns and adds to its variables in some order, in calls and out of them.

    Args:
        seed: The same seed gives the same program.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = random.Random(seed)
        starts = [0.0, 1.5, np.float32([1, 2]), np.zeros(2, np.float32), np.float32([[1, 2], [3, 4]])]
        self.held = [tf.Variable(draw.choice(starts), name=f"v{k}") for k in range(draw.randint(1, 3))]
        self.lines = [
            (draw.choice(("read", "assign", "add", "subtract", "call", "round")), *draw.choices(range(3), k=2))
            for _ in range(draw.randint(2, 7))
        ]

    def _line(self, kind: str, one: int, other: int, known: list[Any], x: Any) -> None:
        held = self.held[one % len(self.held)]
        value = known[other % len(known)]
        as_shaped = tf.reduce_sum(value) * 0.5 + tf.reduce_sum(x) + tf.zeros(held.shape)
        if kind == "read":
            known.append(held.read_value())
        elif kind == "assign":
            held.assign(as_shaped)
        elif kind == "add":
            held.assign_add(as_shaped * 0.1)
        elif kind == "subtract":
            held.assign_sub(held * 0.25)
        elif kind == "call":
            known.append(tf.function(lambda: (held.assign(held * 0.5 + as_shaped), held.read_value())[1])())
        else:  # a loop that reads
            known.append(tf.while_loop(lambda i, _: i < 3, lambda i, t: (i + 1, t * 0.5 + held), [0, held * 1.0])[1])

    @tf.function(input_signature=[X], autograph=False)
    def run(self, x: Any) -> dict[str, Any]:
        known = [x]
        for line in self.lines:
            self._line(*line, known, x)
        return {f"y{k}": value + tf.reduce_sum(x) for k, value in enumerate(known)}


def feeds() -> list[dict[str, np.ndarray]]:
    return [{"x": np.float32(np.random.default_rng(k).normal(size=(2, 2)))} for k in range(STEPS)]


def answers(model: ModelProto) -> list[dict[str, np.ndarray]]:
    """What a model returns in each step."""
    session = onnx_sparse.InferenceSession(model)
    running = onnx_sparse.StatefulSession(session) if states_of(model) else session
    presents = {state.present for state in states_of(model)}
    names = [value.name for value in model.graph.output if value.name not in presents]
    return [dict(zip(names, running.run(names, fed), strict=True)) for fed in feeds()]


def assert_equal(model: ModelProto, call: Any) -> None:
    """A model gives in each step what a function of TensorFlow gives."""
    for got, fed in zip(answers(model), feeds(), strict=True):
        want = {name: value.numpy() for name, value in call(**{k: tf.constant(v) for k, v in fed.items()}).items()}
        assert got.keys() == want.keys()
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_programs_of_reads_and_assignments(seed: int, tmp_path: Path) -> None:
    program = Program(seed)
    tf.saved_model.save(program, str(tmp_path), signatures=program.run)
    model = convert(program.run if seed % 2 else tmp_path)
    assert_equal(model, tf.saved_model.load(str(tmp_path)).signatures["serving_default"])


@pytest.mark.parametrize("kind", ["GRU", "LSTM", "SimpleRNN"])
def test_layers_that_keep_their_state(kind: str, tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    layer = getattr(keras.layers, kind)(3, stateful=True)
    keras.Sequential([keras.Input(batch_shape=(2, 2), name="x"), keras.layers.Reshape((1, 2)), layer]).export(
        str(tmp_path), verbose=False
    )
    assert_equal(convert(tmp_path), tf.saved_model.load(str(tmp_path)).signatures["serving_default"])


class Total(tf.Module):
    """Adds up what it is given; `table` and `chosen` change what is no state here."""

    def __init__(self) -> None:
        super().__init__()
        self.total = tf.Variable(0.0)
        self.seen = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)

    @tf.function(input_signature=[X], autograph=False)
    def add(self, x: Any) -> dict[str, Any]:
        before = self.total.read_value()
        self.total.assign(before + tf.reduce_sum(x))
        return {"y": x + before}

    @tf.function(input_signature=[X], autograph=False)
    def unread(self, x: Any) -> dict[str, Any]:
        self.total.assign_add(1.0)
        return {"y": x * 2}

    @tf.function(input_signature=[X], autograph=False)
    def chosen(self, x: Any) -> dict[str, Any]:
        tf.cond(x[0, 0] > 0, lambda: self.total.assign(1.0), lambda: self.total.assign(2.0))
        return {"y": x + self.total}

    @tf.function(input_signature=[X], autograph=False)
    def table(self, x: Any) -> dict[str, Any]:
        keys = tf.cast(x[0], tf.int64)
        found = self.seen.lookup(keys)
        self.seen.insert(keys, keys)
        return {"y": found}


def test_a_state_is_verified_over_several_steps() -> None:
    total = Total()
    model = convert(total.add)
    (record,) = verify(total.add, model)
    assert record.ok, record
    assert total.total.numpy() == 0  # as before


def test_a_dropped_state_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    total = Total()
    with monkeypatch.context() as patched:
        patched.setattr(VariableValues, "changed_by", lambda self, resource: None)
        model = convert(total.add)
    (record,) = verify(total.add, model)
    assert record.verdict is Verdict.DIFFERENT


def test_what_nothing_reads_is_no_state() -> None:
    total = Total()
    assert not states_of(convert(total.unread))


@pytest.mark.parametrize(
    ("name", "reason"), [("chosen", "changes it in a branch or loop"), ("table", "a table that is a state")]
)
def test_other_states_are_refused_by_name(name: str, reason: str) -> None:
    total = Total()
    with pytest.raises(ConversionError, match=reason):
        convert(getattr(total, name))
