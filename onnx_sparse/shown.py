"""Objects that people hold: one line at a prompt, text when printed, tables in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from onnx_sparse.html import html_table, text

#: The names of columns, of which ">" begins those that are aligned to the right, and the rows.
Table: TypeAlias = tuple[Sequence[str], Sequence[Sequence[object]]]


class Shown:
    """What has a title and tables. A prompt shows `<Kind title>`."""

    @property
    def _title(self) -> str:
        """What it is, in one line."""
        raise NotImplementedError

    def _tables(self) -> Sequence[Table]:
        return ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._title}>"

    def __str__(self) -> str:
        return "\n".join(filter(None, [self._title, *(text_table(*table) for table in self._tables())]))

    def _repr_html_(self) -> str:
        tables = (html_table(columns, rows) for columns, rows in self._tables() if rows)
        return f"<p>{text(self._title)}</p>{''.join(tables)}"


def text_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table with aligned columns; empty without rows."""
    if not rows:
        return ""
    right = [column.startswith(">") for column in columns]
    cells = [[column.removeprefix(">") for column in columns], *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)).rstrip()
        for row in cells
    )
