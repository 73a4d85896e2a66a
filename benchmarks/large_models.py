"""Commands on models with large tables: their time beside that of a copy, their memory, and what they write.

    python benchmarks/large_models.py [--gigabytes 0.4 4 12] [--folder DIR] [--sources onnx one savedmodel pt2 ir]

Each line is a command in a process of its own. `anonymous` is the most memory that it, or a child, takes for itself,
`mapped` the most of files that it has mapped, which the system drops when it needs the memory. `x cp` compares its time
with that of `cp` of as many bytes as it writes, in the same folder at the same time. A source is skipped if its
framework is not installed. On Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from machine import this_machine
from onnx import TensorProto, helper

from onnx_sparse.models.data.references import point_to

_WIDTH, _TABLES = 64, 4
_BLOCK_ROWS = 1 << 14


def lookups(folder: Path, rows: int) -> Path:
    """An ONNX file of lookups in tables beside it, half of them in standard operators."""
    size, value = rows * _WIDTH * 4, helper.make_tensor_value_info
    block = np.random.default_rng(0).standard_normal((_BLOCK_ROWS, _WIDTH), np.float32)
    with (folder / "tables.bin").open("wb") as file:
        for first in range(0, rows * _TABLES, _BLOCK_ROWS):
            block[: rows * _TABLES - first].tofile(file)
    nodes, tables, outputs = [], [], []
    for k in range(_TABLES):
        table = TensorProto(name=f"t{k}", data_type=TensorProto.FLOAT, dims=[rows, _WIDTH])
        point_to(table, "tables.bin", k * size, size)
        tables.append(table)
        if k % 2:
            nodes += [
                helper.make_node("Gather", [f"t{k}", "ids"], [f"r{k}"]),
                helper.make_node("Shape", [f"r{k}"], [f"s{k}"]),
                helper.make_node("Expand", ["places", f"s{k}"], [f"e{k}"]),
                helper.make_node("ScatterElements", ["start", f"e{k}", f"r{k}"], [f"y{k}"], axis=0, reduction="add"),
            ]
        else:
            read = [f"t{k}", "ids", "offsets"]
            nodes.append(helper.make_node("EmbeddingBagOffsetsSum", read, [f"y{k}"], domain="onnx_sparse"))
        outputs.append(value(f"y{k}", TensorProto.FLOAT, [f"n{k}", _WIDTH]))
    inputs = [value(name, TensorProto.INT64, [name]) for name in ("ids", "offsets")]
    inputs += [value("places", TensorProto.INT64, ["ids", 1]), value("start", TensorProto.FLOAT, ["n", _WIDTH])]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("onnx_sparse", 1)]
    graph = helper.make_graph(nodes, "lookups", inputs, outputs, tables)
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), folder / "model.onnx")
    return folder / "model.onnx"


#: Programs that write the other sources; each gets the folder and the number of rows.
_WRITERS = {
    "savedmodel": """
import tensorflow as tf
module = tf.Module()
module.table = tf.Variable(tf.zeros([rows, 64]))
spec = tf.TensorSpec([None], tf.int64, "ids")
module.rows = tf.function(
    lambda ids: {"rows": tf.math.segment_sum(tf.gather(module.table, ids), ids * 0)}, input_signature=[spec])
tf.saved_model.save(module, folder + "/saved_model", signatures=module.rows)
""",
    "pt2": """
import torch
module = torch.nn.EmbeddingBag(rows, 64, mode="sum", include_last_offset=True).eval()
dynamic = {0: torch.export.Dim.DYNAMIC}
program = torch.export.export(module, (torch.arange(4), torch.tensor([0, 2, 4])), dynamic_shapes=(dynamic, dynamic))
torch.export.save(program, folder + "/model.pt2")
""",
    "ir": """
import numpy as np
import openvino as ov
from openvino import opset13 as op
ids = op.parameter([-1], np.int64)
gathered = op.gather(op.constant(np.ones((rows, 64), np.float32)), ids, op.constant(np.int64(0)))
ov.save_model(ov.Model([gathered], [ids]), folder + "/model.xml", compress_to_fp16=False)
""",
}
_PATHS = {"savedmodel": "saved_model", "pt2": "model.pt2", "ir": "model.xml"}


def commands(source: str, path: Path, out: Path) -> Iterator[list[str]]:
    """What is done with a source."""
    convert = ["convert", str(path), "-o", str(out)]
    if source == "pt2":
        convert.append("--no-run")
    yield convert
    if source in ("onnx", "one"):
        yield from ([*convert, option] for option in ("--fuse", "--portable", "--lower"))
        yield from ([name, str(path)] for name in ("inspect", "check", "tables"))
    if source != "one":
        yield [*convert, "--tables", "int8"]


def measured(command: list[str], folder: Path) -> dict[str, float]:
    """The seconds of a command, the most MiB of one of its processes, and what it has written in a folder."""
    begin, anonymous, mapped = time.perf_counter(), 0, 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None:
        for pid in _tree(process.pid):
            with contextlib.suppress(OSError):
                lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
                known = {line.partition(":")[0]: int(line.split()[1]) for line in lines if line.startswith("Rss")}
                anonymous, mapped = max(anonymous, known.get("RssAnon", 0)), max(mapped, known.get("RssFile", 0))
        time.sleep(0.005)
    assert process.stderr is not None
    if said := process.stderr.read() if process.wait() else "":
        raise SystemExit(f"{' '.join(command)}: {said}")
    seconds = time.perf_counter() - begin
    written = sum(path.stat().st_size for path in folder.iterdir())
    return {"seconds": seconds, "anonymous": anonymous / 1024, "mapped": mapped / 1024, "written": written}


def _tree(pid: int) -> list[int]:
    """A process and its children, of which one may do the work."""
    found = [pid]
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text("utf-8").split():
                found += _tree(int(child))
    return found


def copy_time(size: int, source: Path, folder: Path) -> float:
    """The seconds of `cp` of so many bytes of a file."""
    part, copy = folder / "part", folder / "copy"
    with source.open("rb") as file, part.open("wb") as target:
        shutil.copyfileobj(file, target, 1 << 24)
        target.truncate(size)
    begin = time.perf_counter()
    subprocess.run(["cp", part, copy], check=True)
    seconds = time.perf_counter() - begin
    for path in (part, copy):
        path.unlink()
    return seconds


def _made(source: str, folder: Path, rows: int, model: Path) -> Path | None:
    if source == "onnx":
        return model
    if source == "one":
        run = [sys.executable, "-m", "onnx_sparse", "convert", str(model), "-o", str(folder / "one.onnx"), "--one-file"]
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
        return folder / "one.onnx"
    program = f"folder, rows = {str(folder)!r}, {rows * _TABLES}\n{_WRITERS[source]}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return folder / _PATHS[source] if done.returncode == 0 else None


def report(gigabytes: float, sources: list[str], folder: Path, show: Callable[[str], None]) -> list[dict[str, object]]:
    """Measure all commands on tables of one size."""
    rows = int(gigabytes * 2**30 / (_TABLES * _WIDTH * 4))
    model, found = lookups(folder, rows), []
    for source in sources:
        if source == "one" and gigabytes >= 2:
            continue  # protobuf's limit for one file
        made = folder / source
        made.mkdir()
        path = _made(source, made, rows, model)
        if path is None:
            show(f"{source}: not installed")
        for command in commands(source, path, folder / "out" / "model.onnx") if path else ():
            (folder / "out").mkdir()
            result = measured([sys.executable, "-m", "onnx_sparse", *command], folder / "out")
            shutil.rmtree(folder / "out")
            copy = copy_time(int(result["written"]), folder / "tables.bin", folder) if result["written"] else 0.0
            options = " ".join(word for word in command if not word.startswith("/"))
            times = f"{result['seconds'] / copy:6.1f} x cp" if copy else ""
            show(
                f"{gigabytes:5.1f} GiB  {source:10} {options:34} {result['seconds']:6.1f} s  "
                f"{result['anonymous']:5.0f} MiB anonymous  {result['mapped']:6.0f} mapped  "
                f"{result['written'] / 2**20:7.0f} written {times}"
            )
            found.append({"gigabytes": gigabytes, "source": source, "command": options, "cp": copy, **result})
        shutil.rmtree(made)
    return found


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[0.4])
    parser.add_argument("--folder", type=Path, help="where the files are written (default: that of temporary files)")
    parser.add_argument("--sources", nargs="+", choices=["onnx", "one", *_WRITERS], default=["onnx", "one", *_WRITERS])
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    arguments = parser.parse_args()
    found = []
    for gigabytes in arguments.gigabytes:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            found += report(gigabytes, arguments.sources, Path(folder), functools.partial(print, flush=True))
    if arguments.json:
        document = {"machine": this_machine(), "figures": found}
        arguments.json.write_text(json.dumps(document, indent=1), "utf-8")


if __name__ == "__main__":
    main()
