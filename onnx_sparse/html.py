"""HTML for notebooks and reports. Text from a model is untrusted: all of it is escaped here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape


def text(value: object) -> str:
    """A value as text of an HTML document, also within attributes. Control characters become visible."""
    plain = value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    shown = (c if c.isprintable() or c == "\n" else c.encode("unicode_escape", "surrogatepass").decode() for c in plain)
    return escape("".join(shown), quote=True)


def html_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, classes: Mapping[str, str] | None = None
) -> str:
    """A table.

    Args:
        columns: The names of the columns; one whose name starts with ">" is aligned to the right.
        rows: The cells.
        classes: CSS classes of cells by their text: `{"ok": "good"}`.
    """
    right = [column.startswith(">") for column in columns]
    # A header without a name is a cell to who hears the page.
    head = "".join(
        _cell("th" if name.lstrip(">") else "td", name.removeprefix(">"), to_right=r)
        for name, r in zip(columns, right, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(_cell('td', c, to_right=r, classes=classes) for c, r in zip(row, right, strict=True))}</tr>"
        for row in rows
    )
    return f'<div class="table" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(tag: str, value: object, *, to_right: bool, classes: Mapping[str, str] | None = None) -> str:
    style = ' style="text-align:right"' if to_right else ' style="text-align:left"'
    name = (classes or {}).get(str(value))
    return f"<{tag}{style}{f' class={chr(34)}{name}{chr(34)}' if name else ''}>{text(value)}</{tag}>"
