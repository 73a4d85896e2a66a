"""`onnx-sparse replay` of dumps in the form that msprobe writes by default."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.ascend_graphs import BFLOAT16, layer, operation, write, write_tensors
from support.ascend_layers import Layer, llama
from support.msprobe_dump import write_msprobe

F16 = np.float16
ADD, MUL, NEG = {"elewiseType": 8}, {"elewiseType": 9}, {"elewiseType": 5}
LAYERS = {
    "prefill": lambda: llama("Prefill_layer_2", F16, prefill=True),
    "decode": lambda: llama("Decoder_layer_2", F16, prefill=False),
    "decode bfloat16": lambda: llama("Decoder_layer_0", BFLOAT16, prefill=False),
    "w8a8": lambda: llama("Prefill_layer_12", F16, prefill=True, quantized=True),
}


def verdicts(result):
    return {o["operation"]: o["verdict"] for run in result.json["layers"] for o in run["operations"]}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())
class TestWholeLayers:
    @pytest.fixture
    def dump(self, tmp_path, make):
        made, outputs = make()
        made.write(tmp_path / "msit", outputs)
        write_msprobe(tmp_path / "msit", tmp_path / "atb_dump_data")
        return tmp_path / "atb_dump_data"

    def test_all_operations_agree(self, cli, dump):
        assert b"\ndata=" in b"".join(file.read_bytes() for file in dump.rglob("*.bin"))  # shared tensors are there
        result = cli("replay", dump, "--json")
        assert result.code == 0, result.err
        assert set(verdicts(result).values()) <= {"equal", "ok"}

    def test_the_folder_of_a_round(self, cli, dump):
        """msprobe's own comparison is given the folder of a round."""
        assert verdicts(cli("replay", dump / "data/0_77/0", "--json")) == verdicts(cli("replay", dump, "--json"))

    def test_types_come_from_statistics_alone(self, cli, tmp_path, make):
        """Without tensors there is nothing to replay, but enough to convert."""
        made, outputs = make()
        made.write(tmp_path / "msit", outputs)
        dump = tmp_path / "dump"
        write_msprobe(tmp_path / "msit", dump, task="statistics")
        error = cli("replay", dump).error
        assert "statistics only" in error
        (graph,) = dump.glob("info/layer/0_77/*.json")
        result = cli("convert", graph, "-o", tmp_path / "m.onnx")
        assert result.code == 0, result.err


def test_a_tensor_that_is_written_without_an_output(cli, tmp_path):
    """It is not saved: the files of its readers lead to what was there before."""
    made = Layer("Layer_3", F16)
    base, rows, one = made.weight(4, 3), made.weight(2, 3), made.given(np.ones(1, F16))
    places = made.given(np.array([2, 0], np.int32))
    after = made.values[base].copy()
    after[[2, 0]] += made.values[rows]
    param = {"indexType": 1, "axis": 0}
    made.op("IndexAddOperation", [base, places, rows, one], param, after, onto=[base])
    result = made.op("ElewiseOperation", [base], NEG, -after)
    folder = made.write(tmp_path / "msit", [result])
    (graph,) = tmp_path.glob("msit/layer/*/*.json")
    document = json.loads(graph.read_text())
    del document["nodes"][0]["outTensors"]
    graph.write_text(json.dumps(document))
    (folder / "0_IndexAddOperation/after/outtensor0.bin").unlink()
    write_msprobe(tmp_path / "msit", tmp_path / "dump")
    found = verdicts(cli("replay", tmp_path / "dump", "--json"))
    assert found["ElewiseOperation_3_1"] == "equal"


class TestDamage:
    """What cannot be read fails its operation, and no other."""

    @pytest.fixture
    def dump(self, tmp_path):
        x, y = np.arange(1, 4, dtype=F16), np.full(3, 2, F16)
        nodes = [
            operation("ElewiseOperation", ["x", "y"], ["z"], ADD, "ElewiseOperation_0_0"),
            operation("ElewiseOperation", ["z", "y"], ["r"], MUL, "ElewiseOperation_0_1"),
        ]
        write(tmp_path, layer(["x", "y"], ["r"], nodes), "layer/77/Layer_0.json")
        for position, (reads, wrote) in enumerate((((x, y), x + y), ((x + y, y), (x + y) * y))):
            write_tensors(tmp_path / f"tensors/0_77/0/0_Layer/{position}_ElewiseOperation", list(reads), [wrote])
        return tmp_path

    @pytest.mark.parametrize(
        "damage",
        [
            pytest.param(lambda data: b"", id="empty"),
            pytest.param(lambda data: data[:40], id="header cut"),
            pytest.param(lambda data: data[:-1], id="data cut"),
            pytest.param(lambda data: data.replace(b"dims=3", b"dims=-1,4"), id="negative size"),
            pytest.param(lambda data: data.replace(b"dtype=1", b"dtype=999"), id="no type"),
            pytest.param(lambda data: data.replace(b"$Object.data=0,6", b"data=7_outtensor0.bin"), id="no such tensor"),
        ],
    )
    def test_of_a_tensor(self, cli, dump, damage):
        file = dump / "tensors/0_77/0/0_Layer/0_ElewiseOperation/before/intensor0.bin"
        file.write_bytes(damage(file.read_bytes()))
        result = cli("replay", dump, "--json")
        assert result.code == 1
        assert verdicts(result) == {"ElewiseOperation_0_0": "FAILED", "ElewiseOperation_0_1": "equal"}
        assert str(file) in result.err

    def test_of_parameters(self, cli, dump):
        """They are needed only if the graph has none."""
        write(dump, "{", "tensors/0_77/0/0_Layer/0_ElewiseOperation/op_param.json")
        assert cli("replay", dump, "--json").code == 0

    def test_parameters_that_contradict_the_graph(self, cli, dump):
        write(dump, MUL, "tensors/0_77/0/0_Layer/0_ElewiseOperation/op_param.json")
        (run,) = cli("replay", dump, "--json").json["layers"]
        assert run["notes"] == [
            "ElewiseOperation_0_0: elewiseType is 9 in op_param.json and 8 in the graph, which is what runs here"
        ]

    @pytest.mark.parametrize(
        ("number", "name"), [(29, "int4"), (34, "hifloat8"), (36, "float8_e4m3fn"), (16, "complex64")]
    )
    def test_types_that_are_not_computed(self, cli, dump, number, name):
        file = dump / "tensors/0_77/0/0_Layer/0_ElewiseOperation/before/intensor1.bin"
        file.write_bytes(file.read_bytes().replace(b"dtype=1\n", f"dtype={number}\n".encode()))
        result = cli("replay", dump, "--json")
        assert result.code == 0
        first, second = result.json["layers"][0]["operations"]
        assert (first["verdict"], second["verdict"]) == ("not compared", "equal")
        assert name in first["reason"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("step0/rank0/dump.json", '{"task": "statistics", "framework": "pytorch"}', "msprobe's of PyTorch"),
        ("dump.json", '{"framework": "mindspore"}', "msprobe's of MindSpore"),
        ("ge_proto_00000000_graph_1_Build.txt", "", "graphs of GE"),
        ("0/Add.add_1.3.7.1614717261785536", "", "tensors of GE's graphs"),
    ],
)
def test_dumps_of_others(cli, tmp_path, name, content, message):
    write(tmp_path, content, name)
    assert message in cli("replay", tmp_path).error
