"""`verify`: the IR in OpenVINO, the model in ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from support.openvino_irs import IrBuilder
from support.openvino_models import Case, c, ops
from support.openvino_weights import CompressedWeight

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert, verify
from onnx_sparse.converters.openvino.ir import read_ir
from onnx_sparse.converters.openvino.known_faults import faults_of
from onnx_sparse.converters.verification.comparison import Verdict

pytestmark = pytest.mark.filterwarnings("ignore:.*divides signed integers")


def division(folder: Path) -> Path:
    net = IrBuilder()
    x, y = net.parameter("x", "i32", [3]), net.parameter("y", "i32", [3])
    net.result(net.layer("Divide", "opset1", [x, y], [("i32", [3])], {"m_pythondiv": "true"}))
    return net.save(folder)


def test_faults_are_found_by_operator_and_type(tmp_path: Path) -> None:
    assert faults_of(read_ir(division(tmp_path))) == [
        "Divide: integers are divided toward zero although m_pythondiv is true"
    ]


def test_a_quotient_of_integers_is_warned_of(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="divides signed integers and, as its m_pythondiv says, rounds down"):
        convert(division(tmp_path))


@pytest.mark.filterwarnings("error")
def test_a_quotient_of_sizes_is_not_warned_of(tmp_path: Path) -> None:
    net = IrBuilder()
    x = net.parameter("x", "f32", [3, 4])
    sizes = net.layer("ShapeOf", "opset3", [x], [("i64", [2])], {"output_type": "i64"})
    two = net.constant(np.int64([2, 2]))
    net.result(net.layer("Divide", "opset1", [sizes, two], [("i64", [2])], {"m_pythondiv": "true"}))
    convert(net.save(tmp_path))


def test_equal_models_agree(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    path = division(tmp_path)
    feeds = {"x": np.int32([6, 7, 8]), "y": np.int32([3, 2, 2])}
    (record,) = verify(path, convert(path), feeds=feeds)
    assert record.ok
    assert record.note == ""


def test_a_difference_fails_and_names_the_fault(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    path = division(tmp_path)
    feeds = {"x": np.int32([-7, 7, 8]), "y": np.int32([2, 2, 2])}
    (record,) = verify(path, convert(path), feeds=feeds)
    assert not record.ok
    assert "integers are divided toward zero" in record.note


def test_a_missing_feed(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    path = division(tmp_path)
    with pytest.raises(ConversionError, match="input y"):
        verify(path, convert(path), feeds={"x": np.int32([1, 2, 3])})


F = np.float32


def products(x: Any) -> Any:
    return ops(1).matmul(ops(1).relu(ops(1).matmul(x, c(np.ones((8, 4)), F), False, False)), c(np.ones((4, 3)), F),
                         False, False)  # fmt: skip


def image(x: Any) -> Any:
    return ops(1).convolution(x, c(np.ones((2, 5, 3, 3)), F), [1, 1], [1, 1], [1, 1], [1, 1])


def sums(x: Any, y: Any) -> Any:
    return ops(1).add(ops(1).add(x, y), c(np.ones(6), F))


def halves(x: Any) -> Any:
    return ops(1).add(ops(1).reshape(x, c([-1, 2, 7]), False), c(np.ones((2, 7)), F))


def normalized(x: Any) -> Any:
    return ops(1).multiply(ops(6).mvn(x, c([-1]), True, 1e-5, "inside_sqrt"), c(np.ones(9), F))


def attended(q: Any, k: Any) -> Any:
    return ops(1).matmul(ops(8).softmax(ops(1).matmul(q, k, False, True), -1), k, False, False)


def column(x: Any) -> Any:
    """OpenVINO reads the last of six columns even where there are fewer."""
    return ops(8).gather(x, c(5), c(1))


@pytest.mark.parametrize(
    ("build", "ranks"),
    [
        (column, [2]),
        (products, [2]),
        (image, [4]),
        (sums, [2, 2]),
        (halves, [2]),
        (normalized, [3]),
        (attended, [2, 2]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_sizes_that_only_the_operators_say(build: Any, ranks: list[int], tmp_path: Path) -> None:
    """Generated inputs fit, although no input has a known size."""
    pytest.importorskip("openvino")
    path = Case("", build, *(np.zeros([1] * rank, F) for rank in ranks), dynamic=True).save(tmp_path)
    for record in verify(path, convert(path)):
        assert record.ok, record


def test_a_size_that_the_model_fixes_is_found(tmp_path: Path) -> None:
    """OpenVINO computes with sizes that do not fit; a model that takes only one size is wrong all the same."""
    pytest.importorskip("openvino")
    path = Case("", lambda x: ops(1).relu(x), np.zeros([1, 1], F), dynamic=True).save(tmp_path)
    model = convert(path)
    (relu,) = model.graph.node
    model.graph.node.insert(0, helper.make_node("Add", [relu.input[0], "zeros"], ["fixed"]))
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(3, F), "zeros"))
    relu.input[0] = "fixed"
    (record,) = verify(path, model)
    assert record.verdict is Verdict.DIFFERENT


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_ids_of_axes_whose_sizes_are_not_known(axis: int, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    inputs = np.zeros((1, 1, 1), F), np.zeros((1, 1, 1), np.int64)
    path = Case("", lambda x, ids: ops(6).gather_elements(x, ids, axis), *inputs, dynamic=True).save(tmp_path)
    (record,) = verify(path, convert(path))
    assert record.ok, record
    assert record.batches >= 2


def test_compressed_weights_are_not_rounded_further(tmp_path: Path) -> None:
    """Both programs would multiply them by numbers of 8 bits, each in its own way."""
    pytest.importorskip("openvino")

    def build(x: Any) -> Any:
        return ops(1).matmul(x, CompressedWeight("u8", (64, 256), (64, 1), "u8").node(), False, True)

    path = Case("", build, np.zeros((3, 256), F)).save(tmp_path)
    (record,) = verify(path, convert(path))
    assert record.ok
    assert record.max_abs < 1e-4


def test_bfloat16_agrees(tmp_path: Path) -> None:
    """OpenVINO hands it out as float16 of the same bits."""
    import openvino

    x = ops(13).parameter([-1, 4], openvino.Type.bf16, name="x")
    model = openvino.Model([ops(13).result(ops(13).relu(x))], [x], "m")
    openvino.save_model(model, tmp_path / "m.xml", compress_to_fp16=False)
    (record,) = verify(tmp_path / "m.xml", convert(tmp_path / "m.xml"))
    assert record.ok, record
    assert record.dtype == "bfloat16"
