"""Numbers rounded to a grid, as models trained for quantization do."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from support.tensorflow_functions import function  # noqa: E402

from onnx_sparse.converters.tensorflow import convert  # noqa: E402

#: Ranges with zero inside, at either end, outside on either side, and none at all.
RANGES = [(-1.0, 2.5), (0.0, 6.0), (-3.0, 0.0), (0.7, 5.0), (-5.0, -0.7), (0.0, 0.0)]

QUANTIZE = tf.quantization.fake_quant_with_min_max_vars


def numbers():
    """Numbers inside and outside the ranges, also halfway between two levels."""
    some = np.random.default_rng(0).normal(0, 4, (50, 6)).astype(np.float32)
    some[0] = [0.0, -0.0, np.nan, np.inf, -np.inf, 0.5]
    return some


def close(got, want, step):
    """Equal, but for a few that are half a step from two levels: compilers contract products and sums differently."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, atol=step * 1.001)
    assert ((got != want) & np.isfinite(want)).sum() <= 0.02 * want.size


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("bits", [2, 8, 16])
def test_a_range_as_input(run, bits, narrow):
    @function(([None, 6], tf.float32), ([], tf.float32), ([], tf.float32))
    def quantized(x, low, high):
        return QUANTIZE(x, low, high, bits, narrow)

    model = convert(quantized)
    for low, high in RANGES:
        feeds = {"x": numbers(), "low": np.float32(low), "high": np.float32(high)}
        feeds = {name: np.asarray(value) for name, value in feeds.items()}
        (got,) = run(model, **feeds).values()
        close(got, quantized(*feeds.values()).numpy(), (high - low) / (2**bits - 2))


@pytest.mark.parametrize(("low", "high"), RANGES[:5])
def test_a_constant_range(run, low, high):
    @function(([None, 6], tf.float32))
    def quantized(x):
        return tf.quantization.fake_quant_with_min_max_args(x, low, high), QUANTIZE(x, low, high, 4)

    model = convert(quantized)
    for x in (numbers(), numbers()[:0]):
        for got, want, bits in zip(run(model, x=x).values(), quantized(x), (8, 4), strict=True):
            close(got, want.numpy(), (high - low) / (2**bits - 1))


def test_a_range_of_each_channel(run):
    low, high = np.array(RANGES, np.float32).T

    @function(([None, 6], tf.float32))
    def quantized(x):
        return tf.quantization.fake_quant_with_min_max_vars_per_channel(x, low, high)

    (got,) = run(convert(quantized), x=numbers()).values()
    close(got, quantized(numbers()).numpy(), ((high - low) / 255).max())
