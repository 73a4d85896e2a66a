"""Models of the domain on OpenVINO, against the native or Python kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from onnx_sparse import DOMAIN, InferenceSession
from onnx_sparse.converters.openvino import extensions
from onnx_sparse.schemas import OPS

ov = pytest.importorskip("openvino")

TABLE = np.random.default_rng(0).normal(size=(6, 3))
IDS, SEGMENTS = np.array([0, 5, 2, 2, 1]), np.array([0, 0, 2, 2, 5])


def check(
    folder: Path,
    op_type: str,
    inputs: dict[str, Any],
    constants: dict[str, Any],
    static: bool = False,
    **attributes: Any,
) -> None:
    op = OPS[op_type]
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    types = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in arrays.items()}
    names = [i.name if i.name in inputs or i.name in constants else "" for i in op.inputs]
    while names[-1] == "":
        names.pop()
    graph = helper.make_graph(
        [helper.make_node(op_type, names, ["output"], domain=DOMAIN, **attributes)],
        "g",
        [helper.make_tensor_value_info(n, types[n], a.shape if static else [None] * a.ndim) for n, a in arrays.items()],
        [helper.make_tensor_value_info("output", types[op.inputs[0].name], None)],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)], ir_version=10
    )
    path = folder / "model.onnx"
    onnx.save(model, path)
    core = ov.Core()
    for extension in extensions():
        core.add_extension(extension)
    compiled = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    (got,) = compiled(arrays).values()
    (want,) = InferenceSession(model).run(None, arrays)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-3 if want.dtype == np.float16 else 1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["Sum", "Mean", "SqrtN"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("default", [None, -1, 1])
@pytest.mark.parametrize("weights", [None, "empty", "given"])
def test_embedding_segments(tmp_path: Path, kind: str, index: Any, default: int | None, weights: str | None) -> None:
    inputs = {
        "emb_table": TABLE.astype(np.float32),
        "indices": IDS.astype(index),
        "segment_ids": SEGMENTS.astype(index),
    }
    constants: dict[str, Any] = {"num_segments": index(7)}
    if default is not None:
        constants["default_index"] = index(default)
    if weights == "empty":
        constants["per_sample_weights"] = np.zeros(0, np.float32)
    elif weights == "given":
        inputs["per_sample_weights"] = np.float32([1, -2, 0.5, 3, 2])
    check(tmp_path, f"EmbeddingSegments{kind}", inputs, constants, static=index is np.int32)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_entries_beyond_the_segments_are_dropped(tmp_path: Path, dtype: Any) -> None:
    table = (10 * TABLE).astype(dtype)
    inputs = {"emb_table": table, "indices": np.array([0, 5, 99]), "segment_ids": np.array([0, 1, 3])}
    check(tmp_path, "EmbeddingSegmentsSum", inputs, {"num_segments": np.int64(2)})


@pytest.mark.parametrize("kind", ["Sum", "Mean", "Prod", "Max", "Min"])
@pytest.mark.parametrize("count", [None, -1, 2, 8])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_segments(tmp_path: Path, kind: str, count: int | None, dtype: Any) -> None:
    inputs = {"data": (10 * TABLE[:5]).astype(dtype), "segment_ids": SEGMENTS}
    constants = {} if count is None else {"num_segments": np.int64(count)}
    modes = {"Max": ("ZERO", "LOWEST"), "Min": ("ZERO", "HIGHEST")}.get(kind, (None,))
    for mode in modes:
        check(tmp_path, f"Segment{kind}", inputs, constants, **({} if mode is None else {"fill_mode": mode}))


def test_not_a_number_and_infinities(tmp_path: Path) -> None:
    data = np.float32([[np.nan, 1], [2, -np.inf], [-np.inf, np.inf]])
    inputs = {"data": data, "segment_ids": np.array([0, 0, 2])}
    check(tmp_path, "SegmentMax", inputs, {}, fill_mode="LOWEST")
    check(tmp_path, "SegmentMin", inputs, {}, fill_mode="ZERO")


def test_no_rows(tmp_path: Path) -> None:
    inputs = {"data": np.zeros((0, 2), np.float32), "segment_ids": np.zeros(0, np.int64)}
    check(tmp_path, "SegmentMax", inputs, {}, fill_mode="ZERO")
    check(tmp_path, "SegmentSum", inputs, {"num_segments": np.int64(3)})
