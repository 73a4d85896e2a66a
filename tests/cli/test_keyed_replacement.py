"""Tables that are replaced by keys and rows."""

from __future__ import annotations

import contextlib
import os
import random
import sys

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from onnx import TensorProto, helper, numpy_helper
from torture.mutations import mutated_bytes

import onnx_sparse
from onnx_sparse.cli import main
from onnx_sparse.commands.keyed_replacement import read_keyed
from onnx_sparse.errors import CommandError

KEYS = np.array([7, -(2**63), 2**62, 0, -1], np.int64)
ROWS = np.arange(1, 21, dtype=np.float32).reshape(5, 4)
ASKED = np.array([[0, 7], [5, 2**62], [-1, -(2**63)]])


def model_of(kind, dtype=TensorProto.INT64):
    """A model that looks rows up by number: as TensorFlow's and torch's models do."""
    table = numpy_helper.from_array(np.zeros((3, 4), np.float32), "items")
    constants = [table]
    if kind == "gather":
        nodes = [helper.make_node("Gather", ["items", "ids"], ["y"], name="look")]
    elif kind == "guarded":  # as converters let lookups refuse negative ids
        constants += [numpy_helper.from_array(np.array(v), n) for v, n in ((0, "zero"), (-(2**63), "lowest"))]
        nodes = [
            helper.make_node("Less", ["ids", "zero"], ["is_negative"]),
            helper.make_node("Where", ["is_negative", "lowest", "ids"], ["checked"]),
            helper.make_node("Gather", ["items", "checked"], ["y"], name="look"),
        ]
    else:
        constants += [numpy_helper.from_array(np.array([0, 0, 1, 2, 2, 2]), "bags")]
        constants += [numpy_helper.from_array(np.array(v), n) for v, n in ((3, "count"), (-1, "no"), ([-1], "flat"))]
        constants.append(numpy_helper.from_array(np.zeros(0, np.float32), "none"))
        nodes = [
            helper.make_node("Reshape", ["ids", "flat"], ["every"]),
            helper.make_node(
                "EmbeddingSegmentsSum", ["items", "every", "bags", "count", "no", "none"], ["y"], domain="onnx_sparse"
            ),
        ]
    given = helper.make_tensor_value_info("ids", dtype, ["n", 2])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    imports = [helper.make_opsetid("", 18)] + [helper.make_opsetid("onnx_sparse", 1)] * (kind == "bags")
    graph = helper.make_graph(nodes, "g", [given], [made], constants)
    return helper.make_model(graph, ir_version=10, opset_imports=imports)


def sources(folder):
    (folder / "hps").mkdir()
    KEYS.tofile(folder / "hps" / "key")
    ROWS.tofile(folder / "hps" / "emb_vector")
    np.savez(folder / "rows.npz", key=KEYS, values=ROWS)
    pq.write_table(pa.table({"key": KEYS, "values": list(ROWS)}), folder / "rows.parquet")
    return [folder / name for name in ("hps", "rows.npz", "rows.parquet")]


@pytest.mark.parametrize("kind", ["rows.npz", "rows.parquet"])
def test_a_damaged_file_is_read_or_refused(kind, tmp_path):
    path = next(source for source in sources(tmp_path) if source.name == kind)
    sound = path.read_bytes()
    for seed in range(150):
        path.write_bytes(mutated_bytes(sound, random.Random(seed)))
        with contextlib.suppress(CommandError):
            read_keyed(path)
    if sys.platform == "win32":
        return
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(CommandError, match="not a regular file"):
        read_keyed(path)


def expected(ids):
    known = {int(key): row for key, row in zip(KEYS, ROWS, strict=True)}
    return np.array([known.get(int(key), np.zeros(4)) for key in ids.reshape(-1)], np.float32)


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("kind", ["gather", "guarded", "bags"])
def test_keys_in_place_of_row_numbers(kind, external, tmp_path):
    """A folder of HugeCTR, an archive and a Parquet file; absent keys give zeros, negative ones are like any others."""
    path = tmp_path / "model.onnx"
    onnx.save(model_of(kind), path, save_as_external_data=external, size_threshold=0, location="model.bin")
    rows = expected(ASKED)
    wanted = rows.reshape(3, 2, 4)
    if kind == "bags":
        wanted = np.stack([rows[:2].sum(0), rows[2], rows[3:].sum(0)])
    for source in sources(tmp_path):
        assert main(["tables", str(path), "replace", f"items={source}"]) == 0  # each finds what the last has written
        session = onnx_sparse.InferenceSession(str(path))
        np.testing.assert_array_equal(session.run(None, {"ids": ASKED})[0], wanted)
    model = onnx.load(path, load_external_data=False)
    assert [node.op_type for node in model.graph.node].count("FindKeys") == 1
    assert {t.name for t in model.graph.initializer} >= {"items", "items.keys", "items.index"}


@pytest.mark.parametrize(
    ("keys", "rows", "message"),
    [
        (KEYS[[0, 1, 1]], ROWS[:3], "keys[2] = -9223372036854775808 is also keys[1]"),
        (KEYS, ROWS[:, :3].copy(), "rows are float32[n, 3], and the table items is float32[3, 4]"),
        (KEYS, ROWS[:4], "expected integers [n] as key and rows [n, width] as values"),
        (KEYS.astype(np.float32), ROWS, "got float32[5] and float32[5, 4]"),
    ],
    ids=["a key twice", "narrow rows", "too few rows", "keys of floats"],
)
def test_what_is_no_table_is_refused(keys, rows, message, tmp_path, capsys):
    path = tmp_path / "model.onnx"
    onnx.save(model_of("gather"), path)
    before = path.read_bytes()
    np.savez(tmp_path / "rows.npz", key=keys, values=rows)
    assert main(["tables", str(path), "replace", f"items={tmp_path / 'rows.npz'}"]) == 1
    assert message in capsys.readouterr().err
    assert path.read_bytes() == before


def test_tables_that_are_not_only_looked_up_are_refused(tmp_path, capsys):
    model = model_of("gather")
    model.graph.node.append(helper.make_node("ReduceSum", ["items"], ["all"], name="sums"))
    model.graph.output.append(helper.make_tensor_value_info("all", TensorProto.FLOAT, None))
    onnx.save(model, path := tmp_path / "model.onnx")
    assert main(["tables", str(path), "replace", f"items={sources(tmp_path)[0]}"]) == 1
    assert "ReduceSum sums does not look up rows of items" in capsys.readouterr().err


def test_damaged_folders_are_refused(tmp_path, capsys):
    onnx.save(model_of("gather"), path := tmp_path / "model.onnx")
    folder = sources(tmp_path)[0]
    (folder / "emb_vector").write_bytes(b"\0" * 30)
    assert main(["tables", str(path), "replace", f"items={folder}"]) == 1
    assert "emb_vector cannot be read: it has 30 bytes, which are not 5 rows" in capsys.readouterr().err
