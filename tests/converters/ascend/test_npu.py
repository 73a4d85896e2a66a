"""ONNX files with operators of torch_npu's exporter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.ascend_graphs import run

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.ascend import convert

F16, F32 = np.float16, np.float32
RNG = np.random.default_rng(29)


def save(folder: Path, nodes, arrays, results=1, opset=11) -> Path:
    """A model of torch_npu's exporter with the nodes, inputs in0, in1, ... and outputs out0, ..."""
    inputs = [
        helper.make_tensor_value_info(f"in{i}", helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for i, a in enumerate(arrays)
    ]
    outputs = [onnx.ValueInfoProto(name=f"out{i}") for i in range(results)]
    for value in outputs:
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("npu", 1)]
    graph = helper.make_graph(nodes, "torch_jit", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=6), folder / "npu.onnx")
    return folder / "npu.onnx"


def npu(op_type, count=1, results=1, **attributes):
    names = [f"in{i}" for i in range(count)]
    return helper.make_node(op_type, names, [f"out{i}" for i in range(results)], domain="npu", **attributes)


X = RNG.standard_normal((2, 3, 4)).astype(F32)
Q, MASK = RNG.standard_normal((2, 2, 3, 4)).astype(F32), np.triu(np.full((3, 3), -10000, F32), 1)[None, None]
SCORES = np.exp(Q @ Q[:, ::-1].swapaxes(2, 3) * 0.5 + MASK)
ATTENDED = (SCORES / SCORES.sum(-1, keepdims=True) @ (Q * 2)).transpose(0, 2, 1, 3).reshape(6, 8)
SCATTERED = X[0, :2, :2].copy()
SCATTERED[[0, 1], [0, 1]] = [7, 8]


@pytest.mark.parametrize("opset", [11, 13, 17])
@pytest.mark.parametrize(
    ("node", "arrays", "expected"),
    [
        (npu("NPUOneHot", num_classses=-1, depth=3, on_value=2, off_value=0), [np.array([2, 0, 5], np.int32)],
         [[0, 0, 2], [2, 0, 0], [0, 0, 0]]),
        (npu("NPUSlice", offsetss=[0, 1, 0], sizes=[2, 2, 1]), [X], X[:, 1:3, :1]),
        (npu("NPUIndexing", begins=[0, 2, 0], ends=[2, 0, 4], strides=[1, -1, 2], begin_mask=0), [X],
         X[:, 2:0:-1, ::2]),
        (npu("NPUFastGelu"), [X],
         X * np.exp(0.851 * (X - np.abs(X))) / (1 + np.exp(-1.702 * np.abs(X)))),
        (npu("NPUGeluV2", approximate="tanh"), [X],
         0.5 * X * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X**3)))),
        (npu("NPUMish"), [X], X * np.tanh(np.log1p(np.exp(X)))),
        (npu("NPURmsNorm", 2, 2, epsilon=1e-3), [X, X[0, 0]],
         X * X[0, 0] / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-3)),
        (npu("NPUFormatCast", acl_format=29), [X], X),
        (npu("NPURotaryMul", 3), [X, X[:, :1], X[:, 1:2]],
         X * X[:, :1] + np.concatenate([-X[..., 2:], X[..., :2]], -1) * X[:, 1:2]),
        (npu("NPUScaledMaskedSoftmax", 2, scale=0.5, fixed_triu_mask=0), [X, X > 1],
         np.exp(np.where(X > 1, -10000, X / 2)) / np.exp(np.where(X > 1, -10000, X / 2)).sum(-1, keepdims=True)),
        (npu("NPUFusedAttentionScore", 4, scale=0.5, keep_prob=1.0), [Q, Q[:, ::-1].copy(), Q * 2, MASK], ATTENDED),
        (npu("NPUGeGlu", 1, 2, dim=-1, approximate=1, activate_left=0), [X],
         X[..., :2] * 0.5 * X[..., 2:] * (1 + np.tanh(np.sqrt(2 / np.pi) * (X[..., 2:] + 0.044715 * X[..., 2:] ** 3)))),
        (npu("NPUGeGlu", 1, 2, dim=-1, approximate=1, activate_left=1), [X],
         X[..., 2:] * 0.5 * X[..., :2] * (1 + np.tanh(np.sqrt(2 / np.pi) * (X[..., :2] + 0.044715 * X[..., :2] ** 3)))),
        (npu("NPUDtypeCast", dtype=6), [np.array([1, 2], F16)], [1, 2]),
        (npu("NPUScatterOP", 3, dim=0), [X[0, :2, :2], np.array([0, 1], np.int32), np.array([7, 8], F32)], SCATTERED),
    ],
    ids=lambda v: v.op_type if isinstance(v, onnx.NodeProto) else "",
)  # fmt: skip
def test_operator(tmp_path, node, arrays, expected, opset):
    arrays = [np.ascontiguousarray(array) for array in arrays]
    model = convert(save(tmp_path, [node], arrays, len(node.output), opset))
    assert "npu" not in {entry.domain for entry in model.opset_import}
    result = run(model, *arrays)[0]
    assert result.dtype == F32
    np.testing.assert_allclose(result, expected, 2e-6, 2e-6)


def test_a_chain_with_standard_operators(tmp_path):
    """Types are inferred from one rewritten operator to the next."""
    nodes = [
        helper.make_node("NPUFastGelu", ["in0"], ["a"], domain="npu"),
        helper.make_node("Transpose", ["a"], ["b"], perm=[2, 0, 1]),
        helper.make_node("NPUSlice", ["b"], ["c"], domain="npu", offsetss=[1, 0, 0], sizes=[2, 2, 3]),
        helper.make_node("Neg", ["c"], ["out0"]),
    ]
    gelu = X * np.exp(0.851 * (X - np.abs(X))) / (1 + np.exp(-1.702 * np.abs(X)))
    (y,) = run(convert(save(tmp_path, nodes, [X])), X)
    np.testing.assert_allclose(y, -gelu.transpose(2, 0, 1)[1:3], 2e-6, 2e-6)


def test_many_layers_are_inferred_a_few_times_as_a_whole(tmp_path, monkeypatch):
    """Layers of 100 MB must not be read again for each of them."""
    nodes, name = [], "in0"
    for k in range(12):
        nodes += [
            helper.make_node("NPUFastGelu", [name], [f"a{k}"], domain="npu"),
            helper.make_node("Constant", [], [f"s{k}"], value=numpy_helper.from_array(np.array([2, 12, 1]))),
            helper.make_node("Reshape", [f"a{k}", f"s{k}"], [f"b{k}"]),
            helper.make_node("NPUSlice", [f"b{k}"], [f"c{k}"], domain="npu", offsetss=[0, 0, 0], sizes=[2, 12, 1]),
        ]
        name = f"c{k}"
    nodes[-1].output[0] = "out0"
    infer, calls = onnx.shape_inference.infer_shapes, []
    monkeypatch.setattr(
        onnx.shape_inference, "infer_shapes", lambda *given, **named: (calls.append(0), infer(*given, **named))[1]
    )
    (y,) = run(convert(save(tmp_path, nodes, [X], opset=13)), X)
    x = X
    for _ in range(12):
        x = x * np.exp(0.851 * (x - np.abs(x))) / (1 + np.exp(-1.702 * np.abs(x)))
    np.testing.assert_allclose(y, x.reshape(2, 12, 1), 1e-5, 1e-5)
    assert len(calls) < 6


def test_refusals(tmp_path):
    nodes = [npu("NPULstm"), npu("NPUSlice", 1, 1, sizes=[1])]
    nodes[1].output[0] = "other"
    with pytest.raises(ConversionError) as caught:
        convert(save(tmp_path, nodes, [X]))
    assert [node.op_type for node in caught.value.unsupported] == ["npu::NPULstm", "npu::NPUSlice"]
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [])), tmp_path / "plain.onnx")
    with pytest.raises(ConversionError, match="neither msit's of an ATB graph nor one of torch_npu"):
        convert(tmp_path / "plain.onnx")


def test_an_output_of_another_shape_than_its_operator_gives(tmp_path):
    path = save(tmp_path, [npu("NPUMish")], [X], opset=17)
    model = onnx.load(path)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("out0", TensorProto.FLOAT, [2, 3, 5]))
    onnx.save(model, path)
    with pytest.raises(ConversionError, match=r"the converted model is not valid: .*\(4\) vs \(5\)"):
        convert(path)


@pytest.mark.parametrize("value", [[1, 2], [1.5], "a", ["a"], float("nan"), float("inf"), 0.5])
@pytest.mark.parametrize(
    "node",
    [
        npu("NPUMaskedFillRange", 4, axis=0),
        npu("NPUOneHot", depth=3, on_value=2, off_value=0, num_classses=0),
        npu("NPUSlice", offsetss=[0], sizes=[2]),
        npu("NPUIndexing", begins=[0], ends=[2], strides=[1], begin_mask=0),
        npu("NPURmsNorm", 2, 2, epsilon=1e-3),
        npu("NPUDtypeCast", dtype=6),
        npu("NPUScatterOP", 3, dim=0),
    ],
    ids=lambda node: node.op_type,
)
def test_attributes_of_other_types(tmp_path, node, value):
    """Each is refused by its name, or is what the operator can do with it."""
    arrays = [np.ones(3, F32), *[np.zeros(1, np.int32)] * 3][: len(node.input)]
    for attribute in node.attribute:
        changed = onnx.NodeProto.FromString(node.SerializeToString())
        changed.attribute.remove(attribute)
        changed.attribute.append(helper.make_attribute(attribute.name, value))
        try:
            convert(save(tmp_path, [changed], arrays, len(node.output), opset=17))
        except ConversionError as error:
            assert error.unsupported or "not valid" in str(error)  # noqa: PT017
        else:
            assert attribute.name == "epsilon" or value == [1, 2]


def test_a_domain_that_is_imported_twice(tmp_path):
    path = save(tmp_path, [npu("NPUMish")], [X])
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("", 11))
    onnx.save(model, path)
    with pytest.raises(ConversionError, match="imports domain '' more than once"):
        convert(path)


def test_operators_in_bodies_of_control_flow(tmp_path):
    """They are reported, not left in the model."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    bodies = {
        branch: helper.make_graph([helper.make_node(op_type, ["x"], ["t"], domain=domain, name=branch)], branch, [], [
            helper.make_tensor_value_info("t", TensorProto.FLOAT, [2])])
        for branch, op_type, domain in (("then_branch", "NPUMish", "npu"), ("else_branch", "Neg", ""))
    }  # fmt: skip
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    graph = helper.make_graph([helper.make_node("If", ["flag"], ["y"], **bodies)], "g", [flag, x], [y])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("npu", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports), tmp_path / "m.onnx")
    with pytest.raises(ConversionError, match=r"then_branch \(npu::NPUMish\): it is in the body of control flow"):
        convert(tmp_path / "m.onnx")


def test_a_domain_that_is_not_imported(tmp_path):
    node = npu("NPUOneHot", num_classses=-1, depth=3, on_value=2, off_value=0)
    path = save(tmp_path, [node], [np.array([2, 0], np.int32)], opset=17)
    model = onnx.load(path)
    del model.opset_import[1:]
    onnx.save(model, path)
    with pytest.raises(ConversionError, match=r"npu.onnx is not a valid model: .*No opset import for domain npu"):
        convert(path)
