"""`onnx-sparse convert`."""

from __future__ import annotations

import os
import sys

import onnx
import pytest
from onnx import TensorProto
from support.fused_models import LOST_ROWS, SCATTERED_ROWS

from onnx_sparse.converters.tensorflow import loading
from onnx_sparse.installation import install_command
from onnx_sparse.models.files import load_and_save as model_file


class TestFromOnnx:
    def test_canonical_form(self, cli, segment_max, tmp_path):
        out = tmp_path / "out.onnx"
        result = cli("convert", segment_max, "-o", out)
        assert result.code == 0
        assert "SegmentMax" in result.out
        assert len(onnx.load(out).graph.node[-1].input) == 3

    def test_json(self, cli, segment_max, tmp_path):
        out = tmp_path / "out.onnx"
        document = cli("convert", segment_max, "-o", out, "--json").json
        assert document["from"] == "onnx"
        assert document["our_nodes"] == {"SegmentMax": 1}
        assert document["opsets"] == {"ai.onnx": 18, "onnx_sparse": 1}
        assert document["size"] == out.stat().st_size

    def test_function_bodies(self, cli, segment_max, tmp_path):
        import onnxruntime

        out = tmp_path / "out.onnx"
        assert cli("convert", segment_max, "-o", out, "--portable").code == 0
        onnxruntime.InferenceSession(out)  # nothing of ours is registered

    def test_lower(self, cli, segment_max, tmp_path):
        out = tmp_path / "out.onnx"
        assert "none: any ONNX runtime can run it" in cli("convert", segment_max, "-o", out, "--lower").out
        assert {node.domain for node in onnx.load(out).graph.node} == {""}

    @pytest.mark.parametrize("opset", [18, 20, 23])
    def test_lower_to_an_opset(self, cli, segment_max, tmp_path, opset):
        import onnxruntime

        out = tmp_path / "out.onnx"
        document = cli("convert", segment_max, "-o", out, "--lower", "--opset", opset, "--verify", "--json").json
        assert document["opsets"] == {"ai.onnx": opset}
        assert [record["verdict"] for record in document["verification"]] == ["ok"]
        onnxruntime.InferenceSession(out)

    @pytest.mark.parametrize(
        "options", [["--lower", "--opset", "17"], ["--lower", "--opset", "999"], ["--opset", "17"], ["--opset", "999"]]
    )
    def test_an_opset_that_no_form_has(self, cli, segment_max, tmp_path, options):
        result = cli("convert", segment_max, "-o", tmp_path / "out.onnx", *options)
        assert result.code == 2
        assert "--opset" in result.err
        assert not (tmp_path / "out.onnx").exists()

    def test_lower_in_place_and_verify(self, cli, segment_max):
        document = cli("convert", segment_max, "-o", segment_max, "--lower", "--verify", "--json").json
        assert [record["verdict"] for record in document["verification"]] == ["ok"]
        assert {node.domain for node in onnx.load(segment_max).graph.node} == {""}

    def test_verification_against_the_file_itself(self, cli, segment_max, tmp_path, monkeypatch):
        """A canonical form that computes something else is not written."""

        def wrong(model):
            changed = onnx.ModelProto.FromString(model.SerializeToString())
            changed.graph.node[-1].attribute[0].s = b"LOWEST"  # not ZERO
            return changed

        monkeypatch.setattr("onnx_sparse.models.forms.canonical.canonicalize", wrong)
        assert cli("convert", segment_max, "-o", tmp_path / "out.onnx", "--verify").code == 1
        assert not (tmp_path / "out.onnx").exists()

    def test_into_a_folder(self, cli, segment_max, tmp_path):
        (tmp_path / "models").mkdir()
        for folder in (tmp_path / "models", f"{tmp_path}/models/"):
            assert cli("convert", segment_max, "-o", folder).code == 0
        assert [path.name for path in (tmp_path / "models").iterdir()] == [segment_max.name]
        assert "there is no directory" in cli("convert", segment_max, "-o", f"{tmp_path}/others/").error

    def test_fuse(self, cli, tmp_path):
        source, out = tmp_path / "old.onnx", tmp_path / "out.onnx"
        onnx.save(onnx.parser.parse_model(SCATTERED_ROWS), source)
        plain = cli("convert", source, "-o", out, "--fuse", "--explain", "--verify")
        assert plain.code == 0
        assert "scattered-rows" in plain.out
        assert "from 4 before the rules" in plain.out
        document = cli("convert", source, "-o", out, "--fuse", "--explain", "--json").json
        assert document["our_nodes"] == {"UnsortedSegmentSum": 1}
        assert document["rules"] == {"fired": {"scattered-rows": 1}, "declined": []}
        assert [node.op_type for node in onnx.load(out).graph.node][-1] == "Add"

    def test_fuse_says_what_it_leaves(self, cli, tmp_path):
        source, out = tmp_path / "old.onnx", tmp_path / "out.onnx"
        text = SCATTERED_ROWS.replace("int64[k] ids", "int64[k] ids, int64[k, 3] matrix")
        onnx.save(onnx.parser.parse_model(text.replace("(columns, shape)", "(matrix, shape)")), source)
        result = cli("convert", source, "-o", out, "--fuse", "--explain")
        assert result.code == 0
        assert "the elements of a row have different indices" in " ".join(result.out.split())

    def test_scatters_that_lose_rows(self, cli, tmp_path):
        """Every command names them; one option repairs them."""
        source, out = tmp_path / "old.onnx", tmp_path / "out.onnx"
        onnx.save(onnx.parser.parse_model(LOST_ROWS), source)
        said = "keeps the last of rows with equal ids"
        (finding,) = cli("check", source, "--json").json["findings"]
        assert (finding["level"], finding["where"]) == ("warning", "ScatterElements_sums")
        assert said in finding["message"]
        assert cli("inspect", source, "--json").json["lost_rows"][0]["node"] == "ScatterElements_sums"
        assert said in " ".join(cli("inspect", source).out.split())
        (note,) = cli("convert", source, "-o", out, "--fuse", "--json").json["notes"]
        assert said in note
        repaired = cli("convert", source, "-o", out, "--fuse", "--repair-scatter", "add", "--json").json
        assert "notes" not in repaired
        assert repaired["our_nodes"] == {"UnsortedSegmentSum": 1}
        assert cli("check", out, "--json").json["findings"] == []

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (["--repair-scatter", "add"], "--repair-scatter is for --fuse"),
            (["--fuse", "--repair-scatter", "add", "--verify"], "--verify cannot compare with the file"),
            (["--fuse", "--repair-scatter", "avg"], "add, mul, max, min, mean do"),
            (["--fuse", "--repair-scatter", "x=add"], "x is not a scatter that loses rows"),
        ],
    )
    def test_wrong_repairs(self, cli, tmp_path, options, said):
        source, out = tmp_path / "old.onnx", tmp_path / "out.onnx"
        onnx.save(onnx.parser.parse_model(LOST_ROWS), source)
        result = cli("convert", source, "-o", out, *options)
        assert result.code in (1, 2)
        assert said in " ".join(result.err.split())
        assert not out.exists()

    def test_check_ids(self, cli, tmp_path):
        """Lookups of a file count negative ids from the end, or refuse them on request."""
        source, out = tmp_path / "old.onnx", tmp_path / "out.onnx"
        text = '<ir_version: 8, opset_import: ["" : 18]> g (float[4, 3] x, int64[k] ids) => (float[k, 3] y)'
        onnx.save(onnx.parser.parse_model(f"{text} {{ y = Gather (x, ids) }}"), source)
        assert cli("convert", source, "-o", out).code == 0
        assert [node.op_type for node in onnx.load(out).graph.node] == ["Gather"]
        assert cli("convert", source, "-o", out, "--check-ids", "--verify").code == 0
        assert [node.op_type for node in onnx.load(out).graph.node] == ["Less", "Where", "Gather"]

    def test_in_place(self, cli, segment_max):
        assert cli("convert", segment_max, "-o", segment_max).code == 0
        assert len(onnx.load(segment_max).graph.node[-1].input) == 3

    def test_to_text(self, cli, segment_max, tmp_path):
        assert cli("convert", segment_max, "-o", tmp_path / "out.onnxtxt").code == 0
        assert "onnx_sparse.SegmentMax" in (tmp_path / "out.onnxtxt").read_text()

    def test_an_opset_of_the_domain_that_does_not_exist_yet(self, cli, segment_max, tmp_path):
        model = onnx.load(segment_max)
        model.opset_import[1].version = 2
        onnx.save(model, segment_max)
        result = cli("convert", segment_max, "-o", tmp_path / "out.onnx")
        assert result.error == f"{segment_max}: opset 2 of domain onnx_sparse; this version of onnx_sparse has 1"

    def test_through_a_link(self, cli, segment_max, tmp_path):
        target, link = tmp_path / "target.onnx", tmp_path / "link.onnx"
        target.touch()
        link.symlink_to(target)
        assert cli("convert", segment_max, "-o", link).code == 0
        assert link.is_symlink()
        assert target.stat().st_size > 0

    def test_a_model_too_large_for_one_file(self, cli, segment_max, tmp_path, monkeypatch):
        model = onnx.load(segment_max)
        table = model.graph.initializer.add(name="table", data_type=TensorProto.FLOAT, dims=[512])
        table.raw_data = bytes(range(256)) * 8
        onnx.save(model, segment_max)
        monkeypatch.setattr(model_file, "_EXTERNAL", 1000)  # 16 MiB are much for a test
        out = tmp_path / "out.onnx"
        assert cli("convert", segment_max, "-o", out).code == 0
        assert (tmp_path / "out.onnx.data").stat().st_size == 2048
        (loaded,) = [t for t in onnx.load(out).graph.initializer if t.name == "table"]
        assert loaded.raw_data == table.raw_data


class TestRefusals:
    """A refusal is one line; nothing is written, and existing files are unchanged."""

    @pytest.fixture
    def refused(self, cli, tmp_path):
        def refuse(code, source, *options):
            out = tmp_path / "written" / "out.onnx"
            out.parent.mkdir(exist_ok=True)
            out.write_bytes(b"what was there")
            result = cli("convert", source, "-o", out, *options)
            assert result.code == code
            assert os.listdir(out.parent) == ["out.onnx"]
            assert out.read_bytes() == b"what was there"
            return result.error

        return refuse

    def test_missing(self, refused, tmp_path):
        assert refused(1, tmp_path / "none.onnx").endswith("none.onnx: no such file or directory")

    def test_directory_that_is_not_a_saved_model(self, refused, tmp_path):
        assert refused(1, tmp_path) == f"{tmp_path} is not a SavedModel: there is no saved_model.pb in it"

    def test_directory_as_onnx(self, refused, tmp_path):
        assert refused(1, tmp_path, "--from", "onnx").endswith("is a directory, not an ONNX file")

    def test_a_name_that_says_nothing(self, refused, tmp_path):
        (tmp_path / "model.bin").touch()
        assert refused(2, tmp_path / "model.bin").endswith("from its name; use --from")

    def test_truncated_onnx(self, refused, segment_max):
        segment_max.write_bytes(segment_max.read_bytes()[:-9])
        assert "is not an ONNX model, or truncated" in refused(1, segment_max)

    @pytest.mark.parametrize("form", [(), ("--portable",), ("--lower",)])
    def test_an_operator_that_does_not_exist(self, refused, save, domain_node, make_model, form):
        value = (TensorProto.FLOAT, [1])
        path = save(make_model([domain_node("SegmentMux", ["x"], ["y"])], {"x": value}, {"y": value}))
        assert "SegmentMux" in refused(1, path, *form)

    def test_a_converter_that_lacks_its_package(self, refused, tmp_path, monkeypatch):
        (tmp_path / "m.pb").touch()

        def without_tensorflow(*_, **__):
            raise ModuleNotFoundError("No module named 'tensorflow'")

        monkeypatch.setattr(loading, "load", without_tensorflow)
        assert refused(1, tmp_path / "m.pb").endswith(install_command("tensorflow"))


class TestOutputPath:
    def test_no_such_directory(self, cli, segment_max, tmp_path):
        error = cli("convert", segment_max, "-o", tmp_path / "no" / "out.onnx").error
        assert error == f"cannot write {tmp_path}/no/out.onnx: there is no directory {tmp_path}/no"

    def test_a_directory(self, cli, segment_max, tmp_path):
        taken = tmp_path / "models" / segment_max.name
        taken.mkdir(parents=True)
        assert cli("convert", segment_max, "-o", taken.parent).error == f"cannot write {taken}: it is a directory"

    @pytest.mark.parametrize(
        ("source", "out"),
        [
            ("saved", "saved/saved_model.pb"),
            ("saved", "saved/variables/variables.index"),
            ("saved", "saved/assets/../saved_model.pb"),
            ("frozen.pb", "frozen.pb"),
            ("model.xml", "model.bin"),
            ("layer.json", "layer.json"),
        ],
    )
    def test_a_source_is_not_overwritten(self, cli, tmp_path, source, out):
        for folder in ("saved/variables", "saved/assets"):
            (tmp_path / folder).mkdir(parents=True)
        for name in ("saved/saved_model.pb", "saved/variables/variables.index", "frozen.pb", "model.xml", "model.bin"):
            (tmp_path / name).write_text("source")
        (tmp_path / "layer.json").write_text("source")
        result = cli("convert", tmp_path / source, "-o", tmp_path / out)
        assert result.code == 2
        assert "it is " in result.error
        assert "what this command reads" in result.error
        assert (tmp_path / out).read_text() == "source"

    def test_a_full_disk_leaves_nothing(self, cli, segment_max, tmp_path, monkeypatch):
        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.replace", full)
        before = sorted(os.listdir(tmp_path))
        assert cli("convert", segment_max, "-o", tmp_path / "out.onnx").error.endswith("No space left on device")
        assert sorted(os.listdir(tmp_path)) == before

    def test_an_interrupt_leaves_nothing(self, cli, segment_max, tmp_path, monkeypatch):
        def interrupted(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr("os.replace", interrupted)
        before = sorted(os.listdir(tmp_path))
        assert cli("convert", segment_max, "-o", tmp_path / "out.onnx").code == 130
        assert sorted(os.listdir(tmp_path)) == before

    def test_a_part_of_a_saved_model(self, cli, tmp_path, monkeypatch):
        """TensorFlow need not be imported to tell."""
        monkeypatch.setitem(sys.modules, "tensorflow", None)
        (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01")
        result = cli("convert", tmp_path / "saved_model.pb", "-o", tmp_path / "out.onnx")
        assert result.code == 1
        assert result.error.endswith(f"belongs to a SavedModel; give its directory, {tmp_path}")
