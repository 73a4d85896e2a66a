"""Draws a benchmark as an SVG: rows per second and latency against the rows of a batch, on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from onnx_sparse.benchmarking.figures import Line
from onnx_sparse.html import text

_WIDTH, _HEIGHT, _LEFT, _GAP, _TOP, _BOTTOM = 320, 220, 64, 24, 62, 44
#: A palette that color-blind readers can tell apart, on white as on black; one for each contender.
_COLORS = ("#0072b2", "#d55e00", "#009e73")
#: One for each number of threads, from the most on.
_DASHES = ("", "6 4", "2 3", "8 3 2 3")
#: Round numbers between two powers of ten, finer and finer, and how many an axis has.
_STEPS = ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8), tuple(tenths / 10 for tenths in range(10, 100)))
_FEWEST_TICKS, _MOST_TICKS = 3, 10
_STYLE = (
    ".onnx-sparse-plot{color:#222;background:#fff;max-width:100%;height:auto}"
    "@media(prefers-color-scheme:dark){.onnx-sparse-plot{color:#ddd;background:#181a1b}}"
    ".onnx-sparse-plot text{font:12px sans-serif;fill:currentColor}"
    ".onnx-sparse-plot .grid{stroke:currentColor;opacity:.15}"
    ".onnx-sparse-plot .frame{stroke:currentColor;opacity:.6;fill:none}"
)


def plot(title: str, lines: Sequence[Line]) -> str:
    """The SVG, with a curve for each contender and number of threads. It has no requests and no scripts."""
    threads = sorted({line.threads for line in lines}, reverse=True)
    names = list(dict.fromkeys(line.contender for line in lines))
    curves = [
        (name, count, [line for line in lines if (line.contender, line.threads) == (name, count)])
        for name in names
        for count in threads
    ]

    def look(name: str, count: int) -> str:
        dashes = _DASHES[threads.index(count) % len(_DASHES)]
        color = _COLORS[names.index(name) % len(_COLORS)]
        return f'stroke="{color}"' + (f' stroke-dasharray="{dashes}"' if dashes else "")

    width = 2 * (_LEFT + _WIDTH + _GAP)
    per_row = 4
    legend = []
    for place, (name, count, _) in enumerate(curves):
        x, y = _LEFT + place % per_row * (width - _LEFT) // per_row, 16 + 18 * (place // per_row)
        label = text(f"{name}, {count} thread{'s' * (count > 1)}")
        legend.append(f'<path d="M{x} {y}h22" stroke-width="2.5" {look(name, count)}/>')
        legend.append(f'<text x="{x + 28}" y="{y + 4}">{label}</text>')
    top = _TOP + 18 * ((len(curves) - 1) // per_row)
    height = top + _HEIGHT + _BOTTOM
    panels = [
        _panel("rows per second", curves, look, lambda line: line.rows_per_second, _number, _LEFT, top),
        _panel("median latency", curves, look, lambda line: line.p50, _duration, 2 * _LEFT + _WIDTH + _GAP, top),
    ]
    return (
        f'<svg class="onnx-sparse-plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img"><title>{text(title)}</title>'
        f"<style>{_STYLE}</style>{''.join(legend)}{''.join(panels)}</svg>\n"
    )


def _panel(
    title: str,
    curves: Sequence[tuple[str, int, Sequence[Line]]],
    look: Callable[[str, int], str],
    value: Callable[[Line], float],
    label: Callable[[float], str],
    left: int,
    top: int,
) -> str:
    every = [line for _, _, lines in curves for line in lines]
    across = _Axis([line.rows for line in every], left, left + _WIDTH)
    up = _Axis([value(line) for line in every], top + _HEIGHT, top)
    parts = [
        f'<text x="{left}" y="{top - 10}" font-weight="bold">{title}</text>',
        f'<rect class="frame" x="{left}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}"/>',
        f'<text x="{left + _WIDTH // 2}" y="{top + _HEIGHT + 36}" text-anchor="middle">rows of a batch</text>',
    ]
    for rows in sorted({line.rows for line in every}):
        x = across.at(rows)
        parts.append(f'<path class="grid" d="M{x:.1f} {top}v{_HEIGHT}"/>')
        parts.append(f'<text x="{x:.1f}" y="{top + _HEIGHT + 18}" text-anchor="middle">{rows:,}</text>')
    for tick in up.ticks():
        y = up.at(tick)
        parts.append(f'<path class="grid" d="M{left} {y:.1f}h{_WIDTH}"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{label(tick)}</text>')
    for name, count, lines in curves:
        points = [(across.at(line.rows), up.at(value(line)), line) for line in lines]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
        parts.append(f'<polyline points="{joined}" fill="none" stroke-width="2.2" {look(name, count)}/>')
        for x, y, line in points:
            said = text(f"{name}, {count} threads, {line.rows:,} rows: {label(value(line))}")
            mark = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="currentColor"'
            parts.append(f"{mark}><title>{said}</title></circle>")
    return "".join(parts)


class _Axis:
    """A logarithmic axis from one position to another, with some room beyond the values."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        logs = [math.log10(value) for value in values]
        room = max(0.06 * (max(logs) - min(logs)), 0.05)
        self._low, self._high = min(logs) - room, max(logs) + room
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        """The position of a value."""
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)

    def ticks(self) -> list[float]:
        """Round numbers on the axis: powers of ten; within few of these, so much finer ones that there are some."""
        decades = range(math.floor(self._low), math.ceil(self._high) + 1)
        found: list[float] = []
        for steps in _STEPS[0 if self._high - self._low > 3 else 1 :]:
            every = [step * 10.0**decade for decade in decades for step in steps]
            found = [tick for tick in every if self._low <= math.log10(tick) <= self._high]
            if len(found) >= _FEWEST_TICKS:
                break
        return found[:: -(-len(found) // _MOST_TICKS)]


def _number(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def _duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.3g} µs"
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
