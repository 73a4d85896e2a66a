"""A graph as it is drawn: nodes with what is said of them, edges, and the scopes by which it is folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

#: No more nodes of a source are drawn: a page would take too long.
MOST_NODES = 5_000
#: So many nodes and folded scopes are shown at first; readers unfold the rest.
_MOST_SHOWN = 30
#: Nodes and scopes of one scope beyond this are folded in parts, in their order.
_MOST_TOGETHER = 24
#: Names are cut to this length; models may have names of megabytes.
_LONGEST_NAME = 300
#: The scopes of a name beyond this depth are one.
_DEEPEST = 8


@dataclass(frozen=True)
class PictureNode:
    """A node.

    Attributes:
        label: Its operator, or the name of an input or output.
        name: Its name in the model.
        kind: `ours`, `other`, `input`, `output` or `constant`.
        scope: The names of the scopes that it is in, outermost first.
        details: What else is said of it: names and values.
    """

    label: str
    name: str
    kind: str = "other"
    scope: tuple[str, ...] = ()
    details: tuple[tuple[str, str], ...] = ()


@dataclass
class Picture:
    """A graph.

    Attributes:
        title: What it is a picture of.
        nodes: Its nodes, each after those that it reads where there is such an order.
        edges: From node to node, by position.
    """

    title: str
    nodes: list[PictureNode] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)

    def add(self, node: PictureNode, reads: Iterable[int] = ()) -> int:
        """Add a node and the edges from what it reads; returns its position."""
        self.nodes.append(node)
        position = len(self.nodes) - 1
        self.edges += [(source, position) for source in dict.fromkeys(reads)]
        return position

    @property
    def count(self) -> int:
        """How many nodes compute something."""
        return sum(node.kind in ("ours", "other") for node in self.nodes)

    def to_json(self) -> dict[str, Any]:
        """The picture as the page reads it, with its folded scopes; constants are details of what reads them."""
        shown = [position for position, node in enumerate(self.nodes) if node.kind != "constant"]
        place_of = {position: place for place, position in enumerate(shown)}
        nodes = [self.nodes[position] for position in shown]
        constants: dict[int, list[str]] = {}
        for source, reader in self.edges:
            if source not in place_of:
                constants.setdefault(reader, []).append(self.nodes[source].name)
        groups, held = _groups(nodes)
        _unfold(groups, held)
        return {
            "nodes": [
                {
                    "label": node.label[:_LONGEST_NAME],
                    "name": node.name[:_LONGEST_NAME],
                    "kind": node.kind,
                    "group": held[place],
                    "details": [
                        [key, value[:_LONGEST_NAME]]
                        for key, value in (*node.details, *(("constant", name) for name in constants.get(position, ())))
                    ],
                }
                for place, (position, node) in enumerate(zip(shown, nodes, strict=True))
            ],
            "edges": [
                [place_of[source], place_of[reader]]
                for source, reader in self.edges
                if source in place_of and reader in place_of
            ],
            "groups": [
                {"label": group.label, "parent": group.parent, "holds": group.holds, "open": group.is_open}
                for group in groups
            ],
        }


@dataclass
class _Group:
    """A scope that is drawn as one box while it is folded."""

    label: str
    parent: int
    holds: str = ""
    is_open: bool = False


#: The group of what is in none.
_ROOT = -1


def _groups(nodes: Sequence[PictureNode]) -> tuple[list[_Group], list[int]]:
    """The groups, and the group of each node. A scope of one node is none."""
    inside = Counter(node.scope[:depth] for node in nodes for depth in range(1, min(len(node.scope), _DEEPEST) + 1))
    groups: list[_Group] = []
    places: dict[tuple[str, ...], int] = {(): _ROOT}
    held: list[int] = []
    for node in nodes:
        place = _ROOT
        for depth in range(1, min(len(node.scope), _DEEPEST) + 1):
            scope = node.scope[:depth]
            if scope not in places:
                places[scope] = place
                # A scope that holds all of its parent would be a box in a box.
                if inside[scope] > 1 and (depth == 1 or inside[scope] < inside[scope[:-1]]):
                    groups.append(_Group("/".join(scope)[-_LONGEST_NAME:], place))
                    places[scope] = len(groups) - 1
            place = places[scope]
        held.append(place)
    _split(groups, held)
    operators = [Counter[str]() for _ in groups]
    for node, place in zip(nodes, held, strict=True):
        while place != _ROOT:
            operators[place][node.label] += 1
            place = groups[place].parent
    for group, counts in zip(groups, operators, strict=True):
        common = [f"{name} x{count}" if count > 1 else name for name, count in counts.most_common(3)]
        group.holds = ", ".join(common) + (", ..." if len(counts) > 3 else "")
    return groups, held


def _split(groups: list[_Group], held: list[int]) -> None:
    """Fold what one scope has too much of in parts: neighbors, and parts of parts."""
    items: dict[int, dict[int, int]] = {}  # by scope; nodes are below 0
    for position, place in enumerate(held):
        items.setdefault(place, {})[-position - 1] = position
        while place != _ROOT:
            parent = groups[place].parent
            items.setdefault(parent, {}).setdefault(place, position)
            place = parent
    waiting = [(place, list(inside)) for place, inside in items.items()]
    while waiting:
        place, inside = waiting.pop()
        if len(inside) <= _MOST_TOGETHER:
            continue
        size = _MOST_TOGETHER
        while size * _MOST_TOGETHER < len(inside):
            size *= _MOST_TOGETHER
        for begin in range(0, len(inside), size):
            part = inside[begin : begin + size]
            groups.append(_Group(f"part {begin // size + 1} of {-(-len(inside) // size)} of a large scope", place))
            for item in part:
                if item < 0:
                    held[-item - 1] = len(groups) - 1
                else:
                    groups[item].parent = len(groups) - 1
            waiting.append((len(groups) - 1, part))


def _unfold(groups: Sequence[_Group], held: Sequence[int]) -> None:
    """Open the outer and smaller groups first, as long as the picture stays readable."""
    sizes = Counter(held)
    children: dict[int, list[int]] = {}
    for place, group in enumerate(groups):
        children.setdefault(group.parent, []).append(place)
    shown = sizes[_ROOT] + len(children.get(_ROOT, ()))
    waiting = list(children.get(_ROOT, ()))
    while waiting:
        place = min(waiting, key=lambda at: sizes[at] + len(children.get(at, ())))
        waiting.remove(place)
        shown += sizes[place] + len(children.get(place, ())) - 1
        if shown > _MOST_SHOWN:
            return
        groups[place].is_open = True
        waiting += children.get(place, ())
