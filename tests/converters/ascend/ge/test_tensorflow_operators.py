"""GE's operators that TensorFlow's handlers convert: graphs as the adapter writes them, against TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from support.ascend_graphs import run  # noqa: E402
from support.ge_from_tensorflow import graph_of  # noqa: E402
from support.ge_graphs import evaluate  # noqa: E402

from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.ascend import convert  # noqa: E402
from onnx_sparse.converters.ascend.ge.handlers import HANDLERS  # noqa: E402
from onnx_sparse.converters.ascend.ge.tensorflow_operators import NAMES, handler  # noqa: E402

raw = tf.raw_ops
RNG = np.random.default_rng(7)
X = RNG.standard_normal((3, 3)).astype(np.float32)
IDS = np.array([4, 0, 4, 2], np.int32)
WORDS = np.array([b"ab", b"", b"Zebra 12"], object)
PLACES = np.array([[2, 1], [0, 0], [0, 2]], np.int64)
SPLITS = np.array([0, 2, 2, 3], np.int64)

#: By the operator: what TensorFlow computes, of the inputs.
CASES: dict[str, tuple[Any, list[np.ndarray]]] = {
    "Atan2": (tf.math.atan2, [X, X[::-1].copy()]),
    "DenseBincount": (lambda x: raw.DenseBincount(input=x, size=6, weights=tf.zeros([0], tf.float32)), [IDS]),
    "InTopKV2": (lambda x, t: raw.InTopKV2(predictions=x, targets=t, k=2), [X, np.array([0, 2, 1], np.int32)]),
    "InvertPermutation": (tf.math.invert_permutation, [np.array([2, 0, 1], np.int32)]),
    "ListDiff": (lambda x, y: raw.ListDiff(x=x, y=y), [IDS, np.array([4], np.int32)]),
    "UpperBound": (lambda x, v: raw.UpperBound(sorted_inputs=x, values=v), [np.sort(X), X]),
    "UnravelIndex": (lambda x: tf.unravel_index(x, [2, 3]), [IDS]),
    "MatrixBandPart": (lambda x: tf.linalg.band_part(x, 0, 1), [X]),
    "MatrixDiagV3": (tf.linalg.diag, [X]),
    "RaggedRange": (lambda x: raw.RaggedRange(starts=0, limits=x, deltas=1), [IDS]),
    "RaggedGather": (
        lambda s, v, i: raw.RaggedGather(
            params_nested_splits=[s], params_dense_values=v, indices=i, OUTPUT_RAGGED_RANK=1
        ),
        [SPLITS, X, np.array([2, 0, 0])],
    ),
    "SparseReorder": (
        lambda i, v: raw.SparseReorder(input_indices=i, input_values=v, input_shape=[3, 3]), [PLACES, X[0]],
    ),
    "SparseTensorDenseMatMul": (
        lambda i, v, x: raw.SparseTensorDenseMatMul(a_indices=i, a_values=v, a_shape=[3, 3], b=x), [PLACES, X[0], X],
    ),
    "StringLength": (tf.strings.length, [WORDS]),
    "StringUpper": (tf.strings.upper, [WORDS]),
    "StaticRegexReplace": (lambda x: tf.strings.regex_replace(x, "[a-z]+", "-"), [WORDS]),
    "StringToHashBucketStrong": (lambda x: tf.strings.to_hash_bucket_strong(x, 100, [1, 2]), [WORDS]),
}  # fmt: skip


@pytest.mark.parametrize("op_type", CASES)
def test_equals_tensorflow(tmp_path, op_type):
    compute, inputs = CASES[op_type]
    specs = [tf.TensorSpec([None] * x.ndim, tf.as_dtype(x.dtype) if x.dtype != object else tf.string) for x in inputs]
    function = tf.function(lambda *given: tf.nest.flatten(compute(*given)), input_signature=specs, autograph=False)
    graph, _ = graph_of(function)
    assert any(op.type == op_type for op in graph.graph.op)
    results = run(convert(graph.write(tmp_path, "ge_proto_00000000_graph_1_PreRunBegin.txt")), *inputs)
    for result, wanted in zip(results, function(*map(tf.constant, inputs)), strict=True):
        if wanted.dtype == tf.string:
            assert [str(word).encode() for word in result] == wanted.numpy().tolist()
        else:
            assert result.dtype == wanted.numpy().dtype
            np.testing.assert_allclose(result, wanted.numpy(), 1e-5, 1e-5)


def test_each_has_a_handler_and_none_two():
    assert NAMES.isdisjoint(HANDLERS)
    assert all(handler(name) is not None for name in NAMES)


def test_an_attribute_of_ge_alone_is_refused(tmp_path):
    with pytest.raises(ConversionError, match="its attribute dim = 2 is not supported"):
        evaluate(tmp_path, run, "Atan2", [X, X], result=(np.float32, (3, 3)), dim=2)


def test_a_type_that_the_graph_does_not_say_is_refused(tmp_path):
    with pytest.raises(ConversionError, match="does not say the element type of its result 0"):
        evaluate(tmp_path, run, "Atan2", [X, X])
