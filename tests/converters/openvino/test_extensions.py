"""Models of the domain on OpenVINO's CPU plugin, through `extensions()`, equal the oracle's plain loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from contract.arguments import Arguments, calls
from contract.backends import Call, one_node_model
from contract.expected import assert_equals
from contract.oracle import ORACLES
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser
from support.openvino_runs import run_model, run_saved

from onnx_sparse import embed_functions
from onnx_sparse.converters.openvino.extensions import NOT_EXPRESSIBLE
from onnx_sparse.schemas import OPS, Op
from onnx_sparse.schemas.declaration import Example, dtype_name, numpy_dtype

pytest.importorskip("openvino")

WIDE = "the CPU plugin computes it in 32 bits"
#: Types T with which OpenVINO's arithmetic is wrong in any subgraph. Elements that are only moved are right if they fit
#: into 32 bits.
GAPS: dict[str, str] = {
    "int64": WIDE,
    "uint64": WIDE,
    "double": WIDE,
    "uint32": "the CPU plugin computes it as int32",
    "bfloat16": "the CPU plugin cuts float32 to bfloat16 where it should round",
}


#: Failing examples are not shrunk, because failures are slow here.
SETTINGS = settings(max_examples=min(settings().max_examples, 4), phases=[Phase.generate])
#: For the types that share all but the kernels with float32.
FEWER = settings(SETTINGS, max_examples=min(settings().max_examples, 2))


#: Operators that OpenVINO's operators cannot express.
REFUSED = tuple(NOT_EXPRESSIBLE)
RUN = [op for name, op in OPS.items() if name not in REFUSED]


def bindings(op: Op) -> Iterator[dict[str, int]]:
    """Every T, with the index types taking turns, so that each type occurs; all combinations for float32."""
    seen: dict[int | None, int] = {}
    for number, binding in enumerate(op.type_bindings()):
        t = binding.get("T")
        seen[t] = seen.get(t, -1) + 1
        turns = 2 ** (len(binding) - 1)
        if t in (None, TensorProto.FLOAT) or seen[t] == (number // turns) % turns:
            yield binding


def cases() -> Iterator[Any]:
    for op in RUN:
        for binding in bindings(op):
            t = dtype_name(binding["T"]) if "T" in binding else None
            if t == "string":
                continue
            if t in GAPS and ("Segment" in op.name or "Embedding" in op.name):
                continue  # a few small numbers may be right; `test_gaps` has some that are not
            rare = () if t in (None, "float") else (pytest.mark.one_of(2),)
            yield pytest.param(op, binding, id="-".join([op.name, *map(dtype_name, binding.values())]), marks=rare)


@pytest.mark.parametrize(("op", "binding"), list(cases()))
def test_equals_the_oracle(op: Op, binding: dict[str, int]) -> None:
    @(SETTINGS if binding.get("T", TensorProto.FLOAT) == TensorProto.FLOAT else FEWER)
    @given(drawn=calls(op, binding), static=st.booleans(), constants=st.booleans())
    def check(drawn: tuple[Arguments, dict[str, str]], static: bool, constants: bool) -> None:
        inputs, attributes = drawn
        assume(all(0 not in inputs[name].shape for name in ("input_shape", "new_shape") if name in inputs))  # no rank 0
        inputs = in_32_bits(op, inputs)
        expected = ORACLES[op.name](inputs, attributes)
        call = Call.of(op, binding, attributes, inputs)
        fixed = {name: inputs[name] for name in optional(op) if name in inputs} if constants else {}
        if op.name == "Fill" and inputs["dims"].size == 0:
            fixed["dims"] = inputs["dims"]  # else the output's rank is unknown, and OpenVINO does not run that
        fed = {name: value for name, value in inputs.items() if name not in fixed}
        outputs = run_model(shaped(call, fed, fixed, static), fed)
        for declared, actual in zip(op.outputs, outputs, strict=True):
            assert_equals(actual, expected[declared.name], declared.name)

    check()


#: Operators and values of one segment of which OpenVINO's answer is wrong, by the type.
SHOWS_GAP: dict[str, tuple[str, list[float]]] = {
    "int64": ("UnsortedSegmentMax", [2**40, 1]),
    "uint64": ("UnsortedSegmentMax", [2**40, 1]),
    "double": ("UnsortedSegmentMax", [1 + 2**-40, 1]),
    "uint32": ("UnsortedSegmentMax", [2**31, 1]),
    "bfloat16": ("UnsortedSegmentSum", [1, 3 * 2**-9]),
}


@pytest.mark.parametrize(
    "dtype", [pytest.param(t, marks=pytest.mark.xfail(reason=gap, strict=True)) for t, gap in GAPS.items()]
)
def test_gaps(dtype: str) -> None:
    name, numbers = SHOWS_GAP[dtype]
    op = OPS[name]
    binding = next(b for b in op.type_bindings() if dtype_name(b["T"]) == dtype)
    index = [numpy_dtype(binding[i]) for i in binding if i != "T"]
    inputs = {
        "data": np.array(numbers).astype(numpy_dtype(binding["T"])),
        "segment_ids": np.zeros(2, index[0]),
        "num_segments": np.array(1, index[-1]),
    }
    attributes = op.with_defaults({})
    outputs = run_model(shaped(Call.of(op, binding, attributes, inputs), inputs, {}, False), inputs)
    assert_equals(outputs[0], ORACLES[name](inputs, attributes)["output"], "output")


def optional(op: Op) -> list[str]:
    return [i.name for i in op.inputs if i.optional or i.name == "num_segments"]


def in_32_bits(op: Op, inputs: Arguments) -> Arguments:
    """The inputs, with values that do not fit into 32 bits replaced by the nearest ones that do."""
    fitting = {}
    for declared in op.inputs:
        value = inputs.get(declared.name)
        if value is None:
            continue
        if value.dtype in (np.int64, np.uint64):  # a coordinate must stay below its dimension
            least = -(2**31) if value.dtype == np.int64 else 0
            value = np.clip(value, least, 2**31 - 2 - (declared.values.kind == "coordinates"))
        if value.dtype == np.float64:  # OpenVINO returns infinities as the largest float32
            most = np.finfo(np.float32).max
            value = np.clip(value, -most, most).astype(np.float32).astype(np.float64)
        fitting[declared.name] = value
    return fitting


def shaped(call: Call, fed: Mapping[str, Any], constants: Mapping[str, Any], static: bool) -> ModelProto:
    """A model of one node whose inputs have the ranks that are fed, because OpenVINO does not run unknown ranks.

    Vectors whose length is a rank have that length; other dimensions are known if `static`. Zero dimensions are left
    unknown, because OpenVINO's frontend loses inputs that have one.
    """
    model = one_node_model(call)
    ranks = {i.name for i in call.op.inputs if i.shape in ("R", "Q")}
    kept = [value for value in model.graph.input if value.name not in constants]
    for value in kept:
        shape = value.type.tensor_type.shape
        shape.Clear()
        for size in fed[value.name].shape:
            dim = shape.dim.add()
            if size and (static or value.name in ranks):
                dim.dim_value = size
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items())
    return model


EXAMPLES = [
    pytest.param(op, example, id=f"{op.name}: {example.name}")
    for op in RUN
    for example in op.examples
    if example.types.get("T") != TensorProto.STRING
]


@pytest.mark.parametrize(("op", "example"), EXAMPLES)
def test_as_an_ir_without_the_extensions(op: Op, example: Example) -> None:
    """The specifications' examples through `ov.convert_model` and `save_model`."""
    dtypes = {i.name: numpy_dtype(op.bind(i.type, example.types)) for i in op.inputs}
    inputs = {name: np.array(example.inputs[name], dtypes[name]) for name in dtypes if name in example.inputs}
    expected = ORACLES[op.name](inputs, example.attributes)
    model = shaped(Call.of(op, example.types, example.attributes, inputs), inputs, {}, static=False)
    for declared, actual in zip(op.outputs, run_saved(model, inputs), strict=True):
        assert_equals(actual, expected[declared.name], declared.name)


def test_indices_beyond_float32() -> None:
    """Row 2^24 + 1 of a table, and positions beyond it."""
    table = np.zeros((2**24 + 2, 1), np.int8)
    table[-1] = 7
    inputs = {"emb_table": table, "indices": np.int32([2**24 + 1]), "segment_ids": np.int32([0])}
    inputs["num_segments"] = np.int32(1)
    types = {"T": TensorProto.INT8, "I": TensorProto.INT32}
    call = Call.of(OPS["EmbeddingSegmentsSum"], types, {}, inputs)
    assert run_model(shaped(call, inputs, {}, static=True), inputs)[0].tolist() == [[7]]

    inputs = {"input_indices": np.int64([[40_000, 49_999], [3, 8]]), "input_shape": np.int64([42_000, 50_001])}
    inputs["new_shape"] = np.int64([3, -1])
    call = Call.of(OPS["SparseReshape"], {}, {}, inputs)
    indices, shape = run_model(shaped(call, inputs, {}, static=False), inputs)
    place = 40_000 * 50_001 + 49_999
    width = 14_000 * 50_001
    assert indices.tolist() == [[place // width, place % width], [0, 3 * 50_001 + 8]]
    assert shape.tolist() == [3, width]


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_wide_types_that_fit_into_32_bits(dtype: Any) -> None:
    data = {"data": np.array([[1, -2], [3, 4], [5, 6]], dtype), "segment_ids": np.int64([0, 0, 2])}
    types = {"T": helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), "I": TensorProto.INT64, "N": TensorProto.INT64}
    for name, expected in (("SegmentSum", [[4, 2], [0, 0], [5, 6]]), ("SegmentMax", [[3, 4], [0, 0], [5, 6]])):
        attributes = {"fill_mode": "ZERO"} if name == "SegmentMax" else {}
        (got,) = run_model(shaped(Call.of(OPS[name], types, attributes, data), data, {}, static=False), data)
        assert got.dtype == dtype
        assert got.tolist() == expected


def test_bodies_under_names_of_their_own() -> None:
    """A model with two bodies of one operator calls one of them by another name than the operator's."""
    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
        g (float[k,2] data, int64[k] ids) => (float[s,2] highest, float[s,2] lowest) {
          highest = onnx_sparse.SegmentMax <fill_mode = "ZERO"> (data, ids)
          lowest = onnx_sparse.SegmentMax <fill_mode = "LOWEST"> (data, ids)
        }"""
    )
    inputs = {"data": np.float32([[1, -2], [-3, 4]]), "ids": np.int64([0, 2])}
    embedded = embed_functions(model)
    assert len({function.name for function in embedded.functions}) == 2
    for got, empty in zip(run_model(embedded, inputs), (0, np.finfo(np.float32).min), strict=True):
        np.testing.assert_array_equal(got, np.float32([[1, -2], [empty, empty], [-3, 4]]))


def test_strings_are_refused_with_the_reason() -> None:
    types = {"T": TensorProto.STRING, "I": TensorProto.INT64}
    inputs = {"dims": np.int64([2]), "value": np.array("a", object)}
    model = shaped(Call.of(OPS["Fill"], types, {}, inputs), inputs, {}, static=True)
    with pytest.raises(RuntimeError, match="Fill: value holds strings, which OpenVINO does not compute"):
        run_model(model, inputs)


@pytest.mark.parametrize("name", REFUSED)
def test_operators_that_are_refused(name: str) -> None:
    op = OPS[name]
    example = op.examples[0]
    inputs = {
        i.name: np.array(example.inputs[i.name], numpy_dtype(op.bind(i.type, example.types)))
        for i in op.inputs
        if i.name in example.inputs
    }
    model = shaped(Call.of(op, example.types, example.attributes, inputs), inputs, {}, static=False)
    with pytest.raises(RuntimeError, match=f"{name}: {NOT_EXPRESSIBLE[name]}"):
        run_model(model, inputs)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "SparseFillEmptyRows",
            "must know how many columns indices has, the tensor 'indices': give it a shape such as",
        ),
        ("Fill", "the rank of dims, the tensor 'dims', is not known"),
        ("UnsortedSegmentSum", "the rank of segment_ids, the tensor 'segment_ids', is not known"),
    ],
)
def test_unknown_ranks_are_refused_with_what_to_give(name: str, reason: str) -> None:
    op = OPS[name]
    example = next(e for e in op.examples if e.types.get("T") != TensorProto.STRING)
    dtypes = {i.name: numpy_dtype(op.bind(i.type, example.types)) for i in op.inputs}
    inputs = {name: np.array(value, dtypes[name]) for name, value in example.inputs.items()}
    model = one_node_model(Call.of(op, example.types, example.attributes, inputs))
    for value in model.graph.input:
        value.type.tensor_type.ClearField("shape")
    with pytest.raises(RuntimeError, match=reason):
        run_model(model, inputs)


@pytest.mark.parametrize("known", ["indices", "dense_shape"])
def test_the_number_of_columns_is_that_of_either_input(known: str) -> None:
    op = OPS["SparseFillEmptyRows"]
    example = next(e for e in op.examples if e.types.get("T") != TensorProto.STRING)
    dtypes = {i.name: numpy_dtype(op.bind(i.type, example.types)) for i in op.inputs}
    inputs = {name: np.array(value, dtypes[name]) for name, value in example.inputs.items()}
    call = Call.of(op, example.types, {**example.attributes, "order": "row_major"}, inputs)
    model = shaped(call, inputs, {}, static=False)
    for value in model.graph.input:
        last = value.type.tensor_type.shape.dim[-1:]
        if value.name == known:
            last[0].dim_value = inputs[known].shape[-1]
        elif value.name in ("indices", "dense_shape"):
            last[0].Clear()
    expected = ORACLES[op.name](inputs, dict(call.attributes))
    for declared, actual in zip(op.outputs, run_model(model, inputs), strict=True):
        assert_equals(actual, expected[declared.name], declared.name)
