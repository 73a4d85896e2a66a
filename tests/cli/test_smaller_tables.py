"""`onnx-sparse convert --tables`: smaller tables, and what is said about them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from models.test_quantization import FEEDS, ROWS, WIDTH, model, table

INPUTS = ("indices", "offsets", "default_index", "per_sample_weights")


@pytest.fixture
def source(tmp_path):
    onnx.save(model("EmbeddingBagOffsetsSum", table()), tmp_path / "model.onnx")
    np.savez(tmp_path / "feeds.npz", **{name: FEEDS[name] for name in INPUTS})
    return tmp_path / "model.onnx"


@pytest.fixture
def verified(source, tmp_path):
    """The arguments of a verified conversion."""
    return ("convert", source, "-o", tmp_path / "out.onnx", "--verify-with", tmp_path / "feeds.npz")


@pytest.mark.parametrize(("format", "bytes_of_a_row"), [("float16", 64), ("bfloat16", 64), ("int8", 40), ("int4", 24)])
def test_sizes_and_distances(cli, verified, source, tmp_path, format, bytes_of_a_row):
    result = cli(*verified, "--tables", format, "--json")
    assert result.code == 0, result.err
    assert result.json["verification"][0]["ok"]
    told = result.json["tables"]
    size = {"before": ROWS * WIDTH * 4, "after": ROWS * bytes_of_a_row}
    assert told["changed"] == [{"name": "emb_table", "shape": [ROWS, WIDTH], "format": format} | size]
    assert [distance["output"] for distance in told["distance"]] == ["output"]
    assert told["distance"][0]["max_abs"] > told["distance"][0]["rms"] > 0
    assert (tmp_path / "out.onnx").stat().st_size < source.stat().st_size * 0.7
    assert cli("check", tmp_path / "out.onnx").code == 0


def test_as_text(cli, verified):
    result = cli(*verified, "--tables", "int8")
    assert result.code == 0, result.err
    assert "QuantizedEmbeddingBagOffsetsSum" in result.out
    assert "bytes before" in result.out
    assert "max abs distance" in result.out


def test_no_table_that_could_be(cli, tmp_path):
    onnx.save(model("EmbeddingBagOffsetsMax", table()), tmp_path / "model.onnx")
    result = cli("convert", tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--tables", "int8")
    assert result.code == 0, result.err
    assert "none of 64 KiB that only lookups read" in result.out


def test_a_table_that_is_not_finite_writes_nothing(cli, tmp_path):
    values = table()
    values[3, 4] = float("nan")
    onnx.save(model("EmbeddingBagOffsetsSum", values), tmp_path / "model.onnx")
    result = cli("convert", tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--tables", "int8")
    assert result.code == 1
    assert result.error == "table 'emb_table' cannot be quantized: [3,4] = nan is not finite"
    assert not (tmp_path / "out.onnx").exists()
