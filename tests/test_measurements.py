"""Benchmarks' records: which machine, how they are kept, and what a comparison says of two of them."""

from __future__ import annotations

import ast
import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest

import onnx_sparse

FOLDER = Path(__file__).parent.parent / "benchmarks"
BENCHMARKS = [path for path in sorted(FOLDER.glob("*.py")) if "def main()" in path.read_text("utf-8")]


@pytest.fixture(scope="module", autouse=True)
def importable() -> Any:
    """The benchmarks are no package: they import each other from their folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield


def module(name: str) -> Any:
    return importlib.import_module(name)


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_every_benchmark_names_the_machine(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    calls = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert "this_machine" in calls


class TestMachine:
    def test_this_one(self) -> None:
        machine = module("machine").this_machine()
        assert machine.processor
        assert machine.cores >= 1
        assert {"numpy", "onnx", "onnxruntime", "onnx_sparse"} <= set(machine.versions)
        assert machine.versions["numpy"] == np.__version__
        assert module("machine").Machine.from_json(json.loads(json.dumps(machine.to_json()))) == machine
        assert str(machine).count("\n") == 1

    @pytest.mark.parametrize(
        ("processor", "stepping", "folder"),
        [
            ("AMD EPYC", "AuthenticAMD family 25 model 1 stepping 1", "amd-epyc-family-25-model-1-2-cores"),
            (
                "Intel(R) Xeon(R) Platinum 8488C CPU @ 2.40GHz",
                "GenuineIntel family 6 model 143 stepping 8",
                "intel-xeon-platinum-8488c-family-6-model-143-2-cores",
            ),
            ("AMD Ryzen 7 5700X 8-Core Processor", "", "amd-ryzen-7-5700x-8-core-2-cores"),
            ("aarch64", "", "aarch64-2-cores"),
        ],
    )
    def test_the_folder_of_a_processor(self, processor: str, stepping: str, folder: str) -> None:
        machine = replace(module("machine").this_machine(), processor=processor, stepping=stepping, cores=2)
        assert machine.folder == folder


def record(scale: float = 1.0, limit: float = 1.0, noise: float = 0.02, seed: int = 0, **given: Any) -> Any:
    """A run of three lines, of which the second one's first contender takes `scale` times as long."""
    records, random = module("records"), np.random.default_rng(seed)

    def turns(seconds: float) -> list[float]:
        return [float(value) for value in seconds * random.uniform(1 - noise, 1 + noise, 9)]

    lines = [
        records.Line("first", 1, {"native": turns(2e-3 * limit), "limit": turns(1e-3 * limit)}),
        records.Line("second", 1, {"native": turns(2e-3 * limit * scale), "limit": turns(1e-3 * limit)}),
        records.Line("third", 2, {"native": turns(5e-3 * limit), "torch": turns(7e-3)}),
    ]
    machine = module("machine").this_machine().to_json()
    return records.Record(**{"benchmark": "native", "time": "2026-01-01", "machine": machine, "lines": lines} | given)


class TestRecords:
    def test_what_is_read_was_written(self, tmp_path: Path) -> None:
        written = record()
        read = module("records").Record.read(written.save(tmp_path))
        assert (read.benchmark, read.time, read.machine) == (written.benchmark, written.time, written.machine)
        for got, want in zip(read.lines, written.lines, strict=True):
            assert (got.case, got.threads, got.names) == (want.case, want.threads, want.names)
            assert got.seconds(got.names[0]) == pytest.approx(want.seconds(want.names[0]), rel=1e-3)

    def test_runs_of_one_day_are_all_kept(self, tmp_path: Path) -> None:
        paths = [record(time=f"2026-01-01T0{hour}:00:00+00:00").save(tmp_path) for hour in range(3)]
        assert [path.name for path in paths] == [f"2026-01-01-native{end}.json" for end in ("", "-2", "-3")]
        ((_, found),) = module("records").kept(tmp_path).items()
        assert [run.path for run in found] == paths

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"benchmark": "native"}', '{"lines": [3]}', "\ufffe"])
    def test_other_files_are_refused(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "other.json"
        path.write_text(text, encoding="utf-16" if text == "\ufffe" else "utf-8")
        with pytest.raises(ValueError, match=r"other\.json is no record of a benchmark"):
            module("records").Record.read(path)

    def test_those_of_the_documentation(self) -> None:
        for runs in module("records").kept().values():
            for run in runs:
                assert run.lines
                assert all(line.turns or line.ratios for line in run.lines)
                assert run.note or "versions" in run.machine

    def test_ratios(self) -> None:
        line = module("records").Line("case", 1, {"native": [2.0, 4, 3, 8], "limit": [1.0, 2, 3]})
        assert line.ratio("limit") == 3.5 / 2
        assert line.spread("limit") == pytest.approx((1.2, 2, 2))
        assert line.spread() == pytest.approx((2.3, 3.5, 6.8))


class TestComparison:
    def compare(self, *arguments: Any) -> int:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["compare.py", *map(str, arguments)])
            status: int = module("compare").main()
        return status

    def kept(self, folder: Path, *runs: Any) -> tuple[str, Path]:
        for day, run in enumerate(runs, start=1):
            replace(run, time=f"2026-01-0{day}").save(folder)
        return "--folder", folder

    @pytest.mark.parametrize(
        ("new", "status", "said"),
        [
            ({"seed": 1}, 0, "0 slower, 0 faster"),
            ({"seed": 1, "scale": 1.3}, 1, "slower: second, 1 threads"),
            ({"seed": 1, "scale": 0.7}, 0, "faster: second, 1 threads"),
            ({"seed": 1, "scale": 1.03, "noise": 0.0}, 0, "0 slower, 0 faster"),  # less than --least
            ({"seed": 1, "scale": 1.1, "noise": 0.5}, 0, "0 slower, 0 faster"),  # within the noise
        ],
    )
    def test_the_last_two_runs(self, tmp_path: Path, capsys: Any, new: Any, status: int, said: str) -> None:
        runs = self.kept(tmp_path, record(scale=3), record(seed=2, noise=new.get("noise", 0.02)), record(**new))
        assert self.compare(*runs) == status
        assert said in capsys.readouterr().out

    def test_other_load_makes_nothing_slower_that_has_a_limit(self, tmp_path: Path, capsys: Any) -> None:
        runs = self.kept(tmp_path, record(), record(limit=1.5, seed=3))
        assert self.compare(*runs) == 1
        assert "1 slower, 0 faster" in capsys.readouterr().out  # the line without one
        assert self.compare(*runs, "--absolute") == 1
        assert "3 slower, 0 faster" in capsys.readouterr().out

    def test_a_run_that_is_not_kept(self, tmp_path: Path, capsys: Any) -> None:
        """It is compared with the last one before it, of its benchmark and its processor."""
        runs = self.kept(tmp_path, record(), record(seed=4, scale=2), record(benchmark="other"))
        new = tmp_path / "new.json"
        record(seed=5, time="2026-02-01").write(new)
        assert self.compare(new, *runs) == 0
        assert "faster: second" in capsys.readouterr().out
        old = next(tmp_path.glob("*/2026-01-01-native.json"))
        assert self.compare(new, "--with", old, *runs) == 0
        assert "0 slower, 0 faster" in capsys.readouterr().out

    def test_what_differs_is_said(self, tmp_path: Path, capsys: Any) -> None:
        machine = module("machine").this_machine()
        other = replace(machine, versions={**machine.versions, "numpy": "1.0"}).to_json()
        fewer = record(seed=6)
        fewer = replace(fewer, lines=fewer.lines[:2])
        self.compare(*self.kept(tmp_path, record(machine=other), fewer))
        said = capsys.readouterr().out
        assert f"numpy 1.0 -> {np.__version__}" in said
        assert "in one run only: third, 2 threads" in said

    @pytest.mark.parametrize(("load", "is_said"), [(0.2, False), (3.1, True)])
    def test_a_busy_machine_is_said(self, tmp_path: Path, capsys: Any, load: float, is_said: bool) -> None:
        machine = module("machine").this_machine()
        idle, other = (replace(machine, load=value).to_json() for value in (0.1, load))
        self.compare(*self.kept(tmp_path, record(machine=idle), record(machine=other)))
        assert (f"busy (load 0.1 -> {load})" in capsys.readouterr().out) == is_said

    @pytest.mark.parametrize("arguments", [[], ["new.json"], ["no.json"]])
    def test_nothing_to_compare_with(self, tmp_path: Path, capsys: Any, arguments: list[str]) -> None:
        record().write(tmp_path / "new.json")
        given = [tmp_path / name for name in arguments]
        assert self.compare(*given, "--folder", tmp_path / "kept") == 2
        said = capsys.readouterr().err
        assert len(said.splitlines()) == 1
        assert any(words in said for words in ("no two runs", "no run of native before", "No such file"))

    def test_figures_of_texts_are_not_compared(self, tmp_path: Path, capsys: Any) -> None:
        """They have ratios only."""
        line = module("records").Line("first", 1, ratios={"torch": 1.3})
        noted = record(lines=[line])
        assert self.compare(*self.kept(tmp_path, noted, record())) == 2
        assert "no two runs" in capsys.readouterr().err


class TestScaling:
    def test_one_size_is_varied_over_four_decades(self) -> None:
        scaling = module("scaling")
        for varied, values in scaling.VARIED.items():
            assert max(values) / min(values) == 10_000
            sizes = [scaling.Size.of(varied, value) for value in values]
            assert [getattr(size, varied) for size in sizes] == list(values)
            assert all(size.table * size.width <= scaling._TABLE and size.segments >= 1 for size in sizes)

    def test_the_same_is_moved_whatever_the_width(self) -> None:
        scaling = module("scaling")
        rows = [size.ids * size.width for size in (scaling.Size.of("width", width) for width in (1, 64, 10_000))]
        assert max(rows) - min(rows) < 10_000

    def test_the_figure(self) -> None:
        """A panel for each size, and a point for each line on each curve."""
        records = module("records")
        lines = [
            records.Line(
                f"{varied} {value}",
                threads,
                {name: [value * 1e-6 / threads] for name in ("native", "limit", "gather")},
                facts={"varied": varied, "value": value},
            )
            for varied in ("ids", "width")
            for value in (1, 100, 10_000)
            for threads in (1, 2)
        ]
        drawn = ElementTree.fromstring(module("scaling_plot").plot(lines))
        curves = [element.get("points", "").split() for element in drawn.iter() if element.tag.endswith("polyline")]
        assert [len(points) for points in curves] == [3] * 8
        places = [float(number) for points in curves for point in points for number in point.split(",")]
        assert all(0 <= place <= float(drawn.get("width", "0")) for place in places)


@pytest.mark.parametrize("framework", ["fuse", "tensorflow", "openvino", "npu"])
@pytest.mark.parametrize("graph", ["deep", "wide"])
def test_the_work_of_a_conversion_grows_with_the_nodes(framework: str, graph: str, tmp_path: Path) -> None:
    """Twice as many nodes take twice as many calls of functions, which no other work on the machine changes."""
    scaling = module("conversion_scaling")

    def calls(nodes: int) -> int:
        source = scaling.SOURCES[framework]()
        convert = source.finish(scaling.GRAPHS[graph](source, nodes), tmp_path)
        count = 0

        def note(*event: Any) -> None:
            nonlocal count
            count += 1

        sys.setprofile(note)
        try:
            convert()
        finally:
            sys.setprofile(None)
        return count

    calls(20)  # imports what the others need
    assert calls(200) < 2.3 * calls(100)


def test_a_bound_run_holds_its_inputs_and_writes_new_outputs() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 18]>
        g (int64[n] x) => (int64[n] y, int64[n] z) { y = Identity (x) z = Neg (x) }"""
    )
    session = onnx_sparse.InferenceSession(model)
    run = module("sessions").BoundRun(session, {"x": np.arange(1000) * 3})
    run()
    first, again = run.outputs(), run.outputs()
    for y, z in (first, again):
        np.testing.assert_array_equal(y, np.arange(1000) * 3)
        np.testing.assert_array_equal(z, np.arange(1000) * -3)
    assert not np.shares_memory(first[0], again[0])


def test_the_profile_of_a_model() -> None:
    """The time of each operator, and its nodes."""
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
        g (float[4,3] table, int64[k] ids, int64[k] rows, int64 count) => (float[n,3] y)
        { x = onnx_sparse.EmbeddingSegmentsSum (table, ids, rows, count) z = Relu (x) y = Sigmoid (z) }"""
    )
    feeds = {
        "table": np.ones((4, 3), np.float32),
        "ids": np.array([3, 0]),
        "rows": np.array([0, 1]),
        "count": np.array(2),
    }
    lines = module("whole_models").profiled(onnx_sparse.canonicalize(model), feeds, 1).splitlines()
    assert {line.split()[0] for line in lines[:-1]} == {"EmbeddingSegmentsSum", "Relu", "Sigmoid"}
    assert all(line.endswith("1 nodes") for line in lines[:-1])
    assert "all nodes" in lines[-1]


def test_the_page_shows_the_newest_run(tmp_path: Path, monkeypatch: Any) -> None:
    page = module("record_page")
    for day, scale in ((2, 2.0), (1, 9.0), (3, 4.0)):
        record(scale=scale, noise=0.0, time=f"2026-01-0{day}").save(tmp_path)
    monkeypatch.setattr(page, "kept", lambda: module("records").kept(tmp_path))
    monkeypatch.setattr(page, "FOLDER", tmp_path)
    text = page.page()
    assert "| A | [2026-01-03](" in text
    assert "2026-01-02" not in text
    assert "| second | 1 | A | 8 | 8.00 |" in text
    assert "| third | 2 | A | 5 |  | 0.71 |" in text


def test_the_page_puts_processors_next_to_each_other(tmp_path: Path, monkeypatch: Any) -> None:
    page = module("record_page")
    mine = record(scale=1.0, noise=0.0)
    mine.save(tmp_path)
    replace(mine, machine={**mine.machine, "processor": "Other"}).save(tmp_path)
    monkeypatch.setattr(page, "kept", lambda: module("records").kept(tmp_path))
    monkeypatch.setattr(page, "FOLDER", tmp_path)
    lines = [line for line in page.page().splitlines() if line.startswith("| second | 1 |")]
    assert [line.split(" | ")[2] for line in lines] == ["A", "B"]
