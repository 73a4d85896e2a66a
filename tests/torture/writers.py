"""Writers that are killed, ended, interrupted, out of space or not alone: the old file or the new one, and no litter.

So are files of scores: a scorer that is ended and resumed makes what an undisturbed one makes.

Run for a time: `python tests/torture/writers.py --seconds 600 --seed 1`. The suite runs a part. POSIX only.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent.parent))  # where this is run as a program

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper, parser
from support import program

#: Elements of the models' tensor: writing takes a few milliseconds.
SIZE = 2_000_000
PATIENCE = 120

#: Converts to the same file again and again. "pair" lowers the limit beyond which tensors get a file of their own.
_WRITER = """
import sys
from onnx_sparse.cli import main
from onnx_sparse.models.files import load_and_save as model_file
if sys.argv[1] == "pair":
    model_file._EXTERNAL = 1000
sources, out = sys.argv[2:-1], sys.argv[-1]
for count in range(1_000_000):
    code = main(["convert", sources[count % len(sources)], "-o", out, "--json"])
    if code:
        sys.exit(code)
"""

#: Converts once with a limit on the size of files, which acts like a full disk.
_LIMITED_WRITER = """
import resource, sys
from onnx_sparse.cli import main
from onnx_sparse.models.files import load_and_save as model_file
if sys.argv[1] == "pair":
    model_file._EXTERNAL = 1000
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
sys.exit(main(["convert", *sys.argv[3:-1], "-o", sys.argv[-1]]))
"""

#: Mounts a disk of 1 MB on a folder, and runs a command that writes there; then lists what is there.
_ON_A_SMALL_DISK = """
folder=$1; shift
mount -t tmpfs -o size=1m none "$folder" || exit 77
printf old > "$folder/small.onnx"
"$@"
status=$?
ls -A "$folder"; cat "$folder/small.onnx"
exit $status
"""


def make_model(value: float) -> ModelProto:
    """A model whose tensor holds one value everywhere."""
    model = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
        g (float[{SIZE}] x) => (float[{SIZE}] y) {{ y = Add (x, t) }}"""
    )
    model.graph.initializer.append(numpy_helper.from_array(np.full(SIZE, value, np.float32), "t"))
    return model


class Seen:
    """What was done, and the faults."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.faults: list[str] = []

    def expect(self, what: str, right: bool, *seen: object) -> None:
        self.done[what] += 1
        if not right:
            self.faults.append(f"{what}: {seen}")


class Torture(Seen):
    """A folder with two models to convert."""

    def __init__(self, folder: Path, source: random.Random, form: str) -> None:
        super().__init__()
        self.source, self.form = source, form
        self.sources = [folder / "one.onnx", folder / "two.onnx"]
        for number, path in enumerate(self.sources):
            onnx.save(make_model(number + 1), path)
        self.folder = folder / "out"
        self.folder.mkdir()

    def writer(self, out: Path, program: str = _WRITER, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", program, self.form, *arguments, *map(str, self.sources), str(out)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def litter(self, out: Path) -> list[str]:
        """The files in the folder that are neither the model's nor the tensors'."""
        expected = {out.name}
        if out.exists():
            stubs = onnx.load(out, load_external_data=False).graph.initializer
            expected.update(e.value for t in stubs for e in t.external_data if e.key == "location")
        return sorted(set(os.listdir(self.folder)) - expected)

    def check_content(self, what: str, out: Path, *, may_lack: bool) -> None:
        """The file is one of the two models, whole."""
        if not out.exists():
            self.expect(what, may_lack, "the file is lost")
            return
        try:
            (tensor,) = onnx.load(out).graph.initializer
            values = numpy_helper.to_array(tensor)
            right = values.shape == (SIZE,) and values[0] in (1, 2) and bool((values == values[0]).all())
        except Exception as error:
            right, values = False, error
        self.expect(what, right, values)

    def end_at_random(self, number: signal.Signals) -> None:
        """One writer, ended by a signal at a random time."""
        out = self.folder / self.source.choice(["m.onnx", "m" * 250 + ".onnx", "ü" * 125 + ".onnx"])
        existed = out.exists()
        writer = self.writer(out)
        assert writer.stdout is not None
        # An interrupt while Python starts is Python's affair.
        if existed or number == signal.SIGINT or self.source.random() < 0.8:
            writer.stdout.readline()  # it has begun to print what it wrote first
            existed = True
        time.sleep(self.source.uniform(0, 0.1))
        writer.send_signal(number)
        _, err = writer.communicate(timeout=PATIENCE)
        what = f"{self.form}, {number.name}"
        self.expect(f"{what}: status", writer.returncode in (-number, 128 + number), writer.returncode, err)
        if number != signal.SIGKILL:
            # In a pair, the tensors of one model may be left when the other has just been replaced.
            self.expect(f"{what}: no litter", not any(n.endswith(".part") for n in self.litter(out)), self.litter(out))
        self.check_content(f"{what}: old or new", out, may_lack=not existed)
        self.expect(f"{what}: the next writer", self.convert_once(out) == 0)
        parts = [name for name in self.litter(out) if name.endswith(".part")]
        self.expect(f"{what}: removed by the next writer", not parts, parts)
        self.check_content(f"{what}: after the next writer", out, may_lack=False)
        for file in self.folder.iterdir():
            if self.source.random() < 0.2 or (file.name != out.name and self.form == "file"):
                file.unlink()

    def convert_once(self, out: Path) -> int:
        """Convert in this process, which is another one than the writers before; returns the status."""
        from onnx_sparse.cli import main
        from onnx_sparse.models.files import load_and_save as model_file

        largest = 1000 if self.form == "pair" else model_file._EXTERNAL
        with mock.patch.object(model_file, "_EXTERNAL", largest), contextlib.redirect_stdout(None):
            return main(["convert", str(self.sources[0]), "-o", str(out)])

    def several_at_once(self) -> None:
        """Writers of one file, one of them killed: the others never notice."""
        out = self.folder / "shared.onnx"
        writers = [self.writer(out) for _ in range(3)]
        for writer in writers:
            assert writer.stdout is not None
            writer.stdout.readline()
        time.sleep(self.source.uniform(0, 1))
        victim, *others = writers
        victim.kill()
        time.sleep(self.source.uniform(0.2, 1))
        for writer in others:
            self.expect(f"{self.form}, several: alive", writer.poll() is None, writer.returncode)
            writer.terminate()
        for writer in writers:
            _, err = writer.communicate(timeout=PATIENCE)
            self.expect(f"{self.form}, several: no error", "cannot" not in err, err)
        self.check_content(f"{self.form}, several: one of them", out, may_lack=False)
        self.expect(f"{self.form}, several: the next writer", self.convert_once(out) == 0)
        parts = [name for name in self.litter(out) if name.endswith(".part")]
        self.expect(f"{self.form}, several: no litter", not parts, parts)

    def out_of_space(self) -> None:
        """Files may only have so many bytes."""
        out = self.folder / "limited.onnx"
        existed = out.exists()
        before = out.read_bytes() if existed else b""
        beside = sorted(os.listdir(self.folder))
        limit = self.source.choice([0, 10, 1000, 4096, SIZE, 4 * SIZE - 1])
        command = [sys.executable, "-P", "-c", _LIMITED_WRITER, self.form, str(limit), str(self.sources[0]), str(out)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        what = f"{self.form}, no space"
        said = program.without_progress(done.stderr)
        right = done.returncode == 1 and said == f"onnx-sparse: error: cannot write {out}: File too large\n"
        self.expect(f"{what}: one line", right, done.returncode, done.stderr)
        self.expect(f"{what}: nothing changed", sorted(os.listdir(self.folder)) == beside, beside)
        self.expect(f"{what}: the old file", not existed or out.read_bytes() == before)
        self.convert_once(out)

    def full_disk(self) -> None:
        """The disk has less room than the model takes; where this process may mount one."""
        small = self.folder.parent / "small"
        small.mkdir(exist_ok=True)
        out = small / "small.onnx"
        writer = [sys.executable, "-P", "-c", _LIMITED_WRITER, self.form, str(2**40), str(self.sources[0]), str(out)]
        command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _ON_A_SMALL_DISK, "sh", str(small)]
        try:
            done = subprocess.run([*command, *writer], capture_output=True, text=True, timeout=PATIENCE)
        except FileNotFoundError:
            return
        if done.returncode not in (0, 1) or "unshare" in done.stderr:
            return
        what = f"{self.form}, full disk"
        said = program.without_progress(done.stderr)
        right = done.returncode == 1 and said.startswith(f"onnx-sparse: error: cannot write {out}: No space left")
        self.expect(f"{what}: one line", right and said.count("\n") == 1, done.returncode, done.stderr)
        self.expect(f"{what}: the old file alone", done.stdout == "small.onnx\nold", done.stdout)

    def round(self) -> None:
        """Everything once."""
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL):
            self.end_at_random(number)
        self.several_at_once()
        self.out_of_space()
        self.full_disk()


class Scores(Seen):
    """Files of rows to score, and the scores of a run that nothing disturbs."""

    def __init__(self, folder: Path, source: random.Random) -> None:
        import pyarrow.parquet as pq
        from cli.test_score import pooling_model, rows

        super().__init__()
        self.source, self.out = source, folder / "scores"
        self._model, self._rows = folder / "model.onnx", folder / "rows"
        onnx.save(pooling_model(), self._model)
        self._rows.mkdir()
        for number in range(6):
            pq.write_table(rows(3000, number), self._rows / f"{number}.parquet")
        begun = time.monotonic()
        undisturbed = self._scorer(folder / "right", 1)
        _, err = undisturbed.communicate(timeout=PATIENCE)
        assert undisturbed.returncode == 0, err
        self._seconds = time.monotonic() - begun
        self._right = {path.name: path.read_bytes() for path in (folder / "right").iterdir()}

    def _scorer(self, out: Path, workers: int, *arguments: str) -> subprocess.Popen[str]:
        files = ["score", str(self._model), str(self._rows), "-o", str(out)]
        options = ["--batch-rows", "50", "--workers", str(workers), *arguments]
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "onnx_sparse", *files, *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def end_at_random(self, number: signal.Signals) -> None:
        """One scorer, ended at a random time: alone, or with its workers as by a terminal."""
        workers, with_workers = self.source.choice([1, 2]), self.source.random() < 0.5
        before = set(os.listdir(self.out)) if self.out.exists() else set()
        scorer = self._scorer(self.out, workers, self.source.choice(["--resume", "--overwrite"]))
        time.sleep(self.source.uniform(0.3, 1) * self._seconds)
        while number == signal.SIGINT and scorer.poll() is None and not self._is_writing(before):
            time.sleep(0.01)  # an interrupt while Python starts is Python's affair
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if with_workers else os.kill)(scorer.pid, number)
        err = program.without_progress(scorer.communicate(timeout=PATIENCE)[1])  # workers have the stream, too
        what = f"scores, {number.name}"
        self.expect(f"{what}: status", scorer.returncode in (0, -number, 128 + number), scorer.returncode, err)
        if number != signal.SIGKILL:  # after which Python says that semaphores were left
            self.expect(f"{what}: one line at most", err.count("\n") < 2 and "Traceback" not in err, err)
        names = set(os.listdir(self.out)) if self.out.exists() else set()
        if number != signal.SIGKILL:
            self.expect(f"{what}: no litter", names <= {*self._right, *before}, names)
        whole = names & set(self._right)
        wrong = [name for name in whole if (self.out / name).read_bytes() != self._right[name]]
        self.expect(f"{what}: whole files", not wrong, wrong)

    def _is_writing(self, before: set[str]) -> bool:
        return self.out.exists() and not before.issuperset(os.listdir(self.out))

    def resume(self) -> None:
        """The next run makes what is missing, and nothing else is left; then some scores are lost."""
        scorer = self._scorer(self.out, self.source.choice([1, 2]), "--resume")
        _, err = scorer.communicate(timeout=PATIENCE)
        self.expect("scores, resumed", scorer.returncode == 0 and not err, scorer.returncode, err)
        found = {path.name: path.read_bytes() for path in self.out.iterdir()}
        same = found == self._right
        self.expect("scores, resumed: as undisturbed", same, sorted(found))
        for path in self.out.iterdir():
            if self.source.random() < 0.5:
                path.unlink()

    def round(self) -> None:
        """A few ends, then a run to the end."""
        signals = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        for number in self.source.choices(signals, (5, 2, 2, 1), k=3):
            self.end_at_random(number)
        self.resume()


def main() -> int:
    arguments = program.parser(__doc__, seconds=60.0, seed=0).parse_args()
    source, end, faults = random.Random(arguments.seed), time.monotonic() + arguments.seconds, []
    done: Counter[str] = Counter()
    while time.monotonic() < end and not faults:
        for form in ("file", "pair"):
            with tempfile.TemporaryDirectory() as folder:
                torture = Torture(Path(folder), source, form)
                for _ in range(3):
                    torture.round()
                done += torture.done
                faults += torture.faults
        with tempfile.TemporaryDirectory() as folder:
            scores = Scores(Path(folder), source)
            for _ in range(3):
                scores.round()
            done += scores.done
            faults += scores.faults
    return program.tell(done, faults)


if __name__ == "__main__":
    sys.exit(main())
