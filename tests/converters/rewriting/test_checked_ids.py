"""Negative ids, which ONNX counts from the end, are errors where the source lets them be errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import parser, shape_inference

import onnx_sparse
from onnx_sparse.converters.rewriting.checked_ids import refuse_negative_ids

_LOOKUPS = {
    "Gather": ("[k]", "y = Gather (x, ids)"),
    "GatherElements": ("[k, 3]", "y = GatherElements (x, ids)"),
    "GatherND": ("[k, 1]", "y = GatherND (x, ids)"),
}


def model_of(nodes: str, shape: str = "[k]", dtype: str = "int64", opset: int = 18) -> Any:
    rank = "[a, b]" if "GatherND" in nodes or "Elements" in nodes or shape == "[k]" else ""
    return shape_inference.infer_shapes(
        parser.parse_model(f"""
    <ir_version: 8, opset_import: ["" : {opset}]>
    g (float[v, 3] x, {dtype}{shape} ids) => (float{rank} y)
    <int64[1] zeros = {{0}}, int64 zero = {{0}}, int64 one = {{1}}, int64 ten = {{10}}>
    {{ {nodes} }}""")
    )


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize(
    ("lookup", "dtype"), [*((lookup, "int64") for lookup in _LOOKUPS), ("Gather", "int32"), ("GatherElements", "int32")]
)
def test_negative_ids_are_errors(lookup: str, dtype: str, opset: int):
    """ONNX's GatherND takes int64 only."""
    shape, nodes = _LOOKUPS[lookup]
    model = model_of(nodes, shape, dtype, opset)
    given = onnx_sparse.InferenceSession(model)
    assert len(refuse_negative_ids(model)) == 1
    session = onnx_sparse.InferenceSession(model)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    sizes = {"Gather": (3,), "GatherElements": (1, 3), "GatherND": (3, 1)}[lookup]
    legal = np.array([0, 3, 1], dtype).reshape(sizes)
    feeds = {"x": x, "ids": legal}
    np.testing.assert_array_equal(session.run(None, feeds)[0], given.run(None, feeds)[0])
    for low in (-1, -4, np.iinfo(dtype).min, 4):
        with pytest.raises(Exception, match=r"(?i)out of (data bounds|range)|invalid ind"):
            session.run(None, {"x": x, "ids": np.array([0, low, 1], dtype).reshape(sizes)})


@pytest.mark.parametrize(
    "nodes",
    [
        "n = Shape (ids) y = Gather (x, n)",
        "n = Abs (ids) y = Gather (x, n)",
        "n = Mod (ids, ten) y = Gather (x, n)",
        "n = Max (ids, zero) y = Gather (x, n)",
        "n = Clip (ids, zero, ten) m = Add (n, one) y = Gather (x, m)",
        "n = Range (zero, ten, one) y = Gather (x, n)",
        "b = Less (ids, zero) n = Where (b, ten, ids) y = Gather (x, n)",
        "y = Gather (x, zeros)",
    ],
)
def test_ids_that_cannot_be_negative_cost_nothing(nodes: str):
    assert refuse_negative_ids(model_of(nodes)) == []


def test_twice_is_once():
    model = model_of(_LOOKUPS["Gather"][1])
    assert len(refuse_negative_ids(model)) == 1
    assert refuse_negative_ids(model) == []


@pytest.mark.parametrize(
    ("nodes", "is_given"),
    [
        ("n = Sub (ids, one) y = Gather (x, n)", True),
        ("n = Reshape (ids, zeros) y = Gather (x, n)", True),
        ("s = Size (ids) n = Sub (ids, s) y = Gather (x, n)", False),
    ],
)
def test_only_ids_that_are_given(nodes: str, is_given: bool):
    """A converter that counts from the end, from a size for example, may do so."""
    assert bool(refuse_negative_ids(model_of(nodes), only_given=True)) == is_given


_TENSORFLOW: dict[str, Any] = {
    "embedding_lookup": lambda tf, x, ids: tf.nn.embedding_lookup(x, ids),
    "gather": lambda tf, x, ids: tf.gather(x, ids - 1),
    "gather, axis 1": lambda tf, x, ids: tf.gather(x, ids, axis=1),
    "gather_nd": lambda tf, x, ids: tf.gather_nd(x, ids[:, None]),
    "looked up": None,  # needs a table that its module holds
}


def _numbers(tf: Any) -> Any:
    keys, values = tf.constant([1, 2], tf.int64), tf.constant([0, 1], tf.int64)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1)


@pytest.mark.slow
@pytest.mark.parametrize("name", _TENSORFLOW)
def test_tensorflow(name: str):
    """Ids that TensorFlow refuses are refused; a word that no vocabulary has is -1."""
    tf = pytest.importorskip("tensorflow")
    from onnx_sparse.converters.tensorflow import convert

    x, table = tf.constant(np.arange(16, dtype=np.float32).reshape(4, 4)), _numbers(tf)

    class Module(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = table

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="ids")])
        def call(self, ids: Any) -> Any:
            if name == "looked up":
                return tf.gather(x, self.table.lookup(ids))
            return _TENSORFLOW[name](tf, x, ids)

    module = Module()
    session = onnx_sparse.InferenceSession(convert(module.call))
    for ids in ([1, 2], [0, 1], [-1, 2], [3], [4], []):
        given = np.array(ids, np.int64)
        try:
            want = module.call(tf.constant(given)).numpy()
        except tf.errors.InvalidArgumentError:
            with pytest.raises(Exception, match=r"(?i)out of (data bounds|range)|invalid ind"):
                session.run(None, {"ids": given})
        else:
            np.testing.assert_array_equal(session.run(None, {"ids": given})[0], want)
