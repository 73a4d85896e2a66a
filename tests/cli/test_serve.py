"""`onnx-sparse serve` before it serves: what is wrong is one line, and nothing is left running."""

from __future__ import annotations

import builtins
import os
import socket
import subprocess
import sys

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from onnx_sparse.keyed_tables import key_index


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing.onnx"], 1, "missing.onnx: no such file"),
        (["."], 2, "'' cannot be the name of a model; NAME=. gives another"),
        (["x=."], 1, ". is a directory, not an ONNX file"),
        (["MODEL", "MODEL"], 2, "two models have the name model"),
        (["a/b=MODEL"], 2, "'a/b' cannot be the name of a model"),
        (["MODEL", "--workers", "0"], 2, "--workers 0: at least 1 expected"),
        (["MODEL", "--port", "70000"], 2, "--port 70000: a port is from 0 to 65535"),
        (["MODEL", "--max-request-size", "2048"], 2, "--max-request-size 2048: it is at most 2047 MiB"),
        (["MODEL", "--drain", "-1"], 2, "--drain -1.0: at least 0 expected"),
    ],
)
def test_wrong_usage(cli, segment_max, arguments, code, message):
    result = cli("serve", *(argument.replace("MODEL", str(segment_max)) for argument in arguments))
    assert result.code == code
    assert message in result.err


@pytest.mark.parametrize("option", ["--port", "--grpc-port"])
def test_a_port_that_is_taken(cli, segment_max, option):
    other = {"--port": "--grpc-port", "--grpc-port": "--port"}[option]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = cli("serve", segment_max, option, port, other, 0)
    assert result.code == 1
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; {option} chooses another port" in result.err


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_that_is_no_model(tmp_path, workers):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"no model")
    command = [sys.executable, "-m", "onnx_sparse", "serve", str(path), "--port", "0", "--grpc-port", "0"]
    done = subprocess.run(
        [*command, "--workers", str(workers)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert f"onnx-sparse: error: {path} is not an ONNX model, or truncated: " in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_the_extra(cli, segment_max, monkeypatch):
    monkeypatch.setattr("onnx_sparse.cli.serve.find_spec", lambda name: None if name == "grpc" else builtins.object())
    result = cli("serve", segment_max)
    assert result.code == 1
    assert "serving needs grpc: pip install " in result.err
    assert "uvicorn" in result.err


def test_check_refuses_a_damaged_index(cli, tmp_path):
    """A missing key, which a server that does not check would answer with -1."""
    text = """<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
    g (int64[n] ids) => (int64[n] found) { found = onnx_sparse.FindKeys (ids_keys, ids_index, ids) }"""
    model, keys = onnx.parser.parse_model(text), np.arange(100) * 7
    for damaged in (False, True):
        index = key_index(keys)
        index[np.flatnonzero(index[64:])[0] + 64] ^= damaged
        constants = {"ids_keys": keys, "ids_index": index}
        model.graph.ClearField("initializer")
        model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
        onnx.save(model, tmp_path / "model.onnx")
        result = cli("serve", "--check", tmp_path / "model.onnx")
        assert result.code == damaged
    assert "FindKeys: ids_index: index is damaged, or of other keys: its checksum of the slots is 0x" in result.error
    assert "ONNX_SPARSE_CHECK_INDEX" not in os.environ
