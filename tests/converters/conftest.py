"""What the converters' tests share: running a converted model, and comparing its results with those of its source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.ascend_graphs import write
from support.openvino_models import compiling_core

import onnx_sparse
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.ascend import convert as convert_ascend


def _text(array: Any) -> np.ndarray:
    """TensorFlow's strings are bytes, ONNX Runtime's are text."""
    array = np.asarray(array)
    if array.dtype.kind not in "SO":
        return array
    decoded = np.empty(array.size, object)
    decoded[:] = [item.decode() if isinstance(item, bytes) else item for item in array.ravel()]
    return decoded.reshape(array.shape)


@pytest.fixture(scope="module")
def core() -> Any:
    """What compiles models for OpenVINO's CPU plugin."""
    return compiling_core()


@pytest.fixture(scope="session")
def run() -> Callable[..., dict[str, np.ndarray]]:
    """Run a model: `run(model, ids=[1, 2])` gives the outputs by name."""

    def run(model: Any, **feeds: Any) -> dict[str, np.ndarray]:
        session = onnx_sparse.InferenceSession(model)
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, {k: _text(v) for k, v in feeds.items()}), strict=True))

    return run


@pytest.fixture(scope="session")
def agree(run) -> Callable[..., Any]:
    """`agree(function, *feeds)` converts a tf.function, asserts TensorFlow's outputs to the bit, returns the model."""
    tf = pytest.importorskip("tensorflow")
    from onnx_sparse.converters.tensorflow import convert

    # A test often tries one function on several inputs.
    last: list[Any] = [None, None]

    def agree(function: Any, *feeds: Any) -> Any:
        if last[0] is not function:
            last[:] = function, convert(function)
        model = last[1]
        names = [value.name for value in model.graph.input]
        actual = list(run(model, **dict(zip(names, feeds, strict=True))).values())
        expected = [_text(value.numpy()) for value in tf.nest.flatten(function(*map(tf.constant, feeds)))]
        for got, want in zip(actual, expected, strict=True):
            assert got.dtype == want.dtype
            assert got.shape == want.shape
            np.testing.assert_array_equal(got, want)
        return model

    return agree


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., str]:
    """The message with which an Ascend graph is refused."""

    def refused(document: Any, **options: Any) -> str:
        with pytest.raises(ConversionError) as caught:
            convert_ascend(write(tmp_path, document), **options)
        return str(caught.value)

    return refused
