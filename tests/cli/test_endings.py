"""How the command line ends: interrupted, without memory, with streams that are closed or full."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import onnx_sparse_command
from onnx_sparse.cli import main
from onnx_sparse.commands.description import findings
from onnx_sparse.errors import CommandError


def test_an_interrupt_is_130(capsys, monkeypatch, segment_max):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(findings, "find", interrupted)
    assert main(["check", str(segment_max)]) == 130
    assert capsys.readouterr().err == "onnx-sparse: interrupted\n"
    assert main(["check", str(segment_max), "--debug"]) == 130
    assert "in interrupted" in capsys.readouterr().err


def test_an_error_that_an_interrupt_has_led_to_is_130(capsys, monkeypatch, segment_max):
    """As pybind11 makes an ImportError of one that comes while a compiled module is imported."""

    def imported(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as interrupt:
            raise ImportError("initialization failed") from interrupt

    monkeypatch.setattr(findings, "find", imported)
    assert main(["check", str(segment_max)]) == 130
    assert capsys.readouterr().err == "onnx-sparse: interrupted\n"


#: The command, which says when it begins to import the package; with Python's own handler of interrupts, whatever the
#: parent of the tests ignores.
_STARTING = """
import signal, sys
from importlib.abc import MetaPathFinder
from onnx_sparse_command import main

class Teller(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "onnx_sparse":
            print("there", flush=True)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Teller())
sys.argv[1:] = ["ops", "--json"]
sys.exit(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for one process")
@pytest.mark.parametrize("delay", [0.0, 0.03, 0.1, 0.2, 0.3, 0.5])
def test_an_interrupt_while_the_command_starts_shows_no_traceback(delay):
    child = subprocess.Popen(
        [sys.executable, "-c", _STARTING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "there\n"
    time.sleep(delay)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    ended = [(-signal.SIGINT, ""), (130, "onnx-sparse: interrupted\n"), (0, "")]
    assert (child.returncode, err) in ended


#: The command, which says when all is done but the end of the process.
_ENDING = """
import atexit, signal, sys, time
from onnx_sparse_command import main

def tell():
    print("there", flush=True)
    time.sleep(60)

atexit.register(tell)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv[1:] = ["ops", "Fill", "--json"]
sys.exit(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for one process")
def test_an_interrupt_while_the_process_ends_shows_no_traceback():
    child = subprocess.Popen([sys.executable, "-c", _ENDING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "there\n" in iter(child.stdout.readline, "")
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (-signal.SIGINT, "")


@pytest.mark.skipif(os.name != "posix", reason="no SIGPIPE")
def test_a_reader_that_leaves_is_not_an_error():
    process = subprocess.Popen(
        [sys.executable, "-m", "onnx_sparse", "ops", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 128 + signal.SIGPIPE


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("arguments", [["ops"], ["ops", "--json"], ["ops", "Fill"], ["ops", "Nope", "--json"]])
def test_a_full_disk_behind_stdout(arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "onnx_sparse", *arguments], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "onnx-sparse: error: cannot write to stdout: No space left on device"
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="no shell")
@pytest.mark.parametrize(("arguments", "code"), [("ops", 0), ("ops --json", 0), ("ops Nope", 1), ("", 2)])
def test_streams_that_are_closed(arguments, code):
    command = f"{sys.executable} -m onnx_sparse {arguments} >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert subprocess.run(["sh", "-c", f"{command} 2>&-"]).returncode == code


def test_errors_of_the_system_are_not_bugs_of_ours(cli):
    name = "x" * 300 + ".onnx"
    assert cli("check", name).error == f"{name}: File name too long"


def test_too_little_memory(cli, monkeypatch, segment_max):
    def no_memory(*_: object) -> None:
        raise MemoryError("Unable to allocate 7.28 TiB")

    monkeypatch.setattr(findings, "find", no_memory)
    assert cli("check", segment_max).error == "not enough memory: Unable to allocate 7.28 TiB"


def test_too_little_memory_that_is_taken_for_a_fault_of_the_file(cli, monkeypatch, segment_max):
    def not_read(*_: object) -> None:
        try:
            raise MemoryError
        except Exception as error:
            raise CommandError("the model cannot be read") from error

    monkeypatch.setattr(findings, "find", not_read)
    assert cli("check", segment_max).error == "the model cannot be read (not enough memory)"


def test_errors_that_are_raised_from_each_other(cli, monkeypatch, segment_max):
    def not_read(*_: object) -> None:
        first, second = ValueError("first"), CommandError("the model cannot be read")
        first.__cause__ = second
        raise second from first

    monkeypatch.setattr(findings, "find", not_read)
    assert cli("check", segment_max).error == "the model cannot be read"


def test_too_little_memory_for_the_arguments(cli, monkeypatch):
    def no_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("onnx_sparse.cli._parser", no_memory)
    assert cli("ops").error == "not enough memory"


#: The command with arguments; it ends with 99 where the package was imported.
_ASKING = """
import sys
from onnx_sparse_command import main
code = main()
sys.exit(99 if "onnx_sparse" in sys.modules else code)
"""


@pytest.mark.parametrize("asked", ["--version", "-V", "-version", "version", "--help", "-h", "help"])
def test_version_and_help_come_without_an_import_of_the_package(cli, monkeypatch, asked):
    monkeypatch.setenv("COLUMNS", "80")
    done = subprocess.run([sys.executable, "-c", _ASKING, asked], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, cli(asked).out, "")


def test_the_help_lists_no_command_that_was_lifted_out(monkeypatch, tmp_path):
    """Its file is as it was, so the parser is asked."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.argv", ["onnx-sparse", "--help"])
    here = Path(onnx_sparse_command.__file__).parent
    commands = [path for path in (here.parent / "onnx_sparse" / "cli").iterdir() if path.name != "__init__.py"]
    for path in (here / "help.txt", *commands):
        to = tmp_path / path.relative_to(here.parent)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.touch() if path.is_file() else to.mkdir()
    text = (here / "help.txt").read_text("utf-8")
    (tmp_path / "onnx_sparse_command" / "help.txt").write_text(text, "utf-8")
    monkeypatch.setattr(onnx_sparse_command, "_FOLDER", str(tmp_path / "onnx_sparse_command"))
    assert onnx_sparse_command._text() == text
    for lifted in (tmp_path / "onnx_sparse" / "cli" / "serve.py", tmp_path / "onnx_sparse" / "cli" / "triton"):
        shutil.move(lifted, tmp_path)
        assert onnx_sparse_command._text() is None
        shutil.move(tmp_path / lifted.name, lifted)


@pytest.mark.skipif(os.name != "posix", reason="pipes of Windows always wait")
@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["ops", "--json"]])
def test_a_full_pipe_that_does_not_wait(arguments):
    """Another process may have made it so; Python would drop what is too much, and end with status 0."""
    command = [sys.executable, "-c", "import sys; from onnx_sparse_command import main; sys.exit(main())", *arguments]
    expected = subprocess.run(command, capture_output=True, check=True).stdout
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    filled = 0
    with suppress(BlockingIOError):
        while True:
            filled += os.write(writing, bytes(1000))
    filled -= len(os.read(reading, 4096))  # a pipe takes what fills its page
    with subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE) as child, open(reading, "rb") as pipe:
        os.close(writing)
        time.sleep(2)  # long enough to write, or to fail
        assert pipe.read()[filled:] == expected
        assert (child.wait(60), child.stderr.read()) == (0, b"")


@pytest.mark.parametrize("columns", ["60", "wide"])
def test_the_help_of_another_width_comes_from_its_parser(cli, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    done = subprocess.run([sys.executable, "-c", _ASKING, "--help"], capture_output=True, text=True)
    assert done.returncode == 99
    assert done.stdout == cli("--help").out


def test_version_and_help_cost_little_more_than_python_does():
    """They import no module: not argparse, nor what a bare script of it would."""
    asking = (
        "import sys, onnx_sparse_command as c; before = {*sys.modules}; c.main(); "
        "print(*({*sys.modules} - before), file=sys.stderr)"
    )
    for asked in ("--version", "--help"):
        done = subprocess.run([sys.executable, "-c", asking, asked], capture_output=True, text=True)
        assert done.stdout
        assert done.stderr.split() == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_version_that_cannot_be_written_is_an_error():
    command = "import sys; from onnx_sparse_command import main; sys.exit(main())"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", command, "--version"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (
        1,
        "onnx-sparse: error: cannot write to stdout: No space left on device\n",
    )
