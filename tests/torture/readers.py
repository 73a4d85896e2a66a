"""Coverage-guided fuzzing of the readers written here: they read a file, or refuse it with their own error.

Run for a time: `python tests/torture/readers.py --seconds 600 --seed 1`, or for one reader: `--reader ATB`. Needs
`pip install atheris`. A finding is a file in the folder `--findings`, and `--reader ATB --file FILE` repeats it. POSIX
only.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # where this is run as a program

import numpy as np
from torture.roads import DATA, openvino_sources
from torture.worker import PATIENCE

_MOST_MEGABYTES = 2048
_LONGEST_FILE = 20_000


@dataclass(frozen=True)
class Reader:
    """A reader of untrusted files.

    Attributes:
        make: Imports it, and returns the function that reads a file.
        suffix: How the names of its files end.
        seeds: Makes the contents of sound files.
    """

    make: Callable[[], Callable[[Path], object]]
    suffix: str
    seeds: Callable[[], Iterable[bytes]]


# --- Readers ----------------------------------------------------------------------------------------------------------


def _ascend() -> Callable[[Path], object]:
    from onnx_sparse.converters.ascend import convert

    return convert


def _openvino() -> Callable[[Path], object]:
    from onnx_sparse.converters.openvino import convert

    return convert


def _tables() -> Callable[[Path], object]:
    from onnx_sparse.converters.ascend.atb.tables import read_table

    return lambda path: read_table(path, path.parent)


def _tensors() -> Callable[[Path], object]:
    from onnx_sparse.converters.ascend.atb.tensor_file import read_tensor

    return lambda path: read_tensor(path, path.parent)


def _fields() -> Callable[[Path], object]:
    from onnx import ModelProto

    from onnx_sparse.converters.ascend import wire

    wire._HARMLESS_BYTES = 0  # small files are what is fuzzed

    def count(path: Path) -> None:
        with suppress(ValueError):
            wire.check_fields(path.read_bytes(), ModelProto.DESCRIPTOR)

    return count


def _archives() -> Callable[[Path], object]:
    from onnx_sparse.files.array_file import read_npz

    return lambda path: list(read_npz(path))


def _arrays() -> Callable[[Path], object]:
    from onnx_sparse.files.array_file import read_npy

    return read_npy


def _lookup_tables() -> Callable[[Path], object]:
    from onnx_sparse.converters.tensorflow.lookup_table_files import read

    return lambda path: read({"words": str(path)})


def _tensorflow() -> Callable[[Path], object]:
    from onnx_sparse.converters.tensorflow import convert

    return convert


# --- Sound files ------------------------------------------------------------------------------------------------------


def _ascend_files(*endings: str) -> Callable[[], Iterable[bytes]]:
    return lambda: (path.read_bytes() for path in sorted((DATA / "ascend").iterdir()) if path.name.endswith(endings))


def _openvino_files() -> Iterable[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        yield from (path.read_bytes() for path in openvino_sources(Path(folder)))


def _npz_files() -> Iterable[bytes]:
    arrays = {"keys": np.arange(3), "values": np.array(["a", "b", "c"])}
    with tempfile.TemporaryDirectory() as folder:
        for save in (np.savez, np.savez_compressed):
            save(f"{folder}/arrays.npz", **arrays)
            yield Path(folder, "arrays.npz").read_bytes()


def _npy_files() -> Iterable[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        for array in (np.ones((3, 2)), np.array(["a", "b"]), np.zeros(2, "f4,i8")):
            np.save(f"{folder}/array.npy", array)
            yield Path(folder, "array.npy").read_bytes()


def _tensorflow_graphs() -> Iterable[bytes]:
    """A product with a constant, and a loop that calls functions, without TensorFlow."""
    from onnx_sparse.converters.tensorflow.reading.messages import GraphDef

    graph = GraphDef()
    graph.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    constant = graph.node.add(name="weight", op="Const")
    tensor = constant.attr["value"].tensor
    constant.attr["dtype"].type = tensor.dtype = 1
    tensor.tensor_shape.dim.add(size=2)
    tensor.tensor_content = np.float32([1, 2]).tobytes()
    graph.node.add(name="y", op="Mul", input=["x", "weight"]).attr["T"].type = 1
    yield graph.SerializeToString()
    function = graph.library.function.add()
    function.signature.name = "double"
    function.signature.input_arg.add(name="a", type=1)
    function.signature.output_arg.add(name="b", type=1)
    function.node_def.add(name="sum", op="AddV2", input=["a", "a"]).attr["T"].type = 1
    function.ret["b"] = "sum:z:0"
    call = graph.node.add(name="call", op="PartitionedCall", input=["y"])
    call.attr["f"].func.name = "double"
    call.attr["Tout"].list.type.append(1)
    yield graph.SerializeToString()


_TENSOR = b"$Version=1.0\nformat=2\ndtype=1\ndims=2,3\n$Object.Count=1\n$Object.Length=12\n$Object.data=0,12\n$End=1\n"
_TABLES = (
    b"OpName|OpParam|InNum|InDType|InFormat|InShape|OutNum|OutDType|OutFormat|OutShape|SocVersion\n"
    b'Fill|{"withMask":true}|1|float16;int8|nd;nd|2,3;2,3|1|float16|nd|2,3|Ascend910B\n',
    b"Device and PID,Execution Count,Op Name,Op Type,Op Id,Input/Output,Index,Dtype,Format,Shape,Tensor Path\n"
    b"0_1,0,Fill,Fill,0,input,0,float16,nd,2x3,data/intensor0.bin\n",
)

READERS = {
    "ATB": Reader(_ascend, ".json", _ascend_files(".json")),
    "ATB's tables": Reader(_tables, ".csv", lambda: _TABLES),
    "ATB's tensors": Reader(_tensors, ".bin", lambda: [_TENSOR + bytes(12), b"data=file.bin\n" + _TENSOR]),
    "GE": Reader(_ascend, ".air", _ascend_files(".air")),
    "GE's text": Reader(_ascend, ".txt", _ascend_files(".txt", "dynamo.pbtxt")),
    "fields": Reader(_fields, ".onnx", _ascend_files(".onnx", ".air")),
    "OpenVINO": Reader(_openvino, ".xml", _openvino_files),
    "TensorFlow": Reader(_tensorflow, ".pb", _tensorflow_graphs),
    "archives": Reader(_archives, ".npz", _npz_files),
    "arrays": Reader(_arrays, ".npy", _npy_files),
    "lookup tables": Reader(_lookup_tables, ".npz", _npz_files),
    "words": Reader(_lookup_tables, ".txt", lambda: [b"a\t1\nb\t2\n", b"a\nb\n"]),
}


# --- Fuzzing ----------------------------------------------------------------------------------------------------------


def read_or_refuse(reader: Reader, path: Path) -> Callable[[bytes], None]:
    """A function that lets a reader read bytes from a file; it raises what is no refusal."""
    read = reader.make()
    from onnx_sparse.converters.errors import ConversionError
    from onnx_sparse.errors import CommandError

    def called(content: bytes) -> None:
        path.write_bytes(content)
        with suppress(ConversionError, CommandError):
            read(path)

    return called


def fuzz(name: str, seconds: int, seed: int, findings: Path, file: Path | None) -> None:
    """Fuzz a reader in this process, which then ends."""
    import atheris

    folder, reader = Path(tempfile.mkdtemp()), READERS[name]  # whoever started this process removes the folder
    corpus, path = folder / "corpus", folder / f"file{reader.suffix}"
    corpus.mkdir()
    for number, content in enumerate(reader.seeds()):
        (corpus / str(number)).write_bytes(content)
    with atheris.instrument_imports(include=["onnx_sparse.converters", "onnx_sparse.cli"]):
        read = read_or_refuse(reader, path)

    limits = [f"-timeout={PATIENCE}", f"-rss_limit_mb={_MOST_MEGABYTES}", f"-max_len={_LONGEST_FILE}"]
    chosen = [f"-max_total_time={seconds}", f"-seed={seed}", f"-artifact_prefix={findings}/"]
    atheris.Setup([sys.argv[0], *limits, *chosen, str(file or corpus)], read)
    atheris.Fuzz()


def main() -> int:
    parsed = argparse.ArgumentParser(description=__doc__)
    parsed.add_argument("--reader", choices=READERS, action="append")
    parsed.add_argument("--seconds", type=float, default=60, help="for each reader")
    parsed.add_argument("--seed", type=int, default=1)
    parsed.add_argument("--findings", type=Path, default=Path(tempfile.gettempdir()))
    parsed.add_argument("--file", type=Path, help="a finding to repeat")
    parsed.add_argument("--here", action="store_true", help="in this process, which shows what is done")
    arguments = parsed.parse_args()
    if importlib.util.find_spec("atheris") is None:
        sys.stdout.write("not run: pip install atheris\n")
        return 0
    names = arguments.reader or list(READERS)
    if arguments.here or arguments.file:
        fuzz(names[0], int(arguments.seconds), arguments.seed, arguments.findings, arguments.file)
    found = False
    for name in names:
        command = [sys.executable, __file__, "--here", "--reader", name, "--findings", str(arguments.findings)]
        command += ["--seconds", str(arguments.seconds), "--seed", str(arguments.seed)]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(command, env=os.environ | {"TMPDIR": folder}, capture_output=True, text=True)
        runs = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("Done ")]
        sys.stdout.write(f"{runs[0]:>9}  {name}\n" if runs and not done.returncode else f"FAULT  {name}\n")
        if done.returncode:
            sys.stdout.write(f"{done.stdout[-3000:]}{done.stderr[-3000:]}\n")
        sys.stdout.flush()
        found |= done.returncode != 0
    return found


if __name__ == "__main__":
    sys.exit(main())
