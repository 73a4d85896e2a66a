"""Draws what benchmarks/scaling.py measured: time against each size, on logarithmic axes, beside the limit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from records import Line

_WIDTH, _HEIGHT, _LEFT, _GAP, _HEAD = 400, 260, 62, 56, 70
#: The colors of numbers of threads and of what is compared, from a palette that color-blind readers can tell apart.
_THREADS = ("#0072b2", "#d55e00", "#cc79a7", "#e69f00")
_OTHERS = {"limit": ("#999999", "copy of the bytes"), "gather": ("#009e73", "numpy reads the rows")}
_AXES = {"ids": "ids", "segments": "segments", "width": "columns of a row", "table": "rows of the table"}


def plot(lines: Sequence[Line]) -> str:
    """An SVG: a panel for each size that is varied; in it lines for each number of threads and each contender."""
    threads = sorted({line.threads for line in lines})
    varied = list(dict.fromkeys(line.facts["varied"] for line in lines))
    panels = []
    for place, name in enumerate(varied):
        left = _LEFT + (place % 2) * (_WIDTH + _GAP + _LEFT)
        top = _HEAD + (place // 2) * (_HEIGHT + _GAP + 30)
        panels.append(_panel([line for line in lines if line.facts["varied"] == name], name, threads, left, top))
    width = 2 * (_WIDTH + _LEFT + _GAP)
    height = _HEAD + (len(varied) + 1) // 2 * (_HEIGHT + _GAP + 30)
    pairs = list(zip(threads, _THREADS, strict=False))
    labels = [(color, f"{number} thread{'s' * (number > 1)}") for number, color in pairs]
    legend = "".join(
        f'<path d="M{_LEFT + 190 * k} 26h24" stroke="{color}" stroke-width="2.5"/>'
        f'<text x="{_LEFT + 190 * k + 30}" y="30">{label}</text>'
        for k, (color, label) in enumerate([*labels, *_OTHERS.values()])
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="white"/>{legend}{"".join(panels)}</svg>\n'
    )


def _panel(lines: Sequence[Line], name: str, threads: Sequence[int], left: int, top: int) -> str:
    values = sorted({line.facts["value"] for line in lines})
    times = [line.seconds(contender) for line in lines for contender in line.names]
    across = _Axis(values[0], values[-1], left, left + _WIDTH)
    up = _Axis(min(times), max(times), top + _HEIGHT, top)
    parts = [
        f'<text x="{left}" y="{top - 12}" font-weight="bold">time against {_AXES[name]}</text>',
        f'<rect x="{left}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#444444"/>',
    ]
    for decade in across.decades():
        x = across.at(decade)
        parts.append(f'<path d="M{x:.1f} {top}v{_HEIGHT}" stroke="#dddddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{top + _HEIGHT + 16}" text-anchor="middle">{decade:,.0f}</text>')
    for decade in up.decades():
        y = up.at(decade)
        parts.append(f'<path d="M{left} {y:.1f}h{_WIDTH}" stroke="#dddddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{_duration(decade)}</text>')
    drawn = [(number, "native", color) for number, color in zip(threads, _THREADS, strict=False)]
    drawn += [(threads[0], other, color) for other, (color, _) in _OTHERS.items()]
    for number, contender, color in drawn:
        points = [
            f"{across.at(line.facts['value']):.1f},{up.at(line.seconds(contender)):.1f}"
            for line in lines
            if line.threads == number
        ]
        dashes = "" if contender == "native" else ' stroke-dasharray="5 4"'
        path = f'<polyline points="{" ".join(points)}" fill="none" stroke="{color}" stroke-width="2.2"{dashes}/>'
        parts.append(path)
    return "".join(parts)


class _Axis:
    """A logarithmic axis from one position to another."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low, self._high = math.log10(low), math.log10(high)
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        """The position of a value."""
        share = (math.log10(value) - self._low) / max(self._high - self._low, 1e-9)
        return self._start + share * (self._end - self._start)

    def decades(self) -> list[float]:
        """The powers of ten on the axis."""
        return [10.0**n for n in range(math.ceil(self._low - 1e-9), math.floor(self._high + 1e-9) + 1)]


def _duration(seconds: float) -> str:
    return f"{1e6 * seconds:g} us" if seconds < 1e-3 else f"{1e3 * seconds:g} ms"
