"""`onnx_sparse.converters.convert` finds out what a source is."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.fused_models import SCATTERED_ROWS
from support.openvino_irs import IrBuilder

import onnx_sparse
from onnx_sparse.converters import ConversionError, MissingPackageError, UnknownSourceError, convert
from onnx_sparse.converters.roads.table import road_of, roads
from onnx_sparse.installation import install_command

DATA = Path(__file__).parents[2] / "data" / "ascend"


@pytest.mark.parametrize(
    ("name", "source"),
    [
        *[("a.pb", "tensorflow"), ("a.keras", "tensorflow"), ("a.meta", "tensorflow"), ("a.pt2", "torch")],
        *[("a.xml", "openvino"), ("a.json", "ascend"), ("a.onnx", "onnx"), ("a.ONNX", "onnx"), ("a.onnxtxt", "onnx")],
    ],
)
def test_a_file_is_known_by_its_name(name: str, source: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    assert road_of(tmp_path / name) is road_of(str(tmp_path / name)) is roads()[source]


def test_files_of_ascend_are_known_by_their_content() -> None:
    assert road_of(DATA / "FillLayer_0.msit.onnx").name == "ascend"
    assert road_of(DATA / "npu_masked_fill_range.onnx").name == "ascend"
    assert road_of(DATA / "dynamo.pbtxt").name == "ascend"


def test_a_saved_model_is_known_by_its_folder(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="is not a SavedModel"):
        road_of(tmp_path)
    (tmp_path / "saved_model.pb").touch()
    assert road_of(tmp_path).name == "tensorflow"


@pytest.mark.parametrize("source", [3, None, ["a.onnx"], np.zeros(3)])
def test_other_objects_are_refused(source: object) -> None:
    with pytest.raises(UnknownSourceError, match=f"cannot convert an object of type {type(source).__name__}$"):
        convert(source)


def test_a_file_whose_name_tells_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnknownSourceError, match=r"cannot tell the format of .*model\.bin from its name"):
        convert(tmp_path / "model.bin")


def test_onnx_in_every_form(tmp_path: Path) -> None:
    """A file, its bytes and a ModelProto; exporters' patterns become operators of the domain."""
    model = onnx.parser.parse_model(SCATTERED_ROWS)
    onnx.save(model, tmp_path / "model.onnx")
    for source in (model, model.SerializeToString(), tmp_path / "model.onnx", str(tmp_path / "model.onnx")):
        made = convert(source)
        assert "onnx_sparse" in {node.domain for node in made.graph.node}
        assert made == onnx_sparse.fuse(onnx_sparse.canonicalize(model))


def test_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no model")
    for source in (tmp_path / "model.onnx", b"no model", tmp_path / "missing.onnx"):
        with pytest.raises(ConversionError):
            convert(source)


def test_options_are_those_of_the_source(tmp_path: Path) -> None:
    ir = IrBuilder()
    ir.result(ir.layer("ReLU", "opset1", [ir.parameter("x", "f32", [2])], [("f32", [2])]))
    stages: list[str] = []
    convert(ir.save(tmp_path), progress=stages.append)
    assert stages == ["reading", "converting", "checking"]
    with pytest.raises(TypeError, match="signature"):
        convert(tmp_path / "model.xml", signature="serve")


def test_a_missing_package_is_one_exception_for_every_source(tmp_path: Path) -> None:
    """It names the package and the extra that brings it; it is a ConversionError, and an ImportError."""
    program = f"""
import sys
for name in ("tensorflow", "torch", "openvino"):
    sys.modules[name] = None
from onnx_sparse.converters import MissingPackageError, convert, openvino
for action in (lambda: convert({str(tmp_path / "model.keras")!r}), lambda: convert({str(tmp_path / "model.pt2")!r}),
               lambda: openvino.extensions()):
    try:
        action()
    except MissingPackageError as error:
        print(error.package, error.extra, error)
"""
    (tmp_path / "model.keras").write_bytes(b"PK")
    (tmp_path / "model.pt2").write_bytes(b"PK")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"{name} {name} {name} is not installed; run: {install_command(name)}"
        for name in ("tensorflow", "torch", "openvino")
    ]
    assert issubclass(MissingPackageError, ConversionError)
    assert issubclass(MissingPackageError, ImportError)


def test_a_model_of_openvino_in_memory() -> None:
    """Weights stay as they are: OpenVINO's own `save_model` would round them to float16."""
    openvino = pytest.importorskip("openvino")
    from openvino import opset15 as ops

    table = np.float32([[1 / 3], [2 / 3], [1]])
    ids = ops.parameter([-1], np.int64, name="ids")
    model = openvino.Model([ops.gather(ops.constant(table), ids, ops.constant(0))], [ids], "lookup")
    assert road_of(model).name == "openvino"
    converted = convert(model, explain=(told := []).append)
    (rows,) = onnx_sparse.InferenceSession(converted).run(None, {"ids": np.array([2, 0])})
    np.testing.assert_array_equal(rows, table[[2, 0]])
    assert told[0].nodes == len(converted.graph.node)
    (record,) = importlib.import_module("onnx_sparse.converters.openvino").verify(model, converted)
    assert record.ok
    with pytest.raises(ConversionError, match=r"weights are for the \.xml of an IR"):
        convert(model, weights="model.bin")


@pytest.mark.parametrize("road", ["tensorflow", "torch", "openvino", "ascend", "onnx"])
def test_options_that_every_source_takes(road: str) -> None:
    """A caller need not know which source there is."""
    convert_one = importlib.import_module(f"onnx_sparse.converters.{road}").convert
    assert {"progress", "explain", "check_ids"} <= inspect.signature(convert_one).parameters.keys()


@pytest.mark.parametrize("check_ids", [False, True])
def test_ids_are_checked_in_an_ir(check_ids: bool, tmp_path: Path) -> None:
    """OpenVINO counts negative ids from the end, as ONNX does; whoever asks for it gets an error."""
    net = IrBuilder()
    read = [net.constant(np.float32([[1], [2]])), net.parameter("ids", "i64", [-1]), net.constant(np.array(0))]
    net.result(net.layer("Gather", "opset8", read, [("f32", [-1, 1])]))
    session = onnx_sparse.InferenceSession(convert(net.save(tmp_path), check_ids=check_ids))
    if check_ids:
        with pytest.raises(Exception, match="out of data bounds"):
            session.run(None, {"ids": np.array([-1])})
    else:
        assert session.run(None, {"ids": np.array([-1])})[0] == 2
