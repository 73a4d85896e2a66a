"""The notebook of the site: its page, and its outputs, which `python docs/notebook_page.py` writes by running it.

A notebook is what Jupyter opens; its page shows the same cells and outputs to those who only read.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parent / "notebooks" / "first_model.ipynb"


def cells() -> list[dict[str, Any]]:
    """Its cells, as nbformat has them, each source and text as one string."""
    return [_joined(cell) for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]]


def page() -> str:
    """The page: prose as it is, code in blocks, and after each block what it shows."""
    parts = []
    for cell in cells():
        source = cell["source"].strip()
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            text = output.get("text") or data["text/plain"]
            html = data.get("text/html", "").replace("<th></th>", "<td></td>")  # no header, to readers of screens
            shown = f'<div class="output">{html}</div>' if html else None
            parts.append(shown or f"```text\n{text.rstrip()}\n```")
    parts.append(f"This page is a notebook: [{NOTEBOOK.name}]({NOTEBOOK.name}).")
    return "\n\n".join(parts) + "\n"


def run() -> Iterator[list[dict[str, Any]]]:
    """What each cell of code shows, run one after the other in the current folder."""
    names: dict[str, Any] = {}
    for number, cell in enumerate((cell for cell in cells() if cell["cell_type"] == "code"), 1):
        body = ast.parse(cell["source"]).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        outputs: list[dict[str, Any]] = []
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(ast.Module(body, []), NOTEBOOK.name, "exec"), names)  # the notebook is ours
            value = None if last is None else eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), names)
        if printed.getvalue():
            outputs.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue()})
        if value is not None:
            data = {"text/plain": repr(value)}
            if hasattr(value, "_repr_html_"):
                data["text/html"] = "".join(line.strip() for line in value._repr_html_().splitlines())
            outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
        yield outputs


def _joined(cell: dict[str, Any]) -> dict[str, Any]:
    """nbformat allows a list of lines for a text."""
    return cell | {"source": cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])}


def main() -> None:
    """Run the notebook in a folder of its own, and write what it shows."""
    document = json.loads(NOTEBOOK.read_text("utf-8"))
    code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, (cell, outputs) in enumerate(zip(code, run(), strict=True), 1):
            cell.update(outputs=outputs, execution_count=number)
    NOTEBOOK.write_text(json.dumps(document, indent=1, ensure_ascii=False) + os.linesep, "utf-8", newline="")


if __name__ == "__main__":
    main()
