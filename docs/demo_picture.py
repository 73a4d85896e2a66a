"""The picture of the README: the demo's model in TensorFlow, in standard ONNX and with our operators, as an SVG.

The reports of `onnx-sparse` lay out graphs of any size in a browser. This layout is for small ones, and needs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from onnx_sparse.cli import demo
from onnx_sparse.converters import tensorflow
from onnx_sparse.converters.tensorflow.road import ROAD
from onnx_sparse.html import text
from onnx_sparse.models.forms import function_bodies
from onnx_sparse.pictures import Picture
from onnx_sparse.reports.model_picture import model_picture
from onnx_sparse.reports.source_picture import source_picture

_CHARACTER, _PADDING, _HEIGHT, _GAP, _RANK, _MARGIN, _TITLE, _PORT = 7, 12, 28, 18, 30, 14, 44, 24
_TITLE_CHARACTER = 8.5
_STYLE = """
  .head { font: 600 15px sans-serif; } .label { font: 12px sans-serif; } text { fill: #1f2328; }
  .edge { fill: none; stroke: #59636e; } .arrow { fill: #59636e; }
  .other rect { fill: #ffffff; stroke: #59636e; } .input rect, .output rect { fill: #f6f8fa; stroke: #59636e; }
  .ours rect { fill: #ddebfb; stroke: #0a61b4; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; } .edge { stroke: #9198a1; } .arrow { fill: #9198a1; }
    .other rect { fill: #212830; stroke: #9198a1; } .input rect, .output rect { fill: #151b23; stroke: #9198a1; }
    .ours rect { fill: #12345a; stroke: #58a6ff; }
  }
"""


def demo_picture() -> str:
    """The SVG."""
    saved_model = Path(demo.__file__).parent / "demo_saved_model"
    source = tensorflow.load(saved_model)
    before = source_picture(ROAD, source, "TensorFlow")
    assert before is not None
    model = tensorflow.convert(source)
    plain = model_picture(function_bodies.lower(model), "")
    count = sum(node.kind not in ("constant", "input", "output") for node in plain.nodes)
    plain = replace(plain, title=f"Standard ONNX: {count} nodes")
    pictures = [_drawn(picture) for picture in (before, plain, model_picture(model, "ONNX with onnx_sparse"))]
    parts, left, tallest = [], float(_MARGIN), max(pictures[0].height, pictures[2].height)
    for drawn in pictures:
        scale = min(1.0, (tallest - _TITLE) / (drawn.height - _TITLE))  # its many nodes need no names to be many
        width = max(drawn.width * scale, _TITLE_CHARACTER * len(drawn.title))
        inner = f"translate({(width - drawn.width * scale) / 2:.0f} {_TITLE * (1 - scale):.0f}) scale({scale:.3f})"
        parts.append(
            f'<g transform="translate({left:.0f} 0)">'
            f'<text class="head" x="{width / 2:.0f}" y="22" text-anchor="middle">{text(drawn.title)}</text>\n'
            f'<g transform="{inner}">\n{drawn.elements}</g></g>'
        )
        left += width + 3 * _GAP
    width, height = left - 3 * _GAP + _MARGIN, tallest + _MARGIN
    title = "The demo's model in TensorFlow, in standard ONNX and in ONNX with onnx_sparse"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img">\n<title>{title}</title>\n<style>{_STYLE}</style>\n'
        '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="arrow" d="M0 0L8 4L0 8z"/></marker>\n' + "\n".join(parts) + "\n</svg>\n"
    )


@dataclass(eq=False)
class _Box:
    """A node, or the place where an edge passes through a rank.

    Attributes:
        label: What is written in it; empty in a place of an edge.
        kind: The kind of the node.
        rank: Its row.
        x: The position of its middle.
        above, below: The neighbors in the ranks above and below.
    """

    label: str
    kind: str
    rank: int
    x: float = 0.0
    above: list[_Box] = field(default_factory=list, repr=False)
    below: list[_Box] = field(default_factory=list, repr=False)

    @property
    def width(self) -> float:
        return len(self.label) * _CHARACTER + 2 * _PADDING if self.label else 0

    @property
    def top(self) -> float:
        return _TITLE + self.rank * (_HEIGHT + _RANK)


@dataclass(frozen=True)
class _Drawn:
    """The elements of a picture, and the size that they take."""

    title: str
    elements: str
    width: float
    height: float


def _drawn(picture: Picture) -> _Drawn:
    boxes, paths = _placed(picture)
    left = min(box.x - box.width / 2 for box in boxes)
    for box in boxes:
        box.x -= left
    lines = []
    for path in paths:
        begin, end = _port(path[0], path[0].below, path[1]), _port(path[-1], path[-1].above, path[-2])
        points = [f"{begin:.0f} {path[0].top + _HEIGHT:.0f}"]
        for place in path[1:-1]:
            points += [f"{place.x:.0f} {place.top:.0f}", f"{place.x:.0f} {place.top + _HEIGHT:.0f}"]
        points.append(f"{end:.0f} {path[-1].top - 1:.0f}")
        lines.append(f'<path class="edge" d="M{"L".join(points)}" marker-end="url(#arrow)"/>')
    for box in boxes:
        if not box.label:
            continue
        radius = _HEIGHT / 2 if box.kind in ("input", "output") else 5
        lines.append(
            f'<g class="{box.kind}"><rect x="{box.x - box.width / 2:.0f}" y="{box.top:.0f}" width="{box.width:.0f}" '
            f'height="{_HEIGHT}" rx="{radius:.0f}"/><text class="label" x="{box.x:.0f}" y="{box.top + 18:.0f}" '
            f'text-anchor="middle">{text(box.label)}</text></g>'
        )
    width = max(box.x + box.width / 2 for box in boxes)
    return _Drawn(picture.title, "\n".join(lines), width, max(box.top for box in boxes) + _HEIGHT)


def _port(box: _Box, neighbors: Sequence[_Box], other: _Box) -> float:
    """Where an edge meets a box. The edges of a side stand apart, in the order of the neighbors."""
    place = sorted(neighbors, key=lambda neighbor: neighbor.x).index(other)
    return box.x + min(_PORT, box.width / (len(neighbors) + 1)) * (place - (len(neighbors) - 1) / 2)


def _placed(picture: Picture) -> tuple[list[_Box], list[list[_Box]]]:
    """The boxes at their places, and the boxes that each edge passes, from its beginning to its end."""
    nodes = picture.nodes
    edges = [(a, b) for a, b in picture.edges if nodes[a].kind != "constant"]
    rank = [0] * len(nodes)
    for _ in nodes:  # until nothing changes: edges lead down
        for a, b in edges:
            rank[b] = max(rank[b], rank[a] + 1)
    for a in range(len(nodes)):  # what reads nothing comes right before its first reader
        readers = [rank[b] for start, b in edges if start == a]
        if readers and not any(end == a for _, end in edges):
            rank[a] = min(readers) - 1
    real = {n: _Box(node.label, node.kind, rank[n]) for n, node in enumerate(nodes) if node.kind != "constant"}
    boxes, paths = list(real.values()), []
    for a, b in edges:
        path = [real[a], *(_Box("", "", at) for at in range(rank[a] + 1, rank[b])), real[b]]
        for upper, lower in pairwise(path):
            upper.below.append(lower)
            lower.above.append(upper)
        boxes += path[1:-1]
        paths.append(path)
    ranks = [[box for box in boxes if box.rank == at] for at in range(max(rank) + 1)]
    for row in ranks:
        _spread(row, [0.0] * len(row))
    for sweep in range(24):  # each row follows the rows above, then below; the rows change their order early on
        down = sweep % 2 == 0
        for row in ranks if down else reversed(ranks):
            wanted = [_middle(box, box.above if down else box.below) for box in row]
            if sweep < 8:
                order = sorted(range(len(row)), key=wanted.__getitem__)
                row[:], wanted = [row[at] for at in order], [wanted[at] for at in order]
            _spread(row, wanted)
    return boxes, paths


def _middle(box: _Box, neighbors: Sequence[_Box]) -> float:
    return sum(n.x for n in neighbors) / len(neighbors) if neighbors else box.x


def _spread(row: Sequence[_Box], wanted: Sequence[float]) -> None:
    """Place the boxes of a row near their wanted places, in their order and without overlaps."""
    right = float("-inf")
    for box, x in zip(row, wanted, strict=True):
        box.x = max(x, right + _GAP + box.width / 2)
        right = box.x + box.width / 2
    shift = sum(box.x - x for box, x in zip(row, wanted, strict=True)) / len(row)
    for box in row:
        box.x -= shift
