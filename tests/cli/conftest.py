"""Fixtures of the command line's tests: a way to call it, and small models."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper
from support.json_fields import misfits

import onnx_sparse
from onnx_sparse.cli import main, output


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line on stderr."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("onnx-sparse: error: ")
        return lines[0].removeprefix("onnx-sparse: error: ")


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Call the command line. How long a machine takes changes nothing of what it writes."""
    monkeypatch.setattr(output, "_QUIET_SECONDS", 600)

    def call(*arguments: object) -> Result:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        result = Result(code, captured.out, captured.err)
        if "--json" in arguments:
            assert not misfits(str(arguments[0]), result.json)
        return result

    return call


def _domain_node(op_type: str, inputs: list[str], outputs: list[str], **attributes: str) -> NodeProto:
    return helper.make_node(op_type, inputs, outputs, domain=onnx_sparse.DOMAIN, **attributes)


def _make_model(
    nodes: list[NodeProto],
    inputs: dict[str, tuple[int, list[Any]]],
    outputs: dict[str, tuple[int, list[Any]]],
    *,
    opset: int = 18,
    ir_version: int = 10,
    **parts: Any,
) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, *value) for name, value in inputs.items()],
        [helper.make_tensor_value_info(name, *value) for name, value in outputs.items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(onnx_sparse.DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, **parts)


@pytest.fixture
def domain_node() -> Callable[..., NodeProto]:
    """Makes a node of the domain."""
    return _domain_node


@pytest.fixture
def make_model() -> Callable[..., ModelProto]:
    """Makes a model: nodes, inputs and outputs as {name: (element type, shape)}."""
    return _make_model


@pytest.fixture
def save(tmp_path: Path) -> Callable[[ModelProto], Path]:
    """Save a model in the test's folder."""

    def write(model: ModelProto) -> Path:
        path = tmp_path / "model.onnx"
        onnx.save(model, path)
        return path

    return write


@pytest.fixture
def segment_max(save: Callable[[ModelProto], Path]) -> Path:
    """data float32[K, 2], segment_ids int64[K] -> SegmentMax; not canonical, because num_segments is omitted."""
    node = _domain_node("SegmentMax", ["data", "segment_ids"], ["highest"], fill_mode="ZERO")
    inputs = {"data": (TensorProto.FLOAT, ["K", 2]), "segment_ids": (TensorProto.INT64, ["K"])}
    return save(_make_model([node], inputs, {"highest": (TensorProto.FLOAT, ["S", 2])}))
