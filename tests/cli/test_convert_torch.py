"""`onnx-sparse convert` of torch's ExportedPrograms."""

from __future__ import annotations

import sys

import onnx
import pytest

from onnx_sparse.installation import install_command


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A saved program: bags of rows."""
    torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
    pytest.importorskip("onnxscript", reason="the extra `torch` is not installed")
    many = torch.export.Dim.DYNAMIC
    example = (torch.tensor([1, 2, 3]), torch.tensor([0, 2]))
    program = torch.export.export(torch.nn.EmbeddingBag(9, 2), example, dynamic_shapes=({0: many}, {0: many}))
    path = tmp_path_factory.mktemp("torch") / "bags.pt2"
    torch.export.save(program, path)
    return path


@pytest.mark.parametrize("form", [[], ["--portable"], ["--lower"]], ids=["domain", "portable", "lowered"])
def test_a_program(cli, source, tmp_path, form):
    result = cli("convert", source, "-o", tmp_path / "out.onnx", "--verify", "--json", *form)
    assert result.code == 0, result.err
    assert result.json["from"] == "torch"
    assert [record["verdict"] for record in result.json["verification"]] == ["ok"]
    onnx.checker.check_model(tmp_path / "out.onnx", full_check=True)


def test_without_torch(cli, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "model.pt2").touch()
    result = cli("convert", tmp_path / "model.pt2", "-o", tmp_path / "out.onnx")
    assert result.code == 1
    assert install_command("torch") in result.error


def test_options_of_other_sources(cli, tmp_path):
    (tmp_path / "model.pt2").touch()
    result = cli("convert", tmp_path / "model.pt2", "-o", tmp_path / "out.onnx", "--inputs", "x:0")
    assert result.code == 2
    assert "--inputs" in result.error
