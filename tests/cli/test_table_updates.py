"""`onnx-sparse tables`: rows that change while the model is used, drawn and compared with a dictionary."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from models.test_quantization import FEEDS, model
from onnx import TensorProto, helper, numpy_helper
from support.live_models import FORMS, MISSING, WIDTH, array_of, keys_of, live_model, require_answers
from torture.mutations import mutate_message

import onnx_sparse
from onnx_sparse.commands.table_updates import OpenedModel, changes
from onnx_sparse.commands.table_updates.changes import update_tables
from onnx_sparse.commands.table_updates.deltas import read_delta
from onnx_sparse.commands.table_updates.keys import Keys
from onnx_sparse.commands.tables.contents import check_keys, compact_tables, shown_rows, states
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow import convert
from onnx_sparse.errors import CommandError
from onnx_sparse.files.new_file import sole_writer
from onnx_sparse.keyed_tables import key_index
from onnx_sparse.models.files import data_parts, external_data
from onnx_sparse.models.tables import key_flows, live_tables
from onnx_sparse.models.tables.quantization import quantize_tables

#: `pytest` draws few histories, and kills few processes; set the variables for more.
DRAWS = int(os.environ.get("ONNX_SPARSE_HISTORIES", "1"))
KILLS = int(os.environ.get("ONNX_SPARSE_KILLS", "3"))
#: Row numbers are never missing.
LAYOUTS = [(form, missing) for form in FORMS for missing in MISSING[: 1 if form.startswith("rows") else 2]]


def rows_of(count, source):
    """Rows of small integers, whose sums are exact."""
    return np.array([[source.randrange(-99, 99) for _ in range(WIDTH)] for _ in range(count)], np.float32).reshape(
        -1, WIDTH
    )


def drawn_delta(form, held, source):
    """Changes of some rows, new rows, and keys that are deleted, some of which are not there; and what is held then."""
    after = dict(held)
    changed = source.sample(sorted(held, key=str), source.randrange(0, len(held) // 2 + 1))
    deleted = []
    if form.startswith("rows"):
        new = list(range(len(held), len(held) + source.randrange(3)))
    else:
        new = [key for key in keys_of(form, source.randrange(5), source) if key not in held]
        deleted = [key for key in changed if source.random() < 0.3]
        changed = [key for key in changed if key not in deleted]
        deleted += [key for key in keys_of(form, source.randrange(3), source) if key not in held and key not in new]
    written = sorted([*changed, *new], key=lambda _: source.random())
    rows = rows_of(len(written), source)
    after |= dict(zip(written, rows, strict=True))
    for key in deleted:
        after.pop(key, None)
    name = "row" if form.startswith("rows") else "key"
    columns = {name: array_of(form, written + deleted), "values": np.concatenate([rows, rows_of(len(deleted), source)])}
    if deleted:
        columns["deleted"] = np.arange(len(written + deleted)) >= len(written)
    return columns, after


@pytest.mark.parametrize("seed", range(DRAWS))
@pytest.mark.parametrize(("form", "missing"), LAYOUTS)
def test_any_history_of_changes(form, missing, seed, tmp_path):
    """After each update the model answers as a dictionary does, and as a model that is written anew."""
    source, path = random.Random(f"{form} {missing} {seed}"), tmp_path / "m.onnx"
    count = source.randrange(1, 12)
    keys = list(range(count)) if form.startswith("rows") else keys_of(form, count, source)
    held = dict(zip(keys, rows_of(count, source), strict=True))
    onnx.save(live_model(form, missing, keys, np.array([*held.values()])), path)
    for step in range(4):
        columns, after = drawn_delta(form, held, source)
        before, held = held, after
        (update,) = onnx_sparse.tables(path, update={"table": columns}).updates
        assert update["added"] == len(held.keys() - before.keys())
        assert update["deleted"] == len(before.keys() - held.keys())
        absent = [] if form.startswith("rows") else keys_of(form, 4, source)
        require_answers(path, form, held, [*held, *before, *absent] if absent else [*held])
        onnx_sparse.tables(path, check=True)
        if step % 3 == 2:
            exported = tmp_path / "rows.parquet"
            onnx_sparse.tables(path, export={"table": exported})
            onnx_sparse.tables(path, compact=True)
            require_answers(path, form, held, [*held, *absent])
            again = onnx_sparse.tables(path, update={"table": exported}).updates[0]  # nothing is new in it
            assert (again["added"], again["changed"], again["deleted"]) == (0, len(held), 0)
            require_answers(path, form, held, [*held, *absent])


@pytest.mark.parametrize("form", FORMS)
def test_a_malformed_model_is_read_or_refused(form, tmp_path):
    """Whatever is wrong with nodes, tensors and opsets, nothing but the commands' own error is raised."""
    source, path = random.Random(form), tmp_path / "m.onnx"
    keys = list(range(9)) if form.startswith("rows") else keys_of(form, 9, source)
    onnx.save(live_model(form, "first", keys, rows_of(9, source)), path)
    changed = {"row" if form.startswith("rows") else "key": array_of(form, keys[:3]), "values": rows_of(3, source)}
    update_tables(path, {"table": changed})
    sound, stored = path.read_bytes(), (tmp_path / "m.onnx.data").read_bytes()
    commands = (
        lambda: update_tables(path, {"table": changed}),
        lambda: compact_tables(path, lambda _: None),
        lambda: check_keys(path, lambda _: None),
        lambda: states(path),
        lambda: shown_rows(path, "table", keys[:2]),
    )
    for _ in range(DRAWS * 40):
        model = onnx.ModelProto.FromString(sound)
        mutate_message(model, source)
        path.write_bytes(model.SerializePartialToString())
        (tmp_path / "m.onnx.data").write_bytes(stored)
        with contextlib.suppress(CommandError):
            source.choice(commands)()


# --- Whole or not at all ----------------------------------------------------------------------------------------------


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def keyed(path, count=40, form="int64"):
    """A model with keys 0, 10, 20, ..., whose rows are 1, and what it holds."""
    keys = list(range(0, 10 * count, 10))
    rows = np.ones((count, WIDTH), np.float32)
    onnx.save(live_model(form, "first", keys, rows), path)
    return dict(zip(keys, rows, strict=True))


def delta(keys, value, name="key"):
    return {name: np.array(keys), "values": np.full((len(keys), WIDTH), value, np.float32)}


@pytest.mark.skipif(sys.platform == "win32", reason="there are no locks")
@pytest.mark.parametrize("action", ["first", "update", "compact"])
def test_a_process_that_is_killed_leaves_the_old_or_the_new_model(action, tmp_path):
    """And the next update removes what it has left, or writes after it."""
    old = keyed(tmp_path / "m.onnx")
    if action != "first":  # for which the table is also copied into a file of its own
        onnx_sparse.tables(tmp_path / "m.onnx", update={"table": delta([10, 11], 2)})
        old |= dict.fromkeys([10, 11], np.full(WIDTH, 2, np.float32))
    np.savez(tmp_path / "delta.npz", **delta([20, 21], 3))
    new = old | dict.fromkeys([20, 21] if action != "compact" else [], np.full(WIDTH, 3, np.float32))
    command = [sys.executable, "-m", "support.killed_updates", tmp_path, action, str(KILLS), "1"]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    folders = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert len(folders) == 1 + KILLS
    found = []
    for folder in folders:
        path = folder / "m.onnx"
        found.append(onnx_sparse.tables(path, show={"table": [21]}).rows["table"][21] is not None)
        require_answers(path, "int64", new if found[-1] else old, [*new, 22])
        assert onnx_sparse.tables(path, update={"table": delta([22], 4)}).updates[0]["added"] == 1
        require_answers(path, "int64", (new if found[-1] else old) | {22: np.full(WIDTH, 4, np.float32)}, [*new, 22])
        onnx_sparse.tables(path, check=True)
        assert not list(folder.glob(".*"))
    assert action == "compact" or True in found


@pytest.mark.skipif(sys.platform == "win32", reason="there are no locks")
def test_of_two_writers_one_is_refused(cli, tmp_path):
    held = keyed(tmp_path / "m.onnx")
    np.savez(tmp_path / "delta.npz", **delta([5], 2))
    with sole_writer(tmp_path / "m.onnx"):
        before = content(tmp_path)
        result = cli("tables", "update", tmp_path / "m.onnx", "table", tmp_path / "delta.npz")
        assert "another process is changing it; run the command again when it is done" in result.error
        assert cli("tables", tmp_path / "m.onnx", "compact").code == 1
        assert content(tmp_path) == before
    assert cli("tables", tmp_path / "m.onnx", "update", f"table={tmp_path / 'delta.npz'}").code == 0
    require_answers(tmp_path / "m.onnx", "int64", held | {5: np.full(WIDTH, 2, np.float32)}, [*held, 5])


def test_a_model_that_is_replaced_meanwhile_stays(tmp_path, monkeypatch):
    keyed(tmp_path / "m.onnx")
    onnx_sparse.tables(tmp_path / "m.onnx", update={"table": delta([5], 2)})
    data = (tmp_path / "m.onnx.data").read_bytes()

    def replaced(*arguments, **more):
        (tmp_path / "m.onnx").write_bytes((tmp_path / "m.onnx").read_bytes())
        return external_data.write_model(*arguments, **more)

    monkeypatch.setattr(changes, "write_model", replaced)
    with pytest.raises(ValueError, match="was replaced while this command ran"):
        onnx_sparse.tables(tmp_path / "m.onnx", update={"table": delta([6], 3)})
    assert (tmp_path / "m.onnx.data").read_bytes().startswith(data)


def test_what_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    keyed(tmp_path / "m.onnx")
    onnx_sparse.tables(tmp_path / "m.onnx", update={"table": delta([5], 2)})
    before = content(tmp_path)

    def full(*arguments, **more):
        raise CommandError("cannot write m.onnx: No space left on device")

    monkeypatch.setattr(changes, "write_model", full)
    with pytest.raises(ValueError, match="No space left"):
        onnx_sparse.tables(tmp_path / "m.onnx", update={"table": delta([6], 3)})
    assert content(tmp_path) == before


VALUES = np.ones((2, WIDTH), np.float32)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": [5, 5], "values": VALUES}, "key 5 is in row 0 and in row 1"),
        ({"key": [5, 6]}, "no column 'values'"),
        ({"values": VALUES}, "no column 'key'"),
        ({"row": [5, 6], "values": VALUES}, "column 'row' is not known"),
        ({"key": [5, 6], "value": VALUES}, "did you mean 'values'"),
        ({"key": [5, 6], "values": VALUES[:1]}, "have 1 and 2 rows"),
        ({"key": [5, 6], "values": VALUES[:, :-1]}, r"float32 \[2, 2\]; table table is float32 \[2, 3\]"),
        ({"key": [5, 6], "values": VALUES * np.float64(1e39)}, "column 'values', of 5: 1e[+]39 is beyond the range"),
        ({"key": [5, 6], "values": VALUES.astype(np.int64)}, "is int64"),
        ({"key": [5, 6.5], "values": VALUES}, "6.5 does not fit into int64"),
        ({"key": ["5", "6"], "values": VALUES}, "column 'key', row 0: '5' is text; the keys are int64"),
        ({"key": [5, b"6"], "values": VALUES}, "column 'key', row 1: '6' is text; the keys are int64"),
        ({"key": [5, 2**63], "values": VALUES}, "does not fit into int64"),
        ({"key": [5, 6], "values": VALUES, "deleted": [1, 0]}, "1 does not fit into bool"),
    ],
)
def test_deltas_that_do_not_fit(columns, message, tmp_path):
    keyed(tmp_path / "m.onnx")
    before = content(tmp_path)
    with pytest.raises(ValueError, match=message) as error:
        onnx_sparse.tables(tmp_path / "m.onnx", update={"table": columns})
    assert "\n" not in str(error.value)
    assert content(tmp_path) == before


@pytest.mark.parametrize("source", ["memory", "npz", "parquet", "arrow"])
def test_doubles_are_rounded_to_the_tables_floats(source, tmp_path, cli):
    """pandas, Spark and JSON write doubles of all floats: those that float32 does not hold are rounded and counted."""
    keyed(tmp_path / "m.onnx")
    values = np.array([[0.5, 0.1, np.inf], [2.0**-30, 1 + 2.0**-40, np.nan]])
    columns = {"key": np.array([5, 6]), "values": values}
    if source != "memory":
        columns = written(columns, tmp_path / f"delta.{source}")
    done = onnx_sparse.tables(tmp_path / "m.onnx", update={"table": columns})
    assert done.updates[0]["rounded"] == 2
    assert "2 numbers rounded to float32" in str(done)
    rows = onnx_sparse.tables(tmp_path / "m.onnx", show={"table": [5, 6]}).rows["table"]
    np.testing.assert_array_equal(np.stack([rows[key] for key in (5, 6)]), values.astype(np.float32))


def written(columns, path):
    """A file of columns."""
    if path.suffix == ".npz":
        np.savez(path, **columns)
        return path
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"key": columns["key"], "values": columns["values"].tolist()})
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    return path


@pytest.mark.parametrize(
    ("rows", "message"),
    [([-1, 2], "row -1 of table table is negative"), ([40, 42], "has 40 rows: with row 42, all from 40 on must be")],
)
def test_row_numbers_that_do_not_fit(rows, message, tmp_path):
    onnx.save(live_model("rows", "first", [], np.ones((40, WIDTH), np.float32)), tmp_path / "m.onnx")
    before = content(tmp_path)
    with pytest.raises(ValueError, match=message):
        onnx_sparse.tables(tmp_path / "m.onnx", update={"table": {"row": rows, "values": VALUES}})
    assert content(tmp_path) == before


def test_rows_out_of_range_stay_so(tmp_path):
    """Whatever rows were added, a number beyond the last row is an error, and so is one below the first."""
    path = tmp_path / "m.onnx"
    for form, wrong in (("rows", [3, -1]), ("rows of Gather", [3, -4, -7])):
        onnx.save(live_model(form, "first", [], np.ones((3, WIDTH), np.float32)), path)
        onnx_sparse.tables(path, update={"table": delta([0, 2], 2, "row")})
        session = onnx_sparse.InferenceSession(path)
        for number in wrong:
            with pytest.raises(Exception, match=r"range|bounds"):
                session.run(["rows"], {"queries": np.array([number])})
        if form != "rows":
            (rows,) = session.run(["rows"], {"queries": np.array([-1, -2, -3])})
            assert rows[:, 0].tolist() == [2, 1, 2]


def test_what_is_written_grows_with_the_change(tmp_path):
    """Of a file that the table is the last one of, not a byte is changed; checksums stay true."""
    path = tmp_path / "m.onnx"
    keyed(path, 40_000)
    assert onnx_sparse.tables(path, update={"table": delta([1], 2)}).moved == ["table"]
    large = (tmp_path / "m.onnx.data").read_bytes()
    done = onnx_sparse.tables(path, update={"table": delta(range(1, 2001, 2), 3)}, check=True)
    assert (list(done.moved), done.updates[0]["added"]) == ([], 999)
    assert done.written < 3 * 1000 * (8 + 4 * WIDTH) + (tmp_path / "m.onnx").stat().st_size - 1000 * 8
    assert (tmp_path / "m.onnx.data").read_bytes().startswith(large)
    with (tmp_path / "m.onnx.data").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"!")
    with pytest.raises(ValueError, match="its SHA-1 from byte"):
        onnx_sparse.tables(path, check=True)


# --- Tables that cannot be updated ------------------------------------------------------------------------------------


def rewritten(path, text, **constants):
    """A model in onnx's text form, with a table of 5 rows."""
    made = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]> {text}')
    constants = {"table": np.ones((5, WIDTH), np.float32), "keys": np.arange(4), **constants}
    for name, array in constants.items():
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    made.graph.initializer.append(numpy_helper.from_array(Keys.of(np.arange(4)).index(), "index"))
    onnx.save(made, path)


BAG = "onnx_sparse.EmbeddingBagOffsetsSum"
FIND = "p = onnx_sparse.FindKeys (keys, index, q)"


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("y = Gather (table, q) z = ReduceSum (table)", "ReduceSum node z reads all of it"),
        ("y = Gather <axis = 1> (table, q)", "no lookup reads it"),
        (f"{FIND} y = Gather (table, p)", "a missing key is its last row in Gather node y"),
        (f"{FIND} one = Constant <value_int = 1> () r = Mul (p, one) r1 = Max (p, zero) y = Gather (table, r1)", "Mul"),
        (
            f"{FIND} r = Max (p, zero) y = Gather (table, r) w = Gather (table, q)",
            "reads it by row numbers, not by its keys",
        ),
        (f"{FIND} r = Max (p, zero) y = Gather (table, r) w = Gather (other, r)", "Gather node w reads another table"),
        (f"{FIND} s = Max (p, zero) r = Add (s, one) y = Gather (table, r)", "moves the row of missing keys"),
        (f"{FIND} r = Add (p, one) y = Gather (table, r) u, k = TopK (p, ones)", "TopK node u reads positions"),
        (
            f"{FIND} r = Add (p, one) y = {BAG} (table, r, ones, one)",
            "default_index of .* node y is row 1, which is that",
        ),
        (
            f"{FIND} r = Add (p, one) s = Add (p, zero) t = Max (s, zero) y = Gather (table, r) w = Gather (table, t)",
            "its lookups add different numbers to the positions of keys",
        ),
        (
            f"{FIND} r = Add (p, one) o = onnx_sparse.FindKeys (others, index, q) s = Add (o, one) "
            "y = Gather (table, r) w = Gather (table, s)",
            "its lookups find different keys",
        ),
        (
            f"{FIND} c = Less (p, zero) r = Where (c, five, p) y = Gather (table, r)",
            "a missing key is row 5 in Where node r, which the table does not have yet",
        ),
        (f"{FIND} r = Add (p, one) d = ReduceMax (q) y = {BAG} (table, r, ones, d)", "default_index .* is computed"),
    ],
)
def test_tables_whose_rows_have_other_uses(nodes, message, tmp_path):
    path = tmp_path / "m.onnx"
    constants = {"zero": np.array(0), "one": np.array(1), "ones": np.array([1]), "other": np.ones((5, 2), np.float32)}
    constants |= {"five": np.array(5), "others": np.arange(4)}
    rewritten(path, f"g (int64[n] q) => (float[a, b] y) {{ {nodes} }}", **constants)
    before = content(tmp_path)
    with pytest.raises(ValueError, match=f"table table cannot be changed: .*{message}"):
        onnx_sparse.tables(path, update={"table": {"key": [1], "values": VALUES[:1]}})
    assert content(tmp_path) == before


def drawn_lookup(number, source):
    """A lookup of the table by one of two lists of keys, with some row for missing keys, after some others."""
    keys = source.choice(["keys", "keys", "keys", "others"])
    shift, missing = source.choice([0, 0, 1, 1, 2]), source.choice([0, 4, 5, 6, 7, 2**31 - 1])
    at = f"r{number} = Add (p{number}, n{shift})" if shift else f"r{number} = Identity (p{number})"
    chosen = f"s{number} = Where (c{number}, n{missing}, r{number})"
    if shift and source.random() < 0.3:  # the row before those of keys
        chosen = f"s{number} = Identity (r{number})"
    found = f"p{number} = onnx_sparse.FindKeys ({keys}, index_of_{keys}, q) c{number} = Less (p{number}, zero)"
    return f"{found} {at} {chosen} y{number} = Gather (table, s{number})"


@pytest.mark.parametrize("seed", range(60))
def test_lookups_that_do_not_agree_are_refused(seed, tmp_path):
    """Or else each key that is changed has its new row in each lookup, and all others have what they had."""
    source, path = random.Random(seed), tmp_path / "m.onnx"
    count = source.choice([1, 2, 2, 3])
    lookups = " ".join(drawn_lookup(k, source) for k in range(count))
    keys, others = np.array([30, 10, 20, 40]), np.array([10, 30, 40, 20])
    held = {"table": np.arange(6 * WIDTH, dtype=np.float32).reshape(6, WIDTH), "keys": keys, "others": others}
    held |= {"index_of_keys": key_index(keys), "index_of_others": key_index(others), "zero": np.array(0)}
    held |= {f"n{number}": np.array(number) for number in (0, 1, 2, 4, 5, 6, 7, 2**31 - 1)}
    outputs = ", ".join(f"float[a{k}, b{k}] y{k}" for k in range(count))
    made = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]> g (int64[n] q) => ({outputs}) {{ {lookups} }}'
    )
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in held.items())
    onnx.save(made, path)

    def answers(key):
        try:
            return [rows.tolist() for rows in onnx_sparse.InferenceSession(path).run(None, {"q": np.array([key])})]
        except Exception:  # ONNX Runtime's have no common class
            return None

    before = {key: answers(key) for key in (10, 20, 30, 40, 50)}
    written = {20: [91.0] * WIDTH, 30: [92.0] * WIDTH, 60: [93.0] * WIDTH}
    try:
        update_tables(path, {"table": {"key": [*written], "values": np.array([*written.values()], np.float32)}})
    except CommandError:
        return
    for key, was in before.items():
        assert answers(key) == ([[written[key]]] * count if key in written else was), key
    assert answers(60) == [[written[60]]] * count


def test_models_that_cannot_be_updated(cli, tmp_path):
    path = tmp_path / "m.onnx"
    keyed(path)
    for change, message in (
        (onnx_sparse.embed_functions, "holds the function bodies of operators"),
        (onnx_sparse.lower, "has no operators of onnx_sparse, which an update needs"),
    ):
        onnx.save(change(live_model("rows", "first", [], np.ones((5, WIDTH), np.float32))), path)
        with pytest.raises(ValueError, match=message):
            onnx_sparse.tables(path, update={"table": delta([1], 2, "row")})


def test_keys_and_indexes_that_do_not_belong_together(cli, tmp_path):
    keyed(tmp_path / "m.onnx", 4)
    for keys, message in (([0, 10, 20, 30], None), ([0, 10, 20, 31], "is not the index of"), ([0, 10, 0, 30], "0")):
        changed = onnx.load(tmp_path / "m.onnx")
        tensor = next(t for t in changed.graph.initializer if t.name == "table.keys")
        tensor.CopyFrom(numpy_helper.from_array(np.array(keys), "table.keys"))
        onnx.save(changed, tmp_path / "changed.onnx")
        result = cli("tables", tmp_path / "changed.onnx", "--check")
        assert result.code == (message is not None)
        assert (message or "") in result.err


def test_a_new_model_that_does_not_open_is_not_written(tmp_path, monkeypatch):
    """Whatever a graph has that was not thought of."""
    keyed(tmp_path / "m.onnx")
    before = (tmp_path / "m.onnx").read_bytes()

    def named(op_type, inputs, output, **more):
        return helper.make_node(op_type, inputs, [output], name="one name", **more)

    monkeypatch.setattr(live_tables, "_node", named)
    with pytest.raises(ValueError, match=r"the new model does not open: .*two nodes with same node name"):
        onnx_sparse.tables(tmp_path / "m.onnx", update={"table": {"key": [0], "deleted": [True]}})
    assert content(tmp_path) == {"m.onnx": before}


@pytest.mark.parametrize("name", ["bag_of_means", "exists_of_int32", "half_in_files", "text"])
def test_tables_of_tensorflow_recommenders_addons(name, tmp_path):
    """Rows that are written as they are change nothing; deleted keys are as those that were never there."""
    with zipfile.ZipFile(Path(__file__).parents[1] / "data" / "tfra" / f"{name}.zip") as archive:
        archive.extractall(tmp_path)
    path = tmp_path / "m.onnx"
    onnx.save(convert(tmp_path / "saved_model"), path)
    (state,) = onnx_sparse.tables(path).states
    with np.load(next(tmp_path.glob("*.npz"))) as arrays:
        given = {n.removeprefix("given "): a for n, a in arrays.items() if n.startswith("given ")}
    feeds = {n: a.astype(object) if a.dtype.kind == "S" else a for n, a in given.items()}
    before = onnx_sparse.InferenceSession(path).run(None, feeds)
    onnx_sparse.tables(path, export={state["name"]: tmp_path / "rows.parquet"})
    onnx_sparse.tables(path, update={state["name"]: tmp_path / "rows.parquet"}, check=True)
    for _ in range(2):
        for got, expected in zip(onnx_sparse.InferenceSession(path).run(None, feeds), before, strict=True):
            np.testing.assert_array_equal(got, expected)
        onnx_sparse.tables(path, compact=True)
    keys = pq.read_table(tmp_path / "rows.parquet").select(["key"])
    gone = keys.append_column("deleted", pa.array([True] * len(keys)))
    (update,) = onnx_sparse.tables(path, update={state["name"]: gone}).updates
    assert update["deleted"] == state["keys"]
    assert onnx_sparse.tables(path).states[0]["keys"] == 0
    onnx_sparse.tables(path, compact=True)
    after = onnx_sparse.InferenceSession(path).run(None, feeds)
    assert any((got != expected).any() for got, expected in zip(after, before, strict=True))


def test_nodes_that_another_program_has_changed(tmp_path):
    path = tmp_path / "m.onnx"
    keyed(path)
    onnx_sparse.tables(path, update={"table": delta([1], 2)})
    changed = onnx.load(path, load_external_data=False)
    next(node for node in changed.graph.node if node.op_type == "Max").op_type = "Min"
    path.write_bytes(changed.SerializeToString())
    for change in ({"update": {"table": delta([1], 2)}}, {"compact": True}, {"show": {"table": [1]}}):
        with pytest.raises(ValueError, match="another program has changed the nodes of earlier updates"):
            onnx_sparse.tables(path, **change)


def test_an_updated_table_is_not_replaced(cli, tmp_path):
    """Its rows are not where their keys say."""
    keyed(tmp_path / "m.onnx")
    onnx_sparse.tables(tmp_path / "m.onnx", update={"table": delta([1], 2)})
    np.save(tmp_path / "new.npy", np.ones((42, WIDTH), np.float32))
    result = cli("tables", tmp_path / "m.onnx", "replace", f"table={tmp_path / 'new.npy'}")
    assert "has been updated: write it as a whole first" in result.error


@pytest.mark.parametrize("record", ["{", "[]", '{"version": 2}', '{"version": 1, "files": {"m.data": [[5, 1, ""]]}}'])
def test_damaged_records(record, tmp_path):
    keyed(tmp_path / "m.onnx")
    onnx_sparse.tables(tmp_path / "m.onnx", update={"table": delta([1], 2)})
    changed = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    changed.metadata_props[0].value = record
    (tmp_path / "m.onnx").write_bytes(changed.SerializeToString())
    for change in ({"update": {"table": delta([1], 2)}}, {"check": True}):
        with pytest.raises(ValueError, match=r"the metadata onnx_sparse\.data_parts cannot be read: "):
            onnx_sparse.tables(tmp_path / "m.onnx", **change)


def test_damaged_models(tmp_path):
    """Whatever a file holds, the only error is the command's."""
    path, source = tmp_path / "m.onnx", random.Random(1)
    keyed(path)
    onnx_sparse.tables(path, update={"table": delta([1, 10], 2)})
    before = content(tmp_path)
    for _ in range(int(os.environ.get("ONNX_SPARSE_DAMAGED", "40"))):
        for name, held in before.items():
            (tmp_path / name).write_bytes(held)
        damaged = bytearray(before["m.onnx"])
        for _ in range(source.randrange(1, 4)):
            damaged[source.randrange(len(damaged))] = source.randrange(256)
        path.write_bytes(damaged)
        changes = ({"update": {"table": delta([7], 1)}}, {"compact": True}, {"check": True}, {"show": {"table": [1]}})
        with contextlib.suppress(ValueError):
            onnx_sparse.tables(path, **source.choice(changes))


def test_a_table_with_neighbors_gets_a_file_of_its_own_once(cli, tmp_path):
    """Also one whose file another model shares, whose checksum stays true."""
    path, other = tmp_path / "m.onnx", tmp_path / "other.onnx"
    held = keyed(path, 4000)
    assert cli("convert", path, "-o", path, "--external-data").code == 0
    other.write_bytes(path.read_bytes())
    np.savez(tmp_path / "delta.npz", **delta([5], 2))
    result = cli("tables", path, "update", f"table={tmp_path / 'delta.npz'}")
    assert "table has been copied into a file of its own" in result.out
    assert "copied" not in cli("tables", path, "update", f"table={tmp_path / 'delta.npz'}").out
    assert cli("tables", other, "--check").code == cli("tables", path, "--check").code == 0
    require_answers(other, "int64", held, [0, 5, 10])
    require_answers(path, "int64", held | {5: np.full(WIDTH, 2, np.float32)}, [0, 5, 10])


@pytest.mark.parametrize("seed", range(20))
def test_a_table_never_grows_over_its_neighbors(seed, tmp_path):
    """Wherever the tensors of a model are in a file: next to each other, apart, or one within the other."""
    source, path = random.Random(seed), tmp_path / "m.onnx"
    held = dict(zip(range(0, 50, 10), rows_of(5, source), strict=True))
    made = live_model("int64", "first", [*held], np.array([*held.values()]))
    neighbor = rows_of(source.choice([1, 3]), source)
    made.graph.initializer.append(numpy_helper.from_array(neighbor, "neighbor"))
    made.graph.node.add(op_type="Identity", input=["neighbor"], output=["kept"])
    made.graph.output.append(helper.make_tensor_value_info("kept", 1, None))
    large = [tensor for tensor in made.graph.initializer if tensor.name in ("table", "table.keys", "table.index")]
    tensors = sorted([*large, made.graph.initializer[-1]], key=lambda _: source.random())
    if source.random() < 0.5:  # mostly the last ones matter
        tensors.sort(key=lambda tensor: tensor.name in ("table", "neighbor"))
    data, places = bytearray(), {}
    for tensor in tensors:
        data += bytes(source.choice([0, 0, 0, 1, 60]))
        places[tensor.name] = len(data)
        data += tensor.raw_data
    if source.random() < 0.3:
        first = source.randrange(6 - len(neighbor) + 1)
        places["neighbor"] = places["table"] + 4 * WIDTH * first
        neighbor = np.frombuffer(bytes(data), np.float32, neighbor.size, places["neighbor"]).reshape(neighbor.shape)
    ends = {tensor.name: places[tensor.name] + len(tensor.raw_data) for tensor in tensors}
    is_last = ends["table"] == max(ends.values())
    for tensor in tensors:
        size = len(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = tensor.EXTERNAL
        for key, value in (("location", "m.data"), ("offset", places[tensor.name]), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
    data += bytes(source.choice([0, 0, 1, 5, 100]))  # what a process that was killed has left
    (tmp_path / "m.data").write_bytes(data)
    path.write_bytes(made.SerializeToString())
    for step in range(3):
        stored = {file: file.read_bytes() for file in tmp_path.glob("m*.data")}
        columns, after = drawn_delta("int64", held, source)
        if step == 0:
            columns, after = delta([5, 10], 7), held | dict.fromkeys([5, 10], np.full(WIDTH, 7, np.float32))
        done = onnx_sparse.tables(path, update={"table": columns}, check=True)
        assert done.moved == (["table"] if step == 0 and not is_last else [])
        assert all(file.read_bytes().startswith(content) for file, content in stored.items() if file.exists())
        require_answers(path, "int64", after, [*held, *after, 5], more={"kept": neighbor})
        held = after


def test_quantized_tables(tmp_path):
    """Rows are rounded as the table is; integers, and scales and biases, grow alike."""
    path, rows = tmp_path / "m.onnx", np.random.default_rng(0).standard_normal((6, 32)).astype(np.float32)
    for format in ("int8", "int4", "float16"):
        onnx.save(quantize_tables(model("EmbeddingBagOffsetsSum", rows[:3]), format, names=["emb_table"]), path)
        (name,) = (table["name"] for table in onnx_sparse.tables(path).tables)
        onnx_sparse.tables(path, update={name: {"row": np.array([3, 1]), "values": rows[[3, 4]]}})
        onnx_sparse.tables(path, update={name: {"row": np.array([4]), "values": rows[5:]}})
        expected = quantize_tables(model("EmbeddingBagOffsetsSum", rows[[0, 4, 2, 3, 5]]), format, names=["emb_table"])
        feeds = {n: FEEDS[n] for n in ("offsets", "per_sample_weights")}
        feeds |= {"indices": FEEDS["indices"] % 5, "default_index": np.array(3, FEEDS["default_index"].dtype)}
        for _ in range(2):
            got, want = (onnx_sparse.InferenceSession(m).run(None, feeds)[0] for m in (path, expected))
            np.testing.assert_array_equal(got, want)
            shown = onnx_sparse.tables(path, show={name: [1, 4, 5]}).rows[name]
            np.testing.assert_allclose(np.stack([shown[1], shown[4]]), rows[4:], atol=0.5)
            assert shown[5] is None
            onnx_sparse.tables(path, compact=True)


KEY_COLUMNS = [np.arange(3), [1, 2, 3], np.array(1), np.zeros((3, 1), np.int64), "abc"]
VALUE_COLUMNS = [np.zeros((3, 2)), [[1], [2], [3]], np.zeros((2, 2)), np.array(7.0), 5, None, "ab"]
DELETED_COLUMNS = [
    None,
    [True, False, True],
    np.array(True),
    [True, False],
    np.zeros(9, bool),
    np.zeros((3, 1), bool),
    "x",
]


@pytest.mark.parametrize("deleted", DELETED_COLUMNS, ids=repr)
@pytest.mark.parametrize("values", VALUE_COLUMNS, ids=repr)
def test_columns_of_other_sizes_are_refused_by_name(values, deleted):
    for key in KEY_COLUMNS:
        columns = {"key": key, "values": values} | ({} if deleted is None else {"deleted": deleted})
        are_right = [any(column is right for right in rights) for column, rights in
                     ((key, KEY_COLUMNS[:2]), (values, VALUE_COLUMNS[:2]), (deleted, DELETED_COLUMNS[:2]))]  # fmt: skip
        if all(are_right):
            assert len(read_delta(columns, "key", TensorProto.INT64).keys) == (3 if deleted is None else 1)
            continue
        with pytest.raises(CommandError, match=r"the delta\b.*(column|shape)") as refused:
            read_delta(columns, "key", TensorProto.INT64)
        assert "len(" not in str(refused.value)


@pytest.mark.parametrize(
    "inner", [pa.int64(), pa.string(), pa.list_(pa.int64()), pa.struct({"a": pa.int8()}), pa.null()]
)
@pytest.mark.parametrize("form", ["plain", "dictionary", "runs", "chunks"])
def test_columns_of_any_arrow_type_are_read_or_refused(form, inner):
    """Where keys are deleted, the rows of the others are chosen, which Arrow does not do for every type."""
    column = pa.array([None] * 3, inner)
    if form == "dictionary":
        column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), column)
    elif form == "runs":
        column = pa.RunEndEncodedArray.from_arrays(pa.array([3], pa.int32()), column[:1])
    elif form == "chunks":
        column = pa.chunked_array([column[:1], column[1:]])
    delta = pa.table({"key": [1, 2, 3], "values": column, "deleted": [True, False, True]})
    with contextlib.suppress(CommandError):
        read_delta(delta, "key", TensorProto.INT64)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("abc", "'abc' is text; the keys are int64"),
        ("1.5", "'1.5' is text; the keys are int64"),
        (str(2**64), f"{2**64} does not fit into int64"),
    ],
)
def test_a_key_of_another_type_is_refused(cli, tmp_path, key, reason):
    keyed(tmp_path / "m.onnx")
    error = cli("tables", tmp_path / "m.onnx", "show", f"table={key}").error
    assert error == f"the keys of table, row 0: {reason}"


def written_model(folder, updated, count=9000):
    """A model whose tables are in files that have checksums, those of an update included."""
    source, path = random.Random(0), folder / "m.onnx"
    keys = [7 * k for k in range(count)]
    held = dict(zip(keys, rows_of(count, source), strict=True))
    onnx.save(live_model("int64", "first", keys, np.array([*held.values()])), folder / "made.onnx")
    onnx_sparse.convert(folder / "made.onnx", path, external_data=True)
    if updated:
        columns, held = drawn_delta("int64", held, source)
        onnx_sparse.tables(path, update={"table": columns})
    return path, held


@pytest.mark.parametrize("updated", [False, True])
def test_rows_that_no_model_names_are_dead(updated, tmp_path):
    """A process that is killed while it adds rows leaves them behind the data of the old model, which stay right."""
    path, held = written_model(tmp_path, updated)
    for file in tmp_path.glob("m.onnx.*"):
        with file.open("ab") as grown:
            grown.write(bytes(range(256)) * 9)
    onnx_sparse.tables(path, check=True)
    require_answers(path, "int64", held, [*held])
    onnx_sparse.convert(path, tmp_path / "again.onnx")
    columns, held = drawn_delta("int64", held, random.Random(1))
    onnx_sparse.tables(path, update={"table": columns})
    onnx_sparse.tables(path, check=True)
    require_answers(path, "int64", held, [*held])
    onnx_sparse.tables(path, compact=True)
    onnx_sparse.tables(path, check=True)
    require_answers(path, "int64", held, [*held])


@pytest.mark.parametrize(("updated", "count"), [(False, 9000), (True, 9000), (True, 40)])
def test_damaged_rows_are_not_written_with_a_new_checksum(updated, count, tmp_path):
    path, _ = written_model(tmp_path, updated, count)
    parts = data_parts.parts_of(onnx.load(path, load_external_data=False))
    assert parts
    draw = random.Random(0)
    writers = {
        "convert": lambda: onnx_sparse.convert(path, tmp_path / "other.onnx", external_data=True),
        "export": lambda: onnx_sparse.tables(path, export={"table": tmp_path / "rows.parquet"}),
        "compact": lambda: onnx_sparse.tables(path, compact=True),
        "shard": lambda: onnx_sparse.shard(path, tmp_path / "shards", shards=2, at_least=16),
    }
    for name, several in parts.items():
        for part in several:
            stored = (path.parent / name).read_bytes()
            place = draw.randrange(part.begin, part.end or len(stored))
            changed = bytearray(stored)
            changed[place] ^= 1
            (path.parent / name).write_bytes(changed)
            for writer, write in writers.items():
                if writer == ("shard" if updated else "compact"):
                    continue  # it has nothing to write, or asks for `compact` first
                said = ""
                try:
                    write()
                except (ValueError, ConversionError) as error:
                    said = str(error)
                assert "SHA-1" in said, f"{writer}, {name} from {part.begin}: {said}"
                assert name in said
            (path.parent / name).write_bytes(stored)
    assert not (tmp_path / "other.onnx").exists()
    assert not (tmp_path / "shards").exists()
    for writer, write in writers.items():
        if writer != "shard" or not updated:
            write()


def model_of_tables(count):
    """A model of keyed tables, each with a finder and a lookup of its own."""
    keys = np.arange(4)
    held = {"zero": np.array(0)}
    nodes = []
    for k in range(count):
        held |= {f"t{k}": np.zeros((4, 2), "f"), f"k{k}": keys, f"i{k}": key_index(keys)}
        nodes += [
            helper.make_node("FindKeys", [f"k{k}", f"i{k}", "q"], [f"p{k}"], domain="onnx_sparse"),
            helper.make_node("Max", [f"p{k}", "zero"], [f"m{k}"]),
            helper.make_node("Gather", [f"t{k}", f"m{k}"], [f"y{k}"]),
        ]
    outputs = [helper.make_tensor_value_info(f"y{k}", 1, [None, 2]) for k in range(count)]
    tensors = [numpy_helper.from_array(array, name) for name, array in held.items()]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("q", 7, [None])], outputs, tensors)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("onnx_sparse", 1)]
    return helper.make_model(graph, ir_version=10, opset_imports=opsets)


def test_the_graph_is_read_once_for_all_tables(tmp_path, monkeypatch):
    calls = {"_step": 0, "constants_of": 0, "graphs": 0, "row_places": 0}

    def counting(name, called):
        def counted(*given):
            calls[name] += 1
            return called(*given)

        return counted

    for name in calls:
        for module in (key_flows, live_tables):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, counting(name, getattr(module, name)))
    seen = []
    for count in (3, 12):
        onnx.save(model_of_tables(count), tmp_path / "m.onnx")
        calls.update(dict.fromkeys(calls, 0))
        tables = list(OpenedModel(tmp_path / "m.onnx").tables())
        assert [table.keys for table in tables] == [[f"k{k}", f"i{k}"] for k in range(count)]
        seen.append(dict(calls))
    few, many = seen
    assert few["constants_of"] == many["constants_of"] == 1
    assert few["graphs"] == many["graphs"]
    assert many["_step"] == 4 * few["_step"] > 0
    assert many["row_places"] == 4 * few["row_places"] > 0
