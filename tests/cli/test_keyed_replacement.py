"""Tables that are replaced by keys and rows."""

from __future__ import annotations

import contextlib
import os
import random
import sys

import numpy as np
import onnx
import onnx.parser
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.live_models import MISSING, WIDTH, array_of, keys_of, live_model
from torture.mutations import mutated_bytes

import onnx_sparse
from onnx_sparse.cli import main
from onnx_sparse.commands.table_updates.replacement import read_keyed
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


@pytest.mark.parametrize("rows", [[[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]], [[1.0, 2.0], [3.0, None], [4.0, 5.0]]])
def test_rows_of_other_sizes_are_refused(rows, tmp_path):
    pq.write_table(pa.table({"key": [1, 2, 3], "values": rows}), tmp_path / "rows.parquet")
    with pytest.raises(CommandError, match="different numbers of values, or lack one"):
        read_keyed(tmp_path / "rows.parquet")


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
    assert "table items cannot be changed: ReduceSum node sums reads all of it" in capsys.readouterr().err


@pytest.mark.parametrize("named", ["table", "vocabulary"])
@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("form", ["int32", "int64", "uint64"])
def test_a_table_with_keys_gets_others(form, missing, named, tmp_path):
    """Whatever the keys' tensors are named; absent keys give the row that they gave, also after later updates."""
    path, source = tmp_path / "model.onnx", random.Random(form)
    keys, others = keys_of(form, 9, source)[:4], keys_of(form, 9, source)
    rows = np.random.default_rng(0).standard_normal((10, WIDTH)).astype(np.float32)
    model = live_model(form, missing, keys, rows[:4])
    absent = rename_keys_and_set_absent_row(model, named, missing, row=np.full(WIDTH, 5, np.float32))
    onnx.save(model, path)
    np.savez(tmp_path / "rows.npz", key=array_of(form, others), values=rows[1:])
    onnx_sparse.tables(path, {"table": tmp_path / "rows.npz"})
    held, asked = dict(zip(others, rows[1:], strict=True)), array_of(form, keys + others)

    def check():
        expected = np.stack([held.get(key, absent) for key in asked.tolist()])
        session = onnx_sparse.InferenceSession(path)
        np.testing.assert_array_equal(session.run(["rows"], {"queries": asked})[0], expected)

    check()
    held[others[3]] = rows[0]
    onnx_sparse.tables(path, update={"table": {"key": array_of(form, others[3:4]), "values": rows[:1]}})
    check()
    onnx_sparse.tables(path, compact=True, check=True)
    check()


def rename_keys_and_set_absent_row(model, named, missing, row):
    """Let the tensors of keys have other names, and absent keys a row."""
    for node in model.graph.node:
        node.input[:] = [name.replace("table.", f"{named}.") for name in node.input]
    for tensor in model.graph.initializer:
        tensor.name = tensor.name.replace("table.", f"{named}.")
        if tensor.name == "table":
            values = numpy_helper.to_array(tensor).copy()
            values[0 if missing == "first" else -1] = row
            tensor.CopyFrom(numpy_helper.from_array(values, "table"))
    return row


def test_a_model_with_function_bodies_is_refused(tmp_path):
    """The bodies hold keys, too."""
    model = live_model("int64", "first", [1, 2], np.ones((2, WIDTH), np.float32))
    onnx.save(onnx_sparse.embed_functions(model), path := tmp_path / "model.onnx")
    np.savez(tmp_path / "rows.npz", key=np.array([1]), values=np.ones((1, WIDTH), np.float32))
    with pytest.raises(ValueError, match="holds the function bodies of operators"):
        onnx_sparse.tables(path, {"table": tmp_path / "rows.npz"})


@pytest.mark.parametrize("keys", [[2**40], [-1]])
def test_keys_of_another_type_are_refused(keys, tmp_path):
    form = "int32" if keys[0] > 0 else "uint64"
    onnx.save(live_model(form, "first", [1, 2], np.ones((2, WIDTH), np.float32)), path := tmp_path / "model.onnx")
    np.savez(tmp_path / "rows.npz", key=np.array(keys), values=np.ones((1, WIDTH), np.float32))
    with pytest.raises(ValueError, match=f"key {keys[0]} is not an {form}"):
        onnx_sparse.tables(path, {"table": tmp_path / "rows.npz"})


BAGS = """<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
g (int64[n] ids, int64[b] offsets) => (float[b, 4] y, float[n, 4] z) {
  default = Constant <value_int = DEFAULT> ()
  padding = Constant <value_int = PADDING> ()
  y = onnx_sparse.EmbeddingBagOffsetsMean (items, ids, offsets, default, , padding)
  z = Gather (items, ids)
}"""


def bags_of(path, default, padding):
    model = onnx.parser.parse_model(BAGS.replace("DEFAULT", str(default)).replace("PADDING", str(padding)))
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((3, 4), np.float32), "items"))
    onnx.save(model, path)


@pytest.mark.parametrize("absent", [None, "zeros", "error", 7])
@pytest.mark.parametrize(("default", "padding"), [(-1, -1), (0, 7)])
def test_what_absent_keys_give(absent, default, padding, tmp_path):
    """Several lookups; the rows of empty bags and of padding are those of keys, too."""
    path = tmp_path / "model.onnx"
    bags_of(path, default, padding)
    onnx_sparse.tables(path, {"items": sources(tmp_path)[0]}, absent=absent)
    session, known = onnx_sparse.InferenceSession(path), dict(zip(KEYS.tolist(), ROWS, strict=True))
    ids, offsets = np.array([7, 2**62, -1, 0]), np.array([0, 3, 3])
    pooled, rows = session.run(None, {"ids": ids, "offsets": offsets})
    np.testing.assert_array_equal(rows, np.stack([known[key] for key in ids.tolist()]))
    counted = [known[key] for key in ids[:3].tolist() if padding < 0 or key != padding]
    empty = known[default] if default >= 0 else np.zeros(4)
    np.testing.assert_allclose(pooled, [np.mean(counted, 0), empty, known[0]], rtol=1e-6)
    asked = {"ids": np.array([5, -5]), "offsets": np.array([0])}
    if absent == "error":
        for output in ("y", "z"):
            with pytest.raises(Exception, match=r"range|bounds"):
                session.run([output], asked)
    else:
        row = known[7] if absent == 7 else np.zeros(4)
        np.testing.assert_array_equal(session.run(["z"], asked)[0], [row, row])
    if default < 0:  # else its row is that of a key, which an update may move
        onnx_sparse.tables(path, update={"items": {"key": [9], "values": ROWS[:1]}})
        onnx_sparse.tables(path, compact=True, check=True)
        changed = onnx_sparse.InferenceSession(path).run(["z"], {"ids": np.array([7, 9, 0]), "offsets": offsets})
        np.testing.assert_array_equal(changed[0], [known[7], ROWS[0], known[0]])


def test_rows_that_are_no_keys_are_refused(tmp_path, capsys):
    source = sources(tmp_path)[0]
    for default, padding, options, message in (
        (5, -1, (), "default_index of EmbeddingBagOffsetsMean node y is 5, which is none of the keys"),
        (-1, 3, (), "padding_index of EmbeddingBagOffsetsMean node y is 3, which is none of the keys"),
        (-1, -1, ("--absent", "3"), "--absent is 3, which is none of the keys"),
        (-1, -1, ("--absent", "mean"), "'mean' is not zeros, error or a key"),
    ):
        bags_of(path := tmp_path / "model.onnx", default, padding)
        before = path.read_bytes()
        with contextlib.suppress(SystemExit):
            assert main(["tables", str(path), "replace", f"items={source}", *options])
        assert message in capsys.readouterr().err
        assert path.read_bytes() == before


def test_damaged_folders_are_refused(tmp_path, capsys):
    onnx.save(model_of("gather"), path := tmp_path / "model.onnx")
    folder = sources(tmp_path)[0]
    (folder / "emb_vector").write_bytes(b"\0" * 30)
    assert main(["tables", str(path), "replace", f"items={folder}"]) == 1
    assert "emb_vector cannot be read: it has 30 bytes, which are not 5 rows" in capsys.readouterr().err
