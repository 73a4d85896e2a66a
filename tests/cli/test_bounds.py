"""`convert --verify` with bounds of the user's own: --atol, --rtol, --max-different."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import onnx_sparse
from onnx_sparse.converters.errors import ConversionError

OFF = 0.01


@pytest.fixture
def source(tmp_path, monkeypatch):
    """x + (1, 2), of which the converted model adds 0.01 too much to the first column."""
    path = tmp_path / "source.onnx"
    onnx.save(
        parser.parse_model("""<ir_version: 10, opset_import: ["" : 18]>
            g (float[n, 2] x) => (float[n, 2] y) <float[2] c = {1, 2}> { y = Add (x, c) }"""),
        path,
    )

    def wrong(model):
        changed = onnx.ModelProto.FromString(model.SerializeToString())
        changed.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.float32([1 + OFF, 2]), "c"))
        return changed

    monkeypatch.setattr("onnx_sparse.models.forms.canonical.canonicalize", wrong)
    return path


@pytest.mark.parametrize(
    ("bounds", "is_right"),
    [
        ([], False),
        (["--atol", "0.02"], True),
        (["--atol", "0.005"], False),
        (["--rtol", "0.005"], True),
        (["--atol", "0.005", "--rtol", "0.005"], True),
        (["--rtol", "1e-4"], False),
        (["--max-different", "3"], True),
        (["--max-different", "2"], False),
        (["--atol", "0", "--max-different", "3"], True),
    ],
)
def test_bounds_decide(cli, source, tmp_path, bounds, is_right):
    """On three rows whose values are about 4: 0.01 is a 400th of them."""
    out = tmp_path / "out.onnx"
    given = f"x={(np.ones((3, 2)) * 3).tolist()}"
    result = cli("convert", source, "-o", out, "--verify-with", given, *bounds, "--json")
    assert (result.code == 0, out.exists()) == (is_right, is_right)
    if is_right:
        (record,) = result.json["verification"]
        assert record["ok"]
        assert record["max_abs"] == pytest.approx(OFF, rel=1e-3)
        assert record["where"].startswith("[0, 0]: 4.01")
    else:
        assert "differ" in result.error
        assert "most at [0, 0]: 4.01" in result.error


def test_bounds_in_python(source):
    with pytest.raises(ConversionError, match=r"values differ.*most at \[\d+, 0\]"):
        onnx_sparse.convert(source, verify=True)
    assert onnx_sparse.convert(source, verify=True, atol=2 * OFF).verification[0].ok


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--atol", "1"], "--atol is for a verification: give --verify, too"),
        (["--max-different", "1"], "--max-different is for a verification: give --verify, too"),
        (["--verify", "--rtol", "-1"], "--rtol -1.0: expected a number from 0 on"),
        (["--verify", "--atol", "nan"], "--atol nan: expected a number from 0 on"),
        (["--verify", "--max-different", "-2"], "--max-different -2: expected a number from 0 on"),
    ],
)
def test_bounds_that_make_no_sense(cli, source, tmp_path, arguments, message):
    result = cli("convert", source, "-o", tmp_path / "out.onnx", *arguments)
    assert result.code == 2
    assert message in result.err
