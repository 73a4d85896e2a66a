"""The package as its users meet it: imported from a bare checkout, and read by their type checker."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import onnx_sparse

ROOT = Path(__file__).parents[1]
SITE = list(dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]))
EXTRAS = ("tensorflow", "torch", "onnxscript", "onnx_ir", "openvino", "ray", "pyspark", "py4j")

IMPORT_ALL = f"""
import importlib, json, sys
failed = {{}}
for name in sys.stdin.read().split():
    try:
        assert importlib.import_module(name).__file__.startswith({str(ROOT)!r})
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] not in {EXTRAS!r}:
            failed[name] = repr(error)
    except Exception as error:
        failed[name] = repr(error)
print(json.dumps(failed))
"""


def run(program: str, tree: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, with the dependencies installed and the project not.

    Without `site`, Python ignores the .pth file by which an editable installation of the project would be found.
    """
    environment = {key: value for key, value in os.environ.items() if key != "ONNX_SPARSE_LIBRARY"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tree), *SITE])
    command = [sys.executable, "-S", "-c", program]
    return subprocess.run(
        command, input=stdin, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def modules() -> list[str]:
    """The name of every module of the tree, as it is imported."""
    roots = {"onnx_sparse": "", "schemas": "onnx_sparse.", "converters": "onnx_sparse."}
    paths = {
        prefix + ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for folder, prefix in roots.items()
        for path in (ROOT / folder).rglob("*.py")
    }
    return sorted(paths - {"onnx_sparse.__main__"})


@pytest.mark.slow
def test_every_module_imports_from_the_bare_tree() -> None:
    names = modules()
    assert {"onnx_sparse.sessions.runtime", "onnx_sparse.schemas.fill", "onnx_sparse.converters.openvino"} < set(names)
    done = run(IMPORT_ALL, ROOT, " ".join(names))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}


def test_the_bare_tree_knows_its_version() -> None:
    done = run("from onnx_sparse.cli import main; main(['--version'])", ROOT)
    assert done.stdout == f"onnx-sparse {onnx_sparse.__version__}\n", done.stderr


def test_the_bare_tree_runs_models_with_the_python_kernels() -> None:
    done = run("import onnx_sparse.sessions.runtime as r; print(r.available_backends())", ROOT)
    assert "python" in done.stdout, done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of the package by a git that does not make symbolic links: each is a text file with its target."""
    tree = tmp_path / "checkout"
    package = tree / "onnx_sparse"
    shutil.copytree(ROOT / "onnx_sparse", package, ignore=shutil.ignore_patterns("schemas", "converters", "native"))
    for link in ("schemas", "converters"):
        (package / link).write_text(f"../{link}")
        shutil.copytree(ROOT / "onnx_sparse" / link, tree / link)
    return tree


def test_a_checkout_without_symbolic_links_says_so(checkout: Path) -> None:
    done = run("import onnx_sparse", checkout)
    assert "ImportError: onnx_sparse/schemas is a text file" in done.stderr
    assert "git config core.symlinks true" in done.stderr


@pytest.mark.parametrize("broken", ["onnx", "numpy", "ml_dtypes"])
def test_a_broken_dependency_is_named_and_nothing_else_is_blamed(broken: str, tmp_path: Path) -> None:
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import onnx_sparse.sessions.runtime"
    (tmp_path / f"{broken}.py").write_text("raise ImportError('a library of it is missing')")
    done = run(program, ROOT)
    assert done.stderr.endswith("ImportError: a library of it is missing\n")
    assert "symbolic link" not in done.stderr


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What mypy has read for one of the programs, which the others import, too."""
    return tmp_path_factory.mktemp("mypy")


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> Path:
    """A user's folder, with an environment in whose site-packages the package is."""
    pytest.importorskip("mypy")
    venv.create(tmp_path / "env", with_pip=False)
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (site / "onnx_sparse").symlink_to(ROOT / "onnx_sparse")
    (site / "dependencies.pth").write_text("\n".join(SITE))
    (tmp_path / ".mypy_cache").symlink_to(cache)
    return tmp_path


def check_types(user: Path, program: str) -> list[str]:
    """The lines that `mypy --strict` prints about a user's program, without their positions."""
    (user / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", user / "env/bin/python", "program.py"]
    environment = {key: value for key, value in os.environ.items() if key not in ("MYPYPATH", "PYTHONPATH")}
    done = subprocess.run(command, cwd=user, env=environment, capture_output=True, text=True, check=False)
    assert not done.stderr
    return [line.partition(": ")[2] for line in done.stdout.splitlines() if line.startswith("program.py")]


@pytest.mark.slow
def test_users_get_the_types_of_the_public_names(user: Path) -> None:
    names = onnx_sparse.__all__
    program = "import onnx_sparse\n" + "".join(f"reveal_type(onnx_sparse.{name})\n" for name in names)
    revealed = dict(zip(names, check_types(user, program), strict=True))
    assert all(line.startswith("note: Revealed type is") for line in revealed.values()), revealed
    assert not [name for name, line in revealed.items() if '"Any"' in line or '"builtins.object"' in line]
    assert "def (onnx.onnx_ml_pb2.ModelProto | bytes | str" in revealed["lower"]
    assert "-> onnx.onnx_ml_pb2.ModelProto" in revealed["lower"]


@pytest.mark.slow
def test_a_wrong_name_is_an_error_to_users_type_checkers(user: Path) -> None:
    lines = ["import onnx, onnx_sparse", "from onnx_sparse import lowr", "onnx_sparse.lowr(onnx.ModelProto())"]
    lines += ["size: int = onnx_sparse.get_library_path()", "onnx_sparse.lower(onnx.ModelProto())"]
    errors = check_types(user, "\n".join(lines))
    assert len(errors) == 3
    assert 'Module "onnx_sparse" has no attribute "lowr"' in errors[0]
    assert 'has no attribute "lowr"' in errors[1]
    assert "Incompatible types in assignment" in errors[2]


#: Classes with what those of pandas, polars and pyarrow have in their stubs, which take minutes to read.
_FRAMES = """
from typing import Any
import numpy as np
import onnx_sparse

class PandasFrame:
    columns: list[str]
    @property
    def iloc(self) -> Any: return 0

class PolarsFrame:
    columns: list[str]
    @property
    def height(self) -> int: return 0
    def to_arrow(self, *, compat_level: int | None = None) -> Any: return 0

class PolarsLazyFrame:
    def collect(self, *, engine: str = "auto") -> PolarsFrame: return PolarsFrame()
    def sink_parquet(self, path: str, *, lazy: bool = False) -> None: ...

class Table:
    @property
    def num_rows(self) -> int: return 0
    def combine_chunks(self, memory_pool: int | None = None) -> "Table": return self

class RecordBatch:
    num_rows: int

class Session(onnx_sparse.InferenceSession): ...

def f(session: Session, anything: Any) -> None:
"""


@pytest.mark.slow
def test_predict_answers_in_the_type_of_its_rows(user: Path) -> None:
    expected = {
        '{"a": [1]}': "dict[str, numpy.ndarray[Any, Any]]",
        '[{"a": 1}], ["score"]': "list[dict[str, Any]]",
        'PandasFrame(), extra="error"': "program.PandasFrame",
        "Table()": "program.Table",
        "PolarsFrame()": "program.PolarsFrame",
        "PolarsLazyFrame()": "program.PolarsFrame",
        "RecordBatch()": "Any",
        "anything": "Any",
    }
    calls = "\n".join(f"    reveal_type(session.predict({rows}))" for rows in expected)
    found = [line.removeprefix("note: Revealed type is ").strip('"') for line in check_types(user, _FRAMES + calls)]
    assert found == [*expected.values()]
