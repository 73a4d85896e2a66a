"""Commands do not hold the tables of the models that they read and write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

import onnx_sparse
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.models.data.references import LEAST, is_reference, point_to
from onnx_sparse.models.files.large_models import LARGE, load, make_whole, whole_size

_MIB = 1 << 20
_ROWS, _WIDTH, _TABLES = 300 * _MIB // 4 // 256, 64, 4
#: What a command may take for itself.
_MOST = 150

#: Runs commands, one after the other, and prints the most anonymous memory of each beyond what was taken before all.
_PROGRAM = """
import contextlib, io, json, sys, threading, time
from onnx_sparse.cli import main

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("RssAnon"))

def run(command):
    most, stop = [0], threading.Event()
    def sample():
        while not stop.wait(0.002):
            most[0] = max(most[0], anonymous())
    thread = threading.Thread(target=sample)
    thread.start()
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(command)
    stop.set()
    thread.join()
    return [code, most[0], said.getvalue()]

first, *commands = json.loads(sys.argv[1])
run(first)
base = anonymous()
print(json.dumps([[code, most - base, said] for code, most, said in map(run, commands)]))
"""


def lookups(rows: int, location: str | None) -> ModelProto:
    """Lookups in tables, of which every other one is written in standard ONNX, with their data in a file of zeros."""
    value, nodes, outputs, tables = helper.make_tensor_value_info, [], [], []
    for k in range(_TABLES):
        table = TensorProto(name=f"t{k}", data_type=TensorProto.FLOAT, dims=[rows, _WIDTH])
        size = rows * _WIDTH * 4
        if location is None:
            table.raw_data = bytes(size)
        else:
            point_to(table, location, k * size, size)
        tables.append(table)
        if k % 2:
            nodes += [
                helper.make_node("Gather", [f"t{k}", "ids"], [f"r{k}"]),
                helper.make_node("Shape", [f"r{k}"], [f"s{k}"]),
                helper.make_node("Expand", ["places", f"s{k}"], [f"e{k}"]),
                helper.make_node("ScatterElements", ["start", f"e{k}", f"r{k}"], [f"y{k}"], axis=0, reduction="add"),
            ]
        else:
            inputs = [f"t{k}", "ids", "offsets"]
            nodes.append(helper.make_node("EmbeddingBagOffsetsSum", inputs, [f"y{k}"], domain="onnx_sparse"))
        outputs.append(value(f"y{k}", TensorProto.FLOAT, [f"n{k}", _WIDTH]))
    inputs = [value(name, TensorProto.INT64, [name]) for name in ("ids", "offsets")]
    inputs += [value("places", TensorProto.INT64, ["ids", 1]), value("start", TensorProto.FLOAT, ["n", _WIDTH])]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("onnx_sparse", 1)]
    return helper.make_model(
        helper.make_graph(nodes, "lookups", inputs, outputs, tables), opset_imports=imports, ir_version=10
    )


def saved(folder: Path, rows: int) -> Path:
    """A model with its tables in a file beside it."""
    with (folder / "tables.bin").open("wb") as file:
        file.truncate(rows * _WIDTH * 4 * _TABLES)
    onnx.save(lookups(rows, "tables.bin"), folder / "model.onnx")
    return folder / "model.onnx"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the process's memory as Linux tells it")
def test_no_command_holds_the_tables(tmp_path: Path) -> None:
    """300 MiB beside a model, then in it."""
    (tmp_path / "small").mkdir()
    small, model, out = saved(tmp_path / "small", 4), saved(tmp_path, _ROWS), str(tmp_path / "out.onnx")
    np.save(tmp_path / "table.npy", np.zeros((_ROWS, _WIDTH), np.float32))
    one = str(tmp_path / "one.onnx")
    commands = [
        *([["convert", str(model), "-o", out, *more] for more in ([], ["--fuse"], ["--portable"], ["--lower"])]),
        ["convert", str(model), "-o", out, "--tables", "int8"],
        ["convert", str(model), "-o", one, "--one-file"],
        ["tables", str(model), "replace", f"t1={tmp_path / 'table.npy'}", "-o", out],
        ["tables", one, "replace", f"t1={tmp_path / 'table.npy'}"],
        *[["shard", path, "-o", f"{path}-split", "--shards", "3"] for path in (str(model), one)],
        *[[name, path] for name in ("inspect", "check", "tables") for path in (str(model), one)],
        ["convert", one, "-o", out, "--fuse"],
    ]
    warm = ["convert", str(small), "-o", str(tmp_path / "small" / "out.onnx"), "--fuse"]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps([warm, *commands])],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    results = json.loads(done.stdout)
    took = {" ".join([Path(word).name for word in c]): r for c, r in zip(commands, results, strict=True)}
    assert {name: said for name, (code, _, said) in took.items() if code} == {}
    assert {name: round(most) for name, (_, most, _) in took.items() if most > _MOST} == {}


def test_a_loaded_model_refers_to_its_tables(tmp_path: Path) -> None:
    path = saved(tmp_path, 5 * LEAST // 256)
    beside, one = load(path), tmp_path / "one.onnx"
    assert all(map(is_reference, beside.graph.initializer))
    onnx.save(onnx.load(path), one)
    inside = load(one)
    assert all(map(is_reference, inside.graph.initializer))
    for model in (beside, inside):
        fused = onnx_sparse.fuse(model)
        assert fused.ByteSize() < LEAST < whole_size(fused) < LARGE
        onnx_sparse.save(fused, tmp_path / "fused.onnx", external_data=True)
        ids = {"ids": np.array([3]), "offsets": np.array([0]), "places": np.array([[0]])}
        feeds = ids | {"start": np.zeros((1, _WIDTH), np.float32)}
        results = [onnx_sparse.InferenceSession(m).run(None, feeds) for m in (fused, tmp_path / "fused.onnx")]
        np.testing.assert_array_equal(*results)
        whole = make_whole(fused)
        assert whole.SerializeToString() == onnx_sparse.fuse(onnx.load(path)).SerializeToString()


@pytest.mark.parametrize("is_one_file", [False, True])
def test_tables_are_left_in_the_files_of_the_source(tmp_path: Path, is_one_file: bool) -> None:
    path = saved(tmp_path, 5 * LEAST // 256)
    expected = onnx.load(path)
    if is_one_file:
        path = tmp_path / "one.onnx"
        onnx.save(onnx.load(tmp_path / "model.onnx"), path)
    out = tmp_path / "out.onnx"
    (tmp_path / "other").mkdir()
    onnx_sparse.convert(path, out, leave_tables=True)
    assert out.stat().st_size < LEAST
    assert {file.name for file in tmp_path.glob("out*")} == {"out.onnx"}
    assert [t.raw_data for t in onnx.load(out).graph.initializer[:_TABLES]] == [
        t.raw_data for t in expected.graph.initializer
    ]
    with pytest.raises(ConversionError, match=r"tensor t0 cannot stay in .*: this file is not in .*other or below"):
        onnx_sparse.convert(path, tmp_path / "other" / "out.onnx", leave_tables=True)
    if is_one_file:
        with pytest.raises(ConversionError, match=r"tensor t0 cannot stay in .*: this file is replaced"):
            onnx_sparse.convert(path, path, leave_tables=True)


def test_a_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    model = load(saved(tmp_path, 5 * LEAST // 256))
    (tmp_path / "tables.bin").write_bytes(bytes(10))
    with pytest.raises(OSError, match="it has changed since it was read first"):
        make_whole(model)
