"""The worked examples of CONTRIBUTING.md, followed in a copy of the repository as a newcomer would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SITE = list(dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]))
#: A block of code whose first line names its file.
BLOCK = re.compile(r"```(?:python|cpp)\n(?:#|//) (?P<file>[\w./]+\.(?:py|cc))\n(?P<code>.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository with all blocks: in a new file, or at the end of the one that is there."""
    tree = tmp_path_factory.mktemp("repository")
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    folders = ("schemas", "converters", "onnx_sparse", "docs", "benchmarks")
    for folder in (*folders, "tests/contract", "tests/verbs", "tests/support", "tests/atlas"):
        shutil.copytree(ROOT / folder, tree / folder, symlinks=True, ignore=ignored)
    read_by_conftest = ("tests/listed_skips.py", "tests/support/torch_exports.py")
    for file in ("README.md", "mkdocs.yml", "pyproject.toml", "tests/conftest.py", *read_by_conftest):
        (tree / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, tree / file)
    blocks = list(BLOCK.finditer((ROOT / "CONTRIBUTING.md").read_text("utf-8")))
    assert len(blocks) == 14, "four places of an operator, a handler of each source, a verb of three, a rule"
    for block in blocks:
        path = tree / block["file"]
        before = path.read_text("utf-8").rstrip() + "\n\n\n" if path.exists() else ""
        path.write_text(before + block["code"].strip() + "\n", "utf-8")
    # What the page says in words: the names in FAMILY, which is made before, and in ORACLES.
    for file, line in (
        ("schemas/segment.py", "FAMILY = Family(FAMILY.name, (*FAMILY.ops, SEGMENT_SQRT_N), FAMILY.origin)"),
        ("tests/contract/oracle.py", 'ORACLES["SegmentSqrtN"] = segment_sqrt_n'),
        # TensorFlow's list of operators, which has not this one.
        ("converters/tensorflow/reading/operators.txt", "TanhShrink(x) -> y:T"),
    ):
        with (tree / file).open("a", encoding="utf-8") as stream:
            stream.write(f"\n\n{line}\n" if file.endswith(".py") else f"{line}\n")
    return tree


def run(tree: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the copy; without `site`, it does not see where this repository is installed.

    The installed library has not the kernel, and is not found.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("ONNX_SPARSE", "PYTEST"))}
    environment["ONNX_SPARSE_LIBRARY"] = "none"
    environment["PYTHONPATH"] = os.pathsep.join([str(tree), str(tree / "tests"), *SITE])
    return subprocess.run(
        [sys.executable, "-S", *command], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_operator_is_whole_but_for_its_writer(copy: Path) -> None:
    """The generator takes it up, and one test names the place that the page leaves to do."""
    done = run(copy, "docs/generate.py")
    assert done.returncode == 0, done.stderr
    assert (copy / "docs" / "operators" / "SegmentSqrtN.md").is_file()
    done = run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/contract/test_completeness.py")
    lacks = set(re.findall(r"^E +SegmentSqrtN lacks (.*)$", done.stdout, re.MULTILINE))
    assert lacks == {"an OpenVINO writer (converters/openvino/extensions), or a reason for having none"}, done.stdout


@pytest.mark.slow
def test_the_operator_has_its_answers(copy: Path) -> None:
    """The contract's tests on the reference and on the function body in ONNX Runtime."""
    done = run(
        copy,
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "tests/contract", "-k", "SegmentSqrtN"),
    )
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= 20, done.stdout


@pytest.mark.slow
def test_the_kernel_compiles(copy: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    source = copy / "onnx_sparse/native/operators/sorted_segment.cc"
    native = copy / "onnx_sparse/native"
    included = ["-I", str(native), "-I", str(native / "include")]
    command = [compiler, "-std=c++17", "-fsyntax-only", "-Werror", *included, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


HANDLERS = """
from onnx_sparse.converters.ascend.atb.handlers import HANDLERS as atb
from onnx_sparse.converters.openvino.handlers import HANDLERS as openvino
from onnx_sparse.converters.tensorflow.handlers import HANDLERS as tensorflow
from onnx_sparse.converters.torch.handlers import HANDLERS as torch
print("Logit" in atb, "Logit-99" in openvino, "Logit" in tensorflow, "aten.logit.default" in torch)
"""


def test_the_handlers_are_found(copy: Path) -> None:
    done = run(copy, "-c", HANDLERS)
    assert done.stdout == "True True True True\n", done.stderr


COVERAGE = """
import sys
sys.path.insert(0, "docs")
import generate
print(next(line for line in generate._tensorflow_coverage().splitlines() if line.startswith("| `Logit`")))
print(next(line for line in generate._openvino_coverage().splitlines() if line.startswith("| `Logit-99`")))
"""


def test_the_handlers_are_on_the_pages(copy: Path) -> None:
    """With standard operators as targets, and the element types as other rows have them."""
    done = run(copy, "-c", COVERAGE)
    assert done.stdout.startswith("| `Logit` | Log (standard) | float |"), done.stderr
    assert "| `Logit-99` | Log, Sub, Div |" in done.stdout


@pytest.mark.parametrize("row", ["converters/tensorflow/reading/operators.txt", "tests/tensorflow_kernel_rows"])
def test_the_page_names_places_that_exist(row: str) -> None:
    assert f"`{row}" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert (ROOT / row).exists()


def test_the_command_for_a_kernel_selects_its_row() -> None:
    pytest.importorskip("tensorflow")
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    (command,) = re.findall(r"`pytest (tests/converters/tensorflow/test_kernels\.py -k Softsign)`", page)
    collecting = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", "not slow", *command.split()]
    done = subprocess.run(collecting, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "[Softsign-" in done.stdout, done.stdout


def test_the_verb_is_right_on_three_roads(copy: Path) -> None:
    """A function and three lines; a line of the tests compares each road with numpy."""
    done = run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/verbs", "-k", "tanh_shrink")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


RULE = """
from onnx import parser
from onnx_sparse.converters.rewriting.engine import rewrite
from onnx_sparse.converters.rewriting.rules.double_negation import DoubleNegation
model = parser.parse_model('<ir_version: 10, opset_import: ["" : 18]> g (float[n] x) => (float[n] y)'
                           ' { a = Neg (x) b = Neg (a) y = Relu (b) }')
attempts = rewrite(model, [(DoubleNegation(),)])
print([node.op_type for node in model.graph.node], [(attempt.rule, attempt.fired) for attempt in attempts])
"""


def test_the_rule_fires(copy: Path) -> None:
    done = run(copy, "-c", RULE)
    assert done.stdout == "['Relu'] [('double-negation', True)]\n", done.stderr


ROAD = """
import numpy as np, onnx_sparse, sys
from pathlib import Path
Path("two.sums").write_text("1.5 0.5")
made = onnx_sparse.convert("two.sums", shift=1.0, verify=True)
print(made.origin, [record.ok for record in made.verification])
"""


def test_the_road_is_taken(copy: Path) -> None:
    """Two steps: the package, whose module the guide shows, and its name in the table."""
    guide = (ROOT / "docs" / "guides" / "roads.md").read_text("utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", guide, re.DOTALL | re.MULTILINE)
    package = copy / "converters" / "sums"
    package.mkdir()
    (package / "__init__.py").write_text('"""From sums."""\n')
    (package / "road.py").write_text(code)
    table = copy / "converters" / "roads" / "table.py"
    before = table.read_text("utf-8")
    table.write_text(before.replace('"openvino", "onnx")', '"openvino", "onnx", "sums")'))
    try:
        done = run(copy, "-c", ROAD)
    finally:
        table.write_text(before)
    assert done.stdout == "sums [True]\n", done.stderr
