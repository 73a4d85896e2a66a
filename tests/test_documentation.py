"""The generated files are current, and the targets of links between pages exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


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


def test_no_page_is_left_over() -> None:
    pages = set(generator().pages())
    written = {path for folder in ("operators", "coverage") for path in (ROOT / "docs" / folder).glob("*.md")}
    assert written == pages


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))], ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text("utf-8")):
        assert "://" in target or (page.parent / target).exists(), f"{page.name} links to {target}"
