"""What onnx knows about the operators once onnx_sparse is imported: schemas, types, shapes and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from contract.backends import EXPECTED_GAPS, Call, one_node_model
from contract.models import BRANCHES, model
from onnx import TensorProto, checker, helper, numpy_helper, shape_inference

from onnx_sparse.schemas import DOMAIN, OPS, Op


def inferred(m: onnx.ModelProto, strict: bool = True) -> dict[str, tuple[int, list[Any] | None]]:
    """Element type and shape (None: unknown rank) of every typed value of the model."""
    result = shape_inference.infer_shapes(m, check_type=True, strict_mode=strict)
    values = {}
    for value in (*result.graph.value_info, *result.graph.output):
        tensor = value.type.tensor_type
        shape = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim]
        values[value.name] = (tensor.elem_type, shape if tensor.HasField("shape") else None)
    return values


def with_ranks(m: onnx.ModelProto, op: Op) -> onnx.ModelProto:
    """The model with symbolic shapes for all inputs and outputs; a group of dimensions becomes one dimension."""
    declared = {formal.name: formal.shape for formal in (*op.inputs, *op.outputs)}
    for value in (*m.graph.input, *m.graph.output):
        value.type.tensor_type.shape.SetInParent()
        for item in filter(None, declared[value.name].split(",")):
            value.type.tensor_type.shape.dim.add().dim_param = item.strip().replace("...", "inner")
    return m


def with_constant(m: onnx.ModelProto, name: str, value: np.ndarray[Any, Any]) -> onnx.ModelProto:
    """The model with one of its inputs made a constant."""
    changed = onnx.ModelProto()
    changed.CopyFrom(m)
    inputs = [i for i in changed.graph.input if i.name != name]
    del changed.graph.input[:]
    changed.graph.input.extend(inputs)
    changed.graph.initializer.append(numpy_helper.from_array(value, name))
    return changed


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_every_combination_of_types_passes_the_checker_and_strict_inference(op: Op) -> None:
    attributes = {a.name: a.choices[0] for a in op.attributes}
    for binding in op.type_bindings():
        everything = {i.name: np.empty(0) for i in op.inputs}
        m = with_ranks(one_node_model(Call.of(op, binding, attributes, everything)), op)
        checker.check_model(m, full_check=True)
        types = inferred(m)
        for output in op.outputs:
            assert types[output.name][0] == op.bind(output.type, binding)


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_the_declaration_is_complete(op: Op) -> None:
    assert op.summary.endswith(".")
    assert op.semantics
    assert op.source
    assert op.examples
    assert op.body is not None or (("ORT function body", op.name, None) in EXPECTED_GAPS and op.body_notes)
    assert all(thing.doc.endswith(".") for thing in (*op.inputs, *op.outputs, *op.attributes))


@pytest.mark.parametrize("op_name", OPS)
def test_no_operator_has_the_name_of_another_domains(op_name: str) -> None:
    """Some tools look only at op_type, not at the domain."""
    import onnxruntime.capi.onnxruntime_pybind11_state as ort_state

    known = {(s.domain, s.name) for s in onnx.defs.get_all_schemas_with_history()}
    known |= {(s.domain, s.name) for s in ort_state.get_all_operator_schema()}
    assert ("com.microsoft", "FusedMatMul") in known
    assert not {domain for domain, name in known if name == op_name} - {DOMAIN}


def test_symbolic_dimensions_come_through() -> None:
    m = model("g (float[k,d] data, int64[k] ids, int64 n) => (y) { y = onnx_sparse.SegmentSum (data, ids, n) }")
    element_type, shape = inferred(m)["y"]
    assert element_type == TensorProto.FLOAT
    assert shape is not None
    assert shape[1] == "d"


def test_a_constant_num_segments_is_the_outputs_size() -> None:
    m = model("g (float[k,d] data, int64[k] ids, int64 n) => (y) { y = onnx_sparse.SegmentSum (data, ids, n) }")
    assert inferred(with_constant(m, "n", np.array(7)))["y"] == (TensorProto.FLOAT, [7, "d"])
    unknown = inferred(with_constant(m, "n", np.array(-1)))["y"][1]
    assert unknown is not None
    assert len(unknown) == 2
    assert unknown[0] != -1


def test_constant_dims_are_the_shape_of_fill() -> None:
    m = model("g (int64[r] dims, bool value) => (y) { y = onnx_sparse.Fill (dims, value) }")
    assert inferred(m)["y"] == (TensorProto.BOOL, None)
    assert inferred(with_constant(m, "dims", np.array([2, 0, 3])))["y"] == (TensorProto.BOOL, [2, 0, 3])
    of_rank_2 = model("g (int64[2] dims, bool value) => (y) { y = onnx_sparse.Fill (dims, value) }")
    rank = inferred(of_rank_2)["y"][1]
    assert rank is not None
    assert len(rank) == 2


def test_buckets_have_the_shape_of_the_strings() -> None:
    m = model("g (string[n,3] words, int64 n) => (y) { y = onnx_sparse.StringToHashBucketFast (words, n) }")
    assert inferred(m)["y"] == (TensorProto.INT64, ["n", 3])
    with pytest.raises(shape_inference.InferenceError, match="num_buckets = 0 must be >= 1"):
        inferred(with_constant(m, "n", np.array(0)))


def test_unsorted_segments_drop_the_dimensions_of_the_ids() -> None:
    m = model(
        "g (float[2,3,4] data, int32[2,3] ids, int32 n) => (y) { y = onnx_sparse.UnsortedSegmentSum (data, ids, n) }"
    )
    assert inferred(with_constant(m, "n", np.array(5, np.int32)))["y"] == (TensorProto.FLOAT, [5, 4])


BAGS = "(float[v,d] t, int64[k] i, int64[{}] o) => (y) {{ y = onnx_sparse.EmbeddingBagOffsetsSum {} (t, i, o) }}"
TO_THE_END = '<include_last_offset = "true">'


def test_an_included_last_offset_begins_no_bag() -> None:
    assert inferred(model(f"g {BAGS.format('b', '')}"))["y"] == (TensorProto.FLOAT, ["b", "d"])
    assert inferred(model(f"g {BAGS.format('5', '')}"))["y"] == (TensorProto.FLOAT, [5, "d"])
    assert inferred(model(f"g {BAGS.format('5', TO_THE_END)}"))["y"] == (TensorProto.FLOAT, [4, "d"])
    unknown = inferred(model(f"g {BAGS.format('b', TO_THE_END)}"))["y"][1]
    assert unknown is not None
    assert unknown[0] != "b"
    with pytest.raises(shape_inference.InferenceError, match="offsets has 0 elements; at least 1 expected"):
        inferred(model(f"g {BAGS.format('0', TO_THE_END)}"))


def test_a_sparse_row_is_known_from_a_constant_dense_shape() -> None:
    m = model(
        "g (string[n] v, int64[2] shape, int64[n,2] i, string d) => (oi, ov, empty, rev) "
        "{ oi, ov, empty, rev = onnx_sparse.SparseFillEmptyRows (v, shape, i, d) }"
    )
    values = inferred(with_constant(m, "shape", np.array([5, 6])))
    assert values["empty"] == (TensorProto.BOOL, [5])
    assert values["rev"] == (TensorProto.INT64, ["n"])
    assert values["oi"][1] is not None
    assert values["oi"][1][1] == 2


def test_subgraphs_are_inferred() -> None:
    checker.check_model(BRANCHES, full_check=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "g (float[k] x, double[k] w, int64[k] i) => (y) "
            "{ y = onnx_sparse.EmbeddingSegmentsSum (x, i, i, n, d, w) }",
            "EmbeddingSegmentsSum: input per_sample_weights is double but emb_table is float; "
            "both must have the same type",
        ),
        (
            "g (int32[k] x, int64[k] i) => (y) { y = onnx_sparse.EmbeddingSegmentsMean (x, i, i, n) }",
            "EmbeddingSegmentsMean: input emb_table is int32; expected one of: float16, bfloat16, float, double",
        ),
        (
            "g (float[4] x, int64[3] i) => (y) { y = onnx_sparse.SegmentSum (x, i) }",
            "SegmentSum: dimension 0 of segment_ids is 3 but data has 4 for the same dimension K",
        ),
        (
            "g (float[4] x, int64[4,1] i) => (y) { y = onnx_sparse.SegmentSum (x, i) }",
            "SegmentSum: input segment_ids has rank 2; expected rank 1 [K]",
        ),
        (
            'g (float[4] x, int64[4] i) => (y) { y = onnx_sparse.SegmentMax <fill_mode = "NONE"> (x, i) }',
            "SegmentMax: attribute fill_mode = 'NONE' is not one of ('ZERO', 'LOWEST')",
        ),
        (
            "g (float[2,2] x, bool[3] m, float v) => (y) { y = onnx_sparse.MaskedFill (x, m, v) }",
            "MaskedFill: mask of shape [3] does not broadcast to [2, 2], the shape of x",
        ),
        (
            "g (float[2,2] x, bool[2] m, float[1] v) => (y) { y = onnx_sparse.MaskedFill (x, m, v) }",
            "MaskedFill: input value has rank 1; expected a scalar []",
        ),
    ],
)
def test_strict_inference_refuses_what_the_semantics_forbid(text: str, message: str) -> None:
    m = model(text)
    m.graph.initializer.extend([numpy_helper.from_array(np.array(3), "n"), numpy_helper.from_array(np.array(-1), "d")])
    with pytest.raises(shape_inference.InferenceError) as raised:
        shape_inference.infer_shapes(m, check_type=True, strict_mode=True)
    assert message in str(raised.value)


def test_a_constant_size_that_is_negative_is_refused() -> None:
    m = model("g (int64[r] dims, bool value) => (y) { y = onnx_sparse.Fill (dims, value) }")
    with pytest.raises(shape_inference.InferenceError, match=r"Fill: dims\[1\] = -3 must be >= 0"):
        inferred(with_constant(m, "dims", np.array([2, -3])))


def test_schemas_survive_importing_twice() -> None:
    from onnx_sparse.schemas import register

    register(tuple(OPS.values()))
    schema = onnx.defs.get_schema("SegmentMax", 1, DOMAIN)
    assert schema.attributes["fill_mode"].required
    assert [i.name for i in schema.inputs] == ["data", "segment_ids", "num_segments"]


def test_tools_that_rewrite_models_keep_the_nodes(tmp_path: Path) -> None:
    """The version converter, the extractor and ONNX Runtime's quantizer rely on the schema."""
    from onnx import utils, version_converter
    from onnxruntime.quantization import quantize_dynamic

    m = model(
        "g (float[k,2] data, int64[k] ids) => (float[s,3] y) "
        "{ sums = onnx_sparse.SegmentSum (data, ids)  y = MatMul (sums, w) }"
    )
    m.graph.initializer.append(numpy_helper.from_array(np.ones((2, 3), np.float32), "w"))
    onnx.save(m, tmp_path / "model.onnx")
    converted = version_converter.convert_version(m, 21)
    utils.extract_model(tmp_path / "model.onnx", tmp_path / "part.onnx", ["data", "ids"], ["sums"])
    quantize_dynamic(tmp_path / "model.onnx", tmp_path / "quantized.onnx")
    quantized = onnx.load(tmp_path / "quantized.onnx")
    for rewritten in (converted, onnx.load(tmp_path / "part.onnx"), quantized):
        assert [n.op_type for n in rewritten.graph.node if n.domain == DOMAIN] == ["SegmentSum"]
        assert helper.make_opsetid(DOMAIN, 1) in rewritten.opset_import
    assert "MatMulInteger" in [n.op_type for n in quantized.graph.node]
