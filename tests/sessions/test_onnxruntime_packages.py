"""Distributions that overwrite each other's module `onnxruntime` are noticed, with the repair."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from onnx_sparse.cli import doctor
from onnx_sparse.sessions import onnxruntime_packages

ROOT = Path(__file__).parents[2]

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Make an environment of distributions `name version`, each with the files that it owns; the module is there."""
    origin = tmp_path / "onnxruntime" / "__init__.py"
    spec = ModuleSpec("onnxruntime", None, origin=str(origin), is_package=True)
    spec.submodule_search_locations = [str(origin.parent)]
    monkeypatch.setattr(onnxruntime_packages, "find_spec", lambda name: spec)

    def make(*distributions: str, owned: str = "onnxruntime/__init__.py", whole: bool = True) -> None:
        for distribution in distributions:
            name, version = distribution.split()
            folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            (folder / "RECORD").write_text(f"{folder.name}/METADATA,,\n{owned},sha256=0,0\n")
        if not whole:
            spec.origin = None

    return make


@pytest.mark.parametrize(
    "other", ["onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml", "onnxruntime-qnn"]
)
def test_two_distributions_are_noticed(other: str, install: Install) -> None:
    install("onnxruntime 1.31.1", f"{other} 1.24.1")
    problem = onnxruntime_packages.installation_problem()
    assert problem is not None
    assert f"onnxruntime 1.31.1 and {other} 1.24.1 overwrite each other's files" in problem
    assert f"`pip uninstall -y onnxruntime {other}`" in problem
    assert f"`pip install {other}`" in problem


def test_two_distributions_without_the_plain_one_are_noticed(install: Install) -> None:
    install("onnxruntime-gpu 1.30.0", "onnxruntime-openvino 1.24.1")
    assert "pip uninstall -y onnxruntime-gpu onnxruntime-openvino" in (
        onnxruntime_packages.installation_problem() or ""
    )


def test_one_distribution_is_no_problem(install: Install) -> None:
    install("onnxruntime-openvino 1.24.1")
    install("onnxruntime-extensions 0.15.2", owned="onnxruntime_extensions/__init__.py")
    install("onnxruntime-genai 0.9.0", owned="genai/onnxruntime/__init__.py")
    assert onnxruntime_packages.onnxruntime_packages() == {"onnxruntime-openvino": "1.24.1"}
    assert onnxruntime_packages.installation_problem() is None


def test_a_module_without_its_shared_files_is_noticed(install: Install) -> None:
    install("onnxruntime-openvino 1.24.1", whole=False)
    problem = onnxruntime_packages.installation_problem()
    assert problem is not None
    assert "pip install --force-reinstall --no-deps onnxruntime-openvino" in problem


def test_nothing_is_said_where_no_distribution_is_known(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(whole=False)
    assert onnxruntime_packages.installation_problem() is None
    monkeypatch.setattr(onnxruntime_packages, "find_spec", lambda name: None)
    assert onnxruntime_packages.installation_problem() is None


def test_the_doctor_names_both_and_the_repair(install: Install) -> None:
    install("onnxruntime 1.31.1", "onnxruntime-openvino 1.24.1")
    document = doctor.examine()
    assert not document["ok"]
    assert document["packages"]["onnxruntime"] == "1.31.1, 1.24.1"
    assert document["problems"] == [onnxruntime_packages.installation_problem()]


def test_the_doctor_takes_another_distribution_for_onnxruntime(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("onnxruntime-qnn 1.24.1")
    monkeypatch.setattr(doctor, "_smoke_test", lambda backend: {"problem": None, "settings": {}})
    document = doctor.examine()
    assert document["ok"]
    assert document["packages"]["onnxruntime"] == "1.24.1"


#: Makes a module without `__init__.py` of a folder: in sys.path, a whole one that is installed would go first.
HALF = """
import importlib.machinery, importlib.util, sys
spec = importlib.machinery.ModuleSpec("onnxruntime", None, is_package=True)
spec.submodule_search_locations = [{folder!r}]
sys.modules["onnxruntime"] = importlib.util.module_from_spec(spec)
"""


def import_runtime(prepare: str) -> str:
    """What a process says that imports the runtime after some preparation."""
    program = f"{prepare}\nimport onnx_sparse.sessions.runtime, onnx_sparse.sessions.runtime"
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100).stderr


def test_importing_the_runtime_warns_once(install: Install, tmp_path: Path) -> None:
    install("onnxruntime 1.31.1", "onnxruntime-openvino 1.24.1")
    (tmp_path / "onnxruntime").mkdir()
    (tmp_path / "onnxruntime/__init__.py").write_text("class InferenceSession: ...\n")
    said = import_runtime(f"import sys; sys.path.insert(0, {str(tmp_path)!r})")
    assert said.count("Warning") == 1
    assert "pip uninstall -y onnxruntime onnxruntime-openvino" in said


def test_importing_the_runtime_of_half_a_module_says_so(install: Install, tmp_path: Path) -> None:
    install("onnxruntime-openvino 1.24.1")
    said = import_runtime(HALF.format(folder=str(tmp_path / "onnxruntime")))
    assert said.splitlines()[-1].startswith("ImportError: files of onnxruntime-openvino are missing")


def test_the_documented_line_installs_all_other_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = sorted(line.partition(">")[0] for line in project["dependencies"])
    names.remove("onnxruntime")
    lines = (ROOT / "docs" / "install.md").read_text("utf-8").splitlines()
    (documented,) = (line for line in lines if line.startswith("pip install onnxruntime-"))
    assert sorted(documented.split()[3:]) == names
