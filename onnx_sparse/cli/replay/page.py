"""The page of a replay: one HTML file with the errors along the layers and the worst tensors first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_sparse.cli.replay.plot import plot
from onnx_sparse.files.new_file import new_file
from onnx_sparse.html import html_table, text
from onnx_sparse.reports.page import document

if TYPE_CHECKING:
    from onnx_sparse.converters.ascend.atb.replay_outcomes import Outcome, Replay

_CLASSES = {"DIFFERS": "bad", "FAILED": "bad", "ok": "good", "equal": "good"}
#: As many tensors are listed, and as many layers drawn: a page stays small and opens at once.
_MOST_TENSORS, _MOST_DRAWN = 2_000, 16
_WORST = ("FAILED", "DIFFERS", "not compared", "ok", "equal")


def write_page(path: Path, title: str, replays: Sequence[tuple[str, Replay]]) -> None:
    """Write the page.

    Args:
        path: The HTML file.
        title: What was replayed.
        replays: The label of each layer, and its replay.

    Raises:
        CommandError: It cannot be written.
    """
    counts = Counter(outcome.verdict for _, replayed in replays for outcome in replayed.outcomes)
    tiles = {"layers": str(len(replays)), **{name: str(counts[name]) for name in _WORST if counts[name]}}
    worst = sorted(replays, key=lambda entry: min(map(_rank, entry[1].outcomes), default=len(_WORST)))
    drawn = [(label, replayed.outcomes) for label, replayed in worst[:_MOST_DRAWN]]
    sections = [("Errors", f'<div class="table" tabindex="0">{plot(drawn)}</div>')] if drawn else []
    sections += [("Layers", _layers(worst)), ("Tensors", _tensors(worst))]
    sections += [("Notes", "".join(f"<p>{text(f'{label}: {note}')}</p>" for label, r in replays for note in r.notes))]
    page = document(f"Replay of {title}", "each operation on the tensors that the NPU gave it", tiles, sections)
    with new_file(path) as file:
        file.write(page.encode())


def _rank(outcome: Outcome) -> int:
    return _WORST.index(outcome.verdict)


def _layers(replays: Sequence[tuple[str, Replay]]) -> str:
    rows = []
    for label, replayed in replays:
        counts = Counter(outcome.verdict for outcome in replayed.outcomes)
        rows.append([label, *(counts[verdict] for verdict in _WORST)])
    return html_table(("layer", *(f">{verdict}" for verdict in _WORST)), rows)


def _tensors(replays: Sequence[tuple[str, Replay]]) -> str:
    """The tensors of operations, the worst verdicts first, and of equal ones only their number."""
    rows: list[tuple[int, list[object]]] = []
    equal = 0
    for label, replayed in replays:
        for outcome in replayed.outcomes:
            if outcome.verdict == "equal":
                equal += 1
                continue
            for c in outcome.comparisons:
                words = "; ".join(filter(None, (c.note, *(f"equals {w}" for w in outcome.resembles))))
                cells = [label, c.operation, c.tensor, c.dtype, "x".join(map(str, c.shape)), f"{c.max_abs:.3g}"]
                shown = "-" if c.cosine is None else f"{c.cosine:.6f}"
                rows.append((_WORST.index(c.verdict), [*cells, f"{c.max_rel:.3g}", shown, c.verdict, words]))
            if not outcome.comparisons:
                blank = [""] * 6
                rows.append((_rank(outcome), [label, outcome.operation, *blank, outcome.verdict, outcome.reason]))
    rows.sort(key=lambda row: row[0])
    left = len(rows) - _MOST_TENSORS
    columns = ("layer", "operation", "tensor", "type", "shape", ">max abs", ">max rel", ">cosine", "verdict", "note")
    table = html_table(columns, [cells for _, cells in rows[:_MOST_TENSORS]], classes=_CLASSES) if rows else ""
    more = f"<p>{left} more; see all with -o table.csv</p>" if left > 0 else ""
    return f"{table}{more}<p>{equal} operations are equal to the last bit.</p>"
