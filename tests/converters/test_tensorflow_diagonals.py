"""Setting diagonals of matrices gives TensorFlow's results."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from tensorflow_functions import NUMBERS, by_name, function, values  # noqa: E402


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 2), (1, 1)], ids=str)
@pytest.mark.parametrize("align", ["LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"])
def test_every_band(agree, align, shape):
    *batch, rows, columns = shape

    # Of matrices of unknown sizes, TensorFlow infers a wrong rank for several diagonals.
    @function((shape, tf.float32), ([None], tf.float32))
    def every_band(matrices, flat):
        results = []
        for low in range(1 - rows, columns):
            for high in range(low, columns):
                length = min(rows + min(high, 0), columns - max(low, 0))
                size = [*batch, length] if low == high else [*batch, high - low + 1, length]
                diagonals = tf.reshape(flat[: np.prod(size)], size)
                results.append(
                    tf.raw_ops.MatrixSetDiagV3(input=matrices, diagonal=diagonals, k=[low, high], align=align)
                )
        return tuple(results)

    agree(every_band, values(tf.float32, int(np.prod(shape))).reshape(shape), -values(tf.float32, 60))


@pytest.mark.parametrize("dtype", [*NUMBERS, tf.bool], ids=by_name)
def test_every_version_and_type(agree, dtype):
    @function(([2, 3, 3], dtype), ([None, None], dtype), ([None, 3, None], dtype))
    def diagonals(matrices, main, three):
        return (
            tf.raw_ops.MatrixSetDiag(input=matrices, diagonal=main),
            tf.raw_ops.MatrixSetDiagV2(input=matrices, diagonal=main, k=0),
            tf.raw_ops.MatrixSetDiagV2(input=matrices, diagonal=three, k=[-1, 1]),
            tf.raw_ops.MatrixSetDiagV3(input=matrices, diagonal=three, k=[-1, 1]),
        )

    given = values(dtype, 40)
    agree(diagonals, given[:18].reshape(2, 3, 3), given[18:24].reshape(2, 3), given[20:38].reshape(2, 3, 3))


def test_matrices_of_unknown_sizes(agree):
    @function(([None, None, None], tf.float32), ([None, None], tf.float32))
    def diagonal(matrices, main):
        return tf.linalg.set_diag(matrices, main), tf.raw_ops.MatrixSetDiag(input=matrices, diagonal=main)

    for shape in ((2, 3, 4), (0, 3, 2), (2, 0, 3), (2, 3, 0)):
        matrices = np.zeros(shape, np.float32)
        agree(diagonal, matrices, np.ones((shape[0], min(shape[1:])), np.float32))
