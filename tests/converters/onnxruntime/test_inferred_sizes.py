"""Sizes that -1 stands for, in shapes that are put together in other ways than a constant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnx_sparse
from onnx_sparse.converters.onnxruntime.guards import guard
from onnx_sparse.models.tools.onnx_tools import with_inferred_types

pytestmark = pytest.mark.pins("JoinedSizes")


@pytest.mark.parametrize("between", [[], ["Reshape"], ["Identity"], ["Cast", "Reshape", "Cast"]])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_shape_that_is_joined_and_copied(between: list[str], rows: int) -> None:
    """As IRs of a pixel shuffle have it: 0 copies the number of rows, -1 is what remains."""
    name, nodes = "joined", [helper.make_node("Concat", ["copied", "rest"], ["joined"], axis=0)]
    for k, kind in enumerate(between):
        more = {"Cast": {"to": TensorProto.INT64 if k else TensorProto.INT32}}.get(kind, {})
        nodes.append(helper.make_node(kind, [name, *(["flat"] if kind == "Reshape" else [])], [f"copy{k}"], **more))
        name = f"copy{k}"
    nodes.append(helper.make_node("Reshape", ["x", name], ["y"]))
    constants = {"copied": [0, -1], "rest": [2, 2], "flat": [-1]}
    graph = helper.make_graph(
        nodes,
        "shuffle",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(value), key) for key, value in constants.items()],
    )
    model = with_inferred_types(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10))
    guard(model)
    x = np.arange(rows * 24, dtype=np.float32).reshape(rows, 8, 3)
    (y,) = onnx_sparse.InferenceSession(model).run(None, {"x": x})
    np.testing.assert_array_equal(y, x.reshape(rows, 6, 2, 2))


@dataclass
class Reshaped:
    """A Reshape whose new shape is joined from sizes of the data, numbers and one -1.

    Attributes:
        known: The sizes of the data as the model declares them; None is one that is not known.
        factors: For each place of the new shape the axes of the data whose sizes are multiplied; a number; or -1.
    """

    known: list[int | None]
    factors: list[list[int] | int]

    def model(self) -> ModelProto:
        """The model."""
        nodes, constants = [helper.make_node("Shape", ["x"], ["sizes"])], {}
        for place, factor in enumerate(self.factors):
            constants[f"part{place}"] = [factor] if isinstance(factor, int) else factor
            if not isinstance(factor, int):
                nodes += [
                    helper.make_node("Gather", ["sizes", f"part{place}"], [f"taken{place}"]),
                    helper.make_node("ReduceProd", [f"taken{place}"], [f"size{place}"], keepdims=1),
                ]
        parts = [f"{'part' if isinstance(factor, int) else 'size'}{k}" for k, factor in enumerate(self.factors)]
        nodes += [helper.make_node("Concat", parts, ["new"], axis=0), helper.make_node("Reshape", ["x", "new"], ["y"])]
        graph = helper.make_graph(
            nodes,
            "reshaped",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.known)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(np.array(value), key) for key, value in constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        return with_inferred_types(model, data_prop=True)

    def resolved(self, shape: Sequence[int]) -> list[int]:
        """The new shape for data of a shape, as ONNX has it: a 0 is the data's own size, or none beyond its axes."""
        sizes = [f if isinstance(f, int) else math.prod(shape[axis] for axis in f) for f in self.factors]
        return [shape[place] if size == 0 and place < len(shape) else size for place, size in enumerate(sizes)]


@st.composite
def reshapes(draw: st.DrawFn) -> tuple[Reshaped, list[int]]:
    """A Reshape and a shape of data that it takes: neighboring axes are joined, and one size may be inferred."""
    shape = draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    known = [draw(st.sampled_from([None, size])) for size in shape]
    ends = sorted(draw(st.sets(st.integers(1, len(shape)), min_size=1))) if len(shape) > 1 else [1]
    ends[-1] = len(shape)
    groups = [[*range(start, end)] for start, end in zip([0, *ends], ends, strict=False)]
    factors: list[list[int] | int] = []
    for place, group in enumerate(groups):
        numbers = [known[axis] for axis in group]
        written = [group, *([0] if group == [place] else []), *([math.prod(numbers)] if None not in numbers else [])]
        factors.append(draw(st.sampled_from(written)))
    for _ in range(draw(st.integers(0, 1))):
        factors.insert(draw(st.integers(0, len(factors))), 1)
    if draw(st.booleans()):
        factors[draw(st.integers(0, len(factors) - 1))] = -1
    return Reshaped(known, factors), shape


@given(reshapes())
def test_shapes_that_are_joined_from_sizes(drawn: tuple[Reshaped, list[int]]) -> None:
    """Guarded, a Reshape gives what ONNX Runtime gives; and where it fails for a 0 beside -1, the other sizes."""
    reshaped, shape = drawn
    x, model = np.zeros(shape, np.float32), reshaped.model()
    guarded = with_inferred_types(model)
    guard(guarded)
    new = reshaped.resolved(shape)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        (want,) = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})
    except Exception:  # whatever it raises
        want = None
    if want is None and (0 not in new or -1 not in new or math.prod(shape)):
        return  # refused with reason: the sizes do not fit
    (got,) = onnxruntime.InferenceSession(guarded.SerializeToString()).run(None, {"x": x})
    if want is not None:
        assert got.shape == want.shape
    assert [size for size, given in zip(got.shape, new, strict=True) if given != -1] == [n for n in new if n != -1]


@pytest.mark.parametrize(
    ("known", "factors", "nodes"),
    [
        ([None, 6], [1, -1, 3], 0),
        ([None, None], [-1, 3], 0),
        ([None, 2, None, 8], [-1, [2], 8], 0),  # a head's keys, as torch writes them: a 0 would stand for 2
        ([None, 6], [0, 3, -1], 0),
        ([None, 2, None, 8], [[0, 1], -1, 8], 3),  # the size of an axis in place of -1
    ],
)
def test_what_cannot_fail_stays(known: list[int | None], factors: list[list[int] | int], nodes: int) -> None:
    """A shape in which no size beside -1 can be 0 is left as it is, and one that follows from others is written."""
    model = Reshaped(known, factors).model()
    guarded = with_inferred_types(model)
    guard(guarded)
    assert len(guarded.graph.node) <= len(model.graph.node) + nodes
