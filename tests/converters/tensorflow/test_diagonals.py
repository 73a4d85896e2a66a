"""Keeping, taking, making and setting diagonals of matrices gives TensorFlow's results."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from support.tensorflow_functions import NUMBERS, by_name, function, values  # noqa: E402

ALIGNMENTS = ["LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"]
SHAPES = [(3, 4), (2, 3, 2), (1, 1)]
#: Batches and matrices of no size among them.
SIZES = [(2, 3, 4), (1, 3, 2), (2, 3, 3), (0, 3, 2), (2, 0, 3), (2, 3, 0), (2, 1, 1)]


def bands(rows, columns):
    """The numbers of the lowest and highest diagonal of every band."""
    return [(low, high) for low in range(1 - rows, columns) for high in range(low, columns)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("align", ALIGNMENTS)
def test_every_band(agree, align, shape):
    *batch, rows, columns = shape

    # Of matrices of unknown sizes, TensorFlow infers a wrong rank for several diagonals.
    @function((shape, tf.float32), ([None], tf.float32))
    def every_band(matrices, flat):
        results = []
        for low, high in bands(rows, columns):
            length = min(rows + min(high, 0), columns - max(low, 0))
            size = [*batch, length] if low == high else [*batch, high - low + 1, length]
            diagonals = tf.reshape(flat[: np.prod(size)], size)
            results.append(tf.raw_ops.MatrixSetDiagV3(input=matrices, diagonal=diagonals, k=[low, high], align=align))
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


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("align", ALIGNMENTS)
def test_every_band_is_taken_and_made_again(agree, align, shape):
    @function((shape, tf.float32), ((None,) * len(shape), tf.float32), ([], tf.float32))
    def every_band(matrices, unknown, padding):
        results = []
        for k in bands(*shape[-2:]):
            of_band = {"k": k, "padding_value": padding, "align": align}
            for given in (matrices, unknown):
                results.append(tf.raw_ops.MatrixDiagPartV3(input=given, **of_band))
            # Of matrices of unknown sizes, TensorFlow infers a wrong rank for several diagonals.
            parts = tf.raw_ops.MatrixDiagPartV3(input=matrices, **of_band)
            for rows, columns in ((-1, -1), shape[-2:], (shape[-2], -1), (-1, shape[-1])):
                made = tf.raw_ops.MatrixDiagV3(diagonal=parts, num_rows=rows, num_cols=columns, **of_band)
                results.append(made)
        return tuple(results)

    matrices = values(tf.float32, int(np.prod(shape))).reshape(shape)
    agree(every_band, matrices, matrices, np.float32(7))


@pytest.mark.parametrize("dtype", [*NUMBERS, tf.bool], ids=by_name)
def test_every_type_is_taken_made_and_kept(agree, dtype):
    @function(([None, None, None], dtype), ([None, None], dtype), ([], dtype))
    def diagonals(matrices, main, padding):
        return (
            tf.raw_ops.MatrixDiagPart(input=matrices),
            tf.raw_ops.MatrixDiagPartV2(input=matrices, k=[-1, 1], padding_value=padding),
            tf.raw_ops.MatrixDiag(diagonal=main),
            tf.raw_ops.MatrixDiagV2(diagonal=main, k=1, num_rows=-1, num_cols=-1, padding_value=padding),
            tf.linalg.band_part(matrices, 1, 0),
        )

    given = values(dtype, 40)
    for rows in (2, 1, 0):
        agree(diagonals, given[: 9 * rows].reshape(rows, 3, 3), given[: 3 * rows].reshape(rows, 3), given[30])


@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_matrices_without_rows_or_columns(agree, shape):
    @function(([None, None, None], tf.float32), ([None, None], tf.float32))
    def diagonals(matrices, rows):
        return (
            tf.linalg.diag_part(matrices),
            tf.linalg.trace(matrices),
            tf.linalg.diag(rows),
            tf.linalg.diag(rows, k=-2),
        )

    matrices = values(tf.float32, int(np.prod(shape))).reshape(shape)
    agree(diagonals, matrices, matrices.reshape(shape[0], shape[1] * shape[2]))


@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_what_is_outside_of_a_band_is_zero(agree, shape):
    """Infinities and NaN as well: masks of attention are the bands of infinities."""

    @function(([None, None, None], tf.float32), ([], tf.int32), ([], tf.int64))
    def every_band(matrices, one, other):
        numbers = range(-1, min(shape[1:]) + 1)
        constant = [tf.linalg.band_part(matrices, below, above) for below in numbers for above in numbers]
        mask = tf.linalg.band_part(tf.fill(tf.shape(matrices), -np.inf), 0, -1)
        given = tf.raw_ops.MatrixBandPart(input=matrices, num_lower=tf.cast(one, tf.int64), num_upper=other)
        return (*constant, mask, given)

    matrices = np.resize(np.float32([1, -np.inf, np.nan, -2, np.inf, -0.0, 3]), shape)
    for below, above in ((0, 0), (-1, 0), (0, -1), (-1, -1), (1, 0)):
        if below <= shape[1]:
            agree(every_band, matrices, np.int32(below), np.int64(above))


@pytest.mark.parametrize("align", ALIGNMENTS)
def test_bands_that_are_fed(agree, align):
    """One diagonal has a dimension less than several."""

    @function(([None, None, None], tf.float32), ([2], tf.int32), ([], tf.float32))
    def parts_and_matrices(matrices, band, padding):
        parts = tf.linalg.diag_part(matrices, k=band, padding_value=padding, align=align)
        return parts, tf.linalg.diag(parts, k=band, padding_value=padding, align=align)

    for shape in (size for size in SIZES if all(size[1:])):
        matrices = values(tf.float32, int(np.prod(shape))).reshape(shape)
        for band in bands(*shape[1:]):
            agree(parts_and_matrices, matrices, np.int32(band), np.float32(7))
