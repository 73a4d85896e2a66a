"""`verify`: the IR in OpenVINO, the model in ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from openvino_irs import IrBuilder

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.openvino import convert, verify
from onnx_sparse.converters.openvino.ir import read_ir
from onnx_sparse.converters.openvino.known_faults import faults_of


def division(folder: Path) -> Path:
    net = IrBuilder()
    x, y = net.parameter("x", "i32", [3]), net.parameter("y", "i32", [3])
    net.result(net.layer("Divide", "opset1", [x, y], [("i32", [3])], {"m_pythondiv": "true"}))
    return net.save(folder)


def test_faults_are_found_by_operator_and_type(tmp_path: Path) -> None:
    assert faults_of(read_ir(division(tmp_path))) == [
        "Divide: integers are divided toward zero although m_pythondiv is true"
    ]


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
