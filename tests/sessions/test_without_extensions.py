"""Without onnxruntime-extensions, which has no wheels for Python 3.14, the native kernels do all the work."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from onnx_sparse.sessions.runtime import available_backends

pytestmark = pytest.mark.skipif("native" not in available_backends(), reason="the native library is not built")

MODEL = """import onnx
text = '<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]> g (float[k] data, int64[k] ids, int64 n)'
text += ' => (float[s] y) { y = onnx_sparse.SegmentSum(data, ids, n) }'
onnx.save(onnx.parser.parse_model(text), 'model.onnx')
"""
ROWS = "items\n[5;7]\n[]\n"
#: Commands and a part of what they write, one after another.
COMMANDS = [
    ("demo --keep . --all", "onnx-sparse score"),
    ("doctor", "Everything that is needed works."),
    ("check model.onnx", "model.onnx: ok"),
    ("inspect model.onnx", "this installation has no Python kernels"),
    ("ops SegmentSum", "output -> [[4, 6]"),
    ("run model.onnx --input data=[1,2] --input ids=[0,0] --input n=-1", "with the native backend"),
    ("convert saved_model -o again.onnx --verify", "again.onnx"),
    ("convert saved_model -o lowered.onnx --lower", "lowered.onnx"),
    ("inspect baskets.onnx", "items"),
    ("run baskets.onnx --input inputs.npz", "native backend"),
    ("score baskets.onnx baskets.csv -o scores.csv", "scores.csv"),
    ("tables baskets.onnx show", "table"),
    ("report model.onnx -o report.html", "report.html"),
    ("benchmark baskets.onnx --seconds 0.05 --threads 1 --batch-sizes 2", "native kernels"),
]
#: Calls from Python that need the Python kernels, and one that needs none.
REFUSED = "this installation has no Python kernels: onnxruntime-extensions is not installed. Use the native kernels"
CALLS = """
import onnx, onnx_sparse
from onnx.reference import ReferenceEvaluator
from onnx_sparse.sessions.runtime import available_backends
assert available_backends() == ("native",), available_backends()
feeds = {"data": [1.0, 2.0], "ids": [0, 0], "n": -1}
for make in (
    lambda: onnx_sparse.session_options("python"),
    lambda: onnx_sparse.register(onnxruntime.SessionOptions(), "python"),
    lambda: onnx_sparse.InferenceSession("model.onnx", backend="python"),
    lambda: onnx_sparse.arrow.Scorer("model.onnx", backend="python").features,
    lambda: onnx_sparse.benchmark("model.onnx", backend="python", seconds=0.01),
):
    try:
        make()
    except Exception as error:
        assert REFUSED in str(error), error
    else:
        raise AssertionError("not refused")
import numpy as np, onnxruntime
feeds = {"data": np.float32([1, 2]), "ids": np.array([0, 0]), "n": np.array(-1)}
for session in (
    onnx_sparse.InferenceSession("model.onnx"),
    onnxruntime.InferenceSession("model.onnx", onnx_sparse.session_options()),
    ReferenceEvaluator(onnx.load("model.onnx"), new_ops=onnx_sparse.reference_ops()),
    onnx_sparse.InferenceSession(onnx_sparse.lower(onnx.load("model.onnx"))),
):
    assert session.run(None, feeds)[0].tolist() == [3]
""".replace("REFUSED", repr(REFUSED))
CALLS = "import onnxruntime\n" + CALLS


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder to work in, whose processes do not find onnxruntime-extensions."""
    made = tmp_path_factory.mktemp("without")
    (made / "hidden").mkdir()
    (made / "hidden" / "sitecustomize.py").write_text("import sys\nsys.modules['onnxruntime_extensions'] = None\n")
    run(made, "-c", MODEL)
    return made


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder / "hidden"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_commands(folder):
    for command, written in COMMANDS:
        done = run(folder, "-m", "onnx_sparse", *command.split())
        assert (done.returncode, written in done.stdout + done.stderr) == (0, True), (command, done.stdout, done.stderr)
    done = run(folder, "-m", "onnx_sparse", *COMMANDS[5][0].split(), "--backend", "python")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert REFUSED in line


def test_calls(folder):
    done = run(folder, "-c", CALLS)
    assert done.returncode == 0, done.stderr


def test_without_the_library_either(folder):
    hidden = "import os; os.environ.pop('ONNX_SPARSE_LIBRARY', 0)\nfrom onnx_sparse.native import location\n"
    hidden += "location._NAMES = ()\nfrom onnx_sparse.cli import main\nimport sys; sys.exit(main(sys.argv[1:]))"
    done = run(folder, "-c", hidden, *COMMANDS[5][0].split())
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "no Python kernels: onnxruntime-extensions is not installed, and it has no native kernels. Install a" in line


def test_the_dependency_has_a_marker():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    needed = {requirement.name: requirement for requirement in map(Requirement, project["dependencies"])}
    marker = needed["onnxruntime-extensions"].marker
    assert marker is not None
    assert [marker.evaluate({"python_version": version}) for version in ("3.11", "3.13", "3.14")] == [True, True, False]
    assert metadata.version("onnxruntime-extensions")
