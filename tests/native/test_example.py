"""The C++ example: ONNX Runtime, the library and a model, without Python."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import onnx
import onnxruntime as ort
import pytest
from contract.models import SEGMENT_SUM
from onnx import TensorProto as T

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


@pytest.mark.parametrize(
    ("text", "to", "printed"),
    [
        ("x:float:2=1.5,nan", T.FLOAT16, "1.5 nan"), ("x:double:2=-0.1,-inf", T.DOUBLE, "-0.1 -inf"),
        ("x:float:1=-2.5", T.BFLOAT16, "-2.5"), ("x:int32:2=3,-4", T.INT8, "3 -4"), ("x:uint8:1=200", T.UINT16, "200"),
        ("x:uint64:1=18446744073709551615", T.UINT64, "18446744073709551615"), ("x:bool:2=1,0", T.STRING, "'1' '0'"),
        ("x:int16:0=", T.INT32, ""),
    ],
)  # fmt: skip
def test_element_types(program: Path, tmp_path: Path, text: str, to: int, printed: str) -> None:
    types = {"float": T.FLOAT, "bool": T.BOOL, "double": T.DOUBLE}
    name = text.split(":")[1]
    onnx.save(cast_model(types.get(name) or int(T.DataType.Value(name.upper())), to), tmp_path / "m.onnx")
    done = run(program, tmp_path / "m.onnx", text, "--", "y")
    assert (done.stdout.partition("] ")[2].strip(), done.returncode) == (printed, 0), done.stderr


@pytest.mark.parametrize(
    "text",
    ["x", "x:int64", "x:int64:2=1,a", "x:int64:2=1", "x:int64:1=1,2", "x:string:1=a", "x:int23:1=1", "x:float:1=1e99",
     "x:uint8:1=-1", "x:int8:1=300", "x:int64:a=1", "x:int64:1=99999999999999999999", "x:float:1=", "x:bool:1=2"],
)  # fmt: skip
def test_inputs_that_do_not_fit(program: Path, tmp_path: Path, text: str) -> None:
    onnx.save(cast_model(T.INT64, T.INT64), tmp_path / "m.onnx")
    done = run(program, tmp_path / "m.onnx", text, "--", "y")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert done.stderr.startswith(text)


def cast_model(given: int, to: int) -> onnx.ModelProto:
    values = [onnx.helper.make_tensor_value_info(name, kind, ["N"]) for name, kind in (("x", given), ("y", to))]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Cast", ["x"], ["y"], to=to)], "g", values[:1], values[1:])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
