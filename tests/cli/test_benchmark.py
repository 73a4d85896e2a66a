"""`onnx-sparse benchmark`, and `onnx_sparse.benchmarking`."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from support.baskets import model
from support.openvino_irs import IrBuilder

import onnx_sparse
from onnx_sparse.benchmarking.benchmark import benchmark
from onnx_sparse.benchmarking.figures import lines_of
from onnx_sparse.benchmarking.rows import drawn_batches, first_rows, given_batches
from onnx_sparse.benchmarking.timing import take_turns
from onnx_sparse.cli import demo
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.schemas.features import Feature, write_features

RELU = '<ir_version: 10, opset_import: ["": 18]> g (float[n, 4] input) => (float[n, 4] y) {y = Relu(input)}'
ROWS = {"items": [[3, 4], [], [8]], "path": [[1], [2, 3, 4], []], "box": [[1, 2], [3, 4], [5, 6]]}
QUICK = ("--seconds", "0.01", "--threads", "1")


@pytest.fixture
def path(save):
    return save(model())


@pytest.mark.parametrize("sizes", [(1,), (2, 7, 100)])
def test_drawn_rows_are_rows_that_the_model_takes(sizes):
    batches = drawn_batches(model(), sizes, seed=3)
    assert tuple(batches) == sizes
    session = onnx_sparse.InferenceSession(model())
    for size, feeds in batches.items():
        assert {len(result) for result in session.run(None, feeds)} == {size}
        assert feeds["items_v"].max() < 9


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_given_rows_are_repeated_to_fill_a_batch(size):
    known = onnx_sparse.features(model())
    (feeds,) = given_batches(known, known.feeds(ROWS), [size]).values()
    repeated = {name: [column[row % 3] for row in range(size)] for name, column in ROWS.items()}
    session = onnx_sparse.InferenceSession(model())
    for got, want in zip(session.run(None, feeds), session.run(None, known.feeds(repeated)), strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_first_rows_of_rows_within_rows():
    feature = Feature("x", "ragged", {"values": "v", "row_splits": "a", "row_splits_1": "b"})
    typed = {"v": TensorProto.INT64, "a": TensorProto.INT64, "b": TensorProto.INT64}
    graph = helper.make_graph(
        [helper.make_node("Identity", ["v"], ["y"])],
        "g",
        [helper.make_tensor_value_info(name, dtype, [None]) for name, dtype in typed.items()],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [None])],
    )
    made = helper.make_model(graph)
    write_features(made, [feature])
    known = onnx_sparse.features(made)
    rows = [[[1, 2], []], [[3]], [], [[4], [5, 6]]]
    for count in range(5):
        want = known.feeds({"x": rows[:count]})
        got = first_rows(known, known.feeds({"x": rows}), count)
        assert {name: array.tolist() for name, array in got.items()} == {n: a.tolist() for n, a in want.items()}


def test_the_figures_belong_together(cli, path):
    result = cli("benchmark", path, *QUICK, "--batch-sizes", "1,50", "--json")
    assert result.code == 0, result.err
    document = result.json
    assert [(line["rows"], line["threads"]) for line in document["lines"]] == [(1, 1), (50, 1)]
    assert document["machine"]["processor"]
    assert document["rows"] == "drawn"
    for line in document["lines"]:
        assert 0 < line["p50"] <= line["p90"] <= line["p99"]
        assert line["runs"] >= 3
        assert line["rows_per_second"] == pytest.approx(line["rows"] / line["p50"])
        assert line["speedup"] is None


@given(st.lists(st.floats(1e-5, 1e-3), min_size=1), st.lists(st.floats(1e-5, 1e-3), min_size=1), st.integers(0, 9))
def test_the_speedup_is_the_ratio_of_rows_per_second(ours, theirs, slow):
    """However many of the runs were slow: both are of the medians."""
    line, source = lines_of(32, 2, {"onnx_sparse": [*ours, *[1.0] * slow], "TensorFlow": theirs})
    assert line.speedup == pytest.approx(line.rows_per_second / source.rows_per_second)


def test_turns_are_interleaved():
    order = []
    found = take_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 0.001)
    turns = [name for place, name in enumerate(order) if place == 0 or order[place - 1] != name]
    assert turns[:4] == ["a", "b", "a", "b"]
    assert len(found["a"]) >= 3 <= len(found["b"])


def test_the_source_runs_on_the_same_rows(cli, path, tmp_path):
    """A file of ONNX as the source: the model's own graph, with an operator more that makes it slower."""
    slower = model()
    slower.graph.node[-1].op_type = "Sin"
    source = tmp_path / "source.onnx"
    onnx.save(slower, source)
    plot = tmp_path / "plot.svg"
    result = cli("benchmark", path, *QUICK, "--batch-sizes", "9", "--source", source, "--json", "--svg", plot)
    assert result.code == 0, result.err
    ours, theirs = result.json["lines"]
    assert (ours["contender"], theirs["contender"]) == ("onnx_sparse", "the ONNX file")
    assert ours["speedup"] == pytest.approx(theirs["p50"] / ours["p50"])
    svg = ET.fromstring(plot.read_text("utf-8"))
    assert svg.tag.endswith("svg")
    assert len([e for e in svg.iter() if e.tag.endswith("circle")]) == 4  # two contenders, two panels


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("--batch-sizes", "0"), 2, ""),
        (("--threads", "1,x"), 2, ""),
        (("--seconds", "nan"), 2, ""),
        (
            ("--input", "items=[[99]]", "--input", "path=[[1]]", "--input", "box=[[1, 2]]"),
            1,
            "refuses a batch of 1 rows",
        ),
        (("--input", "items=[[1]]"), 1, "feature path, input box not given"),
        (("--source", "nowhere"), 1, "nowhere: no such file or directory"),
        (("--svg", "no/folder/plot.svg"), 1, "there is no directory"),
    ],
)
def test_what_is_refused(cli, path, arguments, code, reason):
    result = cli("benchmark", path, *QUICK, *arguments)
    assert result.code == code
    assert code == 2 or reason in result.error


def a_saved_model(folder):
    return next(Path(demo.__file__).parent.rglob("saved_model.pb")).parent


def a_network_with_a_state(folder):
    net = IrBuilder()
    kind = {"variable_id": "sum", "variable_type": "f32", "variable_shape": "1,16"}
    x = net.parameter("x", "f32", [1, 16])
    before = net.layer("ReadValue", "opset6", [net.constant(np.zeros((1, 16), np.float32))], [("f32", [1, 16])], kind)
    after = net.layer("Add", "opset1", [before, x], [("f32", [1, 16])], {"auto_broadcast": "numpy"})
    net.layer("Assign", "opset6", [after], [("f32", [1, 16])], kind)
    net.result(after)
    return net.save(folder)


def a_program_of_torch(folder):
    torch = pytest.importorskip("torch")
    rows = torch.export.Dim("rows")
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(3, 4),), dynamic_shapes=({0: rows},))
    torch.export.save(program, folder / "relu.pt2")
    return folder / "relu.pt2"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "make", "program"),
    [
        ("tensorflow", a_saved_model, "TensorFlow"),
        ("openvino", a_network_with_a_state, "OpenVINO"),
        ("torch", a_program_of_torch, "torch"),
    ],
)
def test_sources_run_in_their_own_programs(cli, tmp_path, package, make, program):
    pytest.importorskip(package)
    source, path = make(tmp_path), tmp_path / "model.onnx"
    if package == "torch":  # whose exporter takes seconds
        onnx.save(onnx.parser.parse_model(RELU), path)
    else:
        assert cli("convert", source, "-o", path).code == 0
    given = ("benchmark", path, *QUICK, "--batch-sizes", "2", "--source", source)
    result = cli(*given, "--json")
    assert result.code == 0, result.err
    assert [line["contender"] for line in result.json["lines"]] == ["onnx_sparse", program]
    if package == "tensorflow":
        assert "'other'" in cli(*given, "--signature", "other").error


def test_a_signature_is_for_tensorflow(cli, path):
    assert cli("benchmark", path, "--source", path, "--tag", "x").error == "--tag: only a SavedModel has that"
    with pytest.raises(ValueError, match="tag=: only a SavedModel has that"):
        onnx_sparse.benchmark(path, path, tag="x")


def test_a_source_that_refuses_the_rows_is_named(cli, path, tmp_path):
    source = tmp_path / "other.onnx"
    onnx.save(
        onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 18]> g (float[2] z) => (float[2] y) {y = Neg(z)}'),
        source,
    )
    error = cli("benchmark", path, *QUICK, "--batch-sizes", "1", "--source", source).error
    assert "the ONNX file has other inputs: the model has no input 'z'" in error


def test_features_that_were_made_ragged_run_in_the_source_as_they_were(cli, path, tmp_path):
    ragged = tmp_path / "ragged.onnx"
    assert cli("convert", path, "-o", ragged, "--features", "ragged").code == 0
    assert "items_i" not in [value.name for value in onnx.load(ragged).graph.input]
    result = cli("benchmark", ragged, *QUICK, "--batch-sizes", "3", "--source", path, "--json")
    assert [line["contender"] for line in result.json["lines"]] == ["onnx_sparse", "the ONNX file"], result.err


def test_the_result_prints_and_shows_itself_in_a_notebook():
    result = benchmark(model(), batch_sizes=[2], threads=[1], seconds=0.01)
    assert "p99 ms" in str(result)
    assert result.machine.processor in str(result)
    html = result._repr_html_()
    assert "<table>" in html
    assert "<svg" in html
    assert json.loads(json.dumps(result.to_json()))["lines"][0]["rows"] == 2


def test_numbers_that_are_not_positive_are_refused():
    for wrong in ({"threads": [0]}, {"batch_sizes": [-1]}, {"seconds": 0}):
        with pytest.raises(ValueError, match="not positive"):
            benchmark(model(), **wrong)


def test_a_model_that_does_not_load_is_named():
    broken = model()
    broken.graph.node[0].op_type = "NoSuchOperator"
    with pytest.raises(ConversionError, match="NoSuchOperator"):
        benchmark(broken, batch_sizes=[1], threads=[1], seconds=0.01)
