"""Models of one operator, built with OpenVINO and saved; the model and its conversion are both run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from onnx_sparse import InferenceSession
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert


def ops(version: int) -> Any:
    return __import__(f"openvino.opset{version}", fromlist=["x"])


def c(value: Any, dtype: Any = np.int64) -> Any:
    return ops(16).constant(np.asarray(value, dtype))


class Case:
    """A model of one operator.

    `build` gets the parameters, one per input, and returns a node. With `dynamic`, the inputs have dynamic shapes, but
    for the `static` axes, as (input, axis).
    """

    def __init__(
        self,
        op: str,
        build: Callable[..., Any],
        *inputs: Any,
        dynamic: bool = False,
        static: Collection[tuple[int, int]] = (),
    ) -> None:
        self.op, self.build, self.dynamic, self.static = op, build, dynamic, static
        self.inputs = [np.asarray(x) for x in inputs]

    def shape(self, position: int) -> list[int]:
        """The shape that an input has in the model."""
        sizes = enumerate(self.inputs[position].shape)
        return [n if not self.dynamic or (position, axis) in self.static else -1 for axis, n in sizes]

    def save(self, folder: Path, *, compress: bool = False) -> Path:
        import openvino as ov

        parameters = [ops(16).parameter(self.shape(k), x.dtype, name=f"p{k}") for k, x in enumerate(self.inputs)]
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


def check_all(
    builds: Mapping[str, Callable[..., Any]],
    inputs: list[Any],
    core: Any,
    path: Path,
    *,
    dynamic: bool = False,
    static: Collection[tuple[int, int]] = (),
) -> dict[str, str]:
    """Assert for many nodes of the same inputs at once that OpenVINO and ONNX Runtime give the same results.

    Args:
        builds: For each name a function that gets the parameters and returns a node.
        inputs: The inputs.
        core: From `compiling_core`.
        path: The .xml to write.
        dynamic: Whether the inputs have dynamic shapes.
        static: The axes that do not, as (input, axis).

    Returns:
        The reasons for which nodes are not converted, by name.
    """

    def build(*parameters: Any) -> Any:
        made = []
        for name in kept:
            node = builds[name](*parameters)
            node.set_friendly_name(name)
            made.append(node.output(0))
        return SimpleNamespace(outputs=lambda: made)

    kept = list(builds)
    tested = Case("", build, *inputs, dynamic=dynamic, static=static)
    tested.save(path.parent)
    refused: dict[str, str] = {}
    try:
        convert(path)
    except ConversionError as error:
        refused = {node.node: node.reason for node in error.unsupported}
        kept = [name for name in builds if name not in refused]
        tested.save(path.parent)
    if not kept:
        return refused
    expected = core.compile_model(core.read_model(path), "CPU")(tested.inputs).values()
    got = InferenceSession(convert(path)).run(None, {f"p{k}": x for k, x in enumerate(tested.inputs)})
    wrong = [name for name, want, have in zip(kept, expected, got, strict=True) if not _same(want, have)]
    assert not wrong, f"{len(wrong)} of {len(kept)} differ: {', '.join(wrong[:20])}"
    return refused


def _same(want: Any, have: Any) -> bool:
    tolerance = {"rtol": 4e-3, "atol": 4e-3} if want.dtype == np.float16 else {"rtol": 2e-5, "atol": 2e-5}
    same_kind = (want.dtype, want.shape) == (have.dtype, have.shape)
    return same_kind and np.allclose(want, have, equal_nan=True, **tolerance)
