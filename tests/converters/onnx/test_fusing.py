"""`onnx_sparse.fuse` of models of any form: what it takes, and what it leaves as it is."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import ModelProto, parser
from support.fused_models import SCATTERED_ROWS, Pair

import onnx_sparse
from onnx_sparse.models.forms.function_bodies import embed_functions
from onnx_sparse.schemas import DOMAIN

FEEDS = {
    "start": np.ones((3, 3), np.float32),
    "ids": np.array([2, 0, 2]),
    "rows": np.arange(9, dtype=np.float32).reshape(3, 3),
}


def test_a_fused_model_is_valid():
    pair = Pair.of(SCATTERED_ROWS)
    onnx.checker.check_model(pair.new, full_check=True)
    assert {entry.domain: entry.version for entry in pair.new.opset_import} == {"": 18, DOMAIN: 1}
    used = {name for node in pair.new.graph.node for name in node.input}
    assert {tensor.name for tensor in pair.new.graph.initializer} <= used
    pair.agree(FEEDS)


def test_fused_twice_is_fused_once():
    once = onnx_sparse.fuse(parser.parse_model(SCATTERED_ROWS))
    assert onnx_sparse.fuse(once) == once


def test_a_model_without_any_of_it_is_copied():
    model = parser.parse_model('<ir_version: 3, opset_import: ["" : 9]> g (float[n] x) => (float[n] y) { y = Abs (x) }')
    fused = onnx_sparse.fuse(model)
    assert fused == model
    assert fused is not model


def test_its_bodies_are_kept_up_to_date():
    """A portable model stays one, with a body for the operator that joins."""
    model = parser.parse_model(
        SCATTERED_ROWS.replace("{\n      shape", "{\n      data = onnx_sparse.Fill (two, none)\n      shape")
    )
    del model
    portable = embed_functions(onnx_sparse.fuse(parser.parse_model(SCATTERED_ROWS)))
    again = ModelProto()
    again.CopyFrom(portable)
    extended = parser.parse_model(SCATTERED_ROWS.replace("output", "second"))
    again.graph.node.extend(extended.graph.node)
    for node in list(again.graph.node)[-4:]:
        node.output[0] = f"second_{node.output[0]}"
        node.input[:] = [f"second_{n}" if n in ("shape", "columns", "indices") else n for n in node.input]
    again.graph.initializer.extend(extended.graph.initializer)
    again.graph.output.append(onnx.helper.make_tensor_value_info("second_second", 1, ["s", 3]))
    fused = onnx_sparse.fuse(again)
    assert [node.op_type for node in fused.graph.node if node.domain == DOMAIN] == ["UnsortedSegmentSum"] * 2
    assert [function.name for function in fused.functions] == ["UnsortedSegmentSum"]


def test_inside_a_branch():
    pair = Pair.of("""
    <ir_version: 8, opset_import: ["" : 18]>
    g (bool c, float[s, 3] start, int64[k] ids, float[k, 3] rows) => (float[s, 3] output)
    {
      output = If (c) <then_branch = then () => (float[s, 3] scattered) {
        axis = Constant <value_ints = [1]> ()
        shape = Shape (rows)
        columns = Unsqueeze (ids, axis)
        indices = Expand (columns, shape)
        scattered = ScatterElements <axis = 0, reduction = "add"> (start, indices, rows)
      }, else_branch = other () => (float[s, 3] same) { same = Identity (start) }>
    }""")
    assert pair.explanation.fired == {"scattered-rows": 1}
    for condition in (True, False):
        pair.agree({"c": np.array(condition), **FEEDS})


def test_a_default_of_an_input_is_no_constant():
    """Another axis may be given for it."""
    model = parser.parse_model(SCATTERED_ROWS)
    model.graph.input.append(onnx.helper.make_tensor_value_info("axis", onnx.TensorProto.INT64, [1]))
    fused = onnx_sparse.fuse(model)
    assert {value.name for value in fused.graph.input} == {"start", "ids", "rows", "axis"}
    assert "axis" in {tensor.name for tensor in fused.graph.initializer}


@pytest.mark.parametrize("op_type", ["Expand", "ScatterElements"])
def test_operators_of_other_domains_are_unknown(op_type: str):
    model = parser.parse_model(SCATTERED_ROWS.replace('["" : 18]', '["" : 18, "other" : 1]'))
    (node,) = (node for node in model.graph.node if node.op_type == op_type)
    node.domain = "other"
    assert onnx_sparse.fuse(model) == model


def test_constants_may_be_nodes():
    text = SCATTERED_ROWS.replace("<int64[1] axis = {1}>", "")
    text = text.replace("{", "{ axis = Constant <value_ints = [1]> ()", 1)
    Pair.of(text).agree(FEEDS)


def test_names_are_not_taken_twice():
    """Also not those that only a branch has."""
    model = parser.parse_model(SCATTERED_ROWS)
    first = Pair(model)
    taken = [name for node in first.new.graph.node for name in node.output]
    branch = "".join(f'"{name}" = Identity (start)\n' for name in taken if name != "output")
    text = SCATTERED_ROWS.replace("{\n      shape", f"""{{
      c = Constant <value_int = 1> ()
      yes = Cast <to = 9> (c)
      beside = If (yes) <then_branch = then () => (float[s, 3] one) {{ {branch} one = Identity (start) }},
        else_branch = other () => (float[s, 3] two) {{ two = Identity (start) }}>
      shape""").replace("(float[s, 3] output)", "(float[s, 3] output, float[s, 3] beside)")  # fmt: skip
    pair = Pair.of(text)
    names = [name for node in pair.new.graph.node for name in node.output]
    assert not {*names} - {"output"} & {*taken} - {"output", "shape", "yes"}
    onnx.checker.check_model(pair.new)
    pair.agree(FEEDS)


def test_large_tables_are_not_copied_through_protobuf(monkeypatch: pytest.MonkeyPatch):
    from onnx_sparse.models.files import large_models

    monkeypatch.setattr(large_models, "LEAST", 64)
    table = np.arange(160, dtype=np.float32).reshape(10, 16)
    model = parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 18]>
    g (float[s, 16] start, int64[k] ids, int64[k] picked) => (float[s, 16] output)
    <int64[1] last = {-1}>
    {
      rows = Gather (table, picked)
      indices = Unsqueeze (ids, last)
      output = ScatterND <reduction = "add"> (start, indices, rows)
    }""")
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "table"))
    pair = Pair(model)
    assert pair.ours == ["EmbeddingSegmentsSum"]
    pair.agree({"start": np.zeros((2, 16), np.float32), "ids": np.array([1, 0, 1]), "picked": np.array([9, 0, -1])})


def test_malformed_models_are_refused():
    model = parser.parse_model(SCATTERED_ROWS)
    del model.graph.node[-1].input[1:]
    with pytest.raises(ValueError, match="malformed"):
        onnx_sparse.fuse(model)
