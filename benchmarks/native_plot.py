"""Draws what benchmarks/native.py measured: the others' times as multiples of the native kernel's, case by case."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from records import Line

#: Each peer's color, from a palette that color-blind readers can tell apart.
COLORS = {
    "numpy": "#0072b2",
    "torch": "#d55e00",
    "torch index_add": "#e69f00",
    "tensorflow": "#cc79a7",
    "openvino": "#56b4e9",
    "portable": "#009e73",
    "limit": "#999999",
}
_NAMES = {"portable": "function body", "limit": "copy of the bytes"}
_LABELS, _CHART, _ROW, _HEAD, _FOOT = 460, 520, 19, 66, 30
_TICKS = (0.1, 0.3, 1, 3, 10, 30, 100, 300)


def plot(lines: Sequence[Line]) -> str:
    """An SVG: a panel for each number of threads, a row for each case, a dot for each peer at its time / ours."""
    threads = sorted({line.threads for line in lines})
    panels, top = [], 40
    for number in threads:
        rows = [line for line in lines if line.threads == number]
        panels.append(_panel(rows, f"{number} thread{'s' if number > 1 else ''}", top))
        top += _HEAD + _ROW * len(rows) + _FOOT
    width = _LABELS + _CHART + 30
    legend = "".join(
        f'<circle cx="{20 + 130 * k}" cy="22" r="5" fill="{color}"/>'
        f'<text x="{30 + 130 * k}" y="26">{_NAMES.get(name, name)}</text>'
        for k, (name, color) in enumerate(COLORS.items())
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" '
        f'font-family="sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="white"/>{legend}{"".join(panels)}</svg>\n'
    )


def _panel(rows: Sequence[Line], title: str, top: int) -> str:
    height = _ROW * len(rows)
    parts = [
        f'<text x="10" y="{top + 20}" font-weight="bold">{title}: time / time of the native kernel '
        "(right of 1: the native kernel is faster)</text>"
    ]
    for tick in _TICKS:
        x, strength = _x(tick), "#444444" if tick == 1 else "#dddddd"
        parts.append(f'<text x="{x:.0f}" y="{top + _HEAD - 22}" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<path d="M{x:.1f} {top + _HEAD - 16}v{height + 6}" stroke="{strength}"/>')
    for k, row in enumerate(rows):
        y = top + _HEAD + _ROW * k
        native = row.seconds("native")
        parts.append(f'<text x="10" y="{y + 4}">{escape(row.case)}</text>')
        parts.append(f'<text x="{_LABELS - 8}" y="{y + 4}" text-anchor="end">{native * 1e3:.3g} ms</text>')
        for name, color in COLORS.items():
            if name in row.names:
                seconds = row.seconds(name)
                x, ratio = _x(seconds / native), f"{escape(name)} {seconds * 1e3:.3g} ms, {seconds / native:.2f}x"
                parts.append(f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{color}"><title>{ratio}</title></circle>')
    return "".join(parts)


def _x(ratio: float) -> float:
    """The horizontal position of a ratio, clipped to the ends of the axis."""
    low, high = math.log(_TICKS[0]), math.log(_TICKS[-1])
    share = (math.log(max(ratio, 1e-9)) - low) / (high - low)
    return _LABELS + 20 + min(max(share, 0.0), 1.0) * (_CHART - 20)
