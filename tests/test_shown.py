"""Objects that people hold: what a prompt, `print` and a notebook show of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onnx_sparse
from onnx_sparse.cli.demo import load_recorded

SHOWN = {
    "benchmark": lambda path: onnx_sparse.benchmark(path, seconds=0.01, batch_sizes=[1], threads=[1]),
    "check": onnx_sparse.check,
    "convert": lambda path: onnx_sparse.convert(path),
    "features": onnx_sparse.features,
    "inspect": onnx_sparse.inspect,
    "report": lambda path: onnx_sparse.report(path, times=False),
    "session": onnx_sparse.InferenceSession,
    "shard": lambda path: onnx_sparse.shard(path, path.parent / "split", shards=2, at_least=1),
    "tables": onnx_sparse.tables,
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = tmp_path_factory.mktemp("shown") / "model.onnx"
    onnx_sparse.save(load_recorded().model, model)
    return model


def require_shown(shown: Any) -> None:
    assert re.fullmatch(rf"<{type(shown).__name__} \S.{{1,200}}>", repr(shown))
    assert repr(shown)[len(type(shown).__name__) + 2 : -1] in str(shown)
    assert shown._repr_html_().startswith(("<p>", "<iframe"))


@pytest.mark.parametrize("name", SHOWN)
def test_a_prompt_shows_kind_and_title(name: str, path: Path) -> None:
    require_shown(SHOWN[name](path))


def test_scorers_and_scores(path: Path) -> None:
    arrow = pytest.importorskip("onnx_sparse.arrow")
    require_shown(arrow.Scorer(path, keep=["uid"]))
    require_shown(arrow.Scorer(path.read_bytes()))
    (path.parent / "rows.jsonl").write_text('{"items": [1]}\n')
    require_shown(onnx_sparse.score(path, path.parent / "rows.jsonl", path.parent / "scores"))


def test_a_stream() -> None:
    from onnx import parser

    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]> g (float x, float past) => (float sum, float present) '
        "{sum = Add(x, past) present = Identity(sum)}"
    )
    stream = onnx_sparse.StatefulSession(onnx_sparse.InferenceSession(model), {"past": "present"})
    assert stream.run(["sum"], {"x": np.float32(2)}) == [2]
    assert repr(stream) == "<StatefulSession x -> sum, states past>"


@pytest.mark.parametrize("source", ["tensorflow", "torch", "openvino", "ascend", "onnx"])
def test_dir_has_the_public_names(source: str) -> None:
    package = getattr(onnx_sparse.converters, source)
    assert [name for name in dir(package) if not name.startswith("__")] == sorted(package.__all__)
