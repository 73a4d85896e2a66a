"""TensorFlow's element types and functions for the tests of handlers, which are skipped without TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

FLOATS = (tf.float16, tf.bfloat16, tf.float32, tf.float64)
SIGNED = (tf.int8, tf.int16, tf.int32, tf.int64)
UNSIGNED = (tf.uint8, tf.uint16, tf.uint32, tf.uint64)
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS
VALUES = (*NUMBERS, tf.bool, tf.string)


def by_name(dtype: Any) -> str | None:
    """The test id of an element type; pytest's own id for anything else."""
    return getattr(dtype, "name", None)


def values(dtype: Any, count: int) -> np.ndarray:
    """`count` values of a type, all different if the type has that many."""
    if dtype == tf.string:
        return np.array([f"wört {k}".encode() for k in range(count)], object)
    return (np.arange(count) % 2 == 0) if dtype == tf.bool else np.arange(1, count + 1).astype(dtype.as_numpy_dtype)


def function(*specs: tuple[Any, Any]) -> Callable[[Callable[..., Any]], Any]:
    """Make a tf.function of the decorated one, with inputs of the given `(shape, dtype)` named as its parameters."""

    def decorate(body: Callable[..., Any]) -> Any:
        names = body.__code__.co_varnames
        return tf.function(
            body, input_signature=[tf.TensorSpec(s, d, n) for (s, d), n in zip(specs, names, strict=False)]
        )

    return decorate
