"""Ranges of floats, whose number depends on how it is rounded."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from onnx_sparse import InferenceSession  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_numbers_of_a_range(dtype):
    spec = tf.TensorSpec([], tf.as_dtype(dtype))
    function = tf.function(tf.range, input_signature=[spec] * 3, autograph=False)
    session = InferenceSession(convert(function))
    names = [given.name for given in session.get_inputs()]
    random = np.random.default_rng(0)
    for _ in range(200):
        start = dtype(random.integers(-10, 10) / (10 if dtype in (np.float32, np.float64) else 1))
        step = dtype(
            random.choice([0.1, 0.2, 0.3, 0.05, 0.7, -0.1] if dtype in (np.float32, np.float64) else [1, 3, -2])
        )
        limit = dtype(start + step * dtype(random.integers(0, 20)))
        want = function(start, limit, step).numpy()
        (got,) = session.run(None, dict(zip(names, map(np.array, (start, limit, step)), strict=True)))
        assert got.tolist() == want.tolist()
