"""What a package index gets: a source distribution without links, and the wheel that is built from it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

import onnx_sparse

ROOT = Path(__file__).parents[1]


def build(what: str, source: Path, folder: Path) -> Path:
    """Run a hook of the build backend on a source tree; a wheel is built without the native library."""
    pytest.importorskip("scikit_build_core")
    pytest.importorskip("hatch_fancy_pypi_readme")
    settings = {"wheel.cmake": "false"} if what != "sdist" else {}
    program = f"import scikit_build_core.build as b; print(b.build_{what}({str(folder)!r}, {settings!r}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, extracted."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(build("sdist", ROOT, folder)) as archive:
        assert all(member.isfile() for member in archive), "links do not exist everywhere"
        filters = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.4 and later
        archive.extractall(folder, **filters)
    return folder / f"onnx_sparse-{onnx_sparse.__version__}"


@pytest.fixture(scope="module")
def wheel(extracted: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build("wheel", extracted, tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
    return message_from_bytes(wheel.read(name))


def test_an_editable_install_shows_nothing_but_the_checkout(tmp_path: Path) -> None:
    """A folder next to it that has the name of a package would be imported in its place."""
    wheel = zipfile.ZipFile(build("editable", ROOT, tmp_path))
    lines = [
        line for name in wheel.namelist() if name.endswith(".pth") for line in wheel.read(name).decode().split("\n")
    ]
    paths = {Path(line) for line in lines if line and not line.startswith("import ")}
    assert paths == {ROOT}


def test_the_source_distribution_holds_each_folder_once(extracted: Path) -> None:
    assert {path.name for path in extracted.iterdir()} >= {"onnx_sparse", "schemas", "converters"}
    assert not {path.name for path in (extracted / "onnx_sparse").iterdir()} & {"schemas", "converters"}


def test_a_checkout_without_links_makes_the_same_wheel(extracted: Path, wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """A git that does not make links writes text files with their targets."""
    checkout = shutil.copytree(extracted, tmp_path / "checkout")
    for link in ("schemas", "converters"):
        (checkout / "onnx_sparse" / link).write_text(f"../{link}")
    assert zipfile.ZipFile(build("wheel", checkout, tmp_path)).namelist() == wheel.namelist()


def test_the_wheel_holds_the_modules_and_no_sources_of_the_library(wheel: zipfile.ZipFile) -> None:
    modules = {
        f"onnx_sparse/{prefix}{path.relative_to(folder).as_posix()}"
        for folder, prefix in (
            (ROOT / "onnx_sparse", ""),
            (ROOT / "onnx_sparse/schemas", "schemas/"),
            (ROOT / "onnx_sparse/converters", "converters/"),
        )
        for path in folder.rglob("*.py")
    }
    modules.add("onnx_sparse_command/__init__.py")
    names = wheel.namelist()
    assert len(names) == len(set(names))
    assert {name for name in names if name.endswith(".py")} == modules
    others = {Path(name).name for name in names if not name.endswith(".py")}
    assert others == {
        *{
            "addon_operators.txt",
            "attributes.txt",
            "py.typed",
            "demo_answers.json",
            "help.txt",
            "operators.txt",
            "kernel_limits.txt",
            "unicode_classes.txt",
        },
        *(path.name for path in (ROOT / "onnx_sparse/cli/demo/demo_sources").rglob("*") if path.is_file()),
        *{"saved_model.pb", "variables.index", "variables.data-00000-of-00001"},
        *{"report.css", "report.js", "dagre.min.js", "dagre.LICENSE"},
        *{"METADATA", "WHEEL", "RECORD", "LICENSE", "entry_points.txt"},
    }


def test_the_readme_has_no_relative_link_left(metadata: Message) -> None:
    text = str(metadata.get_payload())
    assert text.startswith("# onnx_sparse")
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert targets
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    places = {target.partition("/blob/main/")[2].partition("#")[0] for target in targets if "/blob/main/" in target}
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_the_metadata_names_the_version_and_the_pythons(metadata: Message) -> None:
    assert metadata["Version"] == onnx_sparse.__version__
    classifiers = metadata.get_all("Classifier", [])
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)} <= set(classifiers)
    assert any(line.startswith("Repository, https://") for line in metadata.get_all("Project-URL", []))


def test_the_recipe_for_conda_needs_what_the_package_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    stated = {*project["build-system"]["requires"], *project["project"]["dependencies"]}
    needed = {need.partition(";")[0] for need in stated}  # conda-forge builds for a new Python what has no wheel for it
    recipe = (ROOT / "conda" / "recipe.yaml").read_text("utf-8")
    assert f'version: "{onnx_sparse.__version__}"' in recipe
    assert f'python_min: "{project["project"]["requires-python"].removeprefix(">=")}"' in recipe
    listed = {line.removeprefix("    - ") for line in recipe.splitlines()}
    assert {re.sub(r"(?<=\w)(?=[<>=!])", " ", need, count=1) for need in needed} <= listed


def test_the_page_says_in_ten_lines_what_only_a_person_can_do() -> None:
    """It names each file that has the version, and the workflow and environment that publish."""
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = page[page.index("## Releasing") : page.index("## Style")]
    assert 0 < len(re.findall(r"^\d+\. ", section, re.MULTILINE)) <= 10
    for path in ("onnx_sparse/version.py", "conda/recipe.yaml"):
        assert onnx_sparse.__version__ in (ROOT / path).read_text("utf-8")
        assert f"`{path}`" in section
    workflow = (ROOT / ".github/workflows/wheels.yml").read_text("utf-8")
    assert "environment: pypi" in workflow
    assert "`wheels.yml` with the environment `pypi`" in section
