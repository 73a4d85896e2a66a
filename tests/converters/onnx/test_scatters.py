"""Fusing rows that are scattered with a reduction, as torch's exporters write them."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fused_models import TEXT_TYPES, Pair

pytestmark = pytest.mark.pins("ScatteredRows")

_KINDS = {"add": "Sum", "mul": "Prod", "max": "Max", "min": "Min"}

#: How torch's exporters make the indices of a vector of ids, from the rows' shape.
_INDICES = {
    "unsqueezed": "columns = Unsqueeze (ids, axis)\n indices = Expand (columns, shape)",
    "reshaped": "columns = Reshape (ids, column)\n indices = Expand (columns, shape)",
    "tiled": "columns = Unsqueeze (ids, axis)\n indices = Tile (columns, repeats)",
}


def elements(reduction: str, *, dtype: str = "float32", indices: str = "unsqueezed", start: str = "start") -> str:
    """A ScatterElements of rows."""
    element = TEXT_TYPES.get(dtype, dtype)
    return f"""
    <ir_version: 8, opset_import: ["" : 18]>
    g ({element}[s, 3] start, int64[k] ids, {element}[k, 3] rows) => ({element}[s, 3] output)
    <int64[1] axis = {{1}}, int64[2] column = {{-1, 1}}, int64[2] repeats = {{1, 3}}>
    {{
      shape = Shape (rows)
      sizes = Shape (start)
      zeros = ConstantOfShape <value = {element}[1] {{0}}> (sizes)
      {_INDICES[indices]}
      output = ScatterElements <axis = 0, reduction = "{reduction}"> ({start}, indices, rows)
    }}"""


LOOKUP = """
    <ir_version: 8, opset_import: ["" : 18]>
    g (float[s, 16] start, int64[k] ids, float[v, 16] table, int64[k] picked) => (float[s, 16] output)
    <int64[1] last = {-1}>
    {
      rows = Gather (table, picked)
      indices = Unsqueeze (ids, last)
      output = ScatterND <reduction = "add"> (start, indices, rows)
    }"""


@functools.cache
def pair(text: str) -> Pair:
    return Pair.of(text)


@st.composite
def scattered(draw: st.DrawFn, dtype: str = "float32") -> dict[str, np.ndarray]:
    """Ids in any order, among them some that count from the end; or no rows at all."""
    size, count = draw(st.integers(1, 5)), draw(st.integers(0, 8))
    infinite = [float("-inf"), float("inf")] if dtype == "float32" else []
    values = st.sampled_from([-3, -1, 0, 1, 2, *infinite])
    start = draw(st.lists(values, min_size=3 * size, max_size=3 * size))
    rows = draw(st.lists(values, min_size=3 * count, max_size=3 * count))
    ids = draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count))
    return {
        "start": np.array(start, dtype).reshape(size, 3),
        "ids": np.array(ids, np.int64),
        "rows": np.array(rows, dtype).reshape(count, 3),
    }


def finite(feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The feeds without infinite numbers, of which sums and products depend on the order."""
    return {name: np.clip(value, -9, 9) for name, value in feeds.items()}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("reduction", _KINDS)
@given(st.data())
def test_same_answers(reduction: str, dtype: str, data: st.DataObject):
    fused = pair(elements(reduction, dtype=dtype))
    assert fused.ours[-1] == f"UnsortedSegment{_KINDS[reduction]}"
    feeds = data.draw(scattered(dtype))
    fused.agree(finite(feeds) if reduction in ("add", "mul") else feeds)


@pytest.mark.parametrize("indices", _INDICES)
@pytest.mark.parametrize("start", ["start", "zeros"])
@given(scattered())
def test_forms(indices: str, start: str, feeds: dict[str, np.ndarray]):
    fused = pair(elements("add", indices=indices, start=start))
    assert fused.ours == ["UnsortedSegmentSum"]
    assert ("Add" in [node.op_type for node in fused.new.graph.node[-1:]]) == (start == "start")
    fused.agree(finite(feeds))


@pytest.mark.parametrize("out_of_range", [-4, 3])
def test_an_id_out_of_range_is_an_error_in_both(out_of_range: int):
    feeds = {"start": np.zeros((3, 3), np.float32), "rows": np.ones((1, 3), np.float32)}
    fused = pair(elements("add"))
    assert fused.results({**feeds, "ids": np.array([out_of_range])}) == [None, None]


def test_along_another_axis():
    fused = Pair.of("""
    <ir_version: 8, opset_import: ["" : 18]>
    g (float[3, s] start, int64[k] ids, float[3, k] rows) => (float[3, s] output)
    {
      shape = Shape (rows)
      indices = Expand (ids, shape)
      output = ScatterElements <axis = -1, reduction = "max"> (start, indices, rows)
    }""")
    assert fused.ours == ["UnsortedSegmentMax"]
    rng = np.random.default_rng(0)
    start, rows = (rng.integers(-5, 6, (3, size)).astype(np.float32) for size in (4, 9))
    fused.agree({"start": start, "ids": rng.integers(-4, 4, 9), "rows": rows})


def test_one_id_for_all_rows():
    """It is broadcast over the rows, as the columns are."""
    fused = Pair.of(elements("add").replace("int64[k] ids", "int64[i] ids"))
    assert fused.ours == ["UnsortedSegmentSum"]
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    fused.agree({"start": np.zeros((3, 3), np.float32), "ids": np.array([1]), "rows": rows})


@given(scattered(), st.integers(0, 99))
def test_lookup(drawn: dict[str, np.ndarray], seed: int):
    fused = pair(LOOKUP)
    assert fused.ours == ["EmbeddingSegmentsSum"]
    rng = np.random.default_rng(seed)
    start, table = (rng.integers(-3, 4, (size, 16)).astype(np.float32) for size in (len(drawn["start"]), 5))
    fused.agree({"start": start, "ids": drawn["ids"], "table": table, "picked": rng.integers(-5, 5, len(drawn["ids"]))})


def test_lookup_of_gathernd():
    """torch writes `table[ids]` with it."""
    text = LOOKUP.replace(
        "rows = Gather (table, picked)", "at = Unsqueeze (picked, last)\n rows = GatherND (table, at)"
    )
    assert pair(text).ours == ["EmbeddingSegmentsSum"]


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
@pytest.mark.parametrize("reduction", _KINDS)
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_slices_of_any_depth(depth: int, rank: int, reduction: str, dtype: str):
    """Coordinates of a slice, or of an element, in indices of any rank; some count from the end."""
    rng = np.random.default_rng(depth)
    sizes, places = (3, 2, 4), (5, 2)[: rank - 1]
    inner = sizes[depth:]
    updates = "".join(f", {size}" for size in (*places, *inner))[2:]
    element = TEXT_TYPES.get(dtype, dtype)
    fused = Pair.of(f"""
    <ir_version: 8, opset_import: ["" : 18]>
    g ({element}[3, 2, 4] start, int64[{", ".join(map(str, (*places, depth)))}] at, {element}[{updates}] rows)
      => ({element}[3, 2, 4] output)
    {{ output = ScatterND <reduction = "{reduction}"> (start, at, rows) }}""")
    assert fused.ours == [f"UnsortedSegment{_KINDS[reduction]}"]
    at = np.stack([rng.integers(-size, size, places) for size in sizes[:depth]], axis=-1)
    numbers = [rng.integers(0, 4, shape).astype(dtype) for shape in (sizes, (*places, *inner))]
    fused.agree({"start": numbers[0], "at": at, "rows": numbers[1]})


def test_coordinates_out_of_range_are_an_error_in_both():
    """Not the element that has the same number in the flattened tensor."""
    fused = Pair.of("""
    <ir_version: 8, opset_import: ["" : 18]>
    g (float[3, 2] start, int64[k, 2] at, float[k] rows) => (float[3, 2] output)
    { output = ScatterND <reduction = "add"> (start, at, rows) }""")
    feeds = {"start": np.zeros((3, 2), np.float32), "rows": np.ones(1, np.float32)}
    for at in ([0, 2], [3, 0], [0, -3]):
        assert fused.results({**feeds, "at": np.array([at])}) == [None, None]


_ELEMENTS = elements("add")
_UNKNOWN_DEPTH = """
    <ir_version: 8, opset_import: ["" : 18]>
    g (float[s, 3] start, int64[k, d] ids, float rows) => (float[s, 3] output)
    { output = ScatterND <reduction = "add"> (start, ids, rows) }"""
_WIDER_ROWS = _ELEMENTS.replace("[k, 3] rows", "[k, 2] rows")
_UNKNOWN_WIDTH = _ELEMENTS.replace("[s, 3] start", "[s, d] start")
_MATRIX_OF_IDS = _ELEMENTS.replace("int64[k] ids", "int64[k] ids, int64[k, 3] matrix").replace("(columns,", "(matrix,")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (_UNKNOWN_DEPTH, "number of coordinates"),
        (_WIDER_ROWS, "sizes may differ"),
        (_UNKNOWN_WIDTH, "sizes may differ"),
        (_MATRIX_OF_IDS, "different indices"),
    ],
)
def test_near_misses(text: str, reason: str):
    fused = Pair.of(text)
    assert fused.ours == []
    assert reason in fused.reasons["scattered-rows"]
    assert fused.new == fused.old


def test_without_a_reduction_it_stays():
    assert Pair.of(elements("none")).explanation.attempts == ()
