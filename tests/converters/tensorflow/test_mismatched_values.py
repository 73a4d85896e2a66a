"""Sparse tensors with more or fewer values than coordinates are refused wherever TensorFlow refuses them.

ONNX's Compress, Gather and elementwise operators would take what there is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from onnx_sparse import InferenceSession  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402

INDICES = np.array([[0, 1], [0, 3], [2, 0], [3, 2]])
SHAPE = np.array([5, 4])
ONES = np.ones(4, np.float32)
NOTHING = np.zeros(0, np.float32)
TABLE = np.ones((9, 2), np.float32)
raw = tf.raw_ops

#: Functions of coordinates, values and dense shape, by the element type of the values.
FUNCTIONS: dict[Any, dict[str, Callable[..., Any]]] = {
    tf.float32: {
        "SparseReorder": lambda i, v, s: raw.SparseReorder(input_indices=i, input_values=v, input_shape=s),
        "SparseToDense": lambda i, v, s: raw.SparseToDense(
            sparse_indices=i, output_shape=s, sparse_values=v, default_value=0.0
        ),
        "SparseSlice": lambda i, v, s: raw.SparseSlice(indices=i, values=v, shape=s, start=[0, 1], size=[3, 3]),
        "SparseSplit": lambda i, v, s: raw.SparseSplit(split_dim=1, indices=i, values=v, shape=s, num_split=2),
        "SparseConcat": lambda i, v, s: raw.SparseConcat(
            indices=[INDICES, i], values=[ONES, v], shapes=[SHAPE, s], concat_dim=0
        ),
        "SparseConcat of as many in all": lambda i, v, s: raw.SparseConcat(
            indices=[i, INDICES], values=[v, tf.ones(4 + tf.shape(i)[0] - tf.size(v))], shapes=[s, SHAPE], concat_dim=0
        ),
        "SparseAdd": lambda i, v, s: raw.SparseAdd(
            a_indices=i, a_values=v, a_shape=s, b_indices=INDICES, b_values=ONES, b_shape=SHAPE, thresh=0.0
        ),
        "SparseSparseMaximum": lambda i, v, s: raw.SparseSparseMaximum(
            a_indices=INDICES, a_values=ONES, a_shape=SHAPE, b_indices=i, b_values=v, b_shape=s
        ),
        "SparseTensorDenseAdd": lambda i, v, s: raw.SparseTensorDenseAdd(
            a_indices=i, a_values=v, a_shape=s, b=np.ones((5, 4), np.float32)
        ),
        "SparseTensorDenseMatMul": lambda i, v, s: raw.SparseTensorDenseMatMul(
            a_indices=i, a_values=v, a_shape=s, b=np.ones((4, 3), np.float32)
        ),
        "SparseReduceSum": lambda i, v, s: raw.SparseReduceSum(
            input_indices=i, input_values=v, input_shape=s, reduction_axes=[1]
        ),
        "SparseReduceMax": lambda i, v, s: raw.SparseReduceMax(
            input_indices=i, input_values=v, input_shape=s, reduction_axes=[0, 1]
        ),
        "SparseSoftmax": lambda i, v, s: raw.SparseSoftmax(sp_indices=i, sp_values=v, sp_shape=s),
        "SparseDenseCwiseMul": lambda i, v, s: raw.SparseDenseCwiseMul(
            sp_indices=i, sp_values=v, sp_shape=s, dense=np.ones((5, 4), np.float32)
        ),
        "SparseDenseCwiseAdd": lambda i, v, s: raw.SparseDenseCwiseAdd(
            sp_indices=i, sp_values=v, sp_shape=s, dense=np.float32([2])
        ),
        "SparseFillEmptyRows": lambda i, v, s: raw.SparseFillEmptyRows(
            indices=i, values=v, dense_shape=s, default_value=0.0
        ),
        "weights": lambda i, v, s: tf.nn.embedding_lookup_sparse(
            TABLE, tf.SparseTensor(i, tf.ones(tf.shape(i)[0], tf.int64), s), tf.SparseTensor(i, v, s), combiner="mean"
        ),
    },
    tf.int64: {
        "SparseCountSparseOutput": lambda i, v, s: raw.SparseCountSparseOutput(
            indices=i, values=v, dense_shape=s, weights=NOTHING, binary_output=False
        ),
        "SparseBincount": lambda i, v, s: raw.SparseBincount(
            indices=i, values=v, dense_shape=s, size=tf.constant(9, tf.int64), weights=NOTHING, binary_output=True
        ),
        "DenseToSparseSetOperation": lambda i, v, s: raw.DenseToSparseSetOperation(
            set1=np.ones((5, 2), np.int64), set2_indices=i, set2_values=v, set2_shape=s, set_operation="union"
        ),
        "SetSize": lambda i, v, s: raw.SetSize(set_indices=i, set_values=v, set_shape=s),
        "embedding_lookup_sparse": lambda i, v, s: tf.nn.embedding_lookup_sparse(
            TABLE, tf.SparseTensor(i, v, s), None, combiner="mean"
        ),
    },
    tf.string: {
        "SparseCrossV2": lambda i, v, s: raw.SparseCrossV2(
            indices=[i], values=[v], shapes=[s], dense_inputs=[np.array([["a"]] * 5)], sep="_"
        ),
    },
}


@pytest.mark.parametrize(
    ("dtype", "body"),
    [pytest.param(dtype, body, id=name) for dtype, bodies in FUNCTIONS.items() for name, body in bodies.items()],
)
def test_more_or_fewer_values_than_coordinates(dtype, body):
    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 2], tf.int64, "indices"),
            tf.TensorSpec([None], dtype, "values"),
            tf.TensorSpec([2], tf.int64, "shape"),
        ],
        autograph=False,
    )
    def function(indices, values, shape):
        return tuple(tf.nest.flatten(body(indices, values, shape)))

    session = InferenceSession(convert(function))
    for entries, count in ((4, 4), (4, 5), (4, 3), (4, 1), (4, 0), (0, 0), (0, 1), (0, 3)):
        values = np.array([str(k) if dtype == tf.string else k for k in range(1, count + 1)], dtype.as_numpy_dtype)
        feeds = {"indices": INDICES[:entries], "values": values, "shape": SHAPE}
        try:
            function(**{name: tf.constant(value) for name, value in feeds.items()})
        except tf.errors.OpError:
            assert entries != count
            with pytest.raises(Exception, match=r"(?i)size|shape|dimension|split|has"):
                session.run(None, feeds)
        else:
            assert entries == 0 or entries == count
