"""What all converters share: types and shapes by the schemas, constants, names of outputs, collected reasons."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_sparse.converters.errors import ConversionError, UnknownShape, Unsupported, UnsupportedNodes
from onnx_sparse.converters.kernels.element_types import input_variable, limited_operators
from onnx_sparse.converters.operator_types import result_type
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.graph_emitter import GraphEmitter, value_info
from onnx_sparse.converters.writing.reads import Node
from onnx_sparse.converters.writing.registry import Handler, Registry
from onnx_sparse.models.graphs import Names
from onnx_sparse.schemas import DOMAIN, OPS
from onnx_sparse.schemas.declaration import element_type, numpy_dtype

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


class Silent(Node):
    """A node without inputs and attributes."""

    def parts(self):
        return ()


def types_by_inference(model: onnx.ModelProto) -> dict[str, tuple[int, list[int | None] | None]]:
    """Element type and shape of every output, as ONNX infers them."""
    found = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    known = {}
    for value in found.graph.output:
        kind = value.type.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
        known[value.name] = (kind.elem_type, dims if kind.HasField("shape") else None)
    return known


@pytest.mark.parametrize("name", OPS)
def test_results_of_the_domain_are_typed_and_shaped_as_its_schema_infers(name: str) -> None:
    op = OPS[name]
    for example in op.examples:
        emit = GraphEmitter()
        inputs = {
            i.name: emit.constant(np.array(example.inputs[i.name], numpy_dtype(op.bind(i.type, example.types))))
            for i in op.inputs
            if i.name in example.inputs
        }
        results = emit.domain_op(name, inputs, example.attributes)
        assert [len(field) for field in (emit.nodes[0].input, results)] == [len(op.inputs), len(op.outputs)]
        assert {a.name for a in emit.nodes[0].attribute} == {a.name for a in op.attributes}
        model = emit.model("g", [], [onnx.ValueInfoProto(name=t.name) for t in results])
        for tensor, (dtype, shape) in zip(results, types_by_inference(model).values(), strict=True):
            assert tensor.dtype == dtype
            assert tensor.shape is None if shape is None else [*tensor.shape] == shape


def is_typed_by_inputs(op_type: str) -> bool:
    """Whether no attribute says the type of the result."""
    return not {"to", "dtype", "output_datatype"}.intersection(onnx.defs.get_schema(op_type, 18).attributes)


@pytest.mark.parametrize(
    "op_type", [name for name in limited_operators() if onnx.defs.has(name, 18) and is_typed_by_inputs(name)]
)
def test_results_of_standard_operators_are_typed_as_onnx_infers(op_type: str) -> None:
    declared = onnx.defs.get_schema(op_type, 18)
    for dtype in (FLOAT, TensorProto.INT32, TensorProto.BOOL):
        types: list[int] = []
        for position in range(max(declared.min_input, 1)):
            variable = input_variable(op_type, position, 18)
            fixed = declared.inputs[position].types if position < len(declared.inputs) else ()
            other = INT64 if "tensor(int64)" in fixed else TensorProto.BOOL
            types.append(dtype if variable == input_variable(op_type, 0, 18) else other)
        if not all(
            f"tensor({TensorProto.DataType.Name(t).lower()})" in declared.inputs[k].types for k, t in enumerate(types)
        ):
            continue
        inputs = [helper.make_tensor_value_info(f"x{k}", t, None) for k, t in enumerate(types)]
        outputs = [f"y{k}" for k in range(max(declared.min_output, 1))]
        node = helper.make_node(op_type, [value.name for value in inputs], outputs)
        graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y0")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
        inferred = onnx.shape_inference.infer_shapes(model).graph.output[0].type.tensor_type.elem_type
        assert not inferred or result_type(op_type, 18, types, {}) == inferred


def test_types_without_a_kernel_are_computed_in_a_wider_one() -> None:
    emit = GraphEmitter()
    made = emit.op("Max", *(Tensor(name, TensorProto.UINT16, (2,)) for name in "ab"))
    assert (made.dtype, [node.op_type for node in emit.nodes]) == (TensorProto.UINT16, ["Cast", "Cast", "Max", "Cast"])


def test_constants() -> None:
    emit = GraphEmitter()
    assert (emit.constant([1, 2]).dtype, emit.constant(np.float32(1)[None]).dtype) == (INT64, FLOAT)
    assert emit.constant([1, 2]).name == emit.constant(np.array([1, 2])).name != emit.constant([1, 2], FLOAT).name
    cast = emit.cast(emit.constant([1, 2]), FLOAT)
    assert cast.value is not None
    assert element_type(cast.value.dtype) == FLOAT
    assert not emit.nodes


def test_outputs_are_named_and_served_twice_through_an_identity() -> None:
    """So are constants and tensors of other nodes; bodies that read a renamed tensor follow."""
    emit = GraphEmitter(Names(["x", "first"]))
    x = Tensor("x", FLOAT, (2,))
    emit.begin("node")
    root = emit.op("Sqrt", x, shape=(2,))
    body = helper.make_graph([helper.make_node("Neg", [root.name], ["n"])], "body", [], [value_info(root.renamed("n"))])
    condition = emit.constant(True, TensorProto.BOOL)
    (chosen,) = emit.node("If", [condition], [FLOAT], [(2,)], then_branch=body, else_branch=body)
    outputs = emit.name_outputs([root, root, condition, x, chosen], ["first", "second", "flag", "same", "chosen"])
    assert [t.name for t in outputs] == ["first", "second", "flag", "same", "chosen"]
    copies = {node.output[0]: node.input[0] for node in emit.nodes if node.op_type == "Identity"}
    assert copies == {"second": "first", "flag": condition.name, "same": "x"}
    (branch,) = (node for node in emit.nodes if node.op_type == "If")
    assert {attribute.g.node[0].input[0] for attribute in branch.attribute} == {"first"}
    onnx.checker.check_model(emit.model("g", [value_info(x)], [value_info(t) for t in outputs]))


def test_optional_inputs_get_sentinels() -> None:
    emit = GraphEmitter()
    data, ids = Tensor("data", FLOAT, (None, 3)), Tensor("ids", TensorProto.INT32, (None,))
    (output,) = emit.domain_op("SegmentSum", {"data": data, "segment_ids": ids, "num_segments": None})
    assert (output.dtype, output.shape) == (FLOAT, (None, 3))
    assert all(emit.nodes[0].input)
    assert emit.domains[DOMAIN] == 1
    with pytest.raises(Unsupported, match="SegmentSum: input segment_ids"):
        emit.domain_op("SegmentSum", {"data": data, "segment_ids": data})


def test_names_are_given_once() -> None:
    names = Names(["a", "a_1"])
    assert [names.fresh(name) for name in ("a", "a", "b", "b", "a_1")] == ["a_2", "a_3", "b", "b_1", "a_1_1"]


def test_all_reasons_are_collected() -> None:
    nodes = UnsupportedNodes(on_unknown_shape="; give it")
    tensor = Tensor("x", FLOAT, (2, None))
    for name, ask in (("a", lambda: tensor.dims), ("b", lambda: tensor.axis(5)), ("c", lambda: tensor.rank)):
        with nodes.collecting(name, "Op"):
            ask()
    with pytest.raises(ConversionError) as caught:
        nodes.raise_if_any()
    assert [node.node for node in caught.value.unsupported] == ["a", "b"]
    assert "the whole shape of x must be known; give it" in str(caught.value)
    assert "axis 5 is out of range for x float[2, ?]" in str(caught.value)
    with pytest.raises(UnknownShape):
        _ = Tensor("y", FLOAT).rank


def test_an_operator_has_one_handler() -> None:
    registry = Registry(Handler)
    x = Tensor("x", FLOAT)
    registry.handles("A-10", "A-9", notes="note")(lambda node, emit: x)
    assert [(row.source, row.target) for row in registry.coverage("npu::{}")] == [
        ("npu::A-9", "A-9"),
        ("npu::A-10", "A-10"),
    ]
    with pytest.raises(ValueError, match="A-9 has a handler already"):
        registry.handles("A-9")(lambda node, emit: node)
    assert registry["A-9"].convert(Silent(), None) == (x,)
