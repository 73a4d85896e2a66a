"""`onnx-sparse replay` on synthetic dumps, whose outputs are computed here by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ascend_graphs import BFLOAT16, bin_bytes, layer, operation, write, write_tensors

F16 = np.float16


@pytest.fixture(params=["msit", "msprobe"])
def layout(request, tmp_path):
    """Where each of the two tools puts graphs and tensors: (the graph, the layer's folder)."""
    if request.param == "msit":
        return tmp_path / "layer/77/FillLayer_0.json", tmp_path / "tensors/0_77/0/0_FillLayer"
    return tmp_path / "info/layer/0_77/FillLayer_0.json", tmp_path / "data/0_77/0/0_FillLayer"


def dump(layout: tuple[Path, Path], dtype: object = F16) -> dict[str, np.ndarray]:
    """A layer x + x, filled with 1 where m, in place with -2 where n, times w; with a reshape that no file mentions."""
    graph, folder = layout
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 6)).astype(dtype)
    m, n = rng.integers(0, 2, (6,)).astype(np.int8), rng.integers(0, 2, (2, 1)).astype(np.int8)
    w = rng.standard_normal((3, 6)).astype(dtype)
    doubled = x + x
    once = np.where(m != 0, np.array(1, dtype), doubled)
    filled = np.where(n != 0, np.array(-2, dtype), once)
    y = (filled.astype(np.float64) @ w.T.astype(np.float64)).astype(dtype)
    flat = (y + y).reshape(-1)
    nodes = [
        operation("ElewiseOperation", ["x", "x"], ["t"], {"elewiseType": 8}, "ElewiseOperation_0_0"),
        operation("FillOperation", ["t", "m"], ["t"], {"value": [1.0], "withMask": True}, "FillOperation_0_1"),
        operation("FillOperation", ["t", "n"], ["t"], {"value": [-2.0], "withMask": True}, "FillOperation_0_2"),
        operation("LinearOperation", ["t", "w"], ["y"], {"hasBias": False}, "LinearOperation_0_3"),
        operation("ElewiseOperation", ["y", "y"], ["z"], {"elewiseType": 8}, "ElewiseOperation_0_4"),
    ]
    write(graph.parent, layer(["x", "m", "n", "w"], ["z"], nodes, "FillLayer_0"), graph.name)
    write_tensors(folder, [x, m, n, w], [flat])
    steps = [
        ("0_ElewiseOperation", [x, x], [doubled]),
        ("1_FillOperation", [doubled, m], [once]),
        ("2_FillOperation", [once, n], [filled]),
        ("3_LinearOperation", [filled, w], [y]),
        ("4_ElewiseOperation", [y.reshape(-1), y.reshape(-1)], [flat]),
    ]
    for name, inputs, outputs in steps:
        write_tensors(folder / name, inputs, outputs)
    return {"once": once, "y": y, "flat": flat}


@pytest.mark.parametrize("dtype", [F16, BFLOAT16])
def test_a_layer_that_agrees(cli, tmp_path, layout, dtype):
    dump(layout, dtype)
    result = cli("replay", tmp_path, "--json")
    assert result.code == 0, result.err
    (replayed,) = result.json["layers"]
    assert replayed["layer"] == "FillLayer_0"
    assert len(replayed["tensors"]) == 6
    assert {record["verdict"] for record in replayed["tensors"]} <= {"equal", "ok"}
    fills = [record for record in replayed["tensors"] if record["operation"].startswith("Fill")]
    assert [record["verdict"] for record in fills[:2]] == ["equal", "equal"]
    assert any("is reshaped from [2, 3] to [6]" in note for note in replayed["notes"])


def test_the_worst_first(cli, tmp_path, layout):
    """One of the NPU's operations is wrong: it is the only one that differs and is listed first."""
    arrays = dump(layout)
    wrong = arrays["y"].copy()
    wrong[1, 2] += 5
    (layout[1] / "3_LinearOperation/after/outtensor0.bin").write_bytes(bin_bytes(wrong))
    result = cli("replay", tmp_path)
    assert result.code == 1
    assert "1 of 6 tensors differ; the first in execution order is y of LinearOperation_0_3" in result.err
    rows = [line for line in result.out.splitlines() if "Operation_0_" in line]
    assert "LinearOperation_0_3" in rows[0]
    assert "DIFFERS" in rows[0]
    assert sum("DIFFERS" in row for row in rows) == 1
    assert cli("replay", tmp_path, "--tolerance", "10").code == 0


@pytest.mark.parametrize(
    ("change", "note"),
    [(lambda y: y.astype(np.float32), "float16 here"), (lambda y: y[:1], "[2, 3] here")],
)
def test_types_and_shapes_that_differ(cli, tmp_path, layout, change, note):
    arrays = dump(layout)
    (layout[1] / "3_LinearOperation/after/outtensor0.bin").write_bytes(bin_bytes(change(arrays["y"]).copy()))
    result = cli("replay", tmp_path, "--json")
    assert result.code == 1
    (record,) = [r for r in result.json["layers"][0]["tensors"] if r["verdict"] == "DIFFERS"]
    assert (record["operation"], record["note"]) == ("LinearOperation_0_3", note)


def test_infinities_and_nan(cli, tmp_path, layout):
    """A NaN at the same position is not a difference, another infinity is."""
    arrays = dump(layout)
    x = np.full((2, 6), np.nan, F16)
    for place in ("before/intensor0.bin", "0_ElewiseOperation/after/outtensor0.bin"):
        (layout[1] / place).write_bytes(bin_bytes(x))
    wrong = np.full_like(arrays["once"], np.inf)
    (layout[1] / "1_FillOperation/after/outtensor0.bin").write_bytes(bin_bytes(wrong))
    records = {r["operation"]: r for r in cli("replay", tmp_path, "--json").json["layers"][0]["tensors"]}
    assert records["ElewiseOperation_0_0"]["verdict"] == "equal"
    assert (records["FillOperation_0_1"]["verdict"], records["FillOperation_0_1"]["max_abs"]) == ("DIFFERS", "Infinity")


class TestRefusals:
    def test_no_dump(self, cli, tmp_path):
        assert "is not a dump" in cli("replay", tmp_path).error
        assert "no such directory" in cli("replay", tmp_path / "nowhere").error
        assert "give the dump's folder" in cli("replay", write(tmp_path, {}, "graph.json")).error

    @pytest.mark.parametrize("tolerance", ["-1", "nan", "much"])
    def test_an_illegal_tolerance(self, cli, tmp_path, tolerance):
        result = cli("replay", tmp_path, f"--tolerance={tolerance}")
        assert result.code == 2
        assert f"{tolerance!r} is not a number >= 0" in result.err

    def test_no_tensors(self, cli, tmp_path, layout):
        write(layout[0].parent, layer(["x"], ["x"], [], "FillLayer_0"), layout[0].name)
        assert "has no tensors of FillLayer_0" in cli("replay", tmp_path).error

    def test_another_layer(self, cli, tmp_path, layout):
        dump(layout)
        assert "its graphs are FillLayer_0" in cli("replay", tmp_path, "--layer", "Other_0").error
        assert cli("replay", tmp_path, "--layer", "FillLayer_0").code == 0

    def test_a_truncated_tensor(self, cli, tmp_path, layout):
        dump(layout)
        file = layout[1] / "before/intensor0.bin"
        file.write_bytes(file.read_bytes()[:-3])
        assert "intensor0.bin" in cli("replay", tmp_path).error

    def test_a_missing_input(self, cli, tmp_path, layout):
        dump(layout)
        for file in (layout[1] / "before/intensor3.bin", layout[1] / "3_LinearOperation/before/intensor1.bin"):
            file.unlink()
        assert "FillLayer_0: the dump has no data of the input w" in cli("replay", tmp_path).error

    def test_operations_that_are_not_converted(self, cli, tmp_path, layout):
        dump(layout)
        nodes = [operation("MlaOperation", ["x"], ["z"], {}, "MlaOperation_0_0")]
        write(layout[0].parent, layer(["x"], ["z"], nodes, "FillLayer_0"), layout[0].name)
        result = cli("replay", tmp_path)
        assert result.code == 1
        assert "FillLayer_0: 1 node cannot be converted" in result.err
        assert "MlaOperation_0_0 (MlaOperation): this operation is not supported" in result.err

    def test_inputs_that_an_operator_refuses(self, cli, tmp_path, layout):
        dump(layout)
        (layout[1] / "before/intensor1.bin").write_bytes(bin_bytes(np.full(6, 7, np.int8)))
        assert "does not run on the dump's inputs: MaskedFill: mask[0] = 7" in cli("replay", tmp_path).error

    def test_an_output_that_nothing_writes(self, cli, tmp_path, layout):
        dump(layout)
        write(layout[0].parent, layer(["x"], ["z"], [], "FillLayer_0"), layout[0].name)
        assert cli("replay", tmp_path).error == "FillLayer_0: no operation writes the graph's output z"

    def test_one_layer_does_not_stop_the_others(self, cli, tmp_path, layout):
        dump(layout)
        nodes = [operation("MlaOperation", ["x"], ["z"], {}, "MlaOperation_1_0")]
        write(layout[0].parent, layer(["x"], ["z"], nodes, "Attention_1"), "Attention_1.json")
        write_tensors(layout[1].parent / "1_Attention", [np.ones(2, F16)], [np.ones(2, F16)])
        result = cli("replay", tmp_path)
        assert result.code == 1
        assert "1 layer was not run, 1 were" in result.err
        assert "FillOperation_0_1" in result.out
        document = cli("replay", tmp_path, "--json").json
        assert [layer["layer"] for layer in document["layers"]] == ["FillLayer_0"]
        assert "MlaOperation" in document["not_run"]["Attention_1"]
