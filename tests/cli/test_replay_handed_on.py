"""What `onnx-sparse replay` hands on: a table, a page, and the comparison of two dumps."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from support.ascend_graphs import bin_bytes, layer, operation, write, write_tensors

F16 = np.float16
ADD, MUL = {"elewiseType": 8}, {"elewiseType": 9}
X, Y = np.arange(1, 9, dtype=F16).reshape(2, 4), np.full((2, 4), 2, F16)


def dump(root, x=X, *, spoilt=0.0, plugin=None):
    """(x + y) * y, and a plugin; `spoilt` is added to an element of the sum."""
    nodes = [
        operation("ElewiseOperation", ["x", "y"], ["z"], ADD, "ElewiseOperation_0_0"),
        operation("ElewiseOperation", ["z", "y"], ["r"], MUL, "ElewiseOperation_0_1"),
        operation("", ["r"], ["p"], "", "Node_0_2"),
    ]
    write(root, layer(["x", "y"], ["p"], nodes), "layer/77/Layer_0.json")
    total = x + Y
    total[1, 2] += F16(spoilt)
    made = x + Y if plugin is None else plugin
    folders = {"0_ElewiseOperation": ([x, Y], total), "1_ElewiseOperation": ([total, Y], total * Y)}
    for name, (reads, result) in {**folders, "2_Node": ([total * Y], made)}.items():
        write_tensors(root / f"tensors/0_77/0/0_Layer/{name}", reads, [result])
    return root


class TestTable:
    def test_columns(self, cli, tmp_path):
        """The names are those of msprobe's own comparison."""
        result = cli("replay", dump(tmp_path / "dump", spoilt=3), "-o", tmp_path / "t.csv")
        assert result.code == 1  # a tensor differs, and the table is there all the same
        with (tmp_path / "t.csv").open() as file:
            first, second, third = csv.DictReader(file)
        assert (first["Operation"], first["Verdict"], second["Verdict"]) == ("ElewiseOperation_0_0", "DIFFERS", "equal")
        assert (first["Data Type"], first["Data Shape"], first["Device and PID"]) == ("float16", "2x4", "0_77")
        assert float(first["Max Absolute Err"]) == float(first["Euc Distance"]) == 3
        assert float(first["One Thousandth Err Ratio"]) == 7 / 8
        assert float(first["Target Max"]) == 12
        assert float(first["Golden Max"]) == 10
        assert float(second["Cosine"]) == pytest.approx(1)
        assert third["Verdict"] == "not compared"

    def test_as_json(self, cli, tmp_path):
        cli("replay", dump(tmp_path / "dump"), "-o", tmp_path / "t.json")
        table = json.loads((tmp_path / "t.json").read_text())
        assert [row["Verdict"] for row in table] == ["equal", "equal", "not compared"]

    @pytest.mark.parametrize("option", ["-o", "--report", "--plot"])
    def test_a_name_of_another_format(self, cli, tmp_path, option):
        result = cli("replay", dump(tmp_path / "dump"), option, tmp_path / "t.pdf")
        assert result.code == 2
        assert "expected a name that ends in" in result.err
        assert not (tmp_path / "t.pdf").exists()

    def test_a_file_of_the_dump_stays(self, cli, tmp_path):
        root = dump(tmp_path / "dump")
        graph = root / "layer/77/Layer_0.json"
        before = graph.read_text()
        assert "what this command reads" in cli("replay", root, "-o", graph).err
        assert graph.read_text() == before

    def test_a_text_that_a_spreadsheet_would_run(self, cli, tmp_path):
        root = dump(tmp_path / "dump")
        graph = root / "layer/77/Layer_0.json"
        graph.write_text(graph.read_text().replace("ElewiseOperation_0_1", "=1+1"))
        cli("replay", root, "-o", tmp_path / "t.csv")
        assert "'=1+1" in (tmp_path / "t.csv").read_text()


class TestPage:
    def test_the_worst_come_first(self, cli, tmp_path):
        cli("replay", dump(tmp_path / "dump", spoilt=3), "--report", tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        tensors = page[page.index('id="tensors"') :]
        assert tensors.index("DIFFERS") < tensors.index("not compared")
        assert "1 operations are equal to the last bit" in page
        assert "<script" not in page

    def test_names_are_escaped(self, cli, tmp_path):
        root = dump(tmp_path / "dump", spoilt=3)
        graph = root / "layer/77/Layer_0.json"
        graph.write_text(graph.read_text().replace("ElewiseOperation_0_0", "<script>alert(1)</script>"))
        cli("replay", root, "--report", tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        assert "<script" not in page
        assert "&lt;script&gt;" in page


class TestTwoDumps:
    def causes(self, cli, first, second):
        result = cli("replay", first, "--compare", second, "--json")
        return [(p["operation"], p["cause"]) for p in result.json["compared"]["tensors"]]

    def test_equal_dumps(self, cli, tmp_path):
        first, second = dump(tmp_path / "a"), dump(tmp_path / "b")
        assert {cause for _, cause in self.causes(cli, first, second)} == {""}

    @pytest.mark.parametrize(("spoilt", "cause"), [((3, 0), "the first is wrong"), ((0, 3), "the second is wrong"),
                                                   ((3, 4), "both are wrong")])  # fmt: skip
    def test_the_wrong_one_is_named(self, cli, tmp_path, spoilt, cause):
        """Behind a wrong result, the other results are right for what they read."""
        first, second = (dump(tmp_path / n, spoilt=s) for n, s in zip("ab", spoilt, strict=True))
        found = self.causes(cli, first, second)
        behind = ("ElewiseOperation_0_1", "both are right: their inputs differ")
        assert found[:2] == [("ElewiseOperation_0_0", cause), behind]

    def test_other_inputs(self, cli, tmp_path):
        found = self.causes(cli, dump(tmp_path / "a"), dump(tmp_path / "b", X + F16(1)))
        assert {cause for _, cause in found[:2]} == {"both are right: their inputs differ"}

    def test_an_operation_that_is_not_computed(self, cli, tmp_path):
        found = self.causes(cli, dump(tmp_path / "a"), dump(tmp_path / "b", plugin=Y))
        assert found[2] == ("Node_0_2", "they differ; not all of them can be computed here")

    def test_a_dump_of_another_model(self, cli, tmp_path):
        other = dump(tmp_path / "b")
        graph = other / "layer/77/Layer_0.json"
        graph.write_text(graph.read_text().replace("Layer_0", "Layer_7"))
        assert "has none of the tensors of" in cli("replay", dump(tmp_path / "a"), "--compare", other).error


def test_a_page_of_many_layers(cli, tmp_path):
    """A page stays small: only tensors that are not equal are listed, and only so many."""
    x = np.linspace(1, 2, 8).astype(F16)
    nodes = [operation("ActivationOperation", ["x"], [f"y{i}"], {"activationType": 8}, f"A_0_{i}") for i in range(300)]
    for number in range(8):
        named = layer(["x"], ["y0"], nodes, f"Layer_{number}")
        write(tmp_path / "dump", named, f"layer/77/Layer_{number}.json")
        top = tmp_path / f"dump/tensors/0_77/0/{number}_Layer"
        y = (1 / (1 + np.exp(-x.astype(np.float64)))).astype(F16)
        data = {"before/intensor0.bin": bin_bytes(x), "after/outtensor0.bin": bin_bytes(np.nextafter(y, F16(0)))}
        for position in range(300):
            for name, content in data.items():
                file = top / f"{position}_ActivationOperation" / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
    cli("replay", tmp_path / "dump", "--report", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert len(page) < 2_000_000
    assert "400 more; see all with -o table.csv" in page
