"""The table of `docs/forms.md` holds for the tools that are here; `tests/tools/run.py` writes it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools import run
from tools.registry import FORMS, ROWS, Row

PAGE = run.PAGE.read_text("utf-8")


def on_the_page(row: Row) -> list[str]:
    """The cells of a row of the table, without its name."""
    (line,) = re.findall(rf"^\| {re.escape(row.name)}(?: [0-9.]+)? \|(.*)\|$", PAGE, re.MULTILINE)
    return [cell.strip() for cell in line.split(" | ")]


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_every_row_is_on_the_page(row: Row) -> None:
    assert len(on_the_page(row)) == len(FORMS)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_the_page_tells_what_the_tool_does(row: Row, tmp_path: Path) -> None:
    if run.version("onnxslim") is None:  # many rows need no more than the project does, but all take minutes
        pytest.skip("not the environment of tests/tools/requirements.txt")
    missing = [package for package in row.packages if run.version(package) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    command = [sys.executable, run.__file__, "--row", row.name, "--json", tmp_path / "results.json"]
    subprocess.run(command, capture_output=True, check=True, timeout=290)
    (result,) = json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert run.cells(result) == on_the_page(row), result["failures"]
