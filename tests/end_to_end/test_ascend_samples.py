"""The sample files, written by the rules of Ascend's tools: each runs, or is refused for the right reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from support.ascend_graphs import run

import onnx_sparse
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.ascend import convert

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).parent.parent / "data" / "ascend"
F16 = np.float16

EXPERTS = [f"ExpertFilter_0_input_{i}:{kind}" for i, kind in enumerate(
    ["int32:4,8", "float16:4,8", "int64:1", "int64:1", "int32:1"])]  # fmt: skip


def backends() -> list[str]:
    try:
        onnx_sparse.get_library_path()
    except FileNotFoundError:
        return ["python"]
    return ["native", "python"]


@pytest.fixture(params=["native", "python", "portable", "reference"])
def evaluate(request):
    """Run a model in each of the possible ways."""
    if request.param in ("native", "python"):
        if request.param not in backends():
            pytest.skip("this installation has no native library")
        return lambda model, *arrays: run(model, *arrays, backend=request.param)

    def elsewhere(model, *arrays):
        feeds = dict(zip([value.name for value in model.graph.input], arrays, strict=True))
        if request.param == "portable":
            import onnxruntime

            lowered = onnx_sparse.lower(model)
            return onnxruntime.InferenceSession(lowered.SerializeToString()).run(None, feeds)
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(model, new_ops=onnx_sparse.reference_ops()).run(None, feeds)

    return elsewhere


def expert_filter(experts, weights, first, one, count):
    """ExpertFilter in numpy, one by one of the nine nodes that MindIE wrote."""
    local = experts.astype(np.int64) - first  # 0 CAST, 1 SUB
    below = (local < count.astype(np.int64)).astype(np.int8)  # 2 CAST, 3 LESS
    as_int32 = local.astype(np.int32)  # 4 CAST
    output_0 = np.where(below != 0, np.int32(16), as_int32)  # 5 Fill
    above = (local > one).astype(np.int8)  # 6 GREATER
    output_1 = np.where(below != 0, F16(0), weights)  # 7 Fill
    output_1 = np.where(above != 0, F16(0), output_1)  # 8 Fill in place
    return output_0, output_1


@pytest.mark.parametrize(
    "name", ["ExpertFilter_0.msprobe_layer.json", "expert_filter_fillonly.atb_raw.json", "ExpertFilter_0.msit.onnx"]
)
def test_expert_filter(name, evaluate):
    model = convert(SAMPLES / name, inputs=EXPERTS)
    onnx.checker.check_model(model)
    rng = np.random.default_rng(1)
    arrays = (
        rng.integers(0, 16, (4, 8)).astype(np.int32),
        rng.random((4, 8)).astype(F16),
        np.array([4]),
        np.array([6]),
        np.array([3], np.int32),
    )
    expected = expert_filter(*arrays)
    assert 0 < np.count_nonzero(expected[1]) < expected[1].size
    for actual, wanted in zip(evaluate(model, *arrays), expected, strict=True):
        assert actual.dtype == wanted.dtype
        np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FillAdd_0.msprobe_layer.json", 2.5),
        ("fill_nomask.atb_raw.json", 2.5),
        ("FillLayer_0.json", 0),
        ("FillLayer_0.msit.onnx", 0),
    ],
)
def test_fill_and_add(name, value, evaluate):
    layer = "FillLayer_0" if name.startswith("FillLayer") else "FillAdd_0"
    x = np.arange(6, dtype=F16).reshape(2, 3)
    (y,) = evaluate(convert(SAMPLES / name, inputs=[f"{layer}_input_0:float16:2,3"]), x)
    np.testing.assert_array_equal(y, x + F16(value))


@pytest.mark.parametrize("name", ["GoLse_0.msprobe_layer.json", "fa_update_head.atb_raw.json"])
def test_fills_in_place_with_minus_infinity(name, evaluate):
    inputs = ["GoLse_0_input_0:float16:2,3", "GoLse_0_input_1:float16:2,3", "GoLse_0_input_2:int8:2,1"]
    with pytest.raises(ConversionError, match="--fill-value"):
        convert(SAMPLES / name, inputs=inputs)
    go, lse, mask = np.ones((2, 3), F16), np.full((2, 3), 2, F16), np.array([[1], [0]], np.int8)
    for overflow, lowest in (("saturate", -65504), ("ieee", -np.inf)):
        model = convert(SAMPLES / name, inputs=inputs, fill_value=float("-inf"), fp16_overflow=overflow)
        (y,) = evaluate(model, go, lse, mask)
        np.testing.assert_array_equal(y, [[0] * 3 + [lowest] * 3, [1] * 3 + [2] * 3])


def test_a_plugin_operation_is_named():
    with pytest.raises(ConversionError) as caught:
        convert(SAMPLES / "expert_filter.atb_raw.json", inputs=EXPERTS)
    (node,) = caught.value.unsupported
    assert node.node == "MaskFillNode"
    assert "name only" in node.reason


@pytest.mark.parametrize(
    "name",
    [
        "fill_family.air",
        "dynamo.pbtxt",
        "ge_proto_00000000_graph_1_PreRunBegin.txt",
        "ge_onnx_00000000_graph_1_PreRunBegin.level1.pbtxt",
    ],
)
def test_ge(name, evaluate):
    model = convert(SAMPLES / name)
    onnx.checker.check_model(model)
    x, mask = np.random.default_rng(2).standard_normal((2, 3)).astype(F16), np.array([True, False, True])
    (y,) = evaluate(model, x, mask)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, (np.where(mask, F16(-8), x) + F16(0.5) + F16(3)).astype(np.float32))


def test_ge_without_weights():
    with pytest.raises(ConversionError, match="DUMP_GE_GRAPH=1"):
        convert(SAMPLES / "ge_onnx_00000000_graph_1_PreRunBegin.level2.pbtxt")


def test_npu_masked_fill_range(evaluate):
    """torch_npu's own example: the diagonal of the first three rows is filled."""
    model = convert(SAMPLES / "npu_masked_fill_range.onnx")
    onnx.checker.check_model(model)
    x = np.random.default_rng(3).standard_normal((4, 4)).astype(np.float32)
    start = np.array([[0, 1, 2]], np.int32)
    (y,) = evaluate(model, x, start, start + 1, np.array([1], np.float32))
    np.testing.assert_array_equal(y, np.where(np.diag([True] * 3 + [False]), np.float32(1), x))
