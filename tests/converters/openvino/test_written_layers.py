"""Layers as IRs write them, in names and inputs that OpenVINO's Python API has not or drops, against OpenVINO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.openvino_irs import IrBuilder, type_name

from onnx_sparse import InferenceSession
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert

ov = pytest.importorskip("openvino")


def written(folder: Path, layer: str, inputs: list[Any], result: list[int], data: dict[str, Any]) -> Path:
    """The IR of one layer, `Relu-1`, whose inputs are the model's."""
    ir, (op_type, _, version) = IrBuilder(), layer.rpartition("-")
    given = [ir.parameter(f"p{k}", type_name(x.dtype), list(x.shape)) for k, x in enumerate(inputs)]
    ir.result(ir.layer(op_type, f"opset{version}", given, [("f32", result)], data))
    return ir.save(folder)


def check(path: Path, core: Any, inputs: list[Any], atol: float = 0) -> None:
    (wanted,) = core.compile_model(core.read_model(path), "CPU")(inputs).values()
    (made,) = InferenceSession(convert(path)).run(None, {f"p{k}": x for k, x in enumerate(inputs)})
    np.testing.assert_allclose(made, wanted, rtol=0, atol=atol)


@pytest.mark.parametrize("seed", range(6))
def test_clustered_prior_boxes_of_any_steps(core: Any, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps = {key: float(rng.choice([0, 7.5, 16])) for key in ("step", "step_w", "step_h")}
    data = steps | {
        "width": "10, 20",
        "height": "5, 8",
        "clip": "false",
        "offset": 0.5,
        "variance": "0.1, 0.1, 0.2, 0.2",
    }
    inputs = [np.int64([3, 4]), np.int64([60, 100])]
    check(written(tmp_path, "PriorBoxClustered-1", inputs, [2, 96], data), core, inputs)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sink", [(1, 2, 1, 1), (3, 2, 1, 1), (1, 2, 4, 1), (1, 1, 1, 1)])
def test_attention_with_a_sink(core: Any, tmp_path: Path, sink: tuple[int, ...], causal: bool) -> None:
    """A sink is a score of no value: rows of which everything else is masked are 0, not NaN."""
    rng = np.random.default_rng(0)
    shapes = (3, 2, 4, 8), (3, 2, 5, 8), (3, 2, 5, 6), (4, 5), (), sink
    inputs = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    inputs[3][1] = -np.inf
    path = written(tmp_path, "ScaledDotProductAttention-13", inputs, [3, 2, 4, 6], {"causal": str(causal).lower()})
    check(path, core, inputs, atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_groups_of_rows_by_matrices_of_their_own(tmp_path: Path, seed: int) -> None:
    """Against numpy: OpenVINO's CPU plugin has no such kernel. Groups may have no rows, and rows no group."""
    rng = np.random.default_rng(seed)
    groups, rows, width, columns = rng.integers(1, 9, 4)
    a, b = (rng.normal(size=s).astype(np.float32) for s in ((rows, width), (groups, columns, width)))
    ends = np.sort(rng.integers(0, rows + 1, groups)).astype(rng.choice([np.int32, np.int64]))
    path = written(tmp_path, "GroupedMatMul-17", [a, b, ends], [rows, columns], {})
    (made,) = InferenceSession(convert(path)).run(None, {"p0": a, "p1": b, "p2": ends})
    wanted = np.zeros((rows, columns), np.float32)
    for group, (begin, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        wanted[begin:end] = a[begin:end] @ b[group].T
    np.testing.assert_allclose(made, wanted, atol=1e-5)


def test_groups_along_an_axis(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=s).astype(np.float32) for s in ((3, 2, 4), (3, 5, 4)))
    path = written(tmp_path, "GroupedMatMul-17", [a, b], [3, 2, 5], {})
    (made,) = InferenceSession(convert(path)).run(None, {"p0": a, "p1": b})
    np.testing.assert_allclose(made, a @ b.swapaxes(1, 2), atol=1e-5)


@pytest.mark.parametrize("kind", ["WordpieceTokenizer", "RaggedToDense", "VocabEncoder"])
def test_tokenizers_are_refused_by_their_purpose(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, f"{kind}-1", [np.zeros(2, np.float32)], [2], {})
    path.write_text(path.read_text().replace(f'type="{kind}" version="opset1"', f'type="{kind}" version="extension"'))
    with pytest.raises(ConversionError, match=r"of openvino_tokenizers \(.*\), .* tokenize outside of the model"):
        convert(path)


def test_sinks_of_other_ranks_are_refused(tmp_path: Path) -> None:
    shapes = (3, 2, 4, 8), (3, 2, 5, 8), (3, 2, 5, 6), (4, 5), (), (2,)
    inputs = [np.zeros(shape, np.float32) for shape in shapes]
    path = written(tmp_path, "ScaledDotProductAttention-13", inputs, [3, 2, 4, 6], {"causal": "false"})
    with pytest.raises(ConversionError, match=r"a sink p5 float.* for the query p0"):
        convert(path)


def test_sizes_of_an_interpolation_by_scales_are_not_read(core: Any, tmp_path: Path) -> None:
    ir, x = IrBuilder(), np.random.default_rng(0).random((1, 2, 3, 3), np.float32)
    rest = [ir.constant(np.array(v)) for v in (np.int64([1, 1]), np.float32([2, 2]), np.int64([2, 3]))]
    data = {"mode": "linear_onnx", "shape_calculation_mode": "scales", "coordinate_transformation_mode": "half_pixel"}
    data |= {"pads_begin": "0", "pads_end": "0", "nearest_mode": "floor", "antialias": "false", "cube_coeff": "-0.75"}
    given = [ir.parameter("p0", "f32", [1, 2, 3, 3]), *rest]
    ir.result(ir.layer("Interpolate", "opset4", given, [("f32", [1, 2, 6, 6])], data))
    check(ir.save(tmp_path), core, [x], atol=1e-5)


@pytest.mark.parametrize("other", [np.float16, np.float64])
@pytest.mark.parametrize("data", [np.float16, np.float32])
def test_updates_of_another_float_type(core: Any, tmp_path: Path, data: Any, other: Any) -> None:
    ir = IrBuilder()
    given = [ir.parameter(f"p{k}", type_name(t), [size]) for k, (t, size) in enumerate(((data, 6), (other, 2)))]
    rest = [ir.constant(np.int64(v)) for v in ([1], [5], [2], [0])]
    ir.result(ir.layer("SliceScatter", "opset15", [*given, *rest], [(type_name(data), [6])]))
    path, inputs = ir.save(tmp_path), [np.arange(6).astype(data), np.array([0.5, -2]).astype(other)]
    (made,) = InferenceSession(convert(path)).run(None, {f"p{k}": x for k, x in enumerate(inputs)})
    assert made.tolist() == [0, 0.5, 2, -2, 4, 5]
    assert made.dtype == data


def test_limits_of_more_digits_than_the_data(core: Any, tmp_path: Path) -> None:
    """Half floats are rounded to steps in float32."""
    ir, x = IrBuilder(), np.linspace(-2, 2, 401).astype(np.float16)
    limits = [ir.constant(np.float32(v)) for v in (-1.0003, 0.9997, -0.8228, 0.8761)]
    given = [ir.parameter("p0", "f16", [401]), *limits]
    ir.result(ir.layer("FakeQuantize", "opset1", given, [("f16", [401])], {"levels": 16}))
    check(ir.save(tmp_path), core, [x], atol=1e-3)
