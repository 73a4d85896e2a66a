"""Ids that a source refuses when they are negative, where ONNX counts them from the end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto

from onnx_sparse.converters.rewriting.engine import rewrite_once
from onnx_sparse.converters.rewriting.explanation import Attempt
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.keyed_lookups import least_found
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.models.graphs import attribute
from onnx_sparse.models.key_lookups import LOOKUPS
from onnx_sparse.schemas.declaration import INDEX

_LIMITS: dict[int, int] = {TensorProto.INT32: np.iinfo(np.int32).min, TensorProto.INT64: np.iinfo(np.int64).min}

#: Operators whose results are not negative, whatever they are given; of some, all results but the first.
_NOT_NEGATIVE = (
    "Shape",
    "Size",
    "NonZero",
    "ArgMax",
    "ArgMin",
    "Abs",
    "Relu",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
)
_POSITIONS = ("TopK", "Unique")

#: Operators whose results are elements of their first input.
_MOVES = frozenset(
    [
        *("Identity", "Reshape", "Squeeze", "Unsqueeze", "Slice", "Gather", "GatherElements", "GatherND", "Transpose"),
        *("Expand", "Tile", "Flatten", "Compress", "Split", "ReduceMax", "ReduceMin", "CumSum", "ReduceSum", "Cast"),
    ]
)

#: Operators that compute ids of others.
_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Mod", "Neg", "Max", "Min", "Where")

#: Operators of numbers that are not negative whose results are not, either.
_CLOSED = ("Add", "Mul", "Div", "Min", "Concat", "Mod")


def is_lookup(node: NodeProto) -> bool:
    """Whether a node looks up elements of a tensor."""
    return node.op_type.startswith("Gather")


def refuse_negative_ids(
    model: ModelProto, refuses: Callable[[NodeProto], bool] = is_lookup, *, only_given: bool = False
) -> list[Attempt]:
    """Let lookups refuse negative ids, in place.

    `benchmarks/checked_ids.py` measures what that costs.

    Args:
        model: A model whose types have been inferred.
        refuses: Whether the source of a node refuses negative ids.
        only_given: Whether only ids are checked that are elements of an input or of a lookup table, or made of these
            and constants, and no scalars: a converter may count from the end itself.

    Returns:
        The lookups that were changed.
    """
    return rewrite_once(model, [[CheckedIds(refuses, only_given=only_given)]])


class CheckedIds(Rule[Graph]):
    """A lookup whose ids may be negative is given the lowest integer in their place, which is out of range.

    A single BitwiseAnd would take half the time, but there is none that lets no id pass for another.

    Args:
        refuses: Whether the source of a node refuses negative ids.
        only_given: Whether ids that are computed are left alone.
    """

    name = "checked-ids"
    anchors = ("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND")

    def __init__(self, refuses: Callable[[NodeProto], bool], *, only_given: bool = False) -> None:
        self._refuses, self._only_given = refuses, only_given

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """Ids of which some may be negative, in an operator whose source refuses them."""
        ids = node.input[1]
        is_known = graph.dtype(ids) not in INDEX or not_negative(graph, ids)
        if is_known or not self._refuses(node) or (self._only_given and not _are_given(graph, ids)):
            return None
        return {}

    def rewrite(self, graph: Graph, node: NodeProto) -> None:
        """Put an id that is out of range in place of each that is negative."""
        emit, ids = graph.emitter(node), graph.tensor(node.input[1])
        negative = emit.op("Less", ids, emit.like(0, ids), shape=ids.shape)
        lowest = emit.constant(np.array(_LIMITS[ids.dtype]), ids.dtype)
        checked = emit.op("Where", negative, lowest, ids, shape=ids.shape)
        graph.set_input(node, 1, checked.name)


def not_negative(graph: Graph, name: str, depth: int = 12) -> bool:
    """Whether integers are known not to be negative."""
    value = graph.constant(name)
    if value is not None:
        return bool((value >= 0).all())
    node = graph.producer(name)
    if node is None or depth == 0:
        return False
    if node.op_type in (*LOOKUPS, "Add") and (least := least_found(graph, name)) is not None:
        return least >= 0
    if node.op_type in _POSITIONS and name != node.output[0]:
        return True
    if node.op_type == "Cast" and graph.dtype(node.input[0]) in (TensorProto.BOOL, TensorProto.UINT8):
        return True
    if node.op_type in _NOT_NEGATIVE:
        return True

    def each(*names: str) -> bool:
        return all(not_negative(graph, given, depth - 1) for given in names)

    if node.op_type in _MOVES:
        return each(node.input[0])
    if node.op_type == "Range":
        return each(node.input[0], node.input[2])
    if node.op_type == "Where":
        return each(*node.input[1:]) or _replaces_negative(graph, node)
    if node.op_type in ("Max", "BitwiseAnd"):
        return any(each(given) for given in node.input)
    if node.op_type == "Clip":
        return len(node.input) > 1 and bool(node.input[1]) and each(node.input[1])
    if node.op_type == "Mod" and not attribute(node, "fmod", 0):
        return each(node.input[1])
    return node.op_type in _CLOSED and each(*node.input)


def _are_given(graph: Graph, name: str) -> bool:
    """Whether ids, no scalar, are elements of an input or of a lookup table, or made of these and constants."""
    return graph.rank(name) != 0 and _is_given(graph, name)


def _is_given(graph: Graph, name: str) -> bool:
    node = graph.producer(name)
    while node is not None and node.op_type in _MOVES and node.input:
        name = node.input[0]
        node = graph.producer(name)
    if node is None or node.op_type not in _ARITHMETIC:
        return graph.constant(name) is None and (node is None or node.op_type in LOOKUPS)
    taken = node.input[1:] if node.op_type == "Where" else node.input
    computed = [operand for operand in taken if graph.constant(operand) is None]
    return bool(computed) and all(_is_given(graph, operand) for operand in computed)


def _replaces_negative(graph: Graph, where: NodeProto) -> bool:
    """Whether a Where puts other numbers in place of those that are negative, sizes or what is counted from the end."""
    test = graph.producer(where.input[0], "Less")
    return test is not None and test.input[0] == where.input[2] and graph.uniform(test.input[1]) == 0
