"""What rewrites or runs a model takes it as ModelProto, bytes, path, onnx_ir.Model, or what holds a model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from contract.models import SEGMENT_SUM, model
from onnx import ModelProto, numpy_helper

import onnx_sparse
from onnx_sparse.sessions.runtime import available_backends

FEEDS = {"data": np.array([[1, 2], [3, 4], [5, 6]], np.float32), "ids": np.array([0, 0, 2])}
REWRITES = [onnx_sparse.canonicalize, onnx_sparse.embed_functions, onnx_sparse.lower, onnx_sparse.fuse]


def as_ir(m: ModelProto) -> Any:
    return pytest.importorskip("onnx_ir").from_proto(m)


@pytest.fixture(params=["proto", "bytes", "str", "path", "text", "onnx_ir", "conversion", "program"])
def handed_over(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    path = tmp_path / ("model.onnxtxt" if request.param == "text" else "model.onnx")
    onnx.save(SEGMENT_SUM, path)
    ways: dict[str, Callable[[], Any]] = {
        "proto": lambda: SEGMENT_SUM,
        "bytes": SEGMENT_SUM.SerializeToString,
        "str": lambda: str(path),
        "path": lambda: path,
        "text": lambda: path,
        "onnx_ir": lambda: as_ir(SEGMENT_SUM),
        "conversion": lambda: SimpleNamespace(model=SEGMENT_SUM),  # as onnx_sparse.convert returns
        "program": lambda: SimpleNamespace(model=as_ir(SEGMENT_SUM)),  # as torch.onnx.ONNXProgram
    }
    return ways[request.param]()


@pytest.mark.parametrize("rewrite", REWRITES)
def test_rewriting(rewrite: Callable[[Any], ModelProto], handed_over: Any) -> None:
    result = rewrite(handed_over)
    assert isinstance(result, ModelProto)
    assert [n.op_type for n in result.graph.node] == [n.op_type for n in rewrite(SEGMENT_SUM).graph.node]


@pytest.mark.parametrize("backend", available_backends())
def test_sessions(handed_over: Any, backend: str) -> None:
    (y,) = onnx_sparse.InferenceSession(handed_over, backend=backend).run(None, FEEDS)
    assert y.tolist() == [[4, 6], [0, 0], [5, 6]]


@pytest.mark.parametrize("way", ["path", "onnx_ir"])
def test_data_beside_the_model_are_read(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    m = model("g (int64[k] i, int64[k] s, int64 n) => (y) { y = onnx_sparse.EmbeddingSegmentsSum (t, i, s, n) }")
    table = np.arange(4000, dtype=np.float32).reshape(1000, 4)
    m.graph.initializer.append(numpy_helper.from_array(table, "t"))
    onnx.save(m, tmp_path / "model.onnx", save_as_external_data=True, location="t.data", size_threshold=0)
    monkeypatch.chdir(tmp_path.parent)
    source = tmp_path / "model.onnx"
    lowered = onnx_sparse.lower(pytest.importorskip("onnx_ir").load(source) if way == "onnx_ir" else source)
    np.testing.assert_array_equal(numpy_helper.to_array(lowered.graph.initializer[0]), table)
    (tmp_path / "t.data").unlink()
    if way == "path":
        with pytest.raises(ValueError, match="its external data cannot be read"):
            onnx_sparse.lower(source)


@pytest.mark.parametrize("rewrite", REWRITES)
def test_what_is_no_model(rewrite: Callable[[Any], ModelProto], tmp_path: Path) -> None:
    (tmp_path / "junk.onnx").write_bytes(b"no model")
    for junk in (b"no model", tmp_path / "junk.onnx"):
        with pytest.raises(ValueError, match="not an ONNX model"):
            rewrite(junk)
    with pytest.raises(FileNotFoundError):
        rewrite(tmp_path / "nothing.onnx")
    for other in (None, 3, SEGMENT_SUM.graph):
        with pytest.raises(TypeError, match="its bytes, the path of a file or an onnx_ir"):
            rewrite(other)


def test_onnx_ir_is_not_imported() -> None:
    program = """
import sys, onnx, onnx_sparse
m = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
    g (float[k] x, int64[k] i) => (float[s] y) { y = onnx_sparse.SegmentSum (x, i) }''')
onnx_sparse.lower(m)
assert "onnx_ir" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
