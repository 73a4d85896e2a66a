"""Shape inference knows what constants decide: inferred sizes are those of the outputs, whatever is constant."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from contract.arguments import Arguments, calls
from contract.backends import Call, one_node_model
from contract.illegal import changes, illegal_arguments
from contract.models import model
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper, shape_inference

from onnx_sparse.reference import evaluate
from onnx_sparse.schemas import OPS, Op
from onnx_sparse.schemas.declaration import is_group, shape_items

Array = np.ndarray[Any, Any]
INT64 = TensorProto.INT64

#: Sizes that only the bytes of strings decide.
DECIDED_BY_STRINGS = {
    ("IndexKeys", "B"),
    ("IndexStrings", "B"),
    ("RaggedStringSplit", "M"),
    ("RegexSplit", "M"),
    ("UnicodeDecode", "M"),
    ("DecodeRaw", "L"),
}


def with_constants(m: ModelProto, inputs: Mapping[str, Array], nodes: set[str], initializers: set[str]) -> ModelProto:
    """The model with constants for some of its inputs, and the shapes of the others."""
    changed = ModelProto()
    changed.CopyFrom(m)
    del changed.graph.input[:]
    for value in m.graph.input:
        array = inputs[value.name]
        if value.name in nodes:
            tensor = numpy_helper.from_array(array)
            changed.graph.node.insert(0, helper.make_node("Constant", [], [value.name], value=tensor))
        elif value.name in initializers:
            changed.graph.initializer.append(numpy_helper.from_array(array, value.name))
        else:
            element = value.type.tensor_type.elem_type
            changed.graph.input.append(helper.make_tensor_value_info(value.name, element, array.shape))
    return changed


def inferred(m: ModelProto, **options: bool) -> dict[str, list[int | str | None] | None]:
    """The shape of each output; None where its rank is unknown."""
    found = shape_inference.infer_shapes(m, **options).graph.output
    return {
        value.name: [
            d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in value.type.tensor_type.shape.dim
        ]
        if value.type.tensor_type.HasField("shape")
        else None
        for value in found
    }


@st.composite
def bindings(draw: st.DrawFn, op: Op) -> dict[str, int]:
    return {variable: draw(st.sampled_from(types)) for variable, types in op.types.items()}


def is_open(op: Op, item: str, inputs: Arguments) -> bool:
    """Whether a size depends on the messages: some feature may have any number of values."""
    if op.name in ("ParseExample", "ParseSequenceExample"):
        return item in op.decided and bool((inputs["sizes"] < 0).any() or inputs.get("in_lists", np.zeros(1)).any())
    return (op.name, item) in DECIDED_BY_STRINGS


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
@given(data=st.data())
def test_inferred_sizes_are_those_of_the_outputs(op: Op, data: st.DataObject) -> None:
    binding = data.draw(bindings(op))
    inputs, attributes = data.draw(calls(op, binding))
    kinds = {name: data.draw(st.sampled_from(["Constant", "initializer", "input"])) for name in inputs}
    nodes, initializers = ({n for n, kind in kinds.items() if kind == k} for k in ("Constant", "initializer"))
    m = with_constants(one_node_model(Call.of(op, binding, attributes, inputs)), inputs, nodes, initializers)
    shapes = inferred(m, check_type=True, strict_mode=True)
    everything_known = not op.inputs_that_decide_sizes & {n for n, kind in kinds.items() if kind == "input"}
    results = evaluate(op, [inputs.get(i.name) for i in op.inputs], attributes)
    for output, result in zip(op.outputs, results, strict=True):
        shape = shapes[output.name]
        items = shape_items(output.shape_with(attributes))
        if shape is None:
            assert not everything_known or op.name == "ParseTensor"  # the rank is in the message
            continue
        assert [d if isinstance(d, int) else size for d, size in zip(shape, result.shape, strict=True)] == [
            *result.shape
        ]
        if everything_known and not any(map(is_group, items)):
            assert all(isinstance(d, int) or is_open(op, i, inputs) for d, i in zip(shape, items, strict=True)), shape
        elif everything_known:
            assert sum(not isinstance(d, int) for d in shape) <= sum(is_open(op, i, inputs) for i in items), shape


@pytest.mark.parametrize("op", [op for op in OPS.values() if any(changes(op))], ids=lambda op: op.name)
@given(data=st.data())
def test_illegal_constants_are_refused_or_leave_sizes_open(op: Op, data: st.DataObject) -> None:
    binding = {v: INT64 if INT64 in types else types[0] for v, types in op.types.items()}  # changes need large numbers
    change = data.draw(st.sampled_from([*changes(op)]))
    inputs, _ = data.draw(illegal_arguments(op, binding, change))
    assume(all(isinstance(x, str | bytes) for array in inputs.values() if array.dtype == object for x in array.flat))
    call = Call.of(op, binding, change.attributes, inputs)
    m = with_constants(one_node_model(call), inputs, set(inputs), set())
    with contextlib.suppress(shape_inference.InferenceError):  # and no other error
        inferred(m, check_type=True, strict_mode=True)


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
@given(data=st.data())
def test_damaged_constants_leave_sizes_open(op: Op, data: st.DataObject) -> None:
    binding = data.draw(bindings(op))
    inputs, attributes = data.draw(calls(op, binding))
    m = with_constants(one_node_model(Call.of(op, binding, attributes, inputs)), inputs, set(), set(inputs))
    for tensor in m.graph.initializer:
        if tensor.raw_data and data.draw(st.booleans()):
            tensor.raw_data = tensor.raw_data[: data.draw(st.integers(0, len(tensor.raw_data) - 1))]
    inferred(m)


def test_a_size_beyond_int64_is_unknown() -> None:
    most = np.iinfo(np.int64).max
    m = model("g (float[2] data) => (y) { y = onnx_sparse.SegmentSum (data, ids) }")
    m.graph.initializer.append(numpy_helper.from_array(np.array([0, most - 1]), "ids"))
    assert inferred(m)["y"] == [most]
    m.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array([0, most]), "ids"))
    assert inferred(m)["y"] == [None] or isinstance((inferred(m)["y"] or [0])[0], str)


@pytest.mark.skipif(onnx.__version__ < "1.23", reason="onnx propagates less")
def test_no_entries_are_known_entries() -> None:
    m = model(
        "g (float[0] v, int64[n,2] at, float d) => (o, w, e, r) "
        "{ shape = Constant <value_ints = [3, 4]> ()  o, w, e, r = onnx_sparse.SparseFillEmptyRows (v, shape, at, d) }"
    )
    assert inferred(m, data_prop=True) == {"o": [3, 2], "w": [3], "e": [3], "r": [0]}
    m = model("g (float[0,d] data, int64[k] ids) => (y) { y = onnx_sparse.SegmentSum (data, ids) }")
    assert inferred(m)["y"] == [0, "d"]


def test_a_number_of_segments_that_is_an_input_is_unknown() -> None:
    m = model("g (float[2] data, int64 n) => (y) { y = onnx_sparse.SegmentSum (data, ids, n) }")
    m.graph.initializer.append(numpy_helper.from_array(np.array([0, 1]), "ids"))
    assert not isinstance((inferred(m)["y"] or [0])[0], int)


def test_propagated_shapes_are_sizes() -> None:
    is_told = tuple(map(int, onnx.__version__.split(".")[:2])) >= (1, 23)  # before, onnx does not tell Python
    m = model("g (float[a,7] x, int64 value) => (y) { shape = Shape (x)  y = onnx_sparse.Fill (shape, value) }")
    found = inferred(m, data_prop=True)["y"]
    assert found == ["a", 7] if is_told else len(found) == 2
    m = model(
        "g (float[rows,9] x, float[v] v, int64[n,2] at, float d) => (o, w, e, r) "
        "{ shape = Shape (x)  o, w, e, r = onnx_sparse.SparseFillEmptyRows (v, shape, at, d) }"
    )
    found = inferred(m, data_prop=True)["e"]
    assert found == ["rows"] if is_told else len(found) == 1
