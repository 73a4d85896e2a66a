"""Fusing the loops over bags that torch's exporters write for EmbeddingBag."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fused_models import Pair

pytestmark = pytest.mark.pins("BagsInLoop", "BagsInSequence", "LookupOfUniqueRows", "WeightedMeanOfRows")

_HEAD = """
    <ir_version: 8, opset_import: ["" : OPSET]>
    g (int64[k] ids, int64[b] offsets, float[k] weights) => (float[n, 3] output)
    <float[5, 3] table = {1, 2, 3, -4, -5, -6, 7, 8, 9, -1, 0, 1, 2, -2, 2},
     int64[1] axis0 = {0}, int64[1] axis1 = {1}, int64[1] last = {-1}, int64 zero = {0}, int64 one = {1},
     int64 two = {2}, int64[1] far = {9223372036854775807}, bool yes = {1}>"""


def looped(kind: str, *, opset: int = 18, weighted: bool = False, has_end: bool = False) -> str:
    """The loop of the exporter with dynamo=False: its results are its output."""
    axes, attribute = (", first", "") if opset >= 18 or kind == "Sum" else ("", "axes = [0], ")
    weigh = """part = Slice (weights, start, end, axis0)
        column = Unsqueeze (part, axis1)
        rows = Mul (looked, column)"""
    return f"""{_HEAD.replace("OPSET", str(opset))}
    {{
      size = Shape (ids)
      entries = Gather (size, zero)
      end_of_all = Unsqueeze (entries, axis0)
      bounds = {"Identity (offsets)" if has_end else "Concat <axis = 0> (offsets, end_of_all)"}
      ends = Slice ({"offsets" if has_end else "bounds"}, axis1, far, axis0, axis1)
      sizes = Shape (ends)
      bags = Gather (sizes, zero)
      output = Loop (bags, yes) <body = body (int64 i, bool c) => (bool again, float[d] result) {{
        first = Constant <value_ints = [0]> ()
        starts_at = Gather ({"offsets" if has_end else "bounds"}, i)
        ends_at = Gather (ends, i)
        start = Unsqueeze (starts_at, first)
        end = Unsqueeze (ends_at, first)
        picked = Slice (ids, start, end, axis0)
        looked = Gather (table, picked)
        {weigh if weighted else "rows = Identity (looked)"}
        result = Reduce{kind} <{attribute}keepdims = 0> (rows{axes})
        again = Cast <to = 9> (yes)
      }}>
    }}"""


_BAGS = {
    "Sum": "of_bag = ReduceSum (rows, axis0)",
    "Mean": """at_end = Sub (bags, one)
        is_last = Equal (k, at_end)
        of_bag = If (is_last) <then_branch = last_one () => (float[1, d] of_last) {
          total = ReduceSum (rows, axis0)
          all_ids = Shape <start = 0, end = 1> (ids)
          left = Sub (all_ids, start)
          zero_left = CastLike (zero, left)
          is_some = Greater (left, zero_left)
          of_last = If (is_some) <then_branch = some () => (float[1, d] mean) {
            float_left = Cast <to = 1> (left)
            mean = Div (total, float_left)
          }, else_branch = none () => (float[1, d] same) { same = Identity (total) }>
        }, else_branch = other () => (float[1, d] of_other) { of_other = ReduceMean (rows, axis0) }>""",
    "Max": """at_end = Sub (bags, one)
        is_last = Equal (k, at_end)
        compared = If (is_last) <then_branch = last_one () => (float[r, d] of_last) {
          of_last = Slice (weighted, start, size)
        }, else_branch = other () => (float[r, d] of_other) { of_other = Slice (weighted, start, end) }>
        of_bag = ReduceMax (compared, axis0)""",
}


def sequenced(
    kind: str, *, weighted: bool = False, has_end: bool = False, step: str = "one", reverse: bool = False
) -> str:
    """The loop of the exporter with dynamo=True: it adds each result to a sequence."""
    carried_values = [["number", "zero", "int64 k", "int64 next"]]
    carried_values.append(["results", "none", "seq(float[q, d]) so_far", "seq(float[q, d]) longer"])
    columns = zip(*reversed(carried_values) if reverse else carried_values, strict=True)
    made, carried, given_values, next_values = map(", ".join, columns)
    bags, bounds = ("bags", "offsets") if has_end else ("count", "joined")
    inner = _BAGS[kind] if kind == "Max" else f"rows = Slice (weighted, start, end)\n {_BAGS[kind]}"
    inner = inner.replace("(bags,", f"({bags},")
    return f"""{_HEAD.replace("OPSET", "18")}
    {{
      flat = Reshape (ids, last)
      size = Shape (flat)
      looked = Gather (table, flat)
      ones = ConstantOfShape <value = float[1] {{1}}> (size)
      column = Unsqueeze ({"weights" if weighted else "ones"}, axis1)
      weighted = Mul (looked, column)
      count = Size (offsets)
      {"bags = Sub (count, one)" if has_end else "joined = Concat <axis = 0> (offsets, size)"}
      none = SequenceEmpty ()
      goes = Less (zero, {bags})
      {made} = Loop (, goes, {carried}) <body = body (int64 i, bool c, {given_values}) => (bool again, {next_values}) {{
        place = Reshape (k, last)
        step = CastLike (one, place)
        place_after = Add (place, step)
        start = Slice ({bounds}, place, place_after)
        second = CastLike (two, place)
        place_then = Add (place, second)
        end = Slice ({bounds}, place_after, place_then)
        is_empty = Equal (start, end)
        result = If (is_empty) <then_branch = empty () => (float[1, 3] zeros) {{
          zeros = Constant <value = float[1, 3] {{0, 0, 0}}> ()
        }}, else_branch = full () => (float[1, d] of_bag) {{
          {inner}
        }}>
        longer = SequenceInsert (so_far, result)
        next = Add (k, {step})
        again = Less (next, {bags})
      }}>
      output = ConcatFromSequence <axis = 0> (results)
    }}"""


@functools.cache
def pair(text: str) -> Pair:
    return Pair.of(text)


@st.composite
def bags(draw: st.DrawFn, *, with_end: bool = False) -> dict[str, np.ndarray]:
    """Bags of ids, some of which are empty; a negative id counts from the end of the table."""
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    total = sum(sizes)
    ids = draw(st.lists(st.integers(-5, 4), min_size=total, max_size=total))
    weights = draw(st.lists(st.integers(-2, 2), min_size=total, max_size=total))
    bounds = np.cumsum([0, *sizes], dtype=np.int64)
    return {
        "ids": np.array(ids, np.int64),
        "offsets": bounds if with_end else bounds[:-1],
        "weights": np.array(weights, np.float32),
    }


reversed_sequence = functools.partial(sequenced, reverse=True)


@pytest.mark.parametrize("make", [looped, sequenced, reversed_sequence], ids=["loop", "sequence", "sequence first"])
@pytest.mark.parametrize("kind", ["Sum", "Mean", "Max"])
@given(bags())
def test_same_answers(make, kind: str, feeds: dict[str, np.ndarray]):
    fused = pair(make(kind))
    assert fused.ours == [f"EmbeddingBagOffsets{kind}"]
    assert "Loop" not in [node.op_type for node in fused.new.graph.node]
    fused.agree({value.name: feeds[value.name] for value in fused.old.graph.input})


@pytest.mark.parametrize("make", [looped, sequenced])
@given(bags())
def test_weighted(make, feeds: dict[str, np.ndarray]):
    fused = pair(make("Sum", weighted=True))
    assert fused.ours == ["EmbeddingBagOffsetsSum"]
    fused.agree(feeds)


@pytest.mark.parametrize("make", [looped, sequenced])
@given(bags(with_end=True))
def test_with_the_end_of_the_last_bag(make, feeds: dict[str, np.ndarray]):
    fused = pair(make("Sum", has_end=True))
    assert fused.ours == ["EmbeddingBagOffsetsSum"]
    fused.agree(feeds)


@pytest.mark.parametrize("kind", ["Sum", "Mean", "Max"])
def test_axes_may_be_attributes(kind: str):
    assert pair(looped(kind, opset=13)).ours == [f"EmbeddingBagOffsets{kind}"]


@pytest.mark.parametrize("offsets", [[1, 2], [0, 3, 2], [0, 9], [-1, 2]])
@pytest.mark.parametrize("make", [looped, sequenced])
def test_bags_that_torch_refuses_are_an_error(make, offsets: list[int]):
    feeds = {"ids": np.arange(4), "offsets": np.array(offsets), "weights": np.ones(4, np.float32)}
    _, new = pair(make("Sum")).results(feeds)
    assert new is None


@pytest.mark.parametrize(
    ("text", "rule", "reason"),
    [
        (looped("Sum").replace("ReduceSum", "ReduceProd"), "bags-in-loop", "something else"),
        (looped("Sum").replace("(ends, i)", "(bounds, i)"), "bags-in-loop", "the bounds may not cover all bags"),
        (looped("Sum").replace("again = Cast <to = 9> (yes)", "again = Less (i, two)"), "bags-in-loop", "may end"),
        (sequenced("Sum").replace("{0, 0, 0}", "{0, 0, 1}"), "bags-in-sequence", "something else"),
        (sequenced("Sum", step="two"), "bags-in-sequence", "count from 0"),
        (sequenced("Mean", weighted=True), "bags-in-sequence", "weighted"),
    ],
)
def test_near_misses(text: str, rule: str, reason: str):
    fused = Pair.of(text)
    assert fused.ours == []
    assert reason in fused.reasons[rule]
    assert fused.new == fused.old
