"""The operators of the domain from handwritten IRs: the specifications' examples and every combination of inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.openvino_irs import IrBuilder, type_name

from onnx_sparse import InferenceSession
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert
from onnx_sparse.models.domain_nodes import domain_nodes
from onnx_sparse.models.forms.canonical import canonical_gaps

F = np.float32
TABLE = F([[-0.2, -0.6], [-0.1, -0.4], [-1.9, -1.8], [-1.0, 1.5], [0.8, -0.7]])


def run(
    folder: Path,
    op: str,
    opset: str,
    inputs: list[Any],
    outputs: list[tuple[str, list[int] | None]],
    data: dict[str, Any] | None = None,
    *,
    static: bool = True,
) -> list[Any]:
    """Convert a net of one layer with the inputs as Parameters, and run it. The model is canonical."""
    net = IrBuilder()
    arrays = [np.asarray(x) for x in inputs]
    sources = [
        net.parameter(f"p{k}", type_name(x.dtype), list(x.shape) if static else [-1] * x.ndim)
        for k, x in enumerate(arrays)
    ]
    number, first = net.layer(op, opset, sources, outputs, data)
    for k in range(len(outputs)):
        net.result((number, first + k))
    model = convert(net.save(folder))
    onnx.checker.check_model(model)
    assert not any(canonical_gaps(found.node) for found in domain_nodes(model))
    return list(InferenceSession(model).run(None, {f"p{k}": x for k, x in enumerate(arrays)}))


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("static", [True, False])
def test_sparse_fill_empty_rows(tmp_path: Path, index: Any, static: bool) -> None:
    inputs = [F([1, 2, 3, 4]), index([5, 6]), index([[0, 1], [0, 3], [2, 0], [3, 1]]), F(42)]
    outputs: list[Any] = [(type_name(index), [-1, 2]), ("f32", [-1]), ("boolean", [-1])]
    indices, values, empty = run(tmp_path, "SparseFillEmptyRows", "opset16", inputs, outputs, static=static)
    assert indices.tolist() == [[0, 1], [0, 3], [1, 0], [2, 0], [3, 1], [4, 0]]
    assert values.tolist() == [1, 2, 42, 3, 4, 42]
    assert empty.tolist() == [False, True, False, False, True]
    assert indices.dtype == index


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize(
    ("default", "weights", "expected"),
    [
        (False, False, [[-2.1, -2.4], [0, 0], [-0.2, 0.8]]),
        (True, False, [[-2.1, -2.4], [-0.2, -0.6], [-0.2, 0.8]]),
        (True, True, [[-1.05, -1.2], [-0.2, -0.6], [-0.1, 0.4]]),
    ],
)
def test_embedding_segments_sum(
    tmp_path: Path, index: Any, static: bool, default: bool, weights: bool, expected: list[list[float]]
) -> None:
    inputs = [TABLE, index([0, 2, 3, 4]), index([0, 0, 2, 2]), index(3)]
    inputs += [index(0)] * default + [F([0.5] * 4)] * weights
    (got,) = run(tmp_path, "EmbeddingSegmentsSum", "opset3", inputs, [("f32", [-1, 2])], static=static)
    np.testing.assert_allclose(got, F(expected), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("key", ["fill_mode", "empty_segment_value"])
@pytest.mark.parametrize(
    ("segments", "mode", "expected"),
    [
        (2, "ZERO", [5, 0]),
        (6, "zero", [5, 0, -1, 9, 0, 0]),
        (None, "LOWEST", [5, np.finfo(F).min, -1, 9]),
    ],
)
def test_segment_max(tmp_path: Path, key: str, segments: int | None, mode: str, expected: list[float]) -> None:
    inputs = [F([1, 5, -1, 8, 9]), np.int32([0, 0, 2, 3, 3])]
    inputs += [] if segments is None else [np.int64(segments)]
    (got,) = run(tmp_path, "SegmentMax", "opset16", inputs, [("f32", [-1])], {key: mode})
    assert got.tolist() == F(expected).tolist()


def test_a_port_may_say_nothing(tmp_path: Path) -> None:
    """As in the specifications' fragments: no precision, and dimensions outside their port."""
    inputs = [TABLE, np.int64([0, 2]), np.int64([0, 0]), np.int64(1)]
    (got,) = run(tmp_path, "EmbeddingSegmentsSum", "opset3", inputs, [("", None)])
    np.testing.assert_allclose(got, [[-2.1, -2.4]], rtol=1e-6)


OFFSETS = np.int32([0, 2, 2, 4, 4])  # the second and the last bag are empty
BAGS = [[-2.1, -2.4], [0, 0], [-0.2, 0.8], [0, 0]]


@pytest.mark.parametrize(("op", "opset"), [("EmbeddingBagOffsetsSum", "opset3"), ("EmbeddingBagOffsets", "opset15")])
def test_embedding_bag_offsets(tmp_path: Path, op: str, opset: str) -> None:
    ids = np.int32([0, 2, 3, 4])
    (got,) = run(tmp_path, op, opset, [TABLE, ids, OFFSETS[:4]], [("f32", [4, 2])])
    np.testing.assert_allclose(got, BAGS, rtol=1e-5, atol=1e-6)
    weights = F([1, 2, 3, 4])
    (got,) = run(tmp_path, op, opset, [TABLE, ids, OFFSETS, np.int32(1), weights], [("f32", [5, 2])])
    expected = [TABLE[0] + 2 * TABLE[2], TABLE[1], 3 * TABLE[3] + 4 * TABLE[4], TABLE[1], TABLE[1]]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_embedding_bags_without_indices(tmp_path: Path) -> None:
    inputs = [TABLE, np.zeros(0, np.int64), np.zeros(2, np.int64)]
    (got,) = run(tmp_path, "EmbeddingBagOffsets", "opset15", inputs, [("f32", [-1, 2])], {"reduction": "mean"})
    assert got.tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_embedding_bag_packed(tmp_path: Path, reduction: str) -> None:
    ids = np.int64([[0, 2], [3, 4], [1, 1]])
    (got,) = run(tmp_path, "EmbeddingBagPacked", "opset15", [TABLE, ids], [("f32", [3, 2])], {"reduction": reduction})
    np.testing.assert_allclose(got, getattr(TABLE[ids], reduction)(axis=1), rtol=1e-6, atol=1e-6)


def test_integers_are_divided_as_specified(tmp_path: Path) -> None:
    inputs = [np.int32([7, -7, 8, -8]), np.int32([2, 2, -3, 2])]
    (got,) = run(tmp_path, "Divide", "opset1", inputs, [("i32", [4])], {"m_pythondiv": "true"})
    assert got.tolist() == [3, -4, -3, -4]
    (got,) = run(tmp_path, "Divide", "opset1", inputs, [("i32", [4])], {"m_pythondiv": "false"})
    assert got.tolist() == [3, -3, -2, -4]


def test_reverse(tmp_path: Path) -> None:
    net = IrBuilder()
    x = net.parameter("x", "i64", [2, 3])
    net.result(net.layer("Reverse", "opset1", [x, net.constant(np.int64([1]))], [("i64", [2, 3])], {"mode": "index"}))
    (got,) = InferenceSession(convert(net.save(tmp_path))).run(None, {"x": np.arange(6).reshape(2, 3)})
    assert got.tolist() == [[2, 1, 0], [5, 4, 3]]


def test_all_unsupported_layers_are_listed(tmp_path: Path) -> None:
    net = IrBuilder()
    x = net.parameter("x", "f32", [2])
    first = net.layer("FirstUnknown", "opset1", [x], [("f32", [2])], name="one")
    second = net.layer("SecondUnknown", "opset1", [first], [("f32", [2])], name="two")
    third = net.layer("ReLU", "opset1", [second], [("f32", [2])])
    net.result(net.layer("ThirdUnknown", "opset1", [third], [("f32", [2])], name="three"))
    with pytest.raises(ConversionError, match="3 nodes cannot be converted") as caught:
        convert(net.save(tmp_path))
    assert [node.node for node in caught.value.unsupported] == ["one", "two", "three"]
