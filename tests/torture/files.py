"""Mutated source files of every road: a conversion ends with a sound model or one clean line, whatever the file.

Run for a time: `python tests/torture/files.py --road openvino --count 20000 --seed 1 --seconds 600`. The suite runs a
part. A fault is an unexpected exception, other text than one line (and the lines of unsupported nodes), a death, more
than a minute or 2 GB, a file written anywhere else, and a file read that is not of the source. POSIX only.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # where this is run as a program

from torture.mutations import (
    mutate_message,
    mutated_bytes,
    mutated_json,
    mutated_text,
    mutated_xml,
    mutated_zip,
)

PATIENCE = 60
MOST_MEMORY = 2 << 30
#: What no conversion may read: it lies beside the folder of the source.
SECRET = b"this is none of the source's business" * 10
DATA = Path(__file__).parent.parent / "data"

Mutation = Callable[[bytes, random.Random], bytes]


def _as_message(kind: Callable[[], Any], *, text: bool = False) -> Mutation:
    """A mutation of a file with one protobuf message, as text or in binary form."""
    from google.protobuf import text_format

    def mutated(data: bytes, source: random.Random) -> bytes:
        message = kind()
        if text:
            text_format.Parse(data, message, allow_unknown_field=True)
        else:
            message.ParseFromString(data)
        mutate_message(message, source)
        written = text_format.MessageToString(message).encode() if text else message.SerializePartialToString()
        return bytes(written)

    return mutated


def _as_text(mutation: Callable[[str, random.Random], str]) -> Mutation:
    return lambda data, source: mutation(data.decode(), source).encode(errors="replace")


@dataclass(frozen=True)
class Road:
    """A kind of source.

    Attributes:
        make: Writes sound sources into a folder, and returns the files and folders to convert.
        mutations: How to mutate a file of a source, by the end of its name; other files get mutated bytes.
        arguments: Further arguments of the command.
    """

    make: Callable[[Path], list[Path]]
    mutations: Callable[[], Mapping[str, Mutation]]
    arguments: tuple[str, ...] = ()


# --- Sources ----------------------------------------------------------------------------------------------------------


def _onnx_sources(folder: Path) -> list[Path]:
    import onnx
    from torture.models import SEEDS

    made = []
    for number, model in enumerate(SEEDS):
        for suffix in (".onnx", ".onnxtxt", ".textproto", ".onnxjson"):
            path = folder / f"{number}{suffix}"
            onnx.save(model, path)
            made.append(path)
    external = onnx.ModelProto()
    external.CopyFrom(SEEDS[0])
    tensor = onnx.numpy_helper.from_array(_array(200), "weights")
    external.graph.initializer.append(tensor)
    for suffix in (".onnx", ".textproto"):
        (folder / f"external{suffix[1:]}").mkdir()
        path = folder / f"external{suffix[1:]}" / f"model{suffix}"
        copied = onnx.ModelProto()
        copied.CopyFrom(external)
        onnx.save(copied, path, save_as_external_data=True, size_threshold=0, location="weights.bin")
        made.append(path)
    return made


def _array(size: int) -> Any:
    import numpy as np

    return np.arange(size, dtype=np.float32)


def _onnx_mutations() -> Mapping[str, Mutation]:
    from onnx import ModelProto

    return {
        ".onnx": _as_message(ModelProto),
        ".textproto": _as_message(ModelProto, text=True),
        ".onnxjson": _as_text(mutated_json),
        ".onnxtxt": _as_text(mutated_text),
    }


def _openvino_sources(folder: Path) -> list[Path]:
    """An IR of each operator, some of them with bodies."""
    path = Path(__file__).parent.parent / "converters" / "test_openvino_operators.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    operators = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(operators)
    made = []
    for number, tested in enumerate(operators.CASES.values()):
        place = folder / str(number)
        place.mkdir()
        made.append(tested.save(place))
    return made


def _ascend_sources(folder: Path) -> list[Path]:
    """ATB's and GE's files, each in a folder of its own."""
    made = []
    for origin in sorted((DATA / "ascend").iterdir()):
        place = folder / origin.name.replace(".", "_")
        place.mkdir()
        made.append(Path(shutil.copy(origin, place)))
    return made


def _ascend_mutations() -> Mapping[str, Mutation]:
    from onnx import ModelProto

    from onnx_sparse.converters.ascend.ge import schema

    return {
        ".json": _as_text(mutated_json),
        ".onnx": _as_message(ModelProto),
        "dynamo.pbtxt": _as_message(lambda: schema.new("GraphDef"), text=True),
        ".pbtxt": _as_message(ModelProto, text=True),
        ".txt": _as_message(lambda: schema.new("ModelDef"), text=True),
        ".air": _as_message(lambda: schema.new("ModelDef")),
    }


def _saved_models(folder: Path) -> list[Path]:
    import numpy as np
    import tensorflow as tf

    table = folder / "words.txt"
    table.write_text("a\nb\nc\n")

    class Lookup(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            self.table = tf.Variable(np.arange(20, dtype=np.float32).reshape(10, 2), name="table")
            self.dense = tf.Variable(np.ones((2, 3), np.float32), name="dense")

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "ids"), tf.TensorSpec([None], tf.int32, "bags")])
        def sums(self, ids: Any, bags: Any) -> Any:
            return {"total": tf.sparse.segment_sum(self.table, ids, bags) @ self.dense}

    class Words(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            initializer = tf.lookup.TextFileInitializer(
                str(table), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
            )
            self.words = tf.lookup.StaticHashTable(initializer, -1)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "words")])
        def look_up(self, words: Any) -> Any:
            return {"numbers": self.words.lookup(words)}

    class Loop(tf.Module):  # type: ignore[misc]
        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x")])
        def repeat(self, x: Any) -> Any:
            return {"y": tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, tf.nn.relu(y) * 2.0), (0, x))[1]}

    lookup, words, loop = Lookup(), Words(), Loop()
    for name, module, signature in (
        ("lookup", lookup, lookup.sums),
        ("words", words, words.look_up),
        ("loop", loop, loop.repeat),
    ):
        tf.saved_model.save(module, str(folder / name), signatures=signature)
    return [folder / "lookup", folder / "words", folder / "loop"]


def _saved_model_mutations() -> Mapping[str, Mutation]:
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    return {"saved_model.pb": _as_message(SavedModel)}


def _graph_defs(folder: Path) -> list[Path]:
    import numpy as np
    import tensorflow as tf
    from google.protobuf import text_format

    v1 = tf.compat.v1
    graphs = []
    with tf.Graph().as_default() as graph:
        ids, bags = v1.placeholder(tf.int64, [None], "ids"), v1.placeholder(tf.int32, [None], "bags")
        table = tf.constant(np.ones((10, 2), np.float32), name="table")
        tf.identity(tf.sparse.segment_mean(table, ids, bags), "pooled")
    graphs.append(graph)
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 8, 8, 3], "x")
        y = tf.nn.conv2d(x, tf.ones((3, 3, 3, 4)), 2, "SAME", name="conv")
        y = tf.reshape(tf.nn.bias_add(y, tf.ones(4)), [-1, 64])
        tf.nn.softmax(tf.concat([y, tf.matmul(y, tf.ones((64, 2)))], 1)[:, 1:9], name="probabilities")
    graphs.append(graph)
    made = []
    for number, graph in enumerate(graphs):
        definition = graph.as_graph_def()
        (folder / f"{number}.pb").write_bytes(definition.SerializeToString())
        (folder / f"{number}.pbtxt").write_text(text_format.MessageToString(definition))
        made += [folder / f"{number}.pb", folder / f"{number}.pbtxt"]
    return made


def _graph_def_mutations() -> Mapping[str, Mutation]:
    from tensorflow.core.framework.graph_pb2 import GraphDef

    return {".pb": _as_message(GraphDef), ".pbtxt": _as_message(GraphDef, text=True)}


def _keras_files(folder: Path) -> list[Path]:
    import keras

    ids = keras.Input([3], name="ids", dtype="int32")
    pooled = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(10, 4)(ids))
    first = keras.Model(ids, keras.layers.Dense(1, activation="sigmoid", name="score")(pooled))
    second = keras.Sequential(
        [keras.Input([4], name="x"), keras.layers.Dense(3, "relu"), keras.layers.LayerNormalization()]
    )
    made = []
    for number, model in enumerate((first, second)):
        for suffix in (".keras", ".h5"):
            model.save(folder / f"{number}{suffix}")
            made.append(folder / f"{number}{suffix}")
    return made


ROADS = {
    "onnx": Road(_onnx_sources, _onnx_mutations),
    "openvino": Road(_openvino_sources, lambda: {".xml": _as_text(mutated_xml)}),
    "ascend": Road(_ascend_sources, _ascend_mutations, ("--from", "ascend")),
    "saved_model": Road(_saved_models, _saved_model_mutations),
    "graph_def": Road(_graph_defs, _graph_def_mutations),
    "keras": Road(_keras_files, lambda: {".keras": mutated_zip}),
}


# --- One case ---------------------------------------------------------------------------------------------------------


class Scene:
    """A folder in which the cases of a road take place, one after the other.

    Args:
        folder: An empty folder, which this process makes its current one's parent.
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
        self._watches = False
        tempfile.tempdir = os.environ["TMPDIR"] = str(self.temporary)
        sys.addaudithook(self._watch)

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
        file = main if source.random() < 0.8 else source.choice(files)
        structured = next((m for end, m in self.mutations.items() if file.name.endswith(end)), mutated_bytes)
        mutation = structured if source.random() < 0.8 else mutated_bytes
        if mutation is mutated_bytes and source.random() < 0.3 and file.suffix in (".pbtxt", ".txt", ".json", ".xml"):
            mutation = _as_text(mutated_text)
        file.write_bytes(mutation(file.read_bytes(), source))
        return copy

    def run(self, number: int) -> tuple[str, str]:
        """Mutate a source and convert it: the outcome, and the fault or ""."""
        from onnx_sparse.cli import main

        path = self.mutate(random.Random(number))
        before = _listing(self.given)
        out = self.out / "model.onnx"
        command = ["convert", str(path), "-o", str(out), *self.road.arguments, *self.arguments]
        os.chdir(self.here)
        self.written.clear()
        begun = time.monotonic()
        with _captured() as captured:
            self._watches = True
            try:
                code: Any = main(command)
            except BaseException as error:
                code = f"{type(error).__name__}: {error}"
            finally:
                self._watches = False
        took = time.monotonic() - begun
        stdout, stderr = captured
        fault = self._fault(code, stdout, stderr, path, out)
        if not fault and took > PATIENCE:
            fault = f"takes {took:.0f} s"
        memory = _peak_memory()
        if not fault and memory > MOST_MEMORY:
            fault = f"takes {memory >> 20} MB"
        if not fault and _listing(self.given) != before:
            fault = f"the source changed: {sorted(set(_listing(self.given)) ^ set(before))}"
        left = [*self.out.iterdir(), *self.here.iterdir(), *self.temporary.iterdir()]
        if not fault and (self.written or set(left) - {out}):
            fault = f"writes elsewhere: {self.written or left}"
        for path in left:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return {0: "converted", 1: "refused", 2: "refused"}.get(code, "fault"), fault

    def _fault(self, code: Any, stdout: str, stderr: str, path: Path, out: Path) -> str:
        if code == 0:
            if stderr:
                return f"says: {stderr[:300]}"
            if SECRET[:20] in out.read_bytes():
                return "holds what lies outside the source"
            wrong = _unsound(out)
            # What is wrong with an ONNX file stays so: its nodes are not ours.
            return "" if wrong and _is_onnx(path) and _unsound(path) else wrong
        if code not in (1, 2):
            return f"exit {code}"
        if out.exists():
            return "a file is left"
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


def _is_onnx(path: Path) -> bool:
    return path.suffix in (".onnx", ".onnxtxt", ".textproto", ".onnxjson")


def _unsound(path: Path) -> str:
    """What is wrong with a model; "" where onnx's checker and shape inference find nothing."""
    import onnx

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # onnx calls its own text form experimental
            onnx.checker.check_model(onnx.load(path), full_check=True)
    except Exception as error:
        return f"the model is not sound: {error}"
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


@contextmanager
def _captured() -> Iterator[list[str]]:
    """What is written to both streams, by Python or by a library: stdout and stderr."""
    texts: list[str] = []
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        kept = [(number, os.dup(number)) for number in (1, 2)]
        sys.stdout.flush()
        sys.stderr.flush()
        streams = sys.stdout, sys.stderr
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.stdout, sys.stderr = (open(n, "w", closefd=False, errors="backslashreplace") for n in (1, 2))  # noqa: SIM115
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


# --- Many cases -------------------------------------------------------------------------------------------------------


def work(road: str, seed: int, count: int, arguments: tuple[str, ...]) -> None:
    """Cases in this process; each is announced on stdout before it begins and when it has ended."""
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(folder), road, arguments)
        sys.stdout.write("ready\n")
        for number in range(seed, seed + count):
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
            outcome, fault = scene.run(number)
            sys.stdout.write(f"{outcome}\t{fault!r}\n")
            sys.stdout.flush()
        os.chdir("/")


_WORKER = """
import sys
from torture.files import work
work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), tuple(sys.argv[4:]))
"""


class Worker:
    """A process that does cases; a new one is started where it has died, hangs, or has done many."""

    def __init__(self, road: str, arguments: tuple[str, ...]) -> None:
        self.road, self.arguments = road, arguments
        self.done: Counter[str] = Counter()
        self.faults: list[str] = []

    def cases(self, seed: int, count: int, end: float) -> None:
        """Do cases until they are done or the time is over."""
        at, last = seed, seed + count
        while at < last and time.monotonic() < end and len(self.faults) < 200:
            at = self._batch(at, min(1000, last - at), end)

    def _batch(self, seed: int, count: int, end: float) -> int:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _WORKER, self.road, str(seed), str(count), *self.arguments],
            stdout=subprocess.PIPE,
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])}
            | {"TF_CPP_MIN_LOG_LEVEL": "3"},  # as the command sets it, but here TensorFlow is imported before
        )
        assert process.stdout is not None
        at = seed
        try:
            if self._line(process) != "ready":
                self.faults.append(f"{self.road}: no sources")
                return 1 << 62
            while at < seed + count and time.monotonic() < end:
                number = self._line(process)
                outcome, _, fault = self._line(process, PATIENCE + 10).partition("\t")
                if not outcome or not number:
                    process.kill()
                    fault = f"the process dies or hangs: {process.wait()}"
                    self.faults.append(f"--road {self.road} --seed {at}: {fault}")
                    return at + 1
                self.done[outcome] += 1
                if fault not in ("''", ""):
                    self.done["fault"] += 1
                    self.faults.append(f"--road {self.road} --seed {at}: {fault}")
                at += 1
                if fault.endswith("MB'"):  # what the next would be blamed for, too
                    break
            return at
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()

    @staticmethod
    def _line(process: subprocess.Popen[bytes], patience: float = 180) -> str:
        """The next line; "" where there is none in time."""
        assert process.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([process.stdout], [], [], patience)[0]:
                return ""
            byte = os.read(process.stdout.fileno(), 1)
            if not byte:
                return ""
            line += byte
        return line.decode(errors="replace").rstrip("\n")


def main() -> int:
    parsed = argparse.ArgumentParser(description=__doc__)
    parsed.add_argument("--road", choices=ROADS, action="append")
    parsed.add_argument("--seconds", type=float, default=60, help="for each road")
    parsed.add_argument("--count", type=int, default=20_000, help="for each road")
    parsed.add_argument("--seed", type=int, default=0)
    parsed.add_argument("--verify", action="store_true", help="also compare what was converted with its source")
    arguments = parsed.parse_args()
    found = False
    for road in arguments.road or ROADS:
        worker = Worker(road, ("--verify",) if arguments.verify else ())
        worker.cases(arguments.seed, arguments.count, time.monotonic() + arguments.seconds)
        for what, count in sorted(worker.done.items()):
            sys.stdout.write(f"{count:>9}  {road}: {what}\n")
        for fault in worker.faults:
            sys.stdout.write(f"FAULT  {fault}\n")
        sys.stdout.flush()
        found |= bool(worker.faults)
    return found


if __name__ == "__main__":
    sys.exit(main())
