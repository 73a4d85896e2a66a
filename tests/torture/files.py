"""Mutated source files of every road: a conversion ends with a sound model or one clean line, whatever the file.

So does `score`, with files of rows and right scores. Run for a time: `python tests/torture/files.py --road openvino
--count 20000 --seed 1 --seconds 600`. The suite runs a part. A fault is an unexpected exception, other text than one
line (and the lines of unsupported nodes), a death, more than a minute of the processor or 2 GB, a file written anywhere
else, and a file read that is not of the source. POSIX only.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # where this is run as a program

from support import program
from torture.examiner import examined_in_forks
from torture.mutations import mutated_bytes, mutated_text
from torture.roads import CONVERSIONS, ROADS, as_text
from torture.worker import PATIENCE, Worker

MOST_MEMORY = 2 << 30
#: What no conversion may read: it lies beside the folder of the source.
SECRET = b"this is none of the source's business" * 10


class Scene:
    """A folder in which the cases of a road take place, one after the other.

    Args:
        folder: An empty folder; inside the context, one in it is the current one, another that of temporary files.
        road: The name of the road.
        arguments: Arguments of the command beside those of the road.
    """

    def __init__(self, folder: Path, road: str, arguments: tuple[str, ...] = ()) -> None:
        self.road, self.arguments = ROADS[road], arguments
        self.seeds, self.given, self.out, self.here, self.temporary = (
            folder / name for name in ("seeds", "given", "out", "here", "temporary")
        )
        for place in (self.seeds, self.out, self.here, self.temporary):
            place.mkdir()
        self.secret = folder / "secret.bin"
        self.secret.write_bytes(SECRET)
        self.sources = self.road.make(self.seeds)
        self.mutations = self.road.mutations()
        self.written: list[str] = []
        self.prepared: dict[str, bytes] = {}
        self._watches = False
        self._before = os.getcwd(), tempfile.tempdir, os.environ.get("TMPDIR", "")
        sys.addaudithook(self._watch)

    def __enter__(self) -> Scene:
        tempfile.tempdir = os.environ["TMPDIR"] = str(self.temporary)
        os.chdir(self.here)
        return self

    def __exit__(self, *_: object) -> None:
        folder, tempfile.tempdir, os.environ["TMPDIR"] = self._before
        os.chdir(folder)

    def _watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note what Python opens for writing, makes or renames outside the folder for the output."""
        if not self._watches:
            return
        if event == "open":
            flags = arguments[2]
            writes = isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        else:  # what is removed may be named relative to an open folder
            writes = event in ("os.mkdir", "os.rename", "os.symlink")
        if writes and isinstance(arguments[0], (str, bytes, os.PathLike)):
            where = os.path.abspath(os.fsdecode(arguments[0]))
            if not where.startswith((str(self.out), str(self.temporary), os.devnull, "/proc/")):
                self.written.append(f"{event} {where}")

    def mutate(self, source: random.Random) -> Path:
        """A mutated copy of a source."""
        shutil.rmtree(self.given, ignore_errors=True)
        self.given.mkdir()
        seed = source.choice(self.sources)
        copy = self.given / seed.name
        if seed.is_dir():
            shutil.copytree(seed, copy)
            files = sorted(path for path in copy.rglob("*") if path.is_file() and path.name != "fingerprint.pb")
        else:
            beside = [seed] if seed.parent == self.seeds else sorted(seed.parent.iterdir())
            files = [Path(shutil.copy(path, self.given)) for path in beside]
        main = next((f for f in files if f == copy or f.name.startswith("saved_model.pb")), files[0])
        file = main if source.random() < self.road.mostly else source.choice(files)
        structured = next((m for end, m in self.mutations.items() if file.name.endswith(end)), mutated_bytes)
        mutation = structured if source.random() < 0.8 else mutated_bytes
        if mutation is mutated_bytes and source.random() < 0.3 and file.suffix in (".pbtxt", ".txt", ".json", ".xml"):
            mutation = as_text(mutated_text)
        file.write_bytes(mutation(file.read_bytes(), source))
        return copy

    def run(self, number: int) -> tuple[str, str]:
        """Mutate a source and convert it: the outcome, and the fault or ""."""
        from onnx_sparse.cli import main

        source = random.Random(number)
        path = self.mutate(source)
        before = _listing(self.given)
        self.road.prepare(path, self.seeds, self.out)
        self.prepared = _contents(self.out)
        command = [*self.road.command(path, self.seeds, self.out, source), *self.arguments]
        self.written.clear()
        begun = time.process_time()  # other programs may have the processor
        with captured() as texts:
            self._watches = True
            try:
                code: Any = main(command)
            except BaseException as error:
                code = f"{type(error).__name__}: {error}"
            finally:
                self._watches = False
        took = time.process_time() - begun
        stdout, stderr = texts[0], program.without_progress(texts[1])
        fault = self._fault(code, stdout, stderr, path)
        if not fault and took > PATIENCE:
            fault = f"takes {took:.0f} s"
        memory = _peak_memory()
        if not fault and memory > MOST_MEMORY:
            fault = f"takes {memory >> 20} MB"
        if not fault and _listing(self.given) != before:
            fault = f"the source changed: {sorted(set(_listing(self.given)) ^ set(before))}"
        left = [*self.out.iterdir(), *self.here.iterdir(), *self.temporary.iterdir()]
        if not fault and (self.written or {place.relative_to(self.out.parent) for place in left} - self.road.results):
            fault = f"writes elsewhere: {self.written or left}"
        for path in left:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return {0: "converted", 1: "refused", 2: "refused"}.get(code, "fault"), fault

    def _fault(self, code: Any, stdout: str, stderr: str, path: Path) -> str:
        if code == 0:
            if stderr:
                return f"says: {stderr[:300]}"
            if any(SECRET[:20] in file.read_bytes() for file in self.out.iterdir() if file.is_file()):
                return "holds what lies outside the source"
            return self.road.fault(path, self.out)
        if code not in (1, 2):
            return f"exit {code}"
        if _contents(self.out) != self.prepared:
            return "a file is left or changed"
        if self.road.prints_failures and stdout and not stderr:
            return ""
        lines = stderr.splitlines()
        if not lines or not lines[0].startswith("onnx-sparse: error: "):
            return f"says: {stderr[:500]!r}"
        if any(not line.startswith("  ") for line in lines[1:]) or "Traceback" in stderr:
            return f"more than one line: {stderr[:500]!r}"
        if re.match("onnx-sparse: error: unexpected ", stderr):
            return lines[0]
        if re.search("0x[0-9a-f]{8,}|<[a-z_.]+ object at", lines[0]):
            return f"an address: {lines[0]}"
        return ""


def _peak_memory() -> int:
    """The most bytes that this process has had. On Linux, ru_maxrss also counts what the parent had when it forked."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) << 10


def _listing(folder: Path) -> list[tuple[str, int, int]]:
    found = [(path, path.stat()) for path in folder.rglob("*")]
    return sorted((str(path), status.st_size, status.st_mtime_ns) for path, status in found)


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextmanager
def captured() -> Iterator[list[str]]:
    """What is written to both streams, by Python or by a library: stdout and stderr."""
    texts: list[str] = []
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        kept = [(number, os.dup(number)) for number in (1, 2)]
        sys.stdout.flush()
        sys.stderr.flush()
        streams = sys.stdout, sys.stderr
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        # As Python opens them.
        sys.stdout = open(1, "w", closefd=False, errors="strict")  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False, errors="backslashreplace")  # noqa: SIM115
        try:
            yield texts
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            sys.stdout, sys.stderr = streams
            for number, copy in kept:
                os.dup2(copy, number)
                os.close(copy)
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode(errors="backslashreplace"))


def work(road: str, seed: int, count: int, arguments: tuple[str, ...]) -> None:
    """Cases in this process; each is announced on stdout before it begins and when it has ended."""
    import onnxruntime  # noqa: F401 - else a command would go on in a fork of this process, where its death is reported

    process = os.getpid()
    examinations = examined_in_forks() if road == "keras" else nullcontext()
    with examinations, tempfile.TemporaryDirectory() as folder, Scene(Path(folder), road, arguments) as scene:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for number in range(seed, seed + count):
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
            outcome, fault = scene.run(number)
            if os.getpid() != process:
                os._exit(1)  # a fork would go on with all cases that are left; so its parent has a fault
            sys.stdout.write(f"{outcome}\t{fault!r}\n")
            sys.stdout.flush()


def roads_parser(doc: str | None, roads: Collection[str], count: int) -> argparse.ArgumentParser:
    """The options of a program that does cases on each road."""
    parsed = program.parser(doc, seed=0)
    parsed.add_argument("--road", choices=roads, action="append")
    parsed.add_argument("--seconds", type=float, default=60, help="for each road")
    parsed.add_argument("--count", type=int, default=count, help="for each road")
    return parsed


def main() -> int:
    parsed = roads_parser(__doc__, ROADS, 20_000)
    parsed.add_argument("--verify", action="store_true", help="also compare models with what they were converted from")
    arguments = parsed.parse_args()
    found = False
    for road in arguments.road or ROADS:
        worker = Worker(road, ("--verify",) if arguments.verify and road in CONVERSIONS else ())
        worker.cases(arguments.seed, arguments.count, arguments.seconds)
        program.tell(worker.done, [], f"{road}: ")  # it has told its faults
        found |= bool(worker.faults)
    return found


if __name__ == "__main__":
    sys.exit(main())
