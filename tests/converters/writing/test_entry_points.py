"""Handlers of other packages: the example of docs/guides/handlers.md, installed as a package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from onnx_sparse.converters.tensorflow.reading.operators import declare, operators

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "handlers.md"
GRAPH = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { dim { size: -1 } } } } }
node { name: "y" op: "MyScale" input: "x" attr { key: "T" value { type: DT_FLOAT } }
       attr { key: "factor" value { f: 2.5 } } }
"""
RUN = """
import sys, numpy as np, onnx_sparse
session = onnx_sparse.InferenceSession(onnx_sparse.convert(sys.argv[1]).model)
print(session.run(None, {"x": np.array([2, 4], np.float32)})[0].tolist())
"""


def block(language: str) -> str:
    """The guide's code in a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return found


def install(folder: Path, module: str, points: str) -> None:
    """Install a package in a folder as pip does: its module, and its metadata."""
    (folder / "my_operators.py").write_text(module)
    metadata = folder / "my_operators-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-operators\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(points)


@pytest.fixture
def convert(tmp_path):
    """Convert and run the graph in a process that finds the packages of a folder."""
    graph = tmp_path / "graph.pbtxt"
    graph.write_text(GRAPH)

    def run(folder: Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
        command = [sys.executable, "-c", RUN, str(graph)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return run


def entry_points_of_the_guide() -> str:
    """The guide's table of entry points, in the form of metadata."""
    (line,) = re.findall(r'^(\w+ = "\w+")$', block("toml").partition("[project.entry-points")[2], re.MULTILINE)
    return f"[onnx_sparse.handlers]\n{line.replace(chr(34), '')}\n"


def test_the_example_of_the_guide(convert, tmp_path):
    refused = convert(tmp_path)
    assert "MyScale" in refused.stderr
    assert refused.returncode == 1
    install(tmp_path, block("python"), entry_points_of_the_guide())
    done = convert(tmp_path)
    assert done.stdout == "[5.0, 10.0]\n", done.stderr


def test_a_package_that_does_not_load_is_named(convert, tmp_path):
    install(tmp_path, "raise RuntimeError('no license')", entry_points_of_the_guide())
    done = convert(tmp_path)
    assert "the handlers of my-operators are not loaded: entry point tensorflow = my_operators" in done.stderr
    assert "RuntimeError: no license" in done.stderr


def test_a_package_for_another_source_is_not_imported(convert, tmp_path):
    install(tmp_path, "raise SystemExit('it was loaded')", "[onnx_sparse.handlers]\nopenvino = my_operators\n")
    assert "it was loaded" not in convert(tmp_path).stderr


def test_a_source_that_does_not_exist_is_named(convert, tmp_path):
    sources = ("tensorfow", "TensorFlow", "keras", "onnx", "ascend", "tensorfow.more")
    lines = "".join(f"{source} = my_operators\n" for source in sources)
    install(tmp_path, block("python"), f"[onnx_sparse.handlers]\n{lines}")
    stderr = convert(tmp_path).stderr
    for source in sources:
        said = f"the handlers of my-operators are not loaded: entry point {source} = my_operators: "
        named = source.partition(".")[0]
        assert f"{said}{named!r} is not one of tensorflow, torch, openvino, atb, ge" in stderr


HANDLER = """
from onnx_sparse.converters.tensorflow.handlers.registry import handles
from onnx_sparse.converters.tensorflow.reading.operators import declare
declare("MyScale(x) -> y:T | factor=1.0")
@handles("MyScale", inputs=("x",), to="Mul", dtypes=("float32",))
def my_scale(node, emit):
    x, factor = node["x"], node.attributes["factor"]
    return emit.op("Mul", x, emit.like(factor, x))
"""


@pytest.mark.parametrize(
    ("right", "wrong", "reason"),
    [
        ("declare(", "str(", 'needs declare("MyScale(INPUTS) -> OUTPUT:TYPE")'),
        ("return emit.op", "emit.op", "returned NoneType; expected tensors"),
        ("return ", "return x, emit, ", "returned "),
        ('emit.op("Mul"', 'emit.op("Mull"', "raised SchemaError: No schema registered for 'Mull'"),
        ("return ", "raise ZeroDivisionError('no scale')\n    return ", "raised ZeroDivisionError: no scale"),
    ],
)
def test_a_handler_with_a_fault_is_named_with_its_package(convert, tmp_path, right, wrong, reason):
    """One error that names the node, the handler and the package."""
    assert right in HANDLER
    install(tmp_path, HANDLER.replace(right, wrong, 1), entry_points_of_the_guide())
    stderr = convert(tmp_path).stderr
    assert f"y (MyScale): the handler my_operators.my_scale of my-operators {reason}" in stderr


@pytest.mark.parametrize(
    ("registered", "answer"),
    [
        ('"Neg", to="Mul", replaces=True', "[5.0, 10.0]"),
        ('"Neg", to="Mul"', "Neg has a handler already; replaces=True replaces it"),
        ('"Negg", to="Mul", replaces=True', "Negg has no handler to replace"),
    ],
)
def test_a_handler_replaces_ours_only_if_it_says_so(convert, tmp_path, registered, answer):
    (tmp_path / "graph.pbtxt").write_text(
        GRAPH.replace("MyScale", "Neg").replace('attr { key: "factor" value { f: 2.5 } }', "")
    )
    handler = HANDLER.replace('"MyScale", inputs=("x",), to="Mul"', registered).replace(
        'node.attributes["factor"]', "2.5"
    )
    lines = [line for line in handler.splitlines() if "declare" not in line]
    install(tmp_path, "\n".join(lines), entry_points_of_the_guide())
    done = convert(tmp_path)
    assert answer in (done.stdout if done.returncode == 0 else "") + done.stderr


@pytest.mark.parametrize("line", ["", "MyScale", "MyScale(x)", "MyScale(x) -> y:T | factor={", "Abs(a, b) -> y:T"])
def test_what_declares_nothing(line):
    known = dict(operators())
    with pytest.raises(ValueError, match=r"does not declare an operator|is declared already"):
        declare(line)
    assert operators() == known
