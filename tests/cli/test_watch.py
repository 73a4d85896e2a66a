"""Commands that go on in a child process, whose end is reported."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs fork")


@pytest.fixture
def convert(tmp_path):
    """`onnx-sparse convert` of a source for which a converter does something else."""
    (tmp_path / "saved_model.pb").touch()

    def convert(action, *options):
        program = f"""
import os, signal, sys, time
def go_on():  # Python does not see a signal that comes just before a sleep
    while True: time.sleep(0.01)
from onnx_sparse.cli import main
from onnx_sparse.commands.sources import steps as conversion
def convert(self, progress):
    progress("running TensorFlow on the batch 'ordinary'")
    {action}
conversion.Conversion.convert = convert
sys.argv[1:] = ["convert", {str(tmp_path)!r}, "-o", {str(tmp_path / "out.onnx")!r}, *{options!r}]
sys.exit(main())
"""
        return subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)

    return convert


@pytest.mark.parametrize("options", [(), ("--verify",)])
def test_an_end_is_reported(convert, options):
    process = convert("os.abort()", *options)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert error == (
        "onnx-sparse: error: the process was ended by SIGABRT while running TensorFlow on the batch 'ordinary'; "
        "nothing is written\n"
    )


def test_a_failure_is_reported_once(convert):
    process = convert("raise MemoryError()")
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (1, "onnx-sparse: error: not enough memory\n")


@pytest.mark.parametrize(
    ("number", "code", "message"), [(signal.SIGINT, 130, "onnx-sparse: interrupted\n"), (signal.SIGTERM, -15, "")]
)
def test_signals_are_passed_on(convert, number, code, message):
    process = convert("print('ready', file=sys.stderr, flush=True); go_on()")
    assert process.stderr.readline() == "ready\n"
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (code, message)


def test_a_signal_as_soon_as_there_is_a_child(convert):
    """The child sends it, before or while the other process begins to wait."""
    processes = [convert("os.kill(os.getppid(), signal.SIGINT); go_on()") for _ in range(4)]
    for process in processes:
        _, error = process.communicate(timeout=60)
        assert (process.returncode, error) == (130, "onnx-sparse: interrupted\n")
