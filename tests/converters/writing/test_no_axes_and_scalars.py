"""A list of no axes is not the same as no list, and a scalar has no axes: compared with TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from support.tensorflow_functions import function

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import _may_be_empty

tf = pytest.importorskip("tensorflow")


@pytest.mark.parametrize(("rank", "axis"), [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_ranges_of_quantization(agree, rank, axis):
    @function(([3] * rank, tf.float32))
    def quantize(x):
        none = [0.0] * 3
        return tf.quantization.quantize_and_dequantize_v2(x, none, none, range_given=False, num_bits=4, axis=axis)

    agree(quantize, np.random.default_rng(rank).normal(size=[3] * rank).astype(np.float32))


@pytest.mark.parametrize("dtype", [tf.float32, tf.int64, tf.string, tf.bool], ids=lambda dtype: dtype.name)
def test_slices_of_scalars(agree, dtype):
    @function(([], dtype), ([0], tf.int32))
    def slices(x, none):
        return tf.slice(x, none, none), tf.slice(x, tf.zeros([0], tf.int32), none)

    value = b"a" if dtype == tf.string else 1
    agree(slices, np.array(value, object if dtype == tf.string else dtype.as_numpy_dtype), np.zeros(0, np.int32))


@pytest.mark.parametrize(("shape", "expected"), [(None, True), ((None,), True), ((0,), True), ((2,), False)])
def test_axes_that_may_be_none(shape, expected):
    assert _may_be_empty(Tensor("axes", TensorProto.INT64, shape)) == expected
    assert not _may_be_empty()
