"""Functions of TensorFlow through the front end that needs no TensorFlow: as a GraphDef, which holds no objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from onnx import ModelProto

import onnx_sparse
from onnx_sparse.converters.tensorflow.importing.conversion import import_model
from onnx_sparse.converters.tensorflow.reading.graph_file import read_graph
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
    return import_model(read_graph(graph_def, name="function", inputs=inputs, outputs=list(dict.fromkeys(outputs))))


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
