"""The generated files are current, and the targets of links between pages exist."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest
from support.site import build_site

import onnx_sparse
import onnx_sparse.converters.ascend
import onnx_sparse.converters.openvino
import onnx_sparse.converters.tensorflow
import onnx_sparse.converters.torch
from onnx_sparse import converters
from onnx_sparse.schemas import OPS, Op
from onnx_sparse.schemas.pages import page as page_of
from onnx_sparse.schemas.pages import signature

ROOT = Path(__file__).parent.parent
#: How the site, which holds the pages in docs/ only, links to other files of the repository.
OWN = "https://github.com/onnx-sparse/onnx_sparse/blob/main/"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_files_are_current() -> None:
    files: dict[Path, str] = generator().files()
    stale = [str(path) for path, text in files.items() if not path.exists() or path.read_text("utf-8") != text]
    assert not stale, f"run `python docs/generate.py` to renew {stale}"


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_signatures_fit_a_page(op: Op) -> None:
    """In lines of 80 letters, without a change of their words."""
    (shown,) = re.findall(r"\A# .*?```\n(.*?)\n```", page_of(op), re.DOTALL)
    assert max(map(len, shown.splitlines())) <= 80
    assert "".join(shown.split()) == "".join(signature(op).split())


def test_no_page_is_left_over() -> None:
    pages = set(generator().pages())
    written = {path for folder in ("operators", "coverage") for path in (ROOT / "docs" / folder).glob("*.md")}
    assert written == pages


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))], ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text("utf-8")):
        place = ROOT / target.removeprefix(OWN) if target.startswith(OWN) else page.parent / target
        assert ("://" in target and not target.startswith(OWN)) or place.exists(), f"{page.name} links to {target}"
        assert not target.startswith(OWN) or "docs" in page.parts, f"{page.name} needs no full address for {target}"


def test_every_column_has_a_name() -> None:
    """Readers of screens read the name with each cell."""
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")):
        heads = re.findall(r"^(\|.*\|)\n\|[-| :]+\|$", page.read_text("utf-8"), re.MULTILINE)
        nameless = [head for head in heads if not all(map(str.strip, head[1:-1].replace("\\|", "").split("|")))]
        assert not nameless, page.name


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"))


@pytest.mark.slow
def test_the_search_finds_what_users_look_for(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    pages = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"security/", "changelog/", "faq/", "install/", "contributing/"} <= pages
    text = " ".join(entry["title"] + " " + entry["text"] for entry in index["docs"]).lower()
    assert all(word in text for word in ("vulnerability", "license", "telemetry", "changelog", "gpu", "docker"))


@pytest.mark.slow
def test_operators_are_in_the_sidebar(site: Path) -> None:
    page = (site / "operators" / "SegmentMax" / "index.html").read_text("utf-8")
    sidebar = page[page.index('data-md-type="navigation"') : page.index('data-md-type="toc"')]
    missing = [name for name in OPS if f"/{name}/" not in sidebar and name != "SegmentMax"]
    assert not missing


@pytest.mark.parametrize(
    "package",
    [onnx_sparse, converters, converters.tensorflow, converters.torch, converters.ascend, converters.openvino],
    ids=lambda package: str(package.__name__),
)
@pytest.mark.slow
def test_every_public_name_is_in_the_reference(package: ModuleType, site: Path) -> None:
    text = (site / "api" / "index.html").read_text("utf-8")
    shown = set(re.findall(r'<h\d id="([\w.]+)"', text))
    # A function in a module of the same name is shown under the module.
    missing = [n for n in package.__all__ if not {f"{package.__name__}.{n}", f"{package.__name__}.{n}.{n}"} & shown]
    assert not missing
