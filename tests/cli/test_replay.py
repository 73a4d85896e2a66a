"""`onnx-sparse replay` on synthetic dumps, whose outputs are computed here by hand."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from support.ascend_graphs import BFLOAT16, bin_bytes, layer, operation, write, write_tensors

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
    assert f"at [1, 2]: {float(arrays['y'][1, 2]):.5g} here, {float(wrong[1, 2]):.5g} on the NPU" in result.out
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
    first = "0_ElewiseOperation"
    for place in (f"{first}/before/intensor0.bin", f"{first}/before/intensor1.bin", f"{first}/after/outtensor0.bin"):
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
        """The operation that reads it fails; the others are compared."""
        dump(layout)
        file = layout[1] / "3_LinearOperation/before/intensor0.bin"
        file.write_bytes(file.read_bytes()[:-3])
        result = cli("replay", tmp_path, "--json")
        assert result.code == 1
        assert "LinearOperation_0_3 (LinearOperation) failed" in result.error
        assert "intensor0.bin" in result.error
        operations = result.json["layers"][0]["operations"]
        assert [o["verdict"] for o in operations].count("FAILED") == 1

    def test_a_missing_input(self, cli, tmp_path, layout):
        dump(layout)
        for file in (layout[1] / "before/intensor3.bin", layout[1] / "3_LinearOperation/before/intensor1.bin"):
            file.unlink()
        result = cli("replay", tmp_path, "--json")
        assert result.code == 0
        verdicts = {o["operation"]: (o["verdict"], o["reason"]) for o in result.json["layers"][0]["operations"]}
        assert verdicts["LinearOperation_0_3"] == ("not compared", "the dump has no data of its input w")
        assert verdicts["ElewiseOperation_0_4"][0] == "equal"  # it reads what the dump has of the other's result

    def test_nothing_is_compared(self, cli, tmp_path, layout):
        dump(layout)
        nodes = [operation("MlaOperation", ["x"], ["z"], {}, "MlaOperation_0_0")]
        write(layout[0].parent, layer(["x"], ["z"], nodes, "FillLayer_0"), layout[0].name)
        result = cli("replay", tmp_path)
        assert result.code == 1
        assert "nothing was compared" in result.err
        assert "MlaOperation_0_0 (MlaOperation): this operation is not supported" in result.err

    def test_inputs_that_an_operator_refuses(self, cli, tmp_path, layout):
        dump(layout)
        (layout[1] / "1_FillOperation/before/intensor1.bin").write_bytes(bin_bytes(np.full(6, 7, np.int8)))
        assert "does not run on the dump's inputs: MaskedFill: mask[0] = 7" in cli("replay", tmp_path).error

    def test_an_output_that_nothing_writes(self, cli, tmp_path, layout):
        dump(layout)
        write(layout[0].parent, layer(["x"], ["z"], [], "FillLayer_0"), layout[0].name)
        assert "no operation writes the graph's output z" in cli("replay", tmp_path).err

    def test_one_layer_does_not_stop_the_others(self, cli, tmp_path, layout):
        dump(layout)
        write(layout[0].parent, layer(["x"], ["z"], [], "Attention_1"), "Attention_1.json")
        write_tensors(layout[1].parent / "1_Attention", [np.ones(2, F16)], [np.ones(2, F16)])
        result = cli("replay", tmp_path)
        assert result.code == 1
        assert "1 layer was not run; 6 tensors agree" in result.err
        assert "FillOperation_0_1" in result.out
        document = cli("replay", tmp_path, "--json").json
        assert [layer["layer"] for layer in document["layers"]] == ["FillLayer_0"]
        assert "no operation writes" in next(iter(document["not_run"].values()))


class TestOperationsByThemselves:
    """Each operation is judged on the tensors that the NPU gave it."""

    def write_layer(self, layout, nodes, inputs=("x",), outputs=("z",)):
        write(layout[0].parent, layer(list(inputs), list(outputs), nodes, "FillLayer_0"), layout[0].name)

    def test_a_wrong_input_is_not_the_error_of_the_next(self, cli, tmp_path, layout):
        """The NPU's first result is wrong, and the second operation reads it: only the first differs."""
        x = np.array([1, 2, 3], F16)
        wrong = x + 9
        nodes = [
            operation("ElewiseOperation", ["x"], ["t"], {"elewiseType": 5}, "Neg_0"),
            operation("ElewiseOperation", ["t"], ["z"], {"elewiseType": 5}, "Neg_1"),
        ]
        self.write_layer(layout, nodes)
        write_tensors(layout[1], [x], [-wrong])
        write_tensors(layout[1] / "0_ElewiseOperation", [x], [wrong])
        write_tensors(layout[1] / "1_ElewiseOperation", [wrong], [-wrong])
        tensors = cli("replay", tmp_path, "--json").json["layers"][0]["tensors"]
        assert [t["operation"] for t in tensors if t["verdict"] == "DIFFERS"] == ["Neg_0"]
        tensors = cli("replay", tmp_path, "--json", "--chain").json["layers"][0]["tensors"]
        assert {t["operation"] for t in tensors if t["verdict"] == "DIFFERS"} == {"Neg_0", "Neg_1", "FillLayer_0"}

    def test_results_are_taken_from_the_dump(self, cli, tmp_path, layout):
        """A plugin has neither type nor parameters: its results are the dump's, and the rest is compared."""
        x, y = np.array([1, 2, 3], F16), np.array([7, 8, 9], F16)
        nodes = [
            operation("", ["x"], ["t"], "", "RotaryPosEmbNode_0"),
            operation("ElewiseOperation", ["t"], ["z"], {"elewiseType": 5}, "Neg_1"),
        ]
        self.write_layer(layout, nodes)
        write_tensors(layout[1], [x], [-y])
        write_tensors(layout[1] / "0_RotaryPosEmbNode", [x], [y])
        write_tensors(layout[1] / "1_ElewiseOperation", [y], [-y])
        for arguments in ((), ("--chain",)):
            result = cli("replay", tmp_path, *arguments, "--json")
            assert result.code == 0, result.err
            first, second, whole = result.json["layers"][0]["operations"]
            assert first["verdict"] == "not compared"
            assert "a plugin operation" in first["reason"]
            assert (second["verdict"], whole["verdict"]) == ("equal", "equal")
        assert "a plugin operation" in cli("replay", tmp_path).out

    def test_the_results_of_the_layer_alone(self, cli, tmp_path, layout):
        """Dumped with -child False: the operations run on what came before, and the layer's result is compared."""
        dump(layout)
        for folder in [f for f in layout[1].iterdir() if f.name[0].isdigit()]:
            for file in folder.rglob("*.bin"):
                file.unlink()
        result = cli("replay", tmp_path, "--json")
        assert result.code == 0, result.err
        (layer_,) = result.json["layers"]
        assert [t["operation"] for t in layer_["tensors"]] == ["FillLayer_0"]
        assert {o["verdict"] for o in layer_["operations"] if o["operation"] != "FillLayer_0"} == {"not compared"}

    def test_results_alone(self, cli, tmp_path, layout):
        """Dumped with -stp 1: each operation reads what the dump has of the results before it."""
        dump(layout)
        for folder in layout[1].glob("*/before"):
            shutil.rmtree(folder)
        result = cli("replay", tmp_path, "--json")
        assert result.code == 0, result.err
        assert len(result.json["layers"][0]["tensors"]) == 6

    def test_headers_alone(self, cli, tmp_path, layout):
        """Dumped with -sd: there is nothing to compare, which is not the same as equal."""
        dump(layout)
        for file in layout[1].rglob("*.bin"):
            file.write_bytes(file.read_bytes().partition(b"$End=1\n")[0] + b"$End=1\n")
        result = cli("replay", tmp_path, "--json")
        assert result.code == 1
        assert "nothing was compared" in result.err
        assert {o["verdict"] for o in result.json["layers"][0]["operations"]} == {"not compared"}

    def test_a_graph_in_the_layer(self, cli, tmp_path, layout):
        """The results of an inner graph are compared, too, and named."""
        x = np.array([1, 2, 3], F16)
        inner = operation("Mlp", ["x"], ["z"], "", "Mlp_0_0") | {
            "nodes": [operation("ElewiseOperation", ["x"], ["z"], {"elewiseType": 5}, "Neg_0")]
        }
        self.write_layer(layout, [inner])
        write_tensors(layout[1], [x], [-x])
        write_tensors(layout[1] / "0_Mlp", [x], [-x + 1])
        write_tensors(layout[1] / "0_Mlp/0_ElewiseOperation", [x], [-x])
        tensors = cli("replay", tmp_path, "--json").json["layers"][0]["tensors"]
        assert {t["operation"]: t["verdict"] for t in tensors} == {
            "Neg_0": "equal",
            "Mlp_0_0": "DIFFERS",
            "FillLayer_0": "equal",
        }

    def test_a_cache_written_in_place(self, cli, tmp_path, layout):
        """KvCache has no results: the cache is compared with what the next operation reads."""
        new, cache = np.ones((1, 4), F16), np.zeros((1, 1, 3, 4), F16)
        layer_id, offset, length = (np.array([i], np.int32) for i in (0, 2, 1))
        after = cache.copy()
        after[0, 0, 1] = 1
        nodes = [
            operation("KvCacheOperation", ["new", "id", "cache", "offset", "length"], [], "", "KvCache_0"),
            operation("ElewiseOperation", ["cache"], ["z"], {"elewiseType": 5}, "Neg_1"),
        ]
        self.write_layer(layout, nodes, ["new", "id", "cache", "offset", "length"])
        given = [new, layer_id, cache, offset, length]
        write_tensors(layout[1], given, [-after])
        write_tensors(layout[1] / "0_KvCacheOperation", given, [])
        for seen, verdict in ((after, "equal"), (cache, "DIFFERS")):
            write_tensors(layout[1] / "1_ElewiseOperation", [seen], [-seen])
            tensors = cli("replay", tmp_path, "--json").json["layers"][0]["tensors"]
            (record,) = [t for t in tensors if t["operation"] == "KvCache_0"]
            assert (record["verdict"], record["note"]) == (verdict, "as Neg_1 read it")

    def test_an_input_that_is_not_what_was_written(self, cli, tmp_path, layout):
        dump(layout)
        file = layout[1] / "4_ElewiseOperation/before/intensor0.bin"
        file.write_bytes(bin_bytes(np.full(6, 3, F16)))
        result = cli("replay", tmp_path, "--json")
        assert "input 0 (y) is not what LinearOperation_0_3 wrote" in "".join(result.json["layers"][0]["notes"])


class TestTolerances:
    """An element is measured against its own magnitude, not against the largest in the tensor."""

    def verdict(self, cli, tmp_path, layout, npu, exact=None):
        x = np.asarray(exact if exact is not None else npu)
        nodes = [operation("ElewiseOperation", ["x"], ["z"], {"elewiseType": 5}, "Op_0")]
        write(layout[0].parent, layer(["x"], ["z"], nodes, "FillLayer_0"), layout[0].name)
        write_tensors(layout[1], [-x], [npu])
        write_tensors(layout[1] / "0_ElewiseOperation", [-x], [npu])
        return cli("replay", tmp_path, "--json").json["layers"][0]["tensors"][0]["verdict"]

    @pytest.mark.parametrize("dtype", [F16, BFLOAT16, np.float32])
    def test_a_small_error_beside_a_large_value(self, cli, tmp_path, layout, dtype):
        exact = np.array([-60000, 1, 2, 3], dtype)
        assert self.verdict(cli, tmp_path, layout, np.array([-60000, 1, 2, 8], dtype), exact) == "DIFFERS"
        assert self.verdict(cli, tmp_path, layout, exact) == "equal"

    def test_an_error_among_small_values(self, cli, tmp_path, layout):
        """Values of 0.01 that are all wrong are not within a tolerance that is made for values of 1."""
        exact = np.array([0.01, 0.02, -0.01], F16)
        assert self.verdict(cli, tmp_path, layout, np.zeros(3, F16), exact) == "DIFFERS"
        assert self.verdict(cli, tmp_path, layout, exact + np.array([1e-5, 0, 0], F16), exact) == "ok"

    @pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
    def test_infinities_and_nan_equal_no_number(self, cli, tmp_path, layout, value):
        exact = np.array([1, 65504, -65504], F16)
        for place in range(3):
            npu = exact.copy()
            npu[place] = value
            assert self.verdict(cli, tmp_path, layout, npu, exact) == "DIFFERS"

    def test_integers(self, cli, tmp_path, layout):
        """Quantized values may be one step apart; others may not differ."""
        x, steps = np.array([[1.0, 2.0, 4.0]], F16), np.array([[32, 64, 127]], np.int8)
        scale = np.array([4 / 127], np.float32)
        nodes = [operation("ElewiseOperation", ["x"], ["q", "s"], {"elewiseType": 19}, "Quant_0")]
        write(layout[0].parent, layer(["x"], ["q", "s"], nodes, "FillLayer_0"), layout[0].name)
        for moved, verdict in ((0, "equal"), (1, "ok"), (2, "DIFFERS")):
            write_tensors(layout[1] / "0_ElewiseOperation", [x], [steps - np.int8(moved), scale])
            tensors = cli("replay", tmp_path, "--json").json["layers"][0]["tensors"]
            assert next(t for t in tensors if t["tensor"] == "q")["verdict"] == verdict
        x, flags = np.array([0, 1], np.int8), np.array([0, 0], np.int8)  # not x is 1, 0
        nodes = [operation("ElewiseOperation", ["x"], ["z"], {"elewiseType": 7}, "Not_0")]
        write(layout[0].parent, layer(["x"], ["z"], nodes, "FillLayer_0"), layout[0].name)
        write_tensors(layout[1] / "0_ElewiseOperation", [x], [flags])
        assert cli("replay", tmp_path, "--json").json["layers"][0]["tensors"][0]["verdict"] == "DIFFERS"

    @pytest.mark.parametrize(("terms", "verdict"), [(2047, "DIFFERS"), (2048, "ok")])
    def test_sums_of_many_terms(self, cli, tmp_path, layout, terms, verdict):
        x, weight = np.ones((1, terms), np.float32), np.full((2, terms), 1 / terms, np.float32)
        nodes = [operation("LinearOperation", ["x", "w"], ["z"], {"hasBias": False}, "Linear_0")]
        write(layout[0].parent, layer(["x", "w"], ["z"], nodes, "FillLayer_0"), layout[0].name)
        write_tensors(layout[1] / "0_LinearOperation", [x, weight], [np.full((1, 2), 1 + 3.5e-4, np.float32)])
        assert cli("replay", tmp_path, "--json").json["layers"][0]["tensors"][0]["verdict"] == verdict

    def test_moved_elements_may_not_differ(self, cli, tmp_path, layout):
        x = np.array([[1, 2], [3, 4]], F16)
        nodes = [operation("TransposeOperation", ["x"], ["z"], {"perm": [1, 0]}, "T_0")]
        write(layout[0].parent, layer(["x"], ["z"], nodes, "FillLayer_0"), layout[0].name)
        moved = x.T.copy()
        moved[0, 0] = np.nextafter(F16(1), F16(2))
        write_tensors(layout[1] / "0_TransposeOperation", [x], [moved])
        assert cli("replay", tmp_path, "--json").json["layers"][0]["tensors"][0]["verdict"] == "DIFFERS"

    def test_saturated_values_name_the_option(self, cli, tmp_path, layout):
        x = np.array([60000, 1], F16)
        nodes = [operation("ElewiseOperation", ["x", "x"], ["z"], {"elewiseType": 8}, "Add_0")]
        write(layout[0].parent, layer(["x"], ["z"], nodes, "FillLayer_0"), layout[0].name)
        write_tensors(layout[1] / "0_ElewiseOperation", [x, x], [np.array([65504, 2], F16)])
        assert "--fp16-overflow saturate" in cli("replay", tmp_path).out
        assert cli("replay", tmp_path, "--fp16-overflow", "saturate").code == 0


class TestRuns:
    """Every round, device and layer of a dump is looked at, or named."""

    def test_rounds_and_devices(self, cli, tmp_path, layout):
        arrays = dump(layout)
        base = layout[1].parents[2]
        for place in ("0_77/1", "1_77/0"):
            shutil.copytree(layout[1], base / place / layout[1].name)
        result = cli("replay", tmp_path, "--json")
        assert [(r["device"], r["round"]) for r in result.json["layers"]] == [
            ("0_77", "0"),
            ("0_77", "1"),
            ("1_77", "0"),
        ]
        wrong = base / "0_77/1" / layout[1].name / "3_LinearOperation/after/outtensor0.bin"
        wrong.write_bytes(bin_bytes(arrays["y"] + np.ones_like(arrays["y"])))
        result = cli("replay", tmp_path)
        assert result.code == 1
        assert "LinearOperation_0_3 in FillLayer_0 (round 1, device 0)" in result.err

    def test_layers_that_share_a_graph(self, cli, tmp_path, layout):
        """A dump of layer 5 has the tensors of layer 5 and perhaps only the graph of another layer of its type."""
        dump(layout)
        shutil.copytree(layout[1], layout[1].with_name("5_FillLayer"))
        layout[1].rename(layout[1].with_name("4_FillLayer"))
        result = cli("replay", tmp_path, "--json")
        assert result.code == 0
        assert "the graph is that of FillLayer_0.json" in result.json["layers"][0]["notes"][0]

    def test_layers_numbered_in_another_way(self, cli, tmp_path, layout):
        """Graphs 0 and 1, folders 3 and 4: they are paired in their order."""
        dump(layout)
        x = np.array([1, 2], F16)
        nodes = [operation("ElewiseOperation", ["x"], ["z"], {"elewiseType": 5}, "Neg_0")]
        write(layout[0].parent, layer(["x"], ["z"], nodes, "FillLayer_1"), "FillLayer_1.json")
        write_tensors(layout[1].with_name("4_FillLayer"), [x], [-x])
        layout[1].rename(layout[1].with_name("3_FillLayer"))
        result = cli("replay", tmp_path, "--json")
        assert result.code == 0, result.err
        assert [r["layer"] for r in result.json["layers"]] == ["FillLayer_0", "FillLayer_1"]

    @pytest.mark.parametrize("place", ["0_77/0_FillLayer", "0_77/0/more/0_FillLayer"])
    def test_other_depths(self, cli, tmp_path, layout, place):
        dump(layout)
        target = layout[1].parents[2] / place
        target.parent.mkdir(parents=True, exist_ok=True)
        layout[1].rename(target)
        assert cli("replay", tmp_path, "--json").code == 0

    def test_what_is_left_out_is_named(self, cli, tmp_path, layout):
        dump(layout)
        write(layout[0].parent, layer(["x"], ["x"], [], "Other_3"), "Other_3.json")
        write_tensors(layout[1].with_name("7_Unknown"), [np.ones(2, F16)], [])
        left = cli("replay", tmp_path, "--json").json["left_out"]
        assert any("Other_3.json: the dump has no tensors of it" in line for line in left)
        assert any("7_Unknown: the dump has no graph of it" in line for line in left)
        assert "skipped: " in cli("replay", tmp_path).out

    @pytest.mark.parametrize("has_layer", [False, True])
    def test_a_model(self, cli, tmp_path, layout, has_layer):
        """The graph of a model has the layers that have none of their own."""
        if has_layer:
            dump(layout)
        x = np.array([1, 2, 3], F16)
        inner = operation("FillLayer", ["a"], ["b"], "", "FillLayer_0") | {
            "nodes": [operation("ElewiseOperation", ["a"], ["b"], {"elewiseType": 5}, "Neg_0")]
        }
        model = {"modelName": "M", "inTensors": ["a"], "outTensors": ["b"], "nodes": [inner]}
        place = "model" if layout[0].parts[-3] == "layer" and layout[0].parent.name == "77" else "info/model"
        write(tmp_path, model, f"{place}/{layout[0].parent.name}/M.json")
        if not has_layer:
            write_tensors(layout[1], [x], [-x])
            write_tensors(layout[1] / "0_ElewiseOperation", [x], [-x])
        result = cli("replay", tmp_path, "--json")
        assert result.code == 0, result.err
        assert [r["layer"] for r in result.json["layers"]] == ["FillLayer_0" if has_layer else "M"]
        assert has_layer == any("by their own graphs" in line for line in result.json["left_out"])

    def test_rounds_of_a_table(self, cli, tmp_path):
        """msprobe's statistic.csv names the files of each execution."""
        x = np.array([1, 2, 3], F16)
        nodes = [operation("ElewiseOperation", ["x"], ["z"], {"elewiseType": 5}, "Neg_0")]
        write(tmp_path, layer(["x"], ["z"], nodes, "Layer_0"), "info/layer/0_77/Layer_0.json")
        (tmp_path / "files").mkdir()
        head = "Device and PID,Execution Count,Op Name,Op Type,Op Id,Input/Output,Index,Dtype,Format,Shape,Tensor Path"
        rows = [head]
        for round_, result in (("0", -x), ("1", -x + 1)):
            for side, array in (("input", x), ("output", result)):
                file = f"files/{side}{round_}.bin"
                (tmp_path / file).write_bytes(bin_bytes(array))
                rows.append(f"0_77,{round_},Neg_0,ElewiseOperation,0_0,{side},0,float16,ND,3,{file}")
        write(tmp_path, "\n".join(rows), "statistic.csv")
        layers = cli("replay", tmp_path, "--json").json["layers"]
        assert [(r["round"], r["tensors"][0]["verdict"]) for r in layers] == [("0", "equal"), ("1", "DIFFERS")]


def test_a_plot(cli, tmp_path, layout):
    dump(layout)
    result = cli("replay", tmp_path, "--plot", tmp_path / "errors.svg")
    assert result.code == 0
    drawn = ElementTree.parse(tmp_path / "errors.svg")
    titles = [title.text for title in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 6
    assert any("LinearOperation_0_3" in title for title in titles)
    assert "cannot write" in cli("replay", tmp_path, "--plot", tmp_path / "no/folder.svg").error


def test_many_layers_are_a_summary(cli, tmp_path, layout):
    arrays = dump(layout)
    for number in range(1, 7):
        shutil.copytree(layout[1], layout[1].parents[1] / str(number) / layout[1].name)
    wrong = layout[1].parents[1] / "4" / layout[1].name / "3_LinearOperation/after/outtensor0.bin"
    wrong.write_bytes(bin_bytes(arrays["y"] + np.ones_like(arrays["y"])))
    result = cli("replay", tmp_path)
    assert result.code == 1
    assert "FillLayer_0 (round 6, device 0)" in result.out
    assert sum("DIFFERS" in line for line in result.out.splitlines()) == 2  # in the summary, and of the one layer


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("kind", [1, 2], ids=["max", "min"])
def test_nan_is_an_extreme_wherever_it_is(cli, tmp_path, kind, place):
    """As in torch, which ATB's tests follow: an NPU that has it is right."""
    x = np.arange(5, dtype=F16)[None].repeat(2, 0)
    x[1, place] = np.nan
    y = (np.max if kind == 1 else np.min)(x, -1)
    nodes = [operation("ReduceOperation", ["x"], ["y"], {"reduceType": kind, "axis": [1]}, "ReduceOperation_0_0")]
    write(tmp_path, layer(["x"], ["y"], nodes), "layer/77/Layer_0.json")
    write_tensors(tmp_path / "tensors/0_77/0/0_Layer/0_ReduceOperation", [x], [y])
    assert cli("replay", tmp_path, "--json").json["layers"][0]["operations"][0]["verdict"] == "equal"
