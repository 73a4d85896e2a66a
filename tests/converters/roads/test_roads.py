"""Roads of other packages: the example of docs/guides/roads.md, installed as a package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.roads.table import road_named, road_of, roads

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "roads.md"
CONVERT = ["-m", "onnx_sparse", "convert", "two.sums", "-o", "two.onnx"]


def block(language: str) -> str:
    """The guide's code in a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return found


def entry_point_of_the_guide() -> str:
    """The guide's entry point, in the form of metadata."""
    table = block("toml").partition("[project.entry-points.")[2]
    (line,) = re.findall(r'^(\w+ = "[\w:]+")$', table, re.MULTILINE)
    return f"[onnx_sparse.roads]\n{line.replace(chr(34), '')}\n"


@pytest.fixture
def run(tmp_path: Path):
    """Install the package as pip does, with its module and entry points, and run Python where it is found."""
    (tmp_path / "two.sums").write_text("1.5 0.5")

    def call(*arguments: str, module: str = "", points: str = "") -> subprocess.CompletedProcess[str]:
        (tmp_path / "my_sums.py").write_text(module or block("python"))
        metadata = tmp_path / "my_sums-1.0.dist-info"
        metadata.mkdir(exist_ok=True)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-sums\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(points or entry_point_of_the_guide())
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
        command = [sys.executable, *arguments]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    return call


def test_the_example_on_the_command_line(run):
    """Its suffix is known, its help has its option, and its program verifies the model."""
    assert "onnx-sparse convert --help sums " in run("-m", "onnx_sparse", "convert", "--help").stdout
    assert "options for sums:\n  --shift NUMBER" in run("-m", "onnx_sparse", "convert", "--help", "sums").stdout
    done = run(*CONVERT, "--shift", "1", "--verify", "--json")
    document = json.loads(done.stdout)
    assert (document["from"], document["nodes"]) == ("sums", 2), done.stderr
    assert [record["ok"] for record in document["verification"]] == [True]


def test_the_example_in_python(run):
    program = """
import numpy as np, onnx_sparse
model = onnx_sparse.convert("two.sums", shift=0.5, verify=True).model
print(onnx_sparse.InferenceSession(model).run(None, {"x": np.array([1, 2], np.float32)})[0].tolist())
"""
    done = run("-c", program)
    assert done.stdout == "[2.5, 4.5]\n", done.stderr


def test_its_suffix_may_be_that_of_weights(run, tmp_path):
    """Which torch refuses; a package that brings a road for them is asked."""
    (tmp_path / "two.sums").rename(tmp_path / "two.pt")
    module = block("python").replace('(".sums",)', '(".pt",)')
    assert module != block("python")
    done = run(*CONVERT[:-3], "two.pt", "-o", "two.onnx", "--json", module=module)
    assert json.loads(done.stdout or "{}").get("from") == "sums", done.stderr


def test_its_option_is_refused_for_other_sources(run, tmp_path):
    (tmp_path / "graph.pbtxt").touch()
    done = run("-m", "onnx_sparse", "convert", "graph.pbtxt", "-o", "out.onnx", "--shift", "2")
    assert "--shift is for sums, and this source is tensorflow" in done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("module", "points", "reason"),
    [
        ("raise RuntimeError('no license')", "sums = my_sums:ROAD", "RuntimeError: no license"),
        ("ROAD = 3", "sums = my_sums:ROAD", "expected an object of a class derived from Road, got int"),
        ("", "onnx = my_sums:ROAD", "there is a road onnx already"),
        ("", "other = my_sums:ROAD", "the road's name is 'sums'"),
        ("", "sums = my_sums:OTHER", "has no attribute 'OTHER'"),
    ],
)
def test_a_broken_package_is_named(run, module: str, points: str, reason: str):
    """And other sources are converted as before."""
    program = "import onnx_sparse.converters.roads.table as t; print(t.road_of('a.xml').name)"
    done = run("-W", "always", "-c", program, module=module, points=f"[onnx_sparse.roads]\n{points}\n")
    assert done.stdout == "openvino\n"
    assert f"the road of my-sums is not loaded: entry point {points}: " in done.stderr
    assert reason in done.stderr


def test_a_broken_road_that_is_asked_for(run):
    done = run(*CONVERT, "--from", "sums", module="import no_such_package")
    assert done.returncode == 2
    assert "invalid choice: 'sums'" in done.stderr
    assert "the road of my-sums is not loaded" in done.stderr


def test_names_of_roads():
    assert road_named("openvino") is roads()["openvino"] is road_of("model.xml")
    with pytest.raises(ValueError, match=r"'caffe' is not one of tensorflow, torch, ascend, openvino, onnx"):
        road_named("caffe")


@pytest.mark.parametrize("road", roads().values(), ids=roads())
def test_a_road_says_what_it_is(road):
    """What the command line and reports ask of each."""
    assert road.title
    assert road.models
    assert road.suffixes
    assert [step.name for step in road.passes()]
    with pytest.raises(TypeError, match="has no option 'no_such_option'"):
        road.choose({"no_such_option": 1})


def test_files_that_no_road_takes(tmp_path):
    """Whatever road is asked for, the framework that wrote them says what to give instead."""
    for name, advice in (("a.om", "is compiled for an NPU"), ("a.tflite", "is a model of TensorFlow Lite")):
        (tmp_path / name).touch()
        with pytest.raises(ConversionError, match=advice):
            road_of(tmp_path / name)
