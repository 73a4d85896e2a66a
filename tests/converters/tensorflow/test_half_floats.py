"""Programs of half floats: TensorFlow rounds after each operator, ONNX Runtime may compute some in float32 at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import tensorflow as tf
from support.tensorflow_imports import answers, imported, traced

#: Operators that do not amplify an error, and leave numbers in reach of both types.
_STEPS: tuple[Callable[[Any], Any], ...] = (
    lambda x: x * tf.constant(0.7, x.dtype),
    lambda x: tf.abs(x) + tf.constant(1.3, x.dtype),
    lambda x: tf.nn.relu(x),
    lambda x: tf.sqrt(tf.abs(x) + tf.constant(1, x.dtype)),
    lambda x: tf.tanh(x),
    lambda x: tf.reshape(tf.transpose(x), [4, 3]),
    lambda x: tf.matmul(x, tf.eye(3, dtype=x.dtype)),
    lambda x: tf.where(x > 1, x, tf.constant(0.3, x.dtype) * x),
    lambda x: tf.reduce_mean(x, -1, keepdims=True) + x,
)


def _answers(steps: list[Callable[[Any], Any]], dtype: tf.DType, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What TensorFlow and a model compute."""

    def program(x: Any) -> Any:
        x = tf.cast(x, dtype)
        for step in steps:
            x = step(x)
        return tf.cast(x, tf.float32)

    concrete = traced(program, [x], sizes_known=True)
    (ours,) = answers(imported(concrete), [x])
    return tf.nest.flatten(concrete(tf.constant(x)))[0].numpy(), ours


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("seed", range(8))
def test_programs_differ_by_roundings_only(dtype: tf.DType, seed: int) -> None:
    draw = random.Random(seed)
    steps = draw.choices(_STEPS, k=6)
    x = np.random.default_rng(seed).uniform(-4, 4, (4, 3)).astype(np.float32)
    theirs, ours = _answers(steps, dtype, x)
    digits = 2.0**-7 if dtype == tf.bfloat16 else 2.0**-10
    np.testing.assert_allclose(ours, theirs, rtol=len(steps) * digits, atol=len(steps) * digits)


def test_what_only_half_floats_cannot_hold_stays_finite() -> None:
    """As the page of differences says; bfloat16 is rounded after each operator."""
    x = np.full((4, 3), 200, np.float32)
    steps = [lambda x: tf.reshape(x * tf.constant(1000, x.dtype), [3, 4]), lambda x: x / tf.constant(1000, x.dtype)]
    theirs, ours = _answers(steps, tf.float16, x)
    assert np.isinf(theirs).all()
    np.testing.assert_array_equal(ours, 200)
    theirs, ours = _answers(steps, tf.bfloat16, x)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16], ids=lambda dtype: dtype.name)
def test_every_bit_pattern(dtype: tf.DType) -> None:
    """The bits of all half floats, and back; of NaN, those of the quiet one."""
    bits = np.arange(2**16).astype(np.uint16)
    numbers = tf.cast(tf.bitcast(bits, dtype), tf.float32).numpy()
    quiet = tf.bitcast(tf.cast(np.abs(np.float32("nan")), dtype), tf.uint16).numpy()

    def taken_apart(x: Any) -> Any:
        return tf.bitcast(tf.cast(x, dtype), tf.uint16)

    def put_together(x: Any) -> Any:
        return tf.cast(tf.bitcast(x, dtype), tf.float32)

    (got,) = answers(imported(traced(taken_apart, [numbers], sizes_known=False)), [numbers])
    np.testing.assert_array_equal(got, np.where(np.isnan(numbers), quiet, bits))
    (got,) = answers(imported(traced(put_together, [bits], sizes_known=False)), [bits])
    np.testing.assert_array_equal(got, numbers)
    is_number = ~np.isnan(numbers)
    np.testing.assert_array_equal(np.signbit(got[is_number]), np.signbit(numbers[is_number]))
