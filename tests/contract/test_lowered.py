"""`lower` makes use of what a model tells about a node, and the result is what tools of plain ONNX take."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from contract.arguments import Arguments, calls
from contract.backends import Call, PlainSession, one_node_model
from contract.expected import assert_equals
from contract.oracle import ORACLES
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import onnx_sparse
from onnx_sparse.models.graphs import all_nodes, all_tensors, graphs
from onnx_sparse.schemas import OPS, Op
from onnx_sparse.schemas.declaration import dtype_name
from onnx_sparse.schemas.function_body import function_proto

WITH_BODIES = [op for op in OPS.values() if op.body is not None]

#: How a model can hold a constant.
WAYS = ("initializer", "Constant", "Identity")


def some_bindings() -> Iterator[Any]:
    """Element types of each kind for every operator; the index types take turns."""
    kinds = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT32, TensorProto.UINT8, TensorProto.STRING)
    for op in WITH_BODIES:
        bindings = list(op.type_bindings())
        for k, kind in enumerate(kinds):
            of_kind = [b for b in bindings if b.get("T", TensorProto.FLOAT) == kind]
            if of_kind:
                binding = of_kind[k % len(of_kind)]
                yield pytest.param(op, binding, id="-".join([op.name, *map(dtype_name, binding.values())]))


def declared(
    call: Call, inputs: Arguments, shapes: Mapping[str, list[Any]], constants: Mapping[str, str]
) -> ModelProto:
    """A model of one node that says what it knows: the shapes of some inputs, and the values of others."""
    m = one_node_model(call)
    fed = [value for value in m.graph.input if value.name not in constants]
    for value in fed:
        if value.name in shapes:
            element = value.type.tensor_type.elem_type
            value.CopyFrom(helper.make_tensor_value_info(value.name, element, shapes[value.name]))
    del m.graph.input[:]
    m.graph.input.extend(fed)
    for name, way in constants.items():
        put_constant(m, name, inputs[name], way)
    return m


def put_constant(m: ModelProto, name: str, value: Any, way: str) -> None:
    """Make a value of the main graph a constant."""
    tensor = numpy_helper.from_array(np.asarray(value), name)
    if way == "initializer":
        m.graph.initializer.append(tensor)
    elif way == "Constant":
        m.graph.node.insert(0, helper.make_node("Constant", [], [name], value=tensor))
    else:
        tensor.name = f"{name}_source"
        m.graph.initializer.append(tensor)
        m.graph.node.insert(0, helper.make_node("Identity", [tensor.name], [name]))


@st.composite
def declarations(draw: st.DrawFn, op: Op, inputs: Arguments) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """What a model may declare of these inputs: of each its dimensions, with numbers, symbols or none, or its value."""
    shapes: dict[str, list[Any]] = {}
    constants: dict[str, str] = {}
    for i in op.inputs:
        if i.name not in inputs:
            continue
        known = draw(st.sampled_from(["nothing", "rank", "symbols", "shape", "value"]))
        shape = inputs[i.name].shape
        if known == "value":
            constants[i.name] = draw(st.sampled_from(WAYS))
        elif known == "symbols" and "..." not in i.shape and "*" not in i.shape:
            shapes[i.name] = [item if item.isidentifier() else None for item in i.shape.split(", ")] if i.shape else []
        elif known != "nothing":
            shapes[i.name] = [size if known == "shape" else None for size in shape]
    return shapes, constants


@pytest.mark.parametrize(("op", "binding"), list(some_bindings()))
def test_what_the_model_tells_does_not_change_the_answer(op: Op, binding: dict[str, int]) -> None:
    @settings(max_examples=min(settings().max_examples, 8))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        inputs, attributes = data.draw(calls(op, binding))
        shapes, constants = data.draw(declarations(op, inputs))
        # A symbol is one size, which sentinels of vectors do not have.
        if inputs.get("per_sample_weights", np.ones(1)).size == 0 or constants.keys() & {"indices"}:
            shapes.pop("per_sample_weights", None)
        expected = ORACLES[op.name](inputs, attributes)
        lowered = onnx_sparse.lower(declared(Call.of(op, binding, attributes, inputs), inputs, shapes, constants))
        fed = {name: value for name, value in inputs.items() if name not in constants}
        outputs = PlainSession(lowered).run(None, fed)
        for output, actual in zip(op.outputs, outputs, strict=True):
            assert_equals(actual, expected[output.name], output.name)

    check()


def example_inputs(op: Op, dtype: int = TensorProto.FLOAT) -> tuple[dict[str, int], dict[str, str], Arguments]:
    """Types, attributes and inputs of an operator's first example, with another element type."""
    example = op.examples[0]
    types = {v: TensorProto.INT64 if TensorProto.INT64 in legal else example.types[v] for v, legal in op.types.items()}
    if dtype in op.types.get("T", ()):
        types["T"] = dtype
    numbers = {
        name: np.zeros(np.shape(value)) if np.asarray(value).dtype.kind == "U" else value
        for name, value in example.inputs.items()
    }
    inputs = {
        i.name: np.asarray(numbers[i.name], helper.tensor_dtype_to_np_dtype(op.bind(i.type, types)))
        for i in op.inputs
        if i.name in numbers
    }
    return types, dict(example.attributes), inputs


def known_ranks(shape: str, value: Any) -> list[int | None]:
    """The dimensions of a value, of which only those are known that are ranks."""
    letters = shape.split(", ")
    return [size if len(letters) == value.ndim and letters[k] in "RQ" else None for k, size in enumerate(value.shape)]


def example_model(op: Op, *, constants: Mapping[str, str] | None = None, without: tuple[str, ...] = ()) -> ModelProto:
    """An operator's first example as a model that declares ranks."""
    types, attributes, inputs = example_inputs(op)
    for i in op.inputs:
        if i.name not in inputs and i.name in (constants or {}):
            inputs[i.name] = i.sentinel_array(op.bind(i.type, types))
    inputs = {name: value for name, value in inputs.items() if name not in without}
    shapes = {name: known_ranks(i.shape, inputs[name]) for i in op.inputs if (name := i.name) in inputs}
    return declared(Call.of(op, types, attributes, inputs), inputs, shapes, constants or {})


def bounded_models(op: Op) -> Iterator[ModelProto]:
    """The example with each value of each attribute, and with floats bounded: limits of a type are in no range."""
    choices = [(a.name, choice) for a in op.attributes for choice in a.choices] or [("", "")]
    for name, choice in choices:
        if choice in ("NEG_INF", "POS_INF"):
            continue  # empty segments are infinite, which no range is
        m = example_model(op)
        node = next(n for n in m.graph.node if n.domain == onnx_sparse.DOMAIN)
        kept = [a for a in node.attribute if a.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute(name, choice)] if name else kept)
        for value in m.graph.output:
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                for function, bound in (("Max", -10.0), ("Min", 10.0)):
                    m.graph.initializer.append(numpy_helper.from_array(np.float32(bound), f"{value.name}_{function}"))
                    before = value.name
                    value.name = f"{before}_bounded_by_{function}"
                    inputs = [before, f"{before}_{function}"]
                    m.graph.initializer[-1].name = inputs[1]
                    m.graph.node.append(helper.make_node(function, inputs, [value.name]))
        yield m


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("op", [op for op in WITH_BODIES if any(i.optional for i in op.inputs)], ids=lambda op: op.name)
def test_sentinels_are_absent(op: Op, way: str) -> None:
    """However the model holds them, the result is that of a node without the inputs, and nothing of them is left."""
    optional = tuple(i.name for i in op.inputs if i.optional)
    m = example_model(op, without=optional)
    canonical = onnx_sparse.canonicalize(m)
    constants = {node.output[0]: node.attribute[0].t for node in canonical.graph.node if node.op_type == "Constant"}
    kept = [node for node in canonical.graph.node if node.op_type != "Constant"]
    del canonical.graph.node[:]
    canonical.graph.node.extend(kept)
    for name, tensor in constants.items():
        put_constant(canonical, name, numpy_helper.to_array(tensor), way)
    plain, of_canonical = onnx_sparse.lower(m), onnx_sparse.lower(canonical)
    assert [n.op_type for n in of_canonical.graph.node] == [n.op_type for n in plain.graph.node]
    assert not of_canonical.graph.initializer
    assert all(np.prod(tensor.dims) for tensor in all_tensors(of_canonical))


def test_sentinels_of_a_node_in_a_branch_are_absent() -> None:
    from contract.models import BRANCHES

    plain, of_canonical = onnx_sparse.lower(BRANCHES), onnx_sparse.lower(onnx_sparse.canonicalize(BRANCHES))
    assert [n.op_type for n in all_nodes(of_canonical.graph.node)] == [n.op_type for n in all_nodes(plain.graph.node)]


def test_an_initializer_that_a_caller_may_replace_is_no_sentinel() -> None:
    op = OPS["SegmentSum"]
    m = example_model(op, constants={"num_segments": "initializer"})
    m.graph.input.append(helper.make_tensor_value_info("num_segments", TensorProto.INT64, []))
    _, _, inputs = example_inputs(op)
    session = PlainSession(onnx_sparse.lower(m))
    assert len(session.run(None, inputs)[0]) == inputs["segment_ids"].max() + 1
    assert len(session.run(None, {**inputs, "num_segments": np.array(9)})[0]) == 9


def test_outputs_that_nothing_reads_are_not_computed() -> None:
    op = OPS["SparseFillEmptyRows"]
    m = example_model(op)
    before = len(onnx_sparse.lower(m).graph.node)
    del m.graph.output[1:]
    after = onnx_sparse.lower(m)
    assert len(after.graph.node) < before
    assert "ScatterElements" not in {node.op_type for node in after.graph.node}


@pytest.mark.parametrize("columns", [2, 3, 4])
def test_positions_beyond_double(columns: int) -> None:
    """ONNX Runtime computes sums and products of int64 in double."""
    op = OPS["SparseReshape"]
    sizes = [2**20 + 7, 2**19 - 1, 2**21 + 9, 3][-columns:]
    sizes[0] = 2**62 // int(np.prod(sizes[1:], dtype=object))
    last = np.array([[size - 1 for size in sizes], [size // 2 for size in sizes]])
    for new_shape in ([-1, 1], [1, -1], [int(np.prod(sizes[:-1], dtype=object)), -1], [*sizes[:-1], 1, -1]):
        inputs = {"input_indices": last, "input_shape": np.array(sizes), "new_shape": np.array(new_shape)}
        shapes: dict[str, list[Any]] = {name: list(value.shape) for name, value in inputs.items()}
        m = declared(Call.of(op, {}, {}, inputs), inputs, shapes, {})
        expected = ORACLES[op.name](inputs, {})
        for output, actual in zip(op.outputs, PlainSession(onnx_sparse.lower(m)).run(None, inputs), strict=True):
            assert_equals(actual, expected[output.name], output.name)


@pytest.mark.parametrize("known", [True, False])
def test_coordinates_beyond_double_are_sorted(known: bool) -> None:
    """The columns differ in the last digits of positions that no double has."""
    op = OPS["SparseFillEmptyRows"]
    columns = 2**53 - 1
    indices = np.array([[2, columns - k] for k in (1, 3, 2, 5, 4)] + [[0, k] for k in (2, 1)])
    inputs: Arguments = {
        "values": np.arange(7, dtype=np.float32),
        "dense_shape": np.array([4, columns]),
        "indices": indices,
        "default_value": np.array(-1, np.float32),
    }
    attributes = {"order": "row_major"}
    shapes: dict[str, list[Any]] = {name: list(value.shape) for name, value in inputs.items()} if known else {}
    m = declared(Call.of(op, {"T": TensorProto.FLOAT, "I": TensorProto.INT64}, attributes, inputs), inputs, shapes, {})
    expected = ORACLES[op.name](inputs, attributes)
    for output, actual in zip(op.outputs, PlainSession(onnx_sparse.lower(m)).run(None, inputs), strict=True):
        assert_equals(actual, expected[output.name], output.name)


OLD = pytest.mark.skipif(onnxruntime.__version__ < "1.27", reason="its tools infer less")


@pytest.mark.parametrize("op", WITH_BODIES, ids=lambda op: op.name)
class TestWhatToolsTake:
    def test_constants_are_finite(self, op: Op) -> None:
        for tensor in all_tensors(onnx_sparse.lower(example_model(op))):
            assert np.isfinite(numpy_helper.to_array(tensor).astype(np.float64)).all()

    def test_no_constant_is_expanded(self, op: Op) -> None:
        """symbolic_shape_infer refuses that; there is ConstantOfShape."""
        constants = {i.name: "initializer" for i in op.inputs if i.shape == ""}
        for m in (example_model(op), example_model(op, constants=constants)):
            lowered = onnx_sparse.lower(m)
            for graph in graphs(lowered.graph):
                held = {n.output[0] for n in graph.node if n.op_type == "Constant"} | {
                    t.name for t in graph.initializer
                }
                assert not [n for n in graph.node if n.op_type == "Expand" and n.input[0] in held]

    def test_finite_data_stay_finite(self, op: Op) -> None:
        """Between the nodes, too: calibration for quantization refuses NaN and infinities."""
        types, attributes, inputs = example_inputs(op)
        given = {name: value for name, value in inputs.items() if name != "default_index"}
        if "num_segments" in given:
            given["num_segments"] = given["num_segments"] + 2  # the last are empty
        if "per_sample_weights" in given:
            given["per_sample_weights"] = np.zeros_like(given["per_sample_weights"])
        call = Call.of(op, types, attributes, given)
        shapes = {name: [None] * value.ndim for name, value in given.items()}
        evaluator = ReferenceEvaluator(onnx_sparse.lower(declared(call, given, shapes, {})))
        for name, value in evaluator.run(None, given, intermediate=True).items():
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                assert np.isfinite(value).all(), name

    @OLD
    def test_symbolic_shape_inference(self, op: Op) -> None:
        """ONNX Runtime's own, which it needs before quantization and for transformers."""
        pytest.importorskip("sympy")
        from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

        constants = {"value": "initializer"} if op.name == "Fill" else {}  # the tool refuses Expand to a fed shape
        m = onnx_sparse.lower(example_model(op, constants=constants))
        inferred = SymbolicShapeInference.infer_shapes(m, auto_merge=True)
        assert all(value.type.tensor_type.HasField("shape") for value in inferred.graph.output)

    def test_static_quantization(self, op: Op, tmp_path: Path) -> None:
        """Every tensor's range is calibrated, and must be one; the quantized model is the model but for rounding."""
        from onnxruntime.quantization import CalibrationDataReader, quantize_static

        _, _, inputs = example_inputs(op)

        class Once(CalibrationDataReader):
            def __init__(self) -> None:
                self.feeds = iter([inputs])

            def get_next(self) -> Any:
                return next(self.feeds, None)

        for lowered in map(onnx_sparse.lower, bounded_models(op)):
            onnx.save(lowered, tmp_path / "plain.onnx")
            quantize_static(tmp_path / "plain.onnx", tmp_path / "quantized.onnx", Once())
            quantized = PlainSession(onnx.load(tmp_path / "quantized.onnx")).run(None, inputs)
            for got, expected in zip(quantized, PlainSession(lowered).run(None, inputs), strict=True):
                if expected.dtype.kind == "f" and expected.size:
                    np.testing.assert_allclose(got, expected, atol=0.05 * np.abs(expected).max())
                else:
                    np.testing.assert_array_equal(got, expected)

    @OLD
    def test_preprocessing_for_quantization(self, op: Op, tmp_path: Path) -> None:
        """It makes use of the shapes that symbolic inference finds, which must be right."""
        pytest.importorskip("sympy")
        from onnxruntime.quantization.shape_inference import quant_pre_process

        _, _, inputs = example_inputs(op)
        # The tool refuses Expand to a fed shape, and takes the columns of a fed table for one where some rows are 1.
        fixed = {"emb_table", "value"} if op.name == "Fill" or "emb_table" in inputs else set()
        constants = dict.fromkeys(fixed & set(inputs), "initializer")
        lowered = onnx_sparse.lower(example_model(op, constants=constants))
        fed = {name: value for name, value in inputs.items() if name not in constants}
        onnx.save(lowered, tmp_path / "plain.onnx")
        quant_pre_process(tmp_path / "plain.onnx", tmp_path / "ready.onnx", auto_merge=True)
        ready = PlainSession(onnx.load(tmp_path / "ready.onnx")).run(None, fed)
        for got, expected in zip(ready, PlainSession(lowered).run(None, fed), strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("op", "types"), list(some_bindings()))
def test_no_scatter_of_rows_reduces(op: Op, types: Mapping[str, int]) -> None:
    """ONNX Runtime loses updates of ScatterND with a reduction on several threads."""
    for values in itertools.product(*(a.choices for a in op.attributes)):
        made = function_proto(op, types, dict(zip((a.name for a in op.attributes), values, strict=True)))
        assert made is not None
        for node in all_nodes(made.node):
            assert node.op_type != "ScatterND" or not node.attribute


#: Rows that threads reduce into few segments at once, in small integers, whose sums are exact.
_ROWS = np.random.default_rng(0).integers(-3, 4, (100_000, 48)).astype(np.float32)
_SEGMENTS = np.random.default_rng(1).integers(0, 5, len(_ROWS))


@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("kind", ["Sum", "Mean", "Max", "Min"])
def test_threads_lose_nothing(kind: str, is_sorted: bool) -> None:
    ids = np.sort(_SEGMENTS) if is_sorted else _SEGMENTS
    op = OPS[f"Segment{kind}" if is_sorted else f"UnsortedSegment{kind}"]
    attributes = {a.name: a.default or a.choices[0] for a in op.attributes}
    inputs = {"data": _ROWS, "segment_ids": ids, "num_segments": np.array(5)}
    shapes: dict[str, list[Any]] = {"data": ["k", 48], "segment_ids": ["k"], "num_segments": []}
    types = {variable: int(TensorProto.FLOAT if variable == "T" else TensorProto.INT64) for variable in op.types}
    m = declared(Call.of(op, types, attributes, inputs), inputs, shapes, {})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 4
    session = onnxruntime.InferenceSession(onnx_sparse.lower(m).SerializeToString(), options)
    expected = np.stack([getattr(np, kind.lower())(_ROWS[ids == segment], axis=0) for segment in range(5)])
    for _ in range(5):
        np.testing.assert_allclose(session.run(None, inputs)[0], expected, rtol=1e-6)
