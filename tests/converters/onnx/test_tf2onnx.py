"""Fusing what tf2onnx writes for reductions by segment, and for lookups with them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper
from support.fused_models import TEXT_TYPES, Pair

pytestmark = pytest.mark.pins(
    "PaddedSegments", "SegmentCounts", "MeanOfFilledRows", "DefaultOfFilledRows", "ZeroOfEmptyRows", "FilledRows"
)

_REDUCTIONS = {"Sum": "0", "Prod": "1", "Max": "-inf", "Min": "inf"}

_LIMITS = {"int32": (np.iinfo(np.int32).min, np.iinfo(np.int32).max), "float32": ("-inf", "inf")}


def padded(kind: str, *, dtype: str = "float32", opset: int = 18, sized: bool = True, **parts: str) -> str:
    """The graph that tf2onnx writes for a reduction; `parts` replace parts of it."""
    element = TEXT_TYPES.get(dtype, dtype)
    limits = dict(zip(("Max", "Min"), _LIMITS[dtype], strict=True))
    filler = limits.get(kind) or {"Sum": 0, "Prod": 1}[kind]
    old = opset < 18
    axes = {axis: f"axes = [{axis}], " if old else "" for axis in (0, 1)}
    given_axes = {axis: "" if old else f", axis{axis}" for axis in (0, 1)}
    is_sum = kind == "Sum"
    text = {
        "count": "size = Cast <to = 7> (num)" if sized else "size = Add (largest, one)",
        "order": "sorted, order = TopK <axis = 0, largest = 0, sorted = 1> (wide, total)",
        "number": "number = Mod (every, own)",
        "places": "places = ScatterND (matrix, place, order)",
        "fill": f"filler = ConstantOfShape <value = {element}[1] {{{filler}}}> (inner)",
        "reduce": "output = ReduceSum <keepdims = 0> (grid, axis1)"
        if is_sum
        else f"output = Reduce{kind} <{axes[1]}keepdims = 0> (grid{given_axes[1]})",
        "rows": "rows = Identity (data)",
        "inputs": "",
        "after": "",
        "outputs": f"{element}[s, 2] output",
        **parts,
    }
    return f"""
    <ir_version: 8, opset_import: ["" : {opset}]>
    g ({element}[n, 2] data, int32[n] ids, int32 num{text["inputs"]}) => ({text["outputs"]})
    <int64 zero = {{0}}, int64 one = {{1}}, int64[1] axis0 = {{0}}, int64[1] axis1 = {{1}}, int64[1] last = {{-1}},
     int64[1] far = {{9223372036854775807}}>
    {{
      {text["rows"]}
      wide = Cast <to = 7> (ids)
      largest = ReduceMax <{axes[0]}keepdims = 0> (wide{given_axes[0]})
      {text["count"]}
      count = Unsqueeze (size, axis0)
      total = Shape (wide)
      entries = Squeeze (total, axis0)
      {text["order"]}
      values, first, inverse, counts = Unique <axis = 0, sorted = 1> (sorted)
      longest = ReduceMax <{axes[0]}keepdims = 1> (counts{given_axes[0]})
      every = Range (zero, entries, one)
      own = Gather (counts, inverse)
      {text["number"]}
      shape = Concat <axis = 0> (count, longest)
      matrix = ConstantOfShape <value = int64[1] {{-1}}> (shape)
      row = Unsqueeze (sorted, last)
      column = Unsqueeze (number, last)
      place = Concat <axis = 1> (row, column)
      {text["places"]}
      dims = Shape (rows)
      inner = Slice (dims, axis1, far, axis0)
      {text["fill"]}
      fillers = Unsqueeze (filler, axis0)
      filled = Concat <axis = 0> (rows, fillers)
      grid = Gather (filled, places)
      {text["reduce"]}
      {text["after"]}
    }}"""


#: What tf2onnx adds to a sum to divide it by the number of rows.
_DIVIDED = {
    "reduce": "sums = ReduceSum <keepdims = 0> (grid, axis1)",
    "after": """
      zeros = ConstantOfShape <value = int64[1] {0}> (count)
      numbers = ScatterElements <axis = 0> (zeros, values, counts)
      divisor = Cast <to = 1> (numbers)
      DIVISOR
      column_of = Unsqueeze (divisor, axis1)
      output = Div (sums, column_of)""",
}


def divided(divisor: str, **options: Any) -> str:
    after = _DIVIDED["after"].replace("DIVISOR", divisor)
    if divisor:
        after = after.replace("divisor = Cast", "floats = Cast")
    return padded("Sum", **options, **_DIVIDED | {"after": after})


_ONE = "one_float = Constant <value = float {1}> ()"
AT_LEAST_ONE = f"{_ONE}\n divisor = Max (floats, one_float)"
ROOT = f"{_ONE}\n root = Sqrt (floats)\n divisor = Max (root, one_float)"
PLAIN = ""


@functools.cache
def pair(text: str) -> Pair:
    return Pair.of(text)


@st.composite
def rows(draw: st.DrawFn, dtype: str = "float32", most: int = 12) -> dict[str, np.ndarray]:
    """Rows with unsorted ids; some segments are empty."""
    count = draw(st.integers(1, most))
    segments = draw(st.integers(1, 6))
    ids = draw(st.lists(st.integers(0, segments - 1), min_size=count, max_size=count))
    special = [float("-inf"), float("inf"), float(np.finfo(np.float32).min)] if dtype == "float32" else [-(2**31)]
    values = st.integers(-4, 4) | st.sampled_from(special)
    data = draw(st.lists(st.tuples(values, values), min_size=count, max_size=count))
    return {"data": np.array(data, dtype), "ids": np.array(ids, np.int32), "num": np.array(segments + 1, np.int32)}


class TestPaddedSegments:
    @pytest.mark.parametrize("sized", [True, False])
    @pytest.mark.parametrize("dtype", ["float32", "int32"])
    @pytest.mark.parametrize("kind", _REDUCTIONS)
    @given(st.data())
    def test_same_answers(self, kind: str, dtype: str, sized: bool, data: st.DataObject):
        """Infinite and extreme elements, empty segments and segments of -inf included."""
        fused = pair(padded(kind, dtype=dtype, sized=sized))
        assert fused.ours == [f"UnsortedSegment{kind}"]
        feeds = data.draw(rows(dtype))
        if kind in ("Sum", "Prod"):  # what an integer that overflows becomes, ONNX does not say
            feeds["data"] = np.clip(feeds["data"], -4, 4)
        fused.agree(feeds)

    @pytest.mark.parametrize("opset", [13, 18])
    @pytest.mark.parametrize("kind", _REDUCTIONS)
    def test_axes_may_be_attributes(self, kind: str, opset: int):
        assert pair(padded(kind, opset=opset)).ours == [f"UnsortedSegment{kind}"]

    def test_nodes_that_nothing_uses_any_more_are_dropped(self):
        fused = pair(padded("Sum"))
        assert fused.explanation.nodes_before == 26
        assert fused.explanation.nodes == len(fused.new.graph.node) == 3
        assert fused.explanation.fired == {"padded-segments": 1}

    def test_no_rows(self):
        """The old model refuses them in some versions of ONNX Runtime."""
        none = {"data": np.zeros((0, 2), np.float32), "ids": np.zeros(0, np.int32), "num": np.array(3, np.int32)}
        old, new = pair(padded("Max")).results(none)
        assert new is not None
        for result in (new, old or new):
            np.testing.assert_array_equal(result[0], np.full((3, 2), -np.inf))

    def test_an_id_out_of_range_is_an_error_in_both(self):
        feeds = {"data": np.ones((1, 2), np.float32), "ids": np.int32([3]), "num": np.array(3, np.int32)}
        assert pair(padded("Sum")).results(feeds) == [None, None]

    def test_a_negative_id_drops_its_row(self):
        feeds = {"data": np.float32([[1, 2], [3, 4]]), "ids": np.int32([0, -1]), "num": np.array(2, np.int32)}
        _, new = pair(padded("Sum")).results(feeds)
        assert new is not None
        np.testing.assert_array_equal(new[0], [[1, 2], [0, 0]])

    @pytest.mark.parametrize(
        ("parts", "reason"),
        [
            ({"number": "number = Mod (every, inverse)"}, "not put into the matrix by their number"),
            ({"places": "places = ScatterND (matrix, place, inverse)"}, "not put into the matrix by their number"),
            (
                {"order": "sorted, order = TopK <axis = 0, largest = 1, sorted = 1> (wide, total)"},
                "not put into the matrix by their number",
            ),
            ({"fill": "filler = ConstantOfShape <value = float[1] {2}> (inner)"}, "changes the result"),
            (
                {"reduce": "output = ReduceSum <keepdims = 1> (grid, axis1)", "outputs": "float[s, k, 2] output"},
                "not over the rows of each segment",
            ),
            (
                {"reduce": "output = ReduceSum <keepdims = 0> (grid, axis0)", "outputs": "float[k, 2] output"},
                "not over the rows of each segment",
            ),
        ],
    )
    def test_near_misses(self, parts: dict[str, str], reason: str):
        fused = Pair.of(padded("Sum", **parts))
        assert fused.ours == []
        assert reason in fused.reasons["padded-segments"]
        assert fused.new == fused.old


class TestMeans:
    @pytest.mark.parametrize("divisor", [AT_LEAST_ONE, ROOT, PLAIN])
    @pytest.mark.parametrize("sized", [True, False])
    @given(st.data())
    def test_same_answers(self, divisor: str, sized: bool, data: st.DataObject):
        """NaN for an empty segment included, where nothing keeps the divisor from being 0."""
        feeds = data.draw(rows())
        pair(divided(divisor, sized=sized)).agree({**feeds, "data": np.clip(feeds["data"], -4, 4)})

    def test_of_at_least_one_row(self):
        assert pair(divided(AT_LEAST_ONE)).ours == ["UnsortedSegmentMean"]

    def test_empty_segments_stay_nan(self):
        fused = pair(divided(PLAIN))
        assert fused.ours == ["UnsortedSegmentSum", "UnsortedSegmentSum"]
        assert "an empty segment is NaN" in fused.reasons["mean-of-filled-rows"]
        _, new = fused.results(
            {"data": np.float32([[2, 4]]), "ids": np.int32([1]), "num": np.array(2, np.int32)},
        )
        assert new is not None
        np.testing.assert_array_equal(new[0], [[np.nan, np.nan], [2, 4]])

    def test_of_at_least_two_rows(self):
        two = AT_LEAST_ONE.replace("{1}", "{2}")
        assert pair(divided(two)).reasons["mean-of-filled-rows"] == "the divisor is not at least 1"


_GATHERED = {"rows": "rows = Gather (data, picked)", "inputs": ", int64[k] picked"}
_WEIGHTED = {
    "rows": """gathered = Gather (data, picked)
      weight_column = Unsqueeze (weights, axis1)
      rows = Mul (gathered, weight_column)""",
    "inputs": ", int64[k] picked, float[k] weights",
}


class TestLookups:
    @staticmethod
    def feeds(drawn: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        size = len(drawn["ids"])
        table = rng.integers(-4, 5, (size, 2)).astype(np.float32)
        picked = rng.integers(-size, size, size)  # a negative index counts from the end
        return {**drawn, "data": table, "picked": picked, "weights": rng.integers(0, 3, size).astype(np.float32)}

    @pytest.mark.parametrize("parts", [_GATHERED, _WEIGHTED], ids=["plain", "weighted"])
    @given(rows(), st.integers(0, 99))
    def test_same_answers(self, parts: dict[str, str], drawn: dict[str, np.ndarray], seed: int):
        fused = pair(padded("Sum", sized=False, **parts))
        assert fused.ours == ["EmbeddingSegmentsSum"]
        feeds = self.feeds(drawn, seed)
        fused.agree({value.name: feeds[value.name] for value in fused.old.graph.input})

    def test_one_weight_for_all_rows(self):
        fused = pair(padded("Sum", sized=False, **_WEIGHTED | {"inputs": ", int64[k] picked, float[w] weights"}))
        feeds = {"data": np.float32([[1, 2], [3, 4]]), "ids": np.int32([0, 1]), "num": np.array(2, np.int32)}
        fused.agree({**feeds, "picked": np.array([1, 1]), "weights": np.float32([2])})

    def test_a_given_number_of_segments_may_be_that_of_ids_that_drop_rows(self):
        assert pair(padded("Sum", **_GATHERED)).ours == ["UnsortedSegmentSum"]

    def test_rows_that_are_used_elsewhere_stay(self):
        text = padded("Sum", sized=False, **_GATHERED, outputs="float[s, 2] output, float[k, 2] rows")
        assert pair(text).ours == ["UnsortedSegmentSum"]


@pytest.mark.slow
class TestFiles:
    """Files that tf2onnx has made."""

    @pytest.mark.parametrize("opset", [13, 18])
    def test_reductions(self, opset: int):
        """All in one file, of which tf2onnx merges what is equal."""
        tf = pytest.importorskip("tensorflow")

        named = ("sum", "mean", "max", "min", "prod")
        sparse = ("sum", "mean", "sqrt_n")

        def reductions(data: Any, ids: Any, num: Any, picked: Any) -> tuple[Any, ...]:
            return (
                *(getattr(tf.math, f"segment_{kind}")(data, ids) for kind in named),
                *(getattr(tf.math, f"unsorted_segment_{kind}")(data, ids, num) for kind in (*named, "sqrt_n")),
                *(getattr(tf.sparse, f"segment_{kind}")(data, picked, ids) for kind in sparse),
                *(getattr(tf.sparse, f"segment_{kind}")(data, picked, ids, num) for kind in sparse),
            )

        ids = tf.TensorSpec([None], tf.int32)
        specs = tf.TensorSpec([None, 2], tf.float32), ids, tf.TensorSpec([], tf.int32), ids
        fused = converted(f"reductions-{opset}", reductions, specs, opset)
        assert not {"TopK", "Unique"}.intersection(node.op_type for node in fused.new.graph.node)
        names = [value.name for value in fused.old.graph.input]
        rng = np.random.default_rng(0)
        for size, segments in [(1, 1), (6, 3), (4, 9), (20, 2), (30, 30)]:
            data = rng.integers(-3, 4, (size, 2)).astype(np.float32)
            ids_of_rows = rng.integers(0, segments, size, np.int32)
            picked = rng.integers(-size, size, size, np.int32)
            feeds = (data, ids_of_rows, np.array(segments + 1, np.int32), picked)
            fused.agree(dict(zip(names, feeds, strict=True)))

    @pytest.mark.parametrize(
        ("opset", "combiner", "weighted"),
        [
            (13, "mean", False),
            (13, "sqrtn", True),
            (18, "sum", False),
            (18, "sum", True),
            (18, "mean", True),
            (18, "sqrtn", False),
        ],
    )
    def test_lookups(self, opset: int, combiner: str, weighted: bool):
        """embedding_lookup_sparse, and safe_embedding_lookup_sparse with and without a default."""
        tf = pytest.importorskip("tensorflow")

        table = np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32)

        def lookups(coordinates: Any, ids: Any, shape: Any, weights: Any) -> tuple[Any, ...]:
            by_ids = tf.SparseTensor(coordinates, ids, shape)
            by_weights = tf.SparseTensor(coordinates, weights, shape) if weighted else None
            safe = functools.partial(tf.nn.safe_embedding_lookup_sparse, table, by_ids, by_weights, combiner=combiner)
            plain = tf.nn.embedding_lookup_sparse(table, by_ids, by_weights, combiner=combiner)
            return plain, safe(), safe(default_id=3)

        specs = [tf.TensorSpec(shape, tf.int64) for shape in ([None, 2], [None], [2])]
        fused = converted(f"lookups-{combiner}-{weighted}", lookups, [*specs, tf.TensorSpec([None], tf.float32)], opset)
        assert not {"TopK", "ScatterElements"}.intersection(node.op_type for node in fused.new.graph.node)
        names = [value.name for value in fused.old.graph.input]
        rng = np.random.default_rng(0)
        for size, count in [(1, 1), (6, 3), (4, 9), (20, 2)]:
            coordinates = np.stack([np.sort(rng.integers(0, count, size)), np.arange(size)], 1)
            weights = rng.uniform(0.5, 2, size).astype(np.float32)
            feeds = (coordinates, rng.integers(0, 10, size), np.array([count, size]), weights)
            given_feeds = zip(names, feeds if weighted else feeds[: len(names)], strict=True)
            fused.agree(dict(given_feeds))

    def test_a_batch_without_ids(self):
        """tf2onnx's graph divides by the columns that there are."""
        tf = pytest.importorskip("tensorflow")

        table = np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32)

        def lookup(coordinates: Any, ids: Any, shape: Any) -> Any:
            return tf.nn.safe_embedding_lookup_sparse(table, tf.SparseTensor(coordinates, ids, shape), combiner="sum")

        fused = converted(
            "without_ids", lookup, [tf.TensorSpec(shape, tf.int64) for shape in ([None, 2], [None], [2])], 18
        )
        assert "SparseReshape" in fused.ours
        names = [value.name for value in fused.old.graph.input]
        for shape in ([4, 2], [4, 0]):
            batch = np.zeros((0, 2), np.int64), np.zeros(0, np.int64), np.array(shape)
            _, new = fused.results(dict(zip(names, batch, strict=True)))
            assert new is not None
            np.testing.assert_array_equal(new[0], lookup(*batch))

    @pytest.mark.parametrize("default", [None, 3])
    @pytest.mark.parametrize("dtype", ["int32", "int64"])
    def test_negative_ids_are_dropped(self, dtype: str, default: int | None):
        """The lookup drops them itself."""
        tf = pytest.importorskip("tensorflow")

        table = np.random.default_rng(0).integers(-9, 10, (10, 3)).astype(np.float32)

        def lookup(coordinates: Any, ids: Any, shape: Any) -> Any:
            by_ids = tf.SparseTensor(coordinates, ids, shape)
            return tf.nn.safe_embedding_lookup_sparse(table, by_ids, combiner="sum", default_id=default)

        types = (tf.int64, dtype, tf.int64)
        shapes = ([None, 3], [None], [3])
        fused = converted(
            f"negative_ids-{dtype}-{default}",
            lookup,
            [tf.TensorSpec(*spec) for spec in zip(shapes, types, strict=True)],
            18,
        )
        assert fused.ours == ["SparseReshape", "EmbeddingSegmentsSum"]
        assert not {"NonZero", "Compress"}.intersection(node.op_type for node in fused.new.graph.node)
        names = [value.name for value in fused.old.graph.input]
        rng = np.random.default_rng(0)
        for size in (1, 6, 30):
            positions = np.sort(rng.choice(60, size, replace=False))
            coordinates = np.stack(np.unravel_index(positions, (3, 4, 5)), 1)
            batch = coordinates, rng.integers(-3, 10, size).astype(dtype), np.array([3, 4, 5])
            (got,) = fused.agree(dict(zip(names, batch, strict=True)))
            np.testing.assert_array_equal(got, lookup(*batch))

        (test,) = (node for node in fused.old.graph.node if node.op_type == "GreaterOrEqual")
        test.op_type = "Greater"
        positive = Pair(fused.old)
        assert "NonZero" in [node.op_type for node in positive.new.graph.node]
        positive.agree(dict(zip(names, batch, strict=True)))

    def test_what_is_chosen_for_empty_rows(self):
        """tf2onnx chooses by products: with 0 it becomes no row, also where the default row is infinite."""
        tf = pytest.importorskip("tensorflow")

        table = np.full((10, 3), np.inf, np.float32)

        def lookup(coordinates: Any, ids: Any, shape: Any) -> Any:
            return tf.nn.safe_embedding_lookup_sparse(table, tf.SparseTensor(coordinates, ids, shape), combiner="sum")

        fused = converted(
            "empty_rows", lookup, [tf.TensorSpec(shape, tf.int64) for shape in ([None, 2], [None], [2])], 18
        )
        names = [value.name for value in fused.old.graph.input]
        batch = np.array([[1, 0]]), np.array([4]), np.array([3, 1])
        _, new = fused.results(dict(zip(names, batch, strict=True)))
        assert new is not None
        np.testing.assert_array_equal(new[0], lookup(*batch))

        (zeros,) = (node for node in fused.old.graph.node if "zeros_like" in node.output[0])
        zeros.attribute[0].t.CopyFrom(numpy_helper.from_array(np.ones(1, np.float32)))
        assert Pair(fused.old).reasons["zero-of-empty-rows"] == "something other than 0 is selected for empty rows"

    def test_filled_rows_by_themselves_stay(self):
        """tf2onnx puts them after all others, and SparseFillEmptyRows in order."""
        tf = pytest.importorskip("tensorflow")

        def fill(coordinates: Any, values: Any, shape: Any) -> Any:
            filled, empty = tf.sparse.fill_empty_rows(tf.SparseTensor(coordinates, values, shape), 0.0)
            return filled.indices, filled.values, empty

        specs = tf.TensorSpec([None, 2], tf.int64), tf.TensorSpec([None], tf.float32), tf.TensorSpec([2], tf.int64)
        fused = converted("filled_rows", fill, specs, 18)
        assert "in order" in fused.reasons["filled-rows"]
        assert fused.new == fused.old


#: Each file as tf2onnx 1.17 writes it. To write them again: install tf2onnx, and set ONNX_SPARSE_RECORD_TF2ONNX=1.
_FILES = Path(__file__).with_name("tf2onnx_files")


def converted(name: str, function: Callable[..., Any], specs: Sequence[Any], opset: int) -> Pair:
    """The pair of the model that tf2onnx made of a function, from the file of that name."""
    file = _FILES / f"{name}.onnx"
    if os.environ.get("ONNX_SPARSE_RECORD_TF2ONNX"):
        import tensorflow as tf
        import tf2onnx

        named = [tf.TensorSpec(spec.shape, spec.dtype, f"input_{place}") for place, spec in enumerate(specs)]
        traced = tf.function(function, input_signature=named)
        onnx.save(tf2onnx.convert.from_function(traced, input_signature=named, opset=opset)[0], file)
    return Pair(onnx.load(file))
