"""The notebook of the site: it runs, and shows what its file and its page say that it shows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "docs"))  # which is no package

import notebook_page

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


def test_its_cells_show_what_is_recorded(monkeypatch, tmp_path):
    """If the package shows other things, `python docs/notebook_page.py` records them."""
    monkeypatch.chdir(tmp_path)
    recorded = [cell["outputs"] for cell in notebook_page.cells() if cell["cell_type"] == "code"]
    assert sum(map(bool, recorded)) >= 5
    assert [*notebook_page.run()] == recorded


def test_the_page_has_each_cell_and_output():
    page = notebook_page.NOTEBOOK.with_suffix(".md").read_text("utf-8")
    place = 0
    for cell in notebook_page.cells():
        for text in (cell["source"], *(output.get("text", "") for output in cell.get("outputs", ()))):
            place = page.index(text.strip(), place)
    assert page.count('<div class="output">') == 3


def test_jupyter_can_open_it():
    """What nbformat 4.5 requires of a notebook, without a package for it."""
    document = json.loads(notebook_page.NOTEBOOK.read_text("utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert document["metadata"]["kernelspec"]["name"] == "python3"
    cells = document["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        more = {"outputs", "execution_count"} if cell["cell_type"] == "code" else set()
        assert cell.keys() == {"cell_type", "id", "metadata", "source"} | more
