"""Without the native library there is one warning, with the cure."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from onnx_sparse.installation import reinstall_command

#: Where no native library is found.
HIDDEN = """
import sys, warnings
from onnx_sparse.native import location
location._NAMES = ()
import onnx_sparse
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "ONNX_SPARSE_LIBRARY"}
    command = [sys.executable, "-c", HIDDEN + program]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment)


def test_the_first_session_warns():
    done = run("for _ in range(2): onnx_sparse.session_options()")
    assert done.stderr.count("RuntimeWarning") == 1
    assert f"Install a C++17 compiler, then run: {reinstall_command()}" in done.stderr


def test_who_asks_for_them_knows():
    assert run("onnx_sparse.session_options('python')").stderr == ""


@pytest.mark.slow
def test_doctor_says_so():
    done = run("from onnx_sparse.cli import main; sys.exit(main(['doctor']))")
    assert "SLOW: this installation has no native kernels" in done.stdout
    assert "Everything that is needed works." in done.stdout


@pytest.mark.slow
def test_the_command_warns_in_one_line(tmp_path):
    model = tmp_path / "model.onnx"
    run(f"""
import onnx
text = '<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]> g (int64[1] n) => (int64[1] y)' + (
    ' <int64 v = {{3}}> {{ y = onnx_sparse.Fill (n, v) }}')
onnx.save(onnx.parser.parse_model(text), {str(model)!r})""")
    done = run(
        f"sys.argv[1:] = ['run', {str(model)!r}, '-i', 'n=[2]']\nfrom onnx_sparse.cli import main\nsys.exit(main())"
    )
    assert "[3, 3]" in done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("onnx-sparse: warning: this installation has no native kernels")
