"""Every public name has a short example in its docstring, which runs next to the demo's files."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

import onnx_sparse
import onnx_sparse.arrow
import onnx_sparse.batching
from onnx_sparse.cli import main

PUBLIC = {f"onnx_sparse.{name}": getattr(onnx_sparse, name) for name in onnx_sparse.__all__ if not name.isupper()}
PUBLIC |= {
    "onnx_sparse.arrow.Scorer": onnx_sparse.arrow.Scorer,
    "onnx_sparse.arrow.feeds": onnx_sparse.arrow.feeds,
    "onnx_sparse.batching.join": onnx_sparse.batching.join,
    "onnx_sparse.batching.split": onnx_sparse.batching.split,
}
RUNNING_SUM = """<ir_version: 10, opset_import: ["": 18]>
g (float[n] past, float x) => (float sum, float[1] present)
{ all = ReduceSum<keepdims=0>(past) sum = Add(all, x) one = Constant<value_ints=[1]>() present = Reshape(sum, one) }"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that examples name."""
    made = tmp_path_factory.mktemp("examples")
    assert main(["demo", "--keep", str(made / "demo")]) == 0
    shutil.copytree(made / "demo" / "saved_model", made / "saved_model")
    for name in ("model.onnx", "exported.onnx"):
        onnx_sparse.convert(made / "saved_model", made / name)
    lines = (made / "demo" / "baskets.csv").read_text("utf-8").splitlines()
    (made / "rows.csv").write_text("\n".join([f"uid,{lines[0]}", *(f"{n},{line}" for n, line in enumerate(lines[1:]))]))
    table = next(tensor for tensor in onnx.load(made / "model.onnx").graph.initializer if tensor.name == "table")
    np.save(made / "retrained.npy", onnx.numpy_helper.to_array(table) + 1)
    onnx.save(parser.parse_model(RUNNING_SUM), made / "running_sum.onnx")
    return made


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = inspect.getdoc(PUBLIC[name]) or ""
    example = re.search(r"\n\n((?:    .*\n)+)", f"{document}\n")
    assert example, f"{name} has no example: a block of code, indented by four spaces, after the first sentence"
    code = inspect.cleandoc(example[1])
    assert len(code.splitlines()) <= 5, f"the example of {name} is long"
    monkeypatch.chdir(folder)
    session = onnx_sparse.InferenceSession("model.onnx")
    names = {"onnx_sparse": onnx_sparse, "onnx": onnx, "onnxruntime": onnxruntime, "np": np, "session": session}
    exec(code, names | {"pyarrow": pytest.importorskip("pyarrow"), "ReferenceEvaluator": ReferenceEvaluator})


def test_modules_need_no_import_of_their_own() -> None:
    code = "import onnx_sparse; onnx_sparse.batching.join; assert 'importlib' not in dir(onnx_sparse)"
    subprocess.run([sys.executable, "-c", code], check=True)
