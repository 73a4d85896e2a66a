"""`onnx-sparse convert` of Ascend's graphs: recognizing files, the options, and refusals that write nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from support.ascend_graphs import layer, operation, write, write_tensors

SAMPLES = Path(__file__).parent.parent / "data" / "ascend"
FILL = ["--input-spec", "FillAdd_0_input_0:float16:2,3"]
GO_LSE = [f"--input-spec=GoLse_0_input_{i}:{kind}:2,3" for i, kind in enumerate(("fp16", "fp16", "int8"))]


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.onnx"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fill_nomask.atb_raw.json", FILL),
        ("FillAdd_0.msprobe_layer.json", FILL),
        ("FillLayer_0.msit.onnx", ["--input-spec", "FillLayer_0_input_0:float16:2,3"]),
        ("fill_family.air", []),
        ("dynamo.pbtxt", []),
        ("ge_proto_00000000_graph_1_PreRunBegin.txt", []),
        ("ge_onnx_00000000_graph_1_PreRunBegin.level1.pbtxt", []),
        ("npu_masked_fill_range.onnx", []),
    ],
)
@pytest.mark.parametrize("form", [[], ["--lower"], ["--from", "ascend", "--portable"]])
def test_files_are_recognized(cli, out, name, options, form):
    result = cli("convert", SAMPLES / name, "-o", out, *options, *form, "--json")
    assert result.code == 0, result.err
    assert result.json["from"] == "ascend"
    onnx.checker.check_model(onnx.load(out))


def test_options_of_fills(cli, out, tmp_path):
    source = SAMPLES / "GoLse_0.msprobe_layer.json"
    for overflow, expected in (("saturate", -65504), ("ieee", -np.inf)):
        options = ["--fill-value=-inf", "--fp16-overflow", overflow, *GO_LSE]
        assert cli("convert", source, "-o", out, *options).code == 0
        values = [onnx.numpy_helper.to_array(t) for t in onnx.load(out).graph.initializer]
        assert expected in [value.item() for value in values if value.size == 1]


def test_keep_unknown(cli, out, tmp_path):
    path = write(tmp_path, layer(["x"], ["y"], [operation("MlaOperation", ["x"], ["y"], {})]))
    assert cli("convert", path, "-o", out, "--input-spec", "x:fp16:3", "--keep-unknown").code == 0
    assert onnx.load(out).graph.node[0].domain == "ascend.atb"


def test_tensors_and_notes(cli, out, tmp_path):
    x = np.ones((2, 3), np.float16)
    path = write(tmp_path, layer(["x"], ["y"], [operation("ElewiseOperation", ["x", "x"], ["y"], {"elewiseType": 8})]))
    write_tensors(tmp_path / "somewhere", [x], [x])
    write_tensors(tmp_path / "somewhere/0_ElewiseOperation", [x.ravel(), x.ravel()], [x.ravel()])
    result = cli("convert", path, "-o", out, "--tensors", tmp_path / "somewhere")
    assert result.code == 0, result.err
    assert "is reshaped from [2, 3] to [6]" in result.out
    assert len(cli("convert", path, "-o", out, "--tensors", tmp_path / "somewhere", "--json").json["notes"]) == 2


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["expert_filter.atb_raw.json"], 1, "MaskFillNode"),
            (["fill_nomask.atb_raw.json"], 1, "--input-spec FillAdd_0_input_0:float16:2,3"),
            (["fill_nomask.atb_raw.json", "--input-spec", "nonsense"], 1, "NAME:DTYPE:2,3"),
            (["fill_nomask.atb_raw.json", "--tensors", "nowhere", *FILL], 1, "no such file"),
            (["fill_nomask.atb_raw.json", "--verify", *FILL], 2, "replay"),
            (["fill_nomask.atb_raw.json", "--inputs", "a:0", *FILL], 2, "--input-spec NAME:DTYPE:2,3"),
            (["GoLse_0.msprobe_layer.json", *GO_LSE], 1, "--fill-value"),
            (["ge_onnx_00000000_graph_1_PreRunBegin.level2.pbtxt"], 1, "DUMP_GE_GRAPH=1"),
        ],
    )
    def test_nothing_is_written(self, cli, out, arguments, code, message):
        result = cli("convert", SAMPLES / arguments[0], "-o", out, *arguments[1:])
        assert result.code == code
        assert message in result.err
        assert not out.exists()

    def test_a_whole_dump(self, cli, out, tmp_path):
        (tmp_path / "dump/info/layer").mkdir(parents=True)
        assert "onnx-sparse replay" in cli("convert", tmp_path / "dump", "-o", out).error
        assert "is a folder" in cli("convert", tmp_path / "dump", "-o", out, "--from", "ascend").error

    def test_truncated_json(self, cli, out, tmp_path):
        text = (SAMPLES / "fill_nomask.atb_raw.json").read_text()
        assert "is not JSON" in cli("convert", write(tmp_path, text[:-9]), "-o", out).error
        assert not out.exists()

    def test_options_for_other_sources(self, cli, out, segment_max):
        result = cli("convert", segment_max, "-o", out, "--keep-unknown")
        assert result.code == 2
        assert "--keep-unknown is for Ascend's graphs, and this source is onnx" in result.err
