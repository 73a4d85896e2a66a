"""Functions of TensorFlow through the front end that needs no TensorFlow: as a GraphDef, which holds no objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from onnx import ModelProto

import onnx_sparse
from onnx_sparse.converters.tensorflow import convert
from onnx_sparse.converters.tensorflow.graph_source import from_graph
from onnx_sparse.converters.tensorflow.reading.messages import GraphDef


def traced(function: Any, arrays: Sequence[np.ndarray], *, sizes_known: bool) -> Any:
    """A trace of a function for arrays of their ranks, and their sizes if these are to be known."""
    specs = [
        tf.TensorSpec(
            a.shape if sizes_known else [None] * a.ndim, tf.as_dtype(a.dtype) if a.dtype != object else tf.string
        )
        for a in arrays
    ]
    return tf.function(function, autograph=False).get_concrete_function(*specs)


def imported(concrete: Any) -> ModelProto:
    """The model of a trace without variables."""
    graph_def = GraphDef.FromString(concrete.graph.as_graph_def().SerializeToString())
    inputs, outputs = ([tensor.name for tensor in tensors] for tensors in (concrete.inputs, concrete.outputs))
    return convert(from_graph(graph_def, name="function", inputs=inputs, outputs=list(dict.fromkeys(outputs))))


def answers(model: ModelProto, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What a model computes."""
    session = onnx_sparse.InferenceSession(model)
    names = [value.name for value in session.get_inputs()]
    fed = [np.array([_text(x) for x in a.ravel()], object).reshape(a.shape) if a.dtype == object else a for a in arrays]
    return [np.asarray(array) for array in session.run(None, dict(zip(names, fed, strict=True)))]


def text(array: Any) -> np.ndarray:
    """TensorFlow's strings are bytes, ONNX Runtime's are text."""
    array = np.asarray(array)
    if array.dtype.kind not in "SO":
        return array
    decoded = np.empty(array.size, object)
    decoded[:] = [_text(item) for item in array.ravel()]
    return decoded.reshape(array.shape)


def _text(item: Any) -> Any:
    return item.decode() if isinstance(item, bytes) else item


#: A name, a function, and what it is called with.
Row = tuple[str, Callable[..., Any], Sequence[Any]]


def named(rows: Sequence[Row]) -> dict[str, Any]:
    """Arguments of a parametrization."""
    return {"argvalues": [row[1:] for row in rows], "ids": [row[0] for row in rows]}


def assert_equal(call: Callable[..., Any], arrays: Sequence[Any], *, sizes_known: Sequence[bool]) -> None:
    """The model of a function gives TensorFlow's results, up to a few units in the last place for floats."""
    arrays = [np.asarray(array) for array in arrays]
    for known in sizes_known:
        concrete = traced(call, arrays, sizes_known=known)
        expected = [text(tensor.numpy()) for tensor in tf.nest.flatten(concrete(*map(tf.constant, arrays)))]
        for got, want in zip(answers(imported(concrete), arrays), expected, strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            if want.dtype.kind == "f":
                tolerance = 2e-3 if want.dtype == np.float16 else 2e-6 if want.dtype == np.float32 else 1e-12
                np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
            else:
                np.testing.assert_array_equal(got, want)
