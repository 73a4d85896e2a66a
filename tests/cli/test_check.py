"""`onnx-sparse check`."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

import onnx_sparse

INPUTS = {
    "data": (TensorProto.FLOAT, ["K", 2]),
    "segment_ids": (TensorProto.INT64, ["K"]),
    "num_segments": (TensorProto.INT64, []),
}
OUTPUTS = {"y": (TensorProto.FLOAT, ["S", 2])}


@pytest.fixture
def segment_model(domain_node, make_model):
    """A model of one node that is in canonical form, unless the arguments make it otherwise."""

    def make(op_type="SegmentMax", inputs=INPUTS, names=tuple(INPUTS), attributes=None, **options):
        attributes = {"fill_mode": "ZERO"} if attributes is None else attributes
        node = domain_node(op_type, list(names), ["y"], name="pool", **attributes)
        return make_model([node], inputs, OUTPUTS, **options)

    return make


def test_a_good_model(cli, save, segment_model):
    result = cli("check", save(segment_model()))
    assert result.code == 0
    assert result.out.endswith("model.onnx: ok\n")


def test_a_model_without_our_nodes(cli, save, make_model):
    model = make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": OUTPUTS["y"]}, OUTPUTS)
    assert cli("check", save(model)).code == 0


def test_what_is_omitted_is_a_warning(cli, segment_max):
    result = cli("check", segment_max, "--json")
    assert result.code == 0
    (finding,) = result.json["findings"]
    assert finding["level"] == "warning"
    assert finding["where"] == "-> highest"
    assert "input num_segments is omitted" in finding["message"]


def test_an_operator_that_does_not_exist(cli, save, segment_model):
    result = cli("check", save(segment_model("SegmentMaximum")))
    assert result.code == 1
    assert "domain onnx_sparse has no operator SegmentMaximum; did you mean SegmentMax" in result.out
    assert result.out.endswith("1 error\n")


def test_an_attribute_outside_its_set(cli, save, segment_model):
    result = cli("check", save(segment_model(attributes={"fill_mode": "NAN"})), "--json")
    assert result.code == 1
    (finding,) = result.json["findings"]
    assert finding == {
        "level": "error",
        "where": "pool",
        "message": "SegmentMax: attribute fill_mode = 'NAN' is not one of ('ZERO', 'LOWEST')",
    }


def test_an_element_type_outside_its_set(cli, save, segment_model):
    result = cli("check", save(segment_model(inputs={**INPUTS, "segment_ids": (TensorProto.FLOAT, ["K"])})))
    assert result.code == 1
    assert "SegmentMax: input segment_ids is float; expected one of: int32, int64" in result.out
    assert "1 error\n" in result.out


def test_an_illegal_rank(cli, save, segment_model):
    result = cli("check", save(segment_model(inputs={**INPUTS, "segment_ids": (TensorProto.INT64, ["K", 1])})))
    assert result.code == 1
    assert "segment_ids has rank 2" in result.out


def test_every_broken_node_is_found(cli, save, domain_node, make_model):
    nodes = [domain_node("SegmentMax", list(INPUTS), [f"y{k}"], name=f"pool{k}", fill_mode="?") for k in range(2)]
    outputs = {f"y{k}": OUTPUTS["y"] for k in range(2)}
    result = cli("check", save(make_model(nodes, INPUTS, outputs)), "--json")
    assert [finding["where"] for finding in result.json["findings"]] == ["pool0", "pool1"]


def test_a_node_in_a_branch_is_found(cli, save, domain_node, make_model):
    value = helper.make_tensor_value_info("y", *OUTPUTS["y"])
    branch = helper.make_graph([domain_node("SegmentMux", list(INPUTS), ["y"], name="pool")], "branch", [], [value])
    node = helper.make_node("If", ["condition"], ["y"], name="choose", then_branch=branch, else_branch=branch)
    model = make_model([node], {**INPUTS, "condition": (TensorProto.BOOL, [])}, OUTPUTS)
    result = cli("check", save(model), "--json")
    assert result.code == 1
    assert [f["where"] for f in result.json["findings"]] == ["choose.else_branch / pool", "choose.then_branch / pool"]


def test_versions_that_onnx_runtime_does_not_take(cli, save, segment_model):
    result = cli("check", save(segment_model(ir_version=onnx.IR_VERSION, opset=onnx.defs.onnx_opset_version())))
    if onnx.IR_VERSION > 13:  # too new for ONNX Runtime 1.31; a later version may take it
        assert result.code in (0, 1)
        assert ("the installed ONNX Runtime takes" in result.out) == (result.code == 1)


def test_an_opset_of_the_domain_that_does_not_exist_yet(cli, save, segment_model):
    model = segment_model()
    model.opset_import[1].version = 7
    result = cli("check", save(model))
    assert result.code == 1
    assert "opset 7 of domain onnx_sparse; this version of onnx_sparse has 1" in result.out


def test_a_missing_opset_import(cli, save, segment_model):
    model = segment_model()
    del model.opset_import[1]
    result = cli("check", save(model))
    assert result.code == 1
    assert "does not import its opset" in result.out


def test_a_graph_that_onnx_refuses(cli, save, segment_model):
    model = segment_model()
    model.graph.node[0].input[0] = "nowhere"
    result = cli("check", save(model))
    assert result.code == 1
    assert "nowhere" in result.out


def test_a_rank_that_is_not_known_is_a_warning(cli, save, make_model):
    """ONNX Runtime runs such models; onnx's checker refuses them without naming the value."""
    model = make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": (TensorProto.FLOAT, None)}, OUTPUTS)
    result = cli("check", save(model), "--json")
    assert result.code == 0
    assert [(f["level"], f["where"]) for f in result.json["findings"]] == [("warning", "x")]
    assert "the rank of this input is not known" in result.json["findings"][0]["message"]


def test_external_data_outside_the_folder_are_refused(cli, save, segment_model):
    model = segment_model()
    tensor = model.graph.initializer.add(name="table", data_type=TensorProto.FLOAT, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    path = save(model)
    (path.parent.parent / "secret").write_bytes(b"12345678")
    result = cli("check", path)
    assert result.code == 1
    assert "secret" in result.out


def test_external_data_that_are_cut_short(cli, save, segment_model):
    model = segment_model()
    tensor = model.graph.initializer.add(name="table", data_type=TensorProto.FLOAT, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "table.data"), ("offset", "4"), ("length", "8")):
        tensor.external_data.add(key=key, value=value)
    path = save(model)
    data = path.parent / "table.data"
    data.write_bytes(b"12345678")
    result = cli("check", path, "--json")
    assert result.code == 1
    (finding,) = result.json["findings"]
    assert finding["where"] == "tensor table"
    assert finding["message"] == f"its data end at byte 12 of {data}, which has 8 bytes"
    assert "its external data cannot be read" in cli("convert", path, "-o", path.parent / "out.onnx").error
    data.write_bytes(b"123456789012")
    assert cli("check", path).code == 0


@pytest.mark.parametrize("offset", ["-4", "four"])
def test_external_data_at_no_place(cli, save, segment_model, offset):
    model = segment_model()
    tensor = model.graph.initializer.add(name="table", data_type=TensorProto.FLOAT, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "table.data"), ("offset", offset)):
        tensor.external_data.add(key=key, value=value)
    path = save(model)
    (path.parent / "table.data").write_bytes(b"12345678")
    result = cli("check", path, "--json")
    assert result.code == 1
    (message,) = [f["message"] for f in result.json["findings"] if f["where"] == "tensor table"]
    assert offset in message


@pytest.mark.parametrize("command", ["check", "inspect"])
class TestFilesThatAreNoModels:
    def test_missing(self, cli, command, tmp_path):
        assert cli(command, tmp_path / "m.onnx").error.endswith("m.onnx: no such file")

    def test_directory(self, cli, command, tmp_path):
        assert cli(command, tmp_path).error == f"{tmp_path} is a directory, not an ONNX file"

    def test_empty(self, cli, command, tmp_path):
        (tmp_path / "m.onnx").touch()
        assert "is not an ONNX model: it has no graph" in cli(command, tmp_path / "m.onnx").error

    def test_truncated(self, cli, command, segment_max):
        segment_max.write_bytes(segment_max.read_bytes()[:-9])
        assert "is not an ONNX model, or truncated" in cli(command, segment_max).error

    def test_what_convert_takes(self, cli, command, tmp_path):
        (tmp_path / "saved").mkdir()
        (tmp_path / "saved" / "saved_model.pb").touch()
        (tmp_path / "model.xml").write_text("<net/>")
        for name in ("saved", "model.xml"):
            path = tmp_path / name
            assert f"; `onnx-sparse convert {path} -o model.onnx` converts it" in cli(command, path).error

    def test_other_text(self, cli, command, tmp_path):
        (tmp_path / "m.onnxtxt").write_text("hello")
        error = cli(command, tmp_path / "m.onnxtxt").error
        assert "is not an ONNX model, or truncated: [ParseError at position (line: 1" in error

    def test_name_that_is_not_utf8(self, cli, command, segment_max):
        segment_max.write_bytes(segment_max.read_bytes().replace(b"highest", b"high\xff\xfet"))
        result = cli(command, segment_max)
        assert result.code in (0, 1)
        assert "unexpected" not in result.err


class TestTheForm:
    """Which of the three it is, and what it is not for."""

    @pytest.fixture
    def forms(self, segment_model):
        m = segment_model()
        return {"domain": m, "functions": onnx_sparse.embed_functions(m), "plain": onnx_sparse.lower(m)}

    @pytest.mark.parametrize(
        ("form", "tools"),
        [("domain", ["quantize_static", "OpenVINO"]), ("functions", ["version_converter", "float16"]), ("plain", [])],
    )
    def test_is_said(self, cli, save, forms, form, tools):
        path = save(forms[form])
        document = cli("check", path, "--json").json
        assert document["form"] == form
        assert bool(document["not_for"]) == bool(tools)
        shown = cli("check", path).out
        assert f"form {form}: " in shown
        assert all(tool in shown for tool in tools)

    def test_a_body_that_one_node_lacks(self, cli, save, forms):
        m = forms["functions"]
        del m.functions[:]
        assert cli("check", save(m), "--json").json["form"] == "domain"
