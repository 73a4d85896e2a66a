"""Models of one operator, built with OpenVINO and saved; the model and its conversion are both run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from onnx_sparse import InferenceSession
from onnx_sparse.converters.openvino import convert


def ops(version: int) -> Any:
    return __import__(f"openvino.opset{version}", fromlist=["x"])


def c(value: Any, dtype: Any = np.int64) -> Any:
    return ops(16).constant(np.asarray(value, dtype))


class Case:
    """A model of one operator.

    `build` gets the parameters, one per input, and returns a node. With `dynamic`, the inputs have dynamic shapes.
    """

    def __init__(self, op: str, build: Callable[..., Any], *inputs: Any, dynamic: bool = False) -> None:
        self.op, self.build, self.dynamic = op, build, dynamic
        self.inputs = [np.asarray(x) for x in inputs]

    def save(self, folder: Path, *, compress: bool = False) -> Path:
        import openvino as ov

        parameters = [
            ops(16).parameter([-1] * x.ndim if self.dynamic else list(x.shape), x.dtype, name=f"p{k}")
            for k, x in enumerate(self.inputs)
        ]
        model = ov.Model(self.build(*parameters).outputs(), parameters, "model")
        ov.save_model(model, folder / "model.xml", compress_to_fp16=compress)
        return folder / "model.xml"


def compiling_core() -> Any:
    import openvino as ov

    core = ov.Core()
    core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    return core


def check(tested: Case, core: Any, path: Path) -> None:
    """Assert that OpenVINO and ONNX Runtime give the same results."""
    compiled = core.compile_model(core.read_model(path), "CPU")
    expected = list(compiled(tested.inputs).values())
    session = InferenceSession(convert(path))
    assert [i.name for i in session.get_inputs()] == [f"p{k}" for k in range(len(tested.inputs))]
    got = session.run(None, {f"p{k}": x for k, x in enumerate(tested.inputs)})
    assert len(got) == len(expected)
    for want, have in zip(expected, got, strict=True):
        assert have.dtype == want.dtype
        assert have.shape == want.shape
        np.testing.assert_allclose(have, want, rtol=2e-5, atol=2e-5)
