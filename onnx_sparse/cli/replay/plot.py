"""Draws the error of each operation along a layer, as an SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_sparse.files.new_file import new_file

if TYPE_CHECKING:
    from onnx_sparse.converters.ascend.atb.replay_outcomes import Outcome

_HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 420, 64, 16, 40, 170
_STEP = 22
_NARROWEST = 480
#: The errors that the axis shows, in powers of ten of the tolerance.
_LOWEST, _HIGHEST = -4, 4
_COLORS = {"equal": "#2a7f3f", "ok": "#2a7f3f", "DIFFERS": "#c62828", "FAILED": "#c62828", "not compared": "#999999"}
_STYLE = "text{font:11px sans-serif;fill:#333}.t{font-size:14px;font-weight:bold}polyline{fill:none;stroke:#7a97b5}"


def write_plot(path: Path, layers: Sequence[tuple[str, Sequence[Outcome]]]) -> None:
    """Write the plot; a file that is there is replaced only by a whole one.

    Args:
        path: The SVG file.
        layers: The label of each layer, and what became of its operations.

    Raises:
        CommandError: The file cannot be written.
    """
    with new_file(path) as file:
        file.write(plot(layers).encode())


def plot(layers: Sequence[tuple[str, Sequence[Outcome]]]) -> str:
    """The SVG: one line for each layer; a point's height is the largest error relative to the tolerance."""
    longest = max((outcomes for _, outcomes in layers), key=len, default=())
    width = max(_NARROWEST, _LEFT + _RIGHT + _STEP * len(longest))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT}" viewBox="0 0 {width} {_HEIGHT}">',
        f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="white"/>',
        f'<text class="t" x="{_LEFT}" y="22">Largest error by operation, relative to the tolerance</text>',
    ]
    for power in range(_LOWEST, _HIGHEST + 1):
        y = _height(10.0**power)
        color = "#c62828" if power == 0 else "#e5e5e5"
        label = "equal" if power == _LOWEST else f"1e{power}" if power else "tolerance"
        parts.append(f'<line x1="{_LEFT}" x2="{width - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{color}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for position, outcome in enumerate(longest):
        x, y = _x(position), _HEIGHT - _BOTTOM + 14
        name = escape(outcome.operation if len(layers) == 1 else outcome.op_type.removesuffix("Operation"))
        parts.append(f'<text x="{x}" y="{y}" transform="rotate(60 {x} {y})">{name}</text>')
    for label, outcomes in layers:
        points = [(_x(i), _height(o.excess), o) for i, o in enumerate(outcomes)]
        line = " ".join(f"{x},{y:.1f}" for x, y, o in points if not math.isnan(o.excess))
        parts.append(f'<polyline points="{line}"/>')
        for x, y, outcome in points:
            text = f"{label}: {outcome.operation}: {outcome.verdict}"
            text += "" if math.isnan(outcome.excess) else f", {outcome.excess:.3g} of the tolerance"
            text += f": {outcome.reason}" if outcome.reason else ""
            color = _COLORS[outcome.verdict]
            parts.append(f'<circle cx="{x}" cy="{y:.1f}" r="3.5" fill="{color}"><title>{escape(text)}</title></circle>')
    return "\n".join([*parts, "</svg>\n"])


def _x(position: int) -> int:
    return _LEFT + _STEP // 2 + _STEP * position


def _height(excess: float) -> float:
    """The vertical position of an error; what is not compared is below the axis."""
    bottom, top = _HEIGHT - _BOTTOM, _TOP
    if math.isnan(excess):
        return bottom + 6
    power = math.log10(min(max(excess, 10.0**_LOWEST), 10.0**_HIGHEST))
    return bottom - (bottom - top) * (power - _LOWEST) / (_HIGHEST - _LOWEST)
