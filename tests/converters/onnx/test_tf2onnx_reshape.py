"""Fusing what tf2onnx writes for the reshape of a sparse tensor."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import GraphProto, ModelProto, NodeProto, compose, parser
from support.fused_models import Pair

import onnx_sparse
from onnx_sparse.converters.rewriting import graph

pytestmark = pytest.mark.pins("ReshapedCoordinates")

#: A matrix that is true up to its diagonal, where the size of a shape is not known.
_TRIANGLE = """
      {0}_size = Shape ({0})
      {0}_sides = Concat <axis = 0> ({0}_size, {0}_size)
      {0}_zeros = ConstantOfShape <value = int64[1] {{0}}> ({0}_sides)
      {0}_ones = EyeLike ({0}_zeros)
      {0}_sums = CumSum ({0}_ones, zero)
      {0}_triangle = Cast <to = 9> ({0}_sums)"""


def reshaped(old_rank: int, new_rank: int, *, opset: int = 18, known: bool = True, **parts: str) -> str:
    """The graph that tf2onnx writes for a reshape; `parts` replace parts of it.

    Args:
        old_rank: The number of dimensions before.
        new_rank: That of the requested shape.
        opset: Of ONNX.
        known: Whether the shapes' sizes are.
        parts: Texts in place of others.
    """
    axes = {axis: f"axes = [{axis}], " if opset < 18 else "" for axis in (0, 1)}
    given_axes = {axis: "" if opset < 18 else f", axis{axis}" for axis in (0, 1)}

    def strides(shape: str, rank: int) -> str:
        triangle = _TRIANGLE.format(shape)
        if known:
            cells = ", ".join(str(int(cell)) for cell in np.tri(rank, dtype=bool).ravel())
            triangle = f"{shape}_triangle = Constant <value = bool[{rank}, {rank}] {{{cells}}}> ()"
        return f"""
      {triangle}
      {shape}_terms = Where ({shape}_triangle, one, {shape})
      {shape}_strides = ReduceProd <{axes[1]}keepdims = 0> ({shape}_terms{given_axes[1]})"""

    text = {
        "positive": "missing = Neg (quotient)",
        "pads": "{0, -1}",
        "turns": "turns = Concat <axis = 0> (size, made_strides)",
        "mod": "rest = Mod (column, before)",
        "position": "position = MatMul (coordinates, shape_strides)",
        "old": strides("shape", old_rank),
        "new": strides("made", new_rank),
        **parts,
    }
    sizes = (str(old_rank), str(new_rank)) if known else ("r", "q")
    return f"""
    <ir_version: 8, opset_import: ["" : {opset}]>
    g (int64[n, {sizes[0]}] coordinates, int64[{sizes[0]}] shape, int64[{sizes[1]}] requested)
      => (int64[n, {sizes[1]}] output, int64[{sizes[1]}] made)
    <int64 zero = {{0}}, int64 one = {{1}}, int64[1] axis0 = {{0}}, int64[1] axis1 = {{1}},
     int64[2] pads = {text["pads"]}>
    {{
      size = ReduceProd <{axes[0]}keepdims = 1> (shape{given_axes[0]})
      product = ReduceProd <{axes[0]}keepdims = 1> (requested{given_axes[0]})
      quotient = Div (size, product)
      {text["positive"]}
      is_missing = Less (requested, zero)
      made = Where (is_missing, missing, requested)
      {text["old"]}
      {text["new"]}
      {text["turns"]}
      before = Pad (turns, pads)
      {text["position"]}
      column = Unsqueeze (position, axis1)
      {text["mod"]}
      output = Div (rest, made_strides)
    }}"""


#: Shapes, the same with as many elements, and which dimension of those is -1.
_RESHAPES = [
    ((2, 3), (3, 2), None),
    ((2, 3), (6, 1), 0),
    ((4, 5, 6), (20, 6), 0),
    ((4, 5, 6), (4, 30), 1),
    ((12,), (3, 2, 2), 2),
    ((2, 2, 3), (12,), 0),
    ((3, 4), (3, 4), None),
]


def feeds(old: tuple[int, ...], new: tuple[int, ...], missing: int | None, positions: Any) -> dict[str, np.ndarray]:
    """Inputs with entries at these positions of the dense tensor."""
    requested = np.array(new)
    if missing is not None:
        requested[missing] = -1
    coordinates = np.stack(np.unravel_index(np.asarray(positions, np.int64), old), 1).astype(np.int64)
    return {"coordinates": coordinates, "shape": np.array(old), "requested": requested}


class TestReshapedCoordinates:
    @pytest.mark.parametrize("known", [True, False])
    @pytest.mark.parametrize(("old", "new", "missing"), _RESHAPES)
    @given(data=st.data())
    def test_same_answers(
        self,
        old: tuple[int, ...],
        new: tuple[int, ...],
        missing: int | None,
        known: bool,
        data: st.DataObject,
    ):
        pair = _pair(len(old), len(new), known)
        assert pair.ours == ["SparseReshape"]
        positions = data.draw(st.lists(st.integers(0, math.prod(old) - 1), min_size=1, max_size=8))
        given_feeds = feeds(old, new, missing, positions)
        got, made = pair.agree(given_feeds)
        assert np.array_equal(np.ravel_multi_index(tuple(got.T), new), positions)
        assert made.tolist() == list(new)

    @pytest.mark.parametrize("opset", [13, 17])
    def test_axes_may_be_attributes(self, opset: int):
        assert Pair.of(reshaped(3, 2, opset=opset)).ours == ["SparseReshape"]

    def test_no_entries(self):
        """The product of the old graph needs ONNX Runtime of a later version than 1.18."""
        _, new = _pair(2, 2, known=True).results(feeds((2, 3), (3, 2), None, []))
        assert new is not None
        assert new[0].shape == (0, 2)
        assert new[1].tolist() == [3, 2]

    def test_a_dimension_of_0(self):
        """The old graph refuses to divide by it."""
        old, new = _pair(2, 2, known=True).results(feeds((0, 4), (0, 4), 0, []))
        assert old is None
        assert new is not None
        assert new[1].tolist() == [0, 4]

    def test_another_number_of_elements_is_an_error(self):
        """The old graph counts around."""
        old, new = _pair(2, 2, known=True).results(feeds((2, 3), (5, 2), None, [5]))
        assert old is not None
        assert new is None

    def test_users_of_the_shape_before_the_coordinates(self):
        """They come after the operator that makes both."""
        used = reshaped(2, 2).replace(
            "=> (int64[n, 2] output, int64[2] made)", "=> (int64[n, 2] output, int64[1] rows)"
        )
        pair = Pair.of(used.replace("shape_triangle =", "rows = Gather (made, axis0)\n      shape_triangle =", 1))
        assert pair.ours == ["SparseReshape"]
        pair.agree(feeds((4, 6), (8, 3), 0, [0, 7, 23]))

    @pytest.mark.parametrize(
        "parts",
        [
            {"pads": "{-1, 0}"},
            {"mod": "rest = Mod <fmod = 1> (column, before)"},
            {"mod": "rest = Add (column, before)"},
            {"positive": "missing = Abs (quotient)"},
            {"turns": "turns = Concat <axis = 0> (product, made_strides)"},
            {"turns": "turns = Concat <axis = 0> (size, shape_strides)"},
            {"old": "shape_strides = Identity (shape)"},
        ],
        ids=lambda parts: next(iter(parts.values())),
    )
    def test_near_misses(self, parts: dict[str, str]):
        assert Pair.of(reshaped(2, 2, **parts)).ours == []

    @pytest.mark.parametrize("change", ["exclusive = 1", "reverse = 1"])
    def test_other_triangles(self, change: str):
        text = reshaped(2, 2, known=False).replace("shape_sums = CumSum (", f"shape_sums = CumSum <{change}> (")
        assert Pair.of(text).ours == []

    def test_work_grows_as_the_model_does(self, monkeypatch: pytest.MonkeyPatch):
        """A change of one node does not look at all others: recommenders have hundreds of features."""

        def looked_at(copies: int) -> int:
            """How many nodes are looked at beside the first pass."""
            count = 0

            def counting(function: Callable[..., Any]) -> Callable[..., Any]:
                def counted(nodes: Iterable[NodeProto], *more: Any, **options: Any) -> Any:
                    nonlocal count
                    given_nodes = list(nodes)
                    count += len(given_nodes)
                    return function(given_nodes, *more, **options)

                return counted

            with monkeypatch.context() as patched:
                patched.setattr(graph, "rename", counting(graph.rename))
                patched.setattr(graph, "read_names", counting(graph.read_names))
                fused = onnx_sparse.fuse(_copied(reshaped(2, 3), copies))
            assert [node.op_type for node in fused.graph.node] == ["SparseReshape"] * copies
            return count

        assert looked_at(40) < 6 * looked_at(8)


@functools.cache
def _pair(old_rank: int, new_rank: int, known: bool) -> Pair:
    return Pair.of(reshaped(old_rank, new_rank, known=known))


def _copied(text: str, copies: int) -> ModelProto:
    """A model of so many copies of another, one beside the other."""
    model = parser.parse_model(text)
    parts = [compose.add_prefix_graph(model.graph, f"{k}_") for k in range(copies)]
    joined = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    joined.graph.name = "copies"
    for part in parts:
        joined.graph.MergeFrom(GraphProto(node=part.node, input=part.input, output=part.output))
        joined.graph.initializer.extend(part.initializer)
    return joined
