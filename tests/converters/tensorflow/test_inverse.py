"""Inverses of small matrices are as exact as TensorFlow's."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from support.tensorflow_functions import function  # noqa: E402

from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize(("size", "dtype"), [(1, tf.float32), (5, tf.float32), (16, tf.float32), (4, tf.float64)])
def test_inverses(run, size, dtype, adjoint):
    @function(([None, None, size, size], dtype))
    def inverse(matrices):
        return tf.linalg.inv(matrices, adjoint=adjoint)

    model, rng = convert(inverse), np.random.default_rng(size)
    matrices = rng.standard_normal((3, 20, size, size)).astype(dtype.as_numpy_dtype)
    matrices[0, 0] = np.eye(size)[::-1]  # nothing but zeros on the diagonal
    (got,) = run(model, matrices=matrices).values()
    want = inverse(matrices).numpy()
    scale = np.abs(want).max((2, 3)) * np.linalg.cond(matrices)
    assert (np.abs(got - want).max((2, 3)) <= (1e-6 if dtype == tf.float32 else 1e-14) * scale).all()
    (none,) = run(model, matrices=matrices[:0]).values()
    assert none.shape == (0, 20, size, size)


def test_matrices_without_elements(agree):
    @function(([None, 0, 0], tf.float32))
    def inverse(matrices):
        return tf.linalg.inv(matrices)

    agree(inverse, np.zeros((2, 0, 0), np.float32))


@pytest.mark.parametrize("size", [None, 17])
def test_large_matrices_and_unknown_sizes_are_refused(size):
    @function(([size, size], tf.float32))
    def inverse(matrix):
        return tf.linalg.inv(matrix)

    with pytest.raises(ConversionError, match="ONNX has no matrix inverse; it is written out for known sizes up to 16"):
        convert(inverse)
