"""The output of the commands: errors, tables and JSON.

A command computes a plain value first and shows it afterwards, so that `--json` and the tables say the same. Text from
a model is untrusted: it passes through `errors.printable`, which escapes the terminal's control sequences.
"""

from __future__ import annotations

import json
import math
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, TextIO

from onnx_sparse.commands import Progress
from onnx_sparse.errors import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

DONE = 0

#: A table in a pipe is for grep: nothing in it is wrapped.
_PIPE_WIDTH = 10_000
#: Tables are at least this wide, and a narrower terminal breaks their lines: columns of a few letters are unreadable.
_NARROWEST = 72
#: Cells up to this long are never wrapped, and other columns never become narrower than this.
_SHORT, _LEAST = 16, 10
#: Columns of single words up to this long are never wrapped.
_LONG_WORD = 24
#: Names that are shortened keep this many characters.
_SHORTENED = 18
#: A command of so many seconds writes lines into a log. Quicker ones write none: their output may be mailed.
_QUIET_SECONDS = 5.0
#: A log has at most one line in so many seconds: stages may be short and many.
_LINE_SECONDS = 1.0
#: Prose is never wider than this.
PROSE_WIDTH = 100


class StdoutError(Exception):
    """The output of the command cannot be written."""


def json_value(value: Any) -> Any:
    """The value for JSON: NaN and the infinities, which JSON lacks, become strings, and numpy scalars numbers."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {printable(k): json_value(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(v) for v in value]
    return printable(value) if isinstance(value, bytes) else value


def write_json(document: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write the one JSON document of a command."""
    _write(json.dumps(json_value(document), indent=2, allow_nan=False) + "\n")


def write_line(text: str = "") -> None:
    """Write one line to stdout."""
    _write(text + "\n")


def write_error(text: str) -> None:
    """Write one line to stderr; when that fails, only the exit code is left to tell of the error."""
    with suppress(OSError):
        sys.stderr.write(text + "\n")


def flush() -> None:
    """Write what is still buffered for stdout.

    Raises:
        StdoutError: It cannot be written.
    """
    with _stdout() as stream:
        stream.flush()


def _write(text: str) -> None:
    with _stdout() as stream:
        stream.write(text)


@contextmanager
def _stdout() -> Iterator[TextIO]:
    try:
        yield sys.stdout
    except BrokenPipeError:  # not a failure: `main` ends quietly
        raise
    except OSError as error:
        raise StdoutError(f"cannot write to stdout: {error.strerror or error}") from error


def console(stream: TextIO, width: int | None = None) -> Console:
    """A console for a stream: colors on terminals only (rich honors NO_COLOR), nothing wrapped in pipes."""
    from rich.console import Console

    wide = None if stream.isatty() else _PIPE_WIDTH
    return Console(file=stream, width=width or wide, markup=False, highlight=False, emoji=False)


def show(*renderables: RenderableType, width: int | None = None) -> None:
    """Write tables and text to stdout.

    rich itself would end the process when the reader of a pipe is gone; written here, `main` catches the error.
    """
    target = console(sys.stdout, width)
    target.width = max(target.width, _NARROWEST)
    with _stdout(), target.capture() as captured:  # it flushes what was written before
        for renderable in renderables:
            target.print(renderable)
    _write("\n".join(line.rstrip() for line in captured.get().split("\n")))


def show_prose(markdown: str) -> None:
    """Write Markdown to stdout, at most `PROSE_WIDTH` wide."""
    from rich.markdown import Markdown

    own = console(sys.stdout).width
    show(Markdown(markdown), width=min(own, PROSE_WIDTH))


def heading(text: str) -> None:
    """Write the title of what follows."""
    from rich.text import Text

    show(Text(printable(text), style="bold"))


def paragraph(text: str) -> None:
    """Write text, wrapped on a terminal."""
    from rich.text import Text

    show(Text(printable(text)))


def labeled(label: str, text: object) -> None:
    """Write a line of a summary: a label, and text, which wraps next to it on a terminal."""
    first = f"  {label:<10}"
    line = first + printable(text)
    if sys.stdout.isatty():
        width = max(console(sys.stdout).width, _NARROWEST)
        line = textwrap.fill(
            line, width, subsequent_indent=" " * len(first), break_long_words=False, break_on_hyphens=False
        )
    write_line(line)


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    styles: Mapping[str, str] | None = None,
    paths: Sequence[str] = (),
) -> None:
    """Write a table.

    Columns of short cells are never wrapped, and the first one only where the table is wider than the terminal, which
    would break its lines. Then columns without text are left out.

    Args:
        columns: The names of the columns; one whose name starts with ">" is aligned to the right.
        rows: The cells.
        styles: Colors of cells by their text: `{"ok": "green"}`.
        paths: Columns of long names whose ends tell most; their beginnings are left out where the table is too wide.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    cells = [[printable(cell) for cell in row] for row in rows]
    for path in paths:
        _shorten(cells, columns.index(path), columns, max(console(sys.stdout).width, _NARROWEST))
    wide = max(console(sys.stdout).width, _NARROWEST)
    if any(len(row) > 1 for row in cells) and _natural_width(columns, cells) > wide:
        there = [at for at in range(len(columns)) if at == 0 or any(row[at] for row in cells)]
        columns, cells = [columns[at] for at in there], [[row[at] for at in there] for row in cells]
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="bold")
    least, longest = [], []
    for position, column in enumerate(columns):
        name = column.removeprefix(">")
        longest.append(max(map(len, (*name.split("\n"), *(row[position] for row in cells)))))
        word = max((len(word) for row in cells for word in row[position].split()), default=0)
        whole = position == 0 or longest[-1] <= _SHORT or name in paths or word == longest[-1] <= _LONG_WORD
        least.append(longest[-1] if whole else max(_LEAST, word))
    gaps = 2 * (len(columns) - 1)
    long = [at for at, most in enumerate(longest) if most > _SHORT]
    while sum(least) + gaps > wide and (at := max(long, key=least.__getitem__, default=0)) in long:
        if least[at] <= _LEAST:
            break
        least[at] -= 1
    needed = sum(least) + gaps
    width = max(console(sys.stdout).width, needed)
    room = width - needed
    for column, narrow, most in zip(columns, least, longest, strict=True):
        justify: Literal["left", "right"] = "right" if column.startswith(">") else "left"
        more = max(min(most - narrow, room), 0)
        room -= more
        made.add_column(
            column.removeprefix(">"), justify=justify, overflow="fold", no_wrap=narrow >= most, width=narrow + more
        )
    for row in cells:
        made.add_row(*(Text(cell, style=(styles or {}).get(cell, "")) for cell in row))
    show(made, width=width)


def _natural_width(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    """How wide a table is of which nothing is wrapped."""
    longest = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    return sum(longest) + 2 * (len(columns) - 1)


def _shorten(cells: list[list[str]], position: int, columns: Sequence[str], width: int) -> None:
    """Leave out the beginnings of a column's cells, as far as the table is wider than the console."""
    longest = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    room = max(width - (sum(longest) - longest[position] + 2 * (len(columns) - 1)), _SHORTENED)
    for row in cells:
        if len(row[position]) > room:
            row[position] = "\N{HORIZONTAL ELLIPSIS}" + row[position][1 - room :]


@contextmanager
def progress(first: str, tell: Progress | None = None, *, quiet: bool = False) -> Iterator[Progress]:
    """Show on stderr what is being done; the yielded function changes the text, and tells it to `tell`.

    On a terminal with its seconds; elsewhere, as in a log, a line for each stage of a command that takes some seconds.
    """
    with _shown(first, quiet=quiet) as show:

        def both(stage: str) -> None:
            if tell is not None:
                tell(stage)
            show(stage)

        yield both


@contextmanager
def _shown(first: str, *, quiet: bool) -> Iterator[Progress]:
    if quiet:
        yield lambda _stage: None
    elif sys.stderr.isatty():
        with console(sys.stderr).status(_Stage(first)) as status:
            yield lambda stage: status.update(_Stage(stage))
    else:
        lines = _StageLines()
        lines.begin(first)
        try:
            yield lines.begin
        finally:
            lines.end()


class _Stage:
    """What is being done, and for how long."""

    def __init__(self, text: str) -> None:
        self._text, self._begun = printable(text), time.monotonic()

    def __rich__(self) -> str:
        return f"{self._text} ... {time.monotonic() - self._begun:.0f} s"


class _StageLines:
    """A line for each stage, once the command has taken some seconds."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._next_line = self._begun + _QUIET_SECONDS
        self._timer: threading.Timer | None = None

    def begin(self, stage: str) -> None:
        """A stage begins, and the one before it ends."""
        self.end()
        self._timer = threading.Timer(max(self._next_line - time.monotonic(), 0), self._write, [printable(stage)])
        self._timer.daemon = True
        self._timer.start()

    def _write(self, stage: str) -> None:
        now = time.monotonic()
        self._next_line = now + _LINE_SECONDS
        write_error(f"onnx-sparse: {stage} ... (after {now - self._begun:.0f} s)")

    def end(self) -> None:
        """The last stage ends."""
        if self._timer is not None:
            self._timer.cancel()
