"""The C++ example: ONNX Runtime, the library and a model, without Python."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import onnx
import onnxruntime as ort
import pytest
from contract.models import SEGMENT_SUM

import onnx_sparse

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which("g++") or shutil.which("clang++")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = ROOT / "examples" / "run_model.cc"
    if COMPILER is None or not source.exists():
        pytest.skip("needs a compiler and the sources")
    built = tmp_path_factory.mktemp("example") / "run_model"
    warnings = ["-Wall", "-Wextra", "-Werror"]
    headers = ROOT / "onnx_sparse" / "native" / "include"
    subprocess.run([COMPILER, "-std=c++17", *warnings, "-I", headers, source, "-ldl", "-o", built], check=True)
    return built


def run(program: Path, model: Path, *tensors: str) -> subprocess.CompletedProcess[str]:
    (runtime,) = (Path(ort.__file__).parent / "capi").glob("libonnxruntime.so*")
    command = [program, runtime, onnx_sparse.get_library_path(), model, *tensors]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_it_runs_a_model(program: Path, tmp_path: Path) -> None:
    onnx.save(SEGMENT_SUM, tmp_path / "m.onnx")
    done = run(program, tmp_path / "m.onnx", "data:float:3,2=1,2,3,4,5,6", "ids:int64:3=0,0,2", "--", "y")
    assert (done.stdout, done.returncode) == ("y [3,2] 4 6 0 0 5 6\n", 0), done.stderr


def test_it_reports_errors(program: Path, tmp_path: Path) -> None:
    onnx.save(SEGMENT_SUM, tmp_path / "m.onnx")
    done = run(program, tmp_path / "m.onnx", "data:float:3,2=1,2,3,4,5,6", "ids:int64:3=0,2,1", "--", "y")
    assert done.returncode == 1
    assert "SegmentSum: segment_ids[2] = 1 is less than segment_ids[1] = 2; ids must be sorted" in done.stderr
