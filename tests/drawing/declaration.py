"""How a rule declares what it is tested with: functions that draw graphs around each of its anchors.

    @draws(WideComparison)
    def comparison(rng, op_type): ...

A function is given a random generator and one of the rule's anchors. It returns a node with its operands, `Drawn`, and
perhaps nodes before it: one that the rule matches, or nearly. What matters to the rule is drawn often: a divisor of -1,
NaN, sizes of 0 and 1, integers of more than 32 bits. The engine decides where each operand comes from, and in which
graph the node stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from support.drawn_nodes import Drawn, Rng

from onnx_sparse.converters.rewriting.rule import Rule

Generator = Callable[[Rng, str], Drawn]

#: What draws graphs for a rule and an anchor.
GENERATORS: dict[tuple[type[Rule[Any]], str], list[Generator]] = {}


def draws(rule: type[Rule[Any]], *anchors: str) -> Callable[[Generator], Generator]:
    """Declare that a function draws graphs for some anchors of a rule; for all when omitted.

    An anchor that is named is drawn even if the rule forgets it.
    """

    def declare(generator: Generator) -> Generator:
        for anchor in anchors or rule.anchors:
            GENERATORS.setdefault((rule, anchor), []).append(generator)
        return generator

    return declare


def unknown(rules: Collection[type[Rule[Any]]]) -> list[str]:
    """What functions draw for a rule that is no anchor of it, and for what is no rule."""
    return [
        f"{rule.__name__} of {anchor}" for rule, anchor in GENERATORS if rule not in rules or anchor not in rule.anchors
    ]


def pinned() -> frozenset[str]:
    """The rules that tests of their own pin down: `pytest.mark.pins("FirstRule", "SecondRule")`."""
    texts = (path.read_text("utf-8") for path in Path(__file__).parents[1].rglob("test_*.py"))
    marks = (mark for text in texts for mark in re.findall(r"^pytestmark = pytest\.mark\.pins\(([^)]*)\)", text, re.M))
    return frozenset(name for mark in marks for name in re.findall(r'"(\w+)"', mark))


def missing(rules: Collection[type[Rule[Any]]]) -> list[str]:
    """The anchors of rules that nothing draws, and no test of its own pins down."""
    elsewhere = pinned()
    return [
        f"{rule.__name__} of {anchor}"
        for rule in rules
        for anchor in sorted(rule.anchors)
        if (rule, anchor) not in GENERATORS and rule.__name__ not in elsewhere
    ]
