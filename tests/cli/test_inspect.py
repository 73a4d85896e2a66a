"""`onnx-sparse inspect`."""

from __future__ import annotations

import re
import sys

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import onnx_sparse
from onnx_sparse.commands.description.runnable_backends import native_library


def test_says_what_is_in_the_model(cli, segment_max):
    result = cli("inspect", segment_max)
    assert result.code == 0
    for text in ("float32[K, 2]", "int64[K]", "SegmentMax", "T=float32 I=int64", "fill_mode=ZERO", "IR 10"):
        assert text in result.out


def test_json(cli, segment_max):
    described = cli("inspect", segment_max, "--json").json
    assert described["opsets"] == {"ai.onnx": 18, "onnx_sparse": 1}
    assert described["inputs"][0] == {"name": "data", "type": "float32[K, 2]"}
    assert described["size"] == segment_max.stat().st_size
    (node,) = described["nodes"]
    assert node["op"] == "SegmentMax"
    assert node["types"] == {"T": "float32", "I": "int64"}
    assert node["canonical"] is False


def test_says_why_a_backend_cannot_run_it(cli, segment_max):
    backends = cli("inspect", segment_max, "--json").json["backends"]
    assert backends["python"]["runs"]
    assert backends["python_plain_session"]["why_not"] == ["not in canonical form: input num_segments is omitted"]
    assert "convert --portable" in backends["function_bodies"]["why_not"][0]


def test_a_converted_model_runs_everywhere(cli, segment_max, tmp_path):
    assert cli("convert", segment_max, "-o", tmp_path / "portable.onnx", "--portable").code == 0
    described = cli("inspect", tmp_path / "portable.onnx", "--json").json
    assert described["nodes"][0]["canonical"]
    assert described["backends"]["python_plain_session"]["runs"]
    assert described["backends"]["function_bodies"]["runs"]


def test_it_fits_a_terminal_of_80_columns(cli, monkeypatch, tmp_path):
    assert cli("demo", "--recorded", "--keep", tmp_path / "kept").code == 0
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", cli("inspect", tmp_path / "kept" / "baskets.onnx").out)
    assert "EmbeddingSegmentsSum" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_nodes_that_are_not_canonical_are_shown(cli, segment_max, tmp_path):
    assert cli("convert", segment_max, "-o", tmp_path / "canonical.onnx").code == 0
    assert re.search(r"\bcanonical\n", cli("inspect", segment_max).out)
    assert not re.search(r"\bcanonical\n", cli("inspect", tmp_path / "canonical.onnx").out)


@pytest.fixture
def two_bodies(domain_node, make_model, save):
    """SegmentSum of two element types, with bodies."""
    nodes = [domain_node("SegmentSum", [name, "ids"], [f"{name}_sums"]) for name in ("x", "z", "z2")]
    types = {"x": TensorProto.FLOAT, "z": TensorProto.INT32, "z2": TensorProto.INT32, "ids": TensorProto.INT64}
    inputs = {name: (dtype, ["K"]) for name, dtype in types.items()}
    outputs = {f"{name}_sums": (types[name], [None]) for name in ("x", "z", "z2")}
    return save(onnx_sparse.embed_functions(make_model(nodes, inputs, outputs)))


def test_a_second_body_of_an_operator(cli, two_bodies):
    """The body that most nodes need has the operator's name, which kernels take; the other has its own."""
    described = cli("inspect", two_bodies, "--json").json
    assert [node["op"] for node in described["nodes"]] == ["SegmentSum"] * 3
    assert all(node["exists"] for node in described["nodes"])
    assert described["form"] == "functions"
    backends = described["backends"]
    assert backends["function_bodies"]["runs"]
    assert backends["native"]["runs"] == bool(native_library())
    (why,) = (why for why in backends["native_plain_session"]["why_not"] if "body" in why)
    assert why == (
        "it calls the body onnx_sparse.SegmentSum_float_int64_int64_no_num_segments, which is not the name of a kernel"
    )
    runs = [node["backends"]["native_plain_session"] for node in described["nodes"]]
    assert runs == [False, *[bool(native_library())] * 2]


def test_half_floats_need_our_session(cli, save, domain_node, make_model):
    node = domain_node("MaskedFill", ["x", "mask", "value"], ["y"])
    types = {"x": (TensorProto.FLOAT16, [3]), "mask": (TensorProto.BOOL, [3]), "value": (TensorProto.FLOAT16, [])}
    backends = cli("inspect", save(make_model([node], types, {"y": (TensorProto.FLOAT16, [3])})), "--json").json[
        "backends"
    ]
    assert backends["python"]["runs"]
    assert backends["python_plain_session"]["why_not"] == ["no float16 in Python kernels"]


@pytest.fixture
def nested(domain_node, make_model, save):
    """SegmentSum in a branch and in a model-local function."""
    sums = domain_node("SegmentSum", ["data", "ids"], ["total"], name="in_branch")
    total = helper.make_tensor_value_info("total", TensorProto.FLOAT, ["S"])
    branch = helper.make_graph([sums], "branch", [], [total])
    function = helper.make_function(
        "local",
        "Total",
        ["data", "ids"],
        ["total"],
        [domain_node("SegmentSum", ["data", "ids"], ["total"], name="in_function")],
        [helper.make_opsetid(onnx_sparse.DOMAIN, 1)],
    )
    nodes = [
        helper.make_node("If", ["condition"], ["y"], name="choose", then_branch=branch, else_branch=branch),
        helper.make_node("Total", ["data", "ids"], ["z"], domain="local"),
    ]
    inputs = {
        "data": (TensorProto.FLOAT, ["K"]),
        "ids": (TensorProto.INT32, ["K"]),
        "condition": (TensorProto.BOOL, []),
    }
    outputs = {name: (TensorProto.FLOAT, ["S"]) for name in "yz"}
    model = make_model(nodes, inputs, outputs, functions=[function])
    model.opset_import.append(helper.make_opsetid("local", 1))
    return save(model)


def test_nodes_in_branches_and_functions(cli, nested):
    described = cli("inspect", nested, "--json").json
    assert [node["name"] for node in described["nodes"]] == [
        "choose.else_branch / in_branch",
        "choose.then_branch / in_branch",
        "function Total / in_function",
    ]
    assert described["nodes"][0]["types"] == {"T": "float32", "I": "int32"}
    assert described["nodes"][2]["types"] == {}  # they differ from call to call
    assert described["other_nodes"] == {"If": 1, "local.Total": 1}


def test_a_call_of_a_function_without_a_declared_type(cli, nested):
    """ONNX Runtime infers none; our session inlines the function."""
    backends = cli("inspect", nested, "--json").json["backends"]
    assert backends["native_plain_session"]["runs"] == backends["native"]["runs"]
    model = onnx.load(nested)
    model.graph.output[1].ClearField("type")
    onnx.save(model, nested)
    backends = cli("inspect", nested, "--json").json["backends"]
    assert "function Total is called without declaring the type of z" in backends["native_plain_session"]["why_not"]
    assert backends["python"]["runs"]


@pytest.mark.skipif(not native_library(), reason="asks what native kernels do")
@pytest.mark.parametrize(
    "body",
    [
        "y = onnx_sparse.SegmentSum (x, ids)",
        "a = onnx_sparse.SegmentSum (x, ids) y = Neg (a)",
        "a = Neg (x) y = mine.Pool (a, ids)",
        "a = mine.Pool (x, ids) y = Neg (a)",
        "a = mine.Pool (x, ids) y = onnx_sparse.SegmentSum (a, ids)",
        "a = mine.Pool (x, ids) y = mine.Pool (a, ids)",
        "a = mine.Pool (x, ids) y = Neg (x)",
    ],
)
def test_functions_that_call_functions(cli, save, body):
    """What is said of other sessions is what they do; our own runs all of them."""
    m = onnx.parser.parse_model(f"""
        <ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1, "mine" : 1]>
        g (float[k] x, int64[k] ids) => (float[s] y) {{ y = mine.Outer (x, ids) }}
        <domain: "mine", opset_import: ["" : 18, "onnx_sparse" : 1, "mine": 1]>
        Outer (x, ids) => (y) {{ {body} }}
        <domain: "mine", opset_import: ["" : 18, "onnx_sparse" : 1]>
        Pool (data, ids) => (pooled) {{ pooled = onnx_sparse.SegmentSum (data, ids) }}""")
    backends = cli("inspect", save(m), "--json").json["backends"]
    options = onnx_sparse.session_options()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(m.SerializeToString(), options)
    except Exception:  # it raises several of its own
        runs = False
    else:
        runs = True
    assert backends["native_plain_session"]["runs"] == runs
    assert backends["native"]["runs"]
    onnx_sparse.InferenceSession(m)


def test_a_model_without_our_nodes(cli, save, make_model):
    value = (TensorProto.STRING, None)
    result = cli("inspect", save(make_model([helper.make_node("Identity", ["x"], ["y"])], {"x": value}, {"y": value})))
    assert result.code == 0
    assert "string[...]" in result.out
    assert "No node of our domain" in result.out


def test_a_type_that_cannot_be_inferred(cli, save, domain_node, make_model):
    """Weights that are omitted become a constant of the table's type, which cannot be inferred here."""
    nodes = [
        helper.make_node("Mystery", ["x"], ["table"], domain="elsewhere"),
        domain_node("EmbeddingSegmentsSum", ["table", "indices", "segment_ids", "count"], ["y"]),
    ]
    ids = (TensorProto.INT64, ["K"])
    inputs = {"x": (TensorProto.FLOAT, []), "indices": ids, "segment_ids": ids, "count": (TensorProto.INT64, [])}
    model = make_model(nodes, inputs, {"y": (TensorProto.UNDEFINED, None)})
    model.opset_import.append(helper.make_opsetid("elsewhere", 1))
    python = cli("inspect", save(model), "--json").json["backends"]["python"]
    assert not python["runs"]
    assert "cannot be inferred" in python["why_not"][0]


def test_an_operator_that_does_not_exist(cli, save, domain_node, make_model):
    value = (TensorProto.FLOAT, [])
    described = cli(
        "inspect", save(make_model([domain_node("Sparkle", ["x"], ["y"])], {"x": value}, {"y": value})), "--json"
    ).json
    assert described["nodes"][0]["exists"] is False
    assert described["backends"]["python"]["why_not"] == ["there is no such operator"]


@pytest.mark.parametrize(
    ("domain", "who"),
    [("ai.onnx.ml", "any ONNX runtime can run it"), ("com.acme", "a runtime that knows com.acme can")],
)
def test_nodes_of_other_domains(cli, tmp_path, domain, who):
    """Not any runtime has them."""
    graph = f"g (float[n] x) => (float[n] y) {{ y = {domain}.Foo (x) }}"
    text = f'<ir_version: 10, opset_import: ["" : 18, "{domain}" : 1]> {graph}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    assert f"No node of our domain: {who}" in cli("inspect", tmp_path / "m.onnx").out
    assert f"none: {who}" in cli("convert", tmp_path / "m.onnx", "-o", tmp_path / "n.onnx").out
