"""A report, and how it shows itself."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from pathlib import Path

from onnx_sparse.reports.contents import Contents
from onnx_sparse.reports.page import page
from onnx_sparse.shown import Shown


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """A report: `save` it, or let a notebook show it.

        page: onnx_sparse.Report = onnx_sparse.report("model.onnx")
        page.save("report_of_model.html")

    Attributes:
        contents: What it says.
    """

    contents: Contents

    @property
    def _title(self) -> str:
        figures = ", ".join(f"{name}: {value}" for name, value in self.contents.tiles.items())
        return f"{self.contents.title} ({figures})"

    def to_html(self) -> str:
        """The page."""
        return page(self.contents)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page.

        Raises:
            ValueError: The name is of another format.
        """
        if Path(path).suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"cannot write {path}: a report is a page, FILE.html")
        Path(path).write_text(self.to_html(), "utf-8")

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its styles and scripts stay in it."""
        source = html.escape(self.to_html(), quote=True)
        return f'<iframe sandbox="allow-scripts" style="width:100%;height:80vh;border:0" srcdoc="{source}"></iframe>'
