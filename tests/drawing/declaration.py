"""How a rule declares what it is tested with: functions that draw graphs around each of its anchors.

    @draws(WideComparison)
    def comparison(rng, op_type): ...

A function is given a random generator and one of the rule's anchors. It returns a node with its operands, `Drawn`, and
perhaps nodes before it: one that the rule matches, or nearly. What matters to the rule is drawn often: a divisor of -1,
NaN, sizes of 0 and 1, integers of more than 32 bits. The engine decides where each operand comes from, and in which
graph the node stands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from support.drawn_nodes import Drawn, Rng

from onnx_sparse.converters.rewriting.rule import Rule

Generator = Callable[[Rng, str], Drawn]

#: Rules whose graphs are drawn by a test of their own, or by models of their source that it runs on drawn inputs.
DRAWN_ELSEWHERE = {
    **dict.fromkeys(("ScatteredRows",), "test_fuse_scatters.py"),
    **dict.fromkeys(("BagsInLoop", "BagsInSequence", "LookupOfUniqueRows", "WeightedMeanOfRows"), "test_fuse_bags.py"),
    **dict.fromkeys(
        ("PaddedSegments", "SegmentCounts", "MeanOfFilledRows", "DefaultOfFilledRows"), "test_fuse_tf2onnx.py"
    ),
    **dict.fromkeys(("ZeroOfEmptyRows", "FilledRows"), "test_fuse_tf2onnx.py"),
    **dict.fromkeys(("ReshapedCoordinates",), "test_fuse_tf2onnx_reshape.py"),
    **dict.fromkeys(("DropNegative", "DirectLookup", "WeightedSum", "WeightedMean"), "test_tensorflow_rewriting.py"),
    **dict.fromkeys(("ReducedLookup", "DefaultRow", "ZeroRow", "WeightPerId"), "test_tensorflow_rewriting.py"),
    **dict.fromkeys(("UnsortedLookup", "LookupOfColumn"), "test_tensorflow_gathered_rows.py"),
    **dict.fromkeys(("RowsOfSplits", "ValidCoordinates", "ColumnOfCoordinates"), "test_ragged_lookups.py"),
    **dict.fromkeys(("ShapeOfCoordinates", "ElementOfShape", "RowsOfFilled", "BagsOfSplits"), "test_ragged_lookups.py"),
    **dict.fromkeys(("SumOfRows", "LengthsOfRows"), "test_ragged_lookups.py"),
    # Sources differ in what is right, and the walk over the ends of all types asks for each.
    **dict.fromkeys(("OneNaN", "EachNaN", "FarPlaces", "PoolOfNaN", "IntegerPower"), "../atlas/test_atlas.py"),
    **dict.fromkeys(("BackwardSliceToTheLargest", "BackwardSliceFromBefore"), "../atlas/test_atlas.py"),
}

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


def missing(rules: Collection[type[Rule[Any]]]) -> list[str]:
    """The anchors of rules that nothing draws."""
    return [
        f"{rule.__name__} of {anchor}"
        for rule in rules
        for anchor in sorted(rule.anchors)
        if (rule, anchor) not in GENERATORS and rule.__name__ not in DRAWN_ELSEWHERE
    ]
