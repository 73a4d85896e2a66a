"""`onnx-sparse convert` of OpenVINO's IRs: the two files, verification, and refusals that write nothing."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
from support.openvino_irs import IrBuilder

from onnx_sparse.installation import install_command


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out" / "out.onnx"


@pytest.fixture
def source(tmp_path, out):
    """An IR: the maximum of each segment of rows, plus 1."""
    out.parent.mkdir()
    net = IrBuilder()
    data, ids = net.parameter("data", "f32", [-1, 2]), net.parameter("segment_ids", "i64", [-1])
    highest = net.layer("SegmentMax", "opset16", [data, ids], [("f32", [-1, 2])], {"fill_mode": "zero"})
    net.result(net.layer("Add", "opset1", [highest, net.constant(np.float32([1]))], [("f32", [-1, 2])]))
    return net.save(tmp_path)


def test_an_ir(cli, source, out):
    document = cli("convert", source, "-o", out, "--json").json
    assert document["from"] == "openvino"
    assert document["our_nodes"] == {"SegmentMax": 1}
    ran = cli("run", out, "-i", "data=[[1, 2], [3, 0]]", "-i", "segment_ids=[0, 0]", "--json")
    assert ran.json["outputs"][0]["values"] == [[4, 3]]


@pytest.mark.parametrize("form", ["--portable", "--lower"])
def test_other_forms(cli, source, out, form):
    assert cli("convert", source, "-o", out, form).code == 0
    onnx.checker.check_model(onnx.load(out))


@pytest.mark.parametrize(
    "options", [[], ["--lower"], ["--verify-with", "data=[[1, 2]]", "--verify-with", "segment_ids=[0]"]]
)
def test_verification(cli, source, out, options):
    pytest.importorskip("openvino")
    result = cli("convert", source, "-o", out, "--verify", *options, "--json")
    assert result.code == 0, result.err
    assert [record["ok"] for record in result.json["verification"]] == [True]


def test_answers_that_differ_are_not_written(cli, tmp_path, out):
    """OpenVINO rounds a quotient toward zero where its specification rounds down."""
    pytest.importorskip("openvino")
    out.parent.mkdir()
    net = IrBuilder()
    x, y = net.parameter("x", "i32", [1]), net.parameter("y", "i32", [1])
    net.result(net.layer("Divide", "opset1", [x, y], [("i32", [1])], {"m_pythondiv": "true"}))
    result = cli("convert", net.save(tmp_path), "-o", out, "--verify-with", "x=[-7]", "--verify-with", "y=[2]")
    assert result.code == 1
    assert "verification fails, no model is written" in result.error
    assert "integers are divided toward zero" in result.error
    assert not out.exists()


def test_what_a_converter_warns_of_is_a_note(cli, tmp_path, out):
    out.parent.mkdir()
    net = IrBuilder()
    x, y = net.parameter("x", "i32", [1]), net.parameter("y", "i32", [1])
    net.result(net.layer("Divide", "opset1", [x, y], [("i32", [1])], {"m_pythondiv": "true"}))
    source = net.save(tmp_path)
    result = cli("convert", source, "-o", out)
    assert not result.err
    assert "  note      'Divide_2' divides signed integers" in result.out
    (note,) = cli("convert", source, "-o", out, "--json").json["notes"]
    assert "rounds down" in note


def test_verification_without_openvino(cli, source, out, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    result = cli("convert", source, "-o", out, "--verify")
    assert result.code == 1
    assert install_command("openvino") in result.error
    assert not out.exists()


def replaced(old, new):
    def change(xml):
        text = xml.read_text()
        assert old in text
        xml.write_text(text.replace(old, new))

    return change


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><net version="11">&b;</net>'


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        pytest.param(lambda xml: xml.with_suffix(".bin").unlink(), "model.bin", id="no .bin"),
        pytest.param(lambda xml: xml.with_suffix(".bin").write_bytes(b"\0"), "which has only 1", id="truncated .bin"),
        pytest.param(replaced('offset="0"', 'offset="999"'), "999", id="offset past the end"),
        pytest.param(replaced('"opset16"', '"opset99"'), "opset99", id="unknown opset"),
        pytest.param(
            replaced('from-layer="0" from-port="0" to-layer="2"', 'from-layer="2" from-port="2" to-layer="2"'),
            "cycle",
            id="cycle",
        ),
        pytest.param(lambda xml: xml.write_text(BOMB), "document type", id="XML bomb"),
        pytest.param(lambda xml: xml.write_text(xml.read_text()[:200]), "model.xml", id="truncated .xml"),
        pytest.param(lambda xml: xml.write_bytes(b"\0\1\2"), "model.xml", id="no XML"),
    ],
)
def test_damaged_files(cli, source, out, damage, words):
    damage(source)
    result = cli("convert", source, "-o", out)
    assert result.code == 1
    assert words in result.err
    assert result.err.startswith("onnx-sparse: error: ")
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize("option", [["--signature", "x"], ["--inputs", "x:0"], ["--input-spec", "x:float:2"]])
def test_options_of_other_sources(cli, source, out, option):
    result = cli("convert", source, "-o", out, *option)
    assert result.code == 2
    assert option[0] in result.error
    assert not out.exists()


def test_an_ir_with_a_state_runs_step_by_step(cli, tmp_path, out):
    out.parent.mkdir()
    net = IrBuilder()
    x = net.parameter("x", "f32", [2])
    kind = {"variable_id": "sum", "variable_type": "f32", "variable_shape": "2"}
    total = net.layer("Add", "opset1", [net.layer("ReadValue", "opset6", [], [("f32", [2])], kind), x], [("f32", [2])])
    net.layer("Assign", "opset6", [total], [("f32", [2])], kind)
    net.result(total)
    source = net.save(tmp_path)
    assert cli("convert", source, "-o", out, "--json").code == 0
    outputs = cli("run", out, "-i", "x=[1, 2]", "--then", "x=[10, 10]", "--json").json["outputs"]
    assert [output["values"] for output in outputs] == [[1, 2], [11, 12], [11, 12]]
    pytest.importorskip("openvino")
    assert cli("convert", source, "-o", out, "--verify", "--json").code == 0
    result = cli("convert", source, "-o", out, "--verify-with", "x=[1, 2]", "--verify-with", "past.sum=[1, 2]")
    assert "past.sum cannot be given" in result.err
