"""Places in sorted rows, compared with numpy and TensorFlow, in memory that grows with what is looked up."""

from __future__ import annotations

import numpy as np
import pytest
from support.tensorflow_functions import by_name, function

import onnx_sparse

tf = pytest.importorskip("tensorflow")

from onnx_sparse.converters.tensorflow import convert  # noqa: E402

TYPES = (tf.int32, tf.int64, tf.float32, tf.float64)


def drawn(random: np.random.Generator, dtype: np.dtype, rows: int, count: int) -> np.ndarray:
    """Rows of few different numbers, with the ends of the type."""
    ends = [np.iinfo(dtype).min, np.iinfo(dtype).max] if dtype.kind == "i" else [-np.inf, np.inf, -0.0]
    some = np.concatenate([np.array(ends, dtype), np.arange(-9, 10).astype(dtype)])
    return random.choice(some, (rows, count))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("size", [None, 1, 16, 17, 40], ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=by_name)
def test_places_in_sorted_rows(agree, dtype, size, side):
    @function(([None, size], dtype), ([None, None], dtype))
    def search(rows, x):
        return tf.searchsorted(rows, x, side), tf.searchsorted(rows, x, side, out_type=tf.int64)

    random = np.random.default_rng(5)
    wanted = np.dtype(dtype.as_numpy_dtype)
    for count in (1, 2, 3, 4, 7, 8, 16, 17, 33) if size is None else (size,):
        for batch, numbers in ((1, 30), (3, 9)):
            rows = np.sort(drawn(random, wanted, batch, count), axis=1)
            x = drawn(random, wanted, batch, numbers)
            if wanted.kind == "f" and numbers:
                x[:, 0] = np.nan
            agree(search, rows, x)


@pytest.mark.parametrize("side", ["left", "right"])
def test_memory_does_not_grow_with_the_product(side):
    @function(([None], tf.float32), ([None], tf.float32))
    def search(row, x):
        return tf.searchsorted(row, x, side)

    count = 1 << 18  # whose square has 64 GB of comparisons
    random = np.random.default_rng(6)
    row, x = np.sort(random.random(count, np.float32)), random.random(count, np.float32)
    feeds = dict(zip(("row", "x"), (row, x), strict=True))
    session = onnx_sparse.InferenceSession(convert(search))
    found = session.run(None, {name.name: feeds[key] for name, key in zip(session.get_inputs(), feeds, strict=True)})
    assert np.array_equal(found[0], np.searchsorted(row, x, side))
