"""A small part of the torture in `writers.py`, and each of its moments by itself."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from torture.writers import Scores, Torture

from onnx_sparse.files.new_file import new_file

pytestmark = pytest.mark.slow

if sys.platform == "win32":
    pytest.skip("POSIX signals and limits", allow_module_level=True)

PATIENCE = 60
#: `pytest` kills few processes; set the variable for more.
KILLS = int(os.environ.get("ONNX_SPARSE_KILLS", "4"))

#: Writes "new" to a file and stops where the second argument says, in a command that handles signals as all do.
_STOPPING = """
import os, sys, time
from pathlib import Path
from onnx_sparse import cli
from onnx_sparse.files.new_file import new_file

def stop(seconds=60):
    print("there", flush=True)
    for _ in range(100 * seconds):  # a signal that comes just before one long sleep would be seen after it
        time.sleep(0.01)

class Command:
    NAME = SUMMARY = EXAMPLES = ""
    def add_arguments(self, parser): pass
    def run(self, arguments):
        with new_file(Path(sys.argv[1])) as file:
            file.write(b"new")
            if sys.argv[2] == "writing":
                stop()
            os.replace = lambda *_: stop()
        return 0

class Parser:
    def __init__(self, argv): pass
    def parse_known_args(self, argv):
        import argparse
        return argparse.Namespace(debug=False, json=False, command=Command()), []

cli._parser = Parser
sys.exit(cli.main([]))
"""


def stopped(out: Path, where: str = "writing") -> subprocess.Popen[str]:
    """A process that is in the midst of writing a file."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _STOPPING, str(out), where],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "there\n"
    return process


def write(out: Path, content: bytes) -> None:
    with new_file(out) as file:
        file.write(content)


@pytest.mark.parametrize("where", ["writing", "replacing"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_the_old_file_and_no_litter(tmp_path: Path, number: signal.Signals, where: str) -> None:
    out = tmp_path / "out.onnx"
    out.write_bytes(b"old")
    process = stopped(out, where)
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert err in ("onnx-sparse: interrupted\n", f"onnx-sparse: ended by {number.name}\n")
    assert os.listdir(tmp_path) == ["out.onnx"]
    assert out.read_bytes() == b"old"


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """As under nohup."""
    program = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{_STOPPING}".replace(
        "seconds=60", "seconds=1"
    )
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", program, str(tmp_path / "out.onnx"), "writing"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def test_what_a_killed_writer_left_is_removed_and_what_another_is_writing_stays(tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    killed, alive, elsewhere = stopped(out), stopped(out), stopped(tmp_path / "other.onnx")
    killed.kill()
    killed.wait()
    assert len(os.listdir(tmp_path)) == 3
    write(out, b"mine")
    assert len(os.listdir(tmp_path)) == 3, "the two living writers' files, and the one written"
    assert out.read_bytes() == b"mine"
    for process in (alive, elsewhere):
        process.kill()
        process.wait()
    write(out, b"mine")
    assert len(os.listdir(tmp_path)) == 2, "what belongs to another file is left to its next writer"
    write(tmp_path / "other.onnx", b"mine")
    assert sorted(os.listdir(tmp_path)) == ["other.onnx", "out.onnx"]


@pytest.mark.parametrize(
    "name", ["a" * 250 + ".onnx", "ü" * 125 + ".onnx", "💧" * 62 + ".onnx", "x", "-", " ", os.fsdecode(b"\xff" * 255)]
)
def test_names_of_any_legal_length(tmp_path: Path, name: str) -> None:
    if sys.platform != "linux":
        name = name.encode(errors="replace").decode()
    write(tmp_path / name, b"content")
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("form", ["file", "pair"])
def test_at_random_times(tmp_path: Path, form: str) -> None:
    torture = Torture(tmp_path, random.Random(form), form)
    torture.end_at_random(signal.SIGKILL)
    torture.end_at_random(signal.SIGTERM)
    torture.several_at_once()
    torture.out_of_space()
    torture.full_disk()
    assert not torture.faults
    assert torture.done


def test_scores_at_random_times(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    scores = Scores(tmp_path, random.Random(1))
    for number in (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        scores.end_at_random(number)
    scores.resume()
    assert not scores.faults


@pytest.mark.parametrize(
    "options",
    [["--batch-rows", "7"], ["--workers", "2"], ["--partition-by", "day", "--keep", "day", "--on-bad-row", "skip"]],
    ids=["one", "two workers", "partitions"],
)
def test_scores_at_chosen_moments(tmp_path: Path, options: list[str]) -> None:
    """Files of each kind; a scorer that is killed between any two changes of the folder is resumed exactly."""
    pytest.importorskip("pyarrow")
    import onnx
    import pyarrow.parquet as pq
    from cli import test_score as sound

    onnx.save(sound.pooling_model(), tmp_path / "m.onnx")
    for number, (name, write) in enumerate(
        {
            "a.parquet": pq.write_table,
            "b.csv": sound.csv,
            "c.jsonl": sound.json_lines,
            "d.arrow": sound.arrow_file,
        }.items()
    ):
        place = tmp_path / "rows" / f"day={number % 2}"
        place.mkdir(parents=True, exist_ok=True)
        write(sound.rows(20, number), place / name)
    command = [sys.executable, "-m", "support.killed_scores", tmp_path, str(KILLS), "1", *options]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "killed by files" in done.stdout


def test_writers_that_race(tmp_path: Path) -> None:
    """Thousands of writes by several processes, each of which looks for the others' litter."""
    program = """
import sys, time
from pathlib import Path
from onnx_sparse.files.new_file import new_file
end = time.monotonic() + 3
count = 0
while time.monotonic() < end:
    with new_file(Path(sys.argv[1])) as file:
        file.write(b"x" * 1000)
    count += 1
print(count)
"""
    command = [sys.executable, "-P", "-c", program, str(tmp_path / "out")]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for writer in writers:
        out, err = writer.communicate(timeout=PATIENCE)
        assert not err
        assert int(out) > 10
    assert os.listdir(tmp_path) == ["out"]


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    tmp_path.chmod(0o500)
    with pytest.raises(Exception, match="no permission to write"):
        write(tmp_path / "out.onnx", b"")
    tmp_path.chmod(0o700)
    assert not os.listdir(tmp_path)
