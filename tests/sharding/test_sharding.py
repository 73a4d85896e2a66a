"""A model that is split over shards answers what the whole model answers, and refuses what that refuses."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from support.live_models import FORMS, array_of, keys_of, live_model
from torture.mutations import mutated_bytes, mutated_json

import onnx_sparse
from onnx_sparse.cli.demo import load_recorded
from onnx_sparse.comparison import difference, noise_of_order
from onnx_sparse.errors import CommandError
from onnx_sparse.schemas import DOMAIN, OPS
from onnx_sparse.schemas.declaration import numpy_dtype
from onnx_sparse.sharding import verification, writing
from onnx_sparse.sharding.manifest import MANIFEST, read_manifest
from onnx_sparse.sharding.messages import BrokenMessageError, receive, send
from onnx_sparse.sharding.session import SplitModel, local_session

Array = np.ndarray[Any, Any]
ROWS, WIDTH = 11, 4
LOOKUPS = [op for op in OPS.values() if op.inputs[0].name == "emb_table"]
IMPORTS = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)]


def model(nodes: list[Any], tables: dict[str, Array], feeds: dict[str, Array], outputs: list[str]) -> ModelProto:
    """A model of nodes, whose inputs have the types of feeds."""
    value = helper.make_tensor_value_info
    inputs = [value(n, helper.np_dtype_to_tensor_dtype(a.dtype), [None] * a.ndim) for n, a in feeds.items()]
    made = helper.make_graph(
        nodes, "g", inputs, [onnx.ValueInfoProto(name=name) for name in outputs], [
            numpy_helper.from_array(array, name) for name, array in tables.items()
        ]
    )  # fmt: skip
    inferred = onnx.shape_inference.infer_shapes(helper.make_model(made, opset_imports=IMPORTS, ir_version=10))
    return inferred


def drawn(op: Any, rng: np.random.Generator) -> tuple[ModelProto, list[dict[str, Array]]]:
    """A model of a lookup whose inputs and attributes are drawn, and batches for it: some, none, and illegal ones."""
    dtype = numpy_dtype(rng.choice(op.types["T"]))
    attributes = {a.name: str(rng.choice(a.choices)) for a in op.attributes}
    index = rng.choice([np.int32, np.int64])
    quantized = "Q" in op.types
    table = rng.integers(-9, 9, (ROWS, WIDTH)) if dtype.kind in "iu" else rng.standard_normal((ROWS, WIDTH))
    tables = {"table": table.astype(numpy_dtype(rng.choice(op.types["Q"])) if quantized else dtype)}
    if quantized:
        tables["scales"] = rng.standard_normal((ROWS, int(rng.choice([1, 2])), 2)).astype(dtype)
    given = {i.name for i in op.inputs if not i.optional or rng.random() < 0.5} - {"emb_table", "scale_bias"}

    def batch(lengths: list[int], wrong: bool = False) -> dict[str, Array]:
        count = sum(lengths)
        low = -1 if attributes["negative_indices"] == "drop" else 0
        ids = rng.integers(low, ROWS + (wrong and 3), count)
        segments = np.repeat(np.arange(len(lengths)), lengths)
        if attributes.get("segment_ids_order") == "any":
            segments = rng.permutation(segments)
        ends = np.cumsum([0, *lengths])
        made: dict[str, Any] = {
            "indices": ids,
            "segment_ids": segments,
            "num_segments": np.array(len(lengths)),
            "offsets": ends if attributes.get("include_last_offset") in ("true", "exact") else ends[:-1],
            "default_index": np.array(rng.integers(-1, ROWS)),
            "padding_index": np.array(rng.integers(-1, ROWS)),
        }
        found = {name: np.asarray(array).astype(index) for name, array in made.items() if name in given}
        if "per_sample_weights" in given:
            drawn = rng.choice([0, 1, -1, 0.5, 2], count) if dtype.kind in "fV" else rng.integers(0, 3, count)
            found["per_sample_weights"] = drawn.astype(dtype)
        return found

    batches = [batch([2, 0, 3, 1]), batch([40, 33, 0, 50]), batch([]), batch([0, 0]), batch([1]), batch([9] * 3, True)]
    names = [*tables, *(i.name for i in op.inputs[len(tables) :])]
    inputs = [name if name in tables or name in given else "" for name in names]
    node = helper.make_node(op.name, inputs, ["y"], domain=DOMAIN, **attributes)
    doubled = helper.make_node("Identity", ["y"], ["z"])
    return model([node, doubled], tables, batches[0], ["z"]), batches


def splits(path: Path, tables: int = 1) -> Iterator[tuple[bool, SplitModel]]:
    """The model split in several ways, and whether its answers shall be exact."""
    ways = [(2, "rows", False), (3, "rows", True), (tables, "table", False)]
    for shards, by, exact in ways:
        folder = path.with_name(f"{path.stem}-{shards}-{by}-{exact}")
        onnx_sparse.shard(path, folder, shards=shards, by=by, exact=exact, at_least=1)
        yield exact, local_session(folder, 1)


def answered(session: Any, feeds: dict[str, Array]) -> Any:
    try:
        return session.run(None, feeds)
    except Exception as error:  # of ONNX Runtime, which have no common base class
        return error


def require_same(whole: Any, split: Any, *, exact: bool) -> None:
    if isinstance(whole, Exception) or isinstance(split, Exception):
        assert type(whole) is type(split), (whole, split)
        return
    for one, other in zip(whole, split, strict=True):
        assert not difference(one, other, floor=noise_of_order([one]), exact=exact).reason, (one, other)


@pytest.mark.parametrize("op", LOOKUPS, ids=lambda op: op.name)
def test_every_lookup_answers_as_in_the_whole_model(op: Any, tmp_path: Path) -> None:
    """Types, optional inputs and attributes are drawn; also batches that the operator refuses."""
    rng = np.random.default_rng(len(op.name))
    for number in range(2):
        made, batches = drawn(op, rng)
        path = tmp_path / f"{number}.onnx"
        onnx.save(made, path)
        whole = onnx_sparse.InferenceSession(path)
        wanted = [answered(whole, feeds) for feeds in batches]
        assert isinstance(wanted[1], list), wanted[1]
        for exact, split in splits(path):
            for feeds, expected in zip(batches, wanted, strict=True):
                require_same(expected, answered(split, feeds), exact=exact)


def test_sums_are_sent_where_they_are_fewer_bytes(tmp_path: Path) -> None:
    made, _ = drawn(OPS["EmbeddingBagOffsetsSum"], np.random.default_rng(0))
    del made.graph.input[:], made.graph.node[:]
    node = helper.make_node("EmbeddingBagOffsetsSum", ["table", "ids", "offsets"], ["z"], domain=DOMAIN)
    table = np.random.default_rng(1).standard_normal((ROWS, 64)).astype(np.float32)
    feeds = {"ids": np.arange(30) % ROWS, "offsets": np.array([0, 20])}
    onnx.save(model([node], {"table": table}, feeds, ["z"]), tmp_path / "m.onnx")
    onnx_sparse.shard(tmp_path / "m.onnx", tmp_path / "split", shards=4, at_least=1)
    split = local_session(tmp_path / "split")
    asked: list[dict[int, Any]] = []
    plain = split._ask
    split._ask = lambda requests: (asked.append(dict(requests)), plain(requests))[1]
    split.run(None, feeds)
    split.run(None, feeds | {"ids": np.arange(3), "offsets": np.array([0, 1])})
    sent = [{name.rpartition("_")[2] for _, names in requests.values() for name in names} for requests in asked]
    assert sent == [{"sums"}, {"rows"}]


def recommender() -> tuple[ModelProto, dict[str, Array]]:
    """Ids that are computed and values that cross, two lookups of a table, rows by Gather, a table that stays whole."""
    node, rng = helper.make_node, np.random.default_rng(2)
    feeds = {
        "ids": rng.integers(-5, 60, 20),
        "offsets": np.array([0, 4, 4, 12]),
        "steps": rng.integers(-ROWS, ROWS, (4, 3)),
        "dense": rng.standard_normal((4, 2)).astype(np.float32),
    }
    nodes = [
        node("Abs", ["ids"], ["positive"]),
        node("Mod", ["positive", "vocabulary"], ["known"]),
        node("EmbeddingBagOffsetsMean", ["table", "known", "offsets", "none"], ["mean"], domain=DOMAIN),
        node("EmbeddingBagOffsetsMax", ["table", "known", "offsets"], ["most"], domain=DOMAIN),
        node("Gather", ["words", "steps"], ["rows"]),
        node("ReduceMax", ["rows"], ["last"], keepdims=0, noop_with_empty_axes=0),
        node("Gather", ["small", "known"], ["biases"]),
        node("ReduceSum", ["biases"], ["bias"], keepdims=0),
        node("Cast", ["known"], ["seen"], to=TensorProto.FLOAT),
        node("ReduceMean", ["seen"], ["average"], keepdims=0),
        node("Concat", ["mean", "most", "dense"], ["joined"], axis=1),
        node("Add", ["joined", "last"], ["moved"]),
        node("Add", ["moved", "bias"], ["scores"]),
        node("Add", ["scores", "average"], ["y"]),
    ]
    tables: dict[str, Array] = {
        "table": rng.standard_normal((ROWS, WIDTH)).astype(np.float32),
        "words": rng.standard_normal((ROWS, 2, 3)).astype(np.float32),
        "small": rng.standard_normal(ROWS).astype(np.float32),
        "vocabulary": np.array(ROWS),
        "none": np.array(3),
    }
    return model(nodes, tables, feeds, ["y", "known"]), feeds


@pytest.mark.parametrize("block", [1, 100, 1 << 24])
def test_a_model_around_lookups(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are read in blocks of so many bytes."""
    monkeypatch.setattr(writing, "_BLOCK", block)
    made, feeds = recommender()
    path = tmp_path / "m.onnx"
    onnx.save(made, path)
    wanted = onnx_sparse.InferenceSession(path).run(None, feeds)
    for number, (exact, at_least) in enumerate([(False, 1), (True, 100)]):
        folder = tmp_path / f"split{number}"
        made_of = onnx_sparse.shard(path, folder, shards=3, exact=exact, at_least=at_least, verify=True)
        tables = {"table", "words"} | ({"small"} if at_least == 1 else set())
        assert {table.name for table in made_of.manifest.tables} == tables
        split = local_session(folder)
        require_same(wanted, split.run(None, feeds), exact=exact)
        assert [value.name for value in split.get_inputs()] == list(feeds)
        assert split.run(["known"], feeds)[0].tolist() == wanted[1].tolist()
        with pytest.raises(ValueError, match=r"Gather node \"rows\": indices\[0,1\] = 11 is out of range \[-11, 11\)"):
            split.run(None, feeds | {"steps": np.array([[0, ROWS]])})
    assert read_manifest(folder).text() == made_of.manifest.text()


def test_rows_of_keys(tmp_path: Path) -> None:
    """Keys stay whole where ids are computed; the rows at their positions are split."""
    node, rng = helper.make_node, np.random.default_rng(5)
    keys = rng.permutation(1000)[:ROWS]
    nodes = [
        node("FindKeys", ["keys", "index", "queries"], ["found"], domain=DOMAIN),
        node("Less", ["found", "zero"], ["missing"]),
        node("Where", ["missing", "last", "found"], ["positions"]),
        node("EmbeddingBagOffsetsSum", ["table", "positions", "offsets"], ["y"], domain=DOMAIN),
    ]
    tables = {
        "keys": keys,
        "index": np.empty(0, np.uint8),
        "zero": np.array(0),
        "last": np.array(ROWS),
        "table": rng.standard_normal((ROWS + 1, WIDTH)).astype(np.float32),
    }
    feeds = {"queries": np.append(keys, [2000, -3]), "offsets": np.array([0, 5, 5])}
    onnx.save(model(nodes, tables, feeds, ["y"]), tmp_path / "m.onnx")
    expected = onnx_sparse.InferenceSession(tmp_path / "m.onnx").run(None, feeds)
    for exact, split in splits(tmp_path / "m.onnx"):
        assert [table.name for table in split.manifest.tables] == ["table"]
        require_same(expected, split.run(None, feeds), exact=exact)


@pytest.mark.parametrize("form", FORMS)
def test_a_table_with_updates(form: str, tmp_path: Path) -> None:
    """Rows that updates have added are split with the others; where they are stays whole."""
    path, known = tmp_path / "m.onnx", ROWS - 3
    keys = list(range(ROWS)) if form.startswith("rows") else keys_of(form, ROWS, random.Random(0))
    rows = np.random.default_rng(1).standard_normal((ROWS, 3)).astype(np.float32)
    onnx.save(live_model(form, "first", keys[:known], rows[:known]), path)
    changed, column = slice(known - 2, None), "row" if form.startswith("rows") else "key"
    held = array_of(form, [k.encode() for k in keys] if form == "strings" else keys)
    onnx_sparse.tables(path, update={"table": {column: held[changed], "values": -rows[changed]}})
    feeds = {"queries": array_of(form, keys)}
    expected = onnx_sparse.InferenceSession(path).run(None, feeds)
    for exact, split in splits(path):
        assert [table.name for table in split.manifest.tables] == ["table"]
        require_same(expected, split.run(None, feeds), exact=exact)


@pytest.mark.parametrize("change", ["replace", "update", "compact"])
@pytest.mark.parametrize("part", ["", "model.onnx", "merge.onnx", "shard-1/shard.onnx"])
def test_parts_are_not_changed(part: str, change: str, tmp_path: Path) -> None:
    made, feeds = recommender()
    onnx.save(made, tmp_path / "m.onnx")
    onnx_sparse.shard(tmp_path / "m.onnx", tmp_path / "split", shards=2, at_least=1)
    path, columns = tmp_path / "split" / part, {"row": np.array([0]), "values": np.zeros((1, WIDTH), np.float32)}
    asked = {"replace": {"table": np.zeros((ROWS, WIDTH))}, "update": {"table": columns}, "compact": True}
    with pytest.raises(ValueError, match=f"{path} is of the model that is split in .*split, .* split it again"):
        onnx_sparse.tables(path, **{change: asked[change]})
    local_session(tmp_path / "split").run(None, feeds)


def test_a_manifest_that_was_changed_is_refused(tmp_path: Path) -> None:
    """What it says decides which rows are read: it is as it was written, or damaged."""
    onnx.save(recommender()[0], tmp_path / "m.onnx")
    made = onnx_sparse.shard(tmp_path / "m.onnx", tmp_path / "split", shards=2, at_least=1)
    path = tmp_path / "split" / MANIFEST
    text = path.read_text()
    for seed in range(300):
        source = random.Random(seed)
        changed = mutated_json(text, source).encode() if seed % 2 else mutated_bytes(text.encode(), source)
        path.write_bytes(changed)
        with contextlib.suppress(CommandError):
            assert read_manifest(tmp_path / "split").text() == made.manifest.text(), changed
    path.write_text("[" * 100_000)
    with pytest.raises(CommandError, match="is damaged"):
        read_manifest(tmp_path / "split")


@pytest.mark.parametrize("part", ["shard-1/shard.onnx", "shard-1/rows.data", "merge.onnx", "ids.onnx"])
def test_parts_of_two_versions_are_never_used_together(part: str, tmp_path: Path) -> None:
    for version in (1, 2):
        made, _ = recommender()
        for tensor in made.graph.initializer[version - 1 : 3]:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * 2, tensor.name))
        next(n for n in made.graph.node if n.op_type == "Concat").name = f"version{version}"
        next(n for n in made.graph.node if n.op_type == "Mod").name = f"version{version}"
        onnx.save(made, tmp_path / f"{version}.onnx")
        onnx_sparse.shard(tmp_path / f"{version}.onnx", tmp_path / f"split{version}", shards=2, at_least=1)
    local_session(tmp_path / "split1")
    (tmp_path / "split1" / part).write_bytes((tmp_path / "split2" / part).read_bytes())
    with pytest.raises(CommandError, match=f"{part} is not the file that manifest.json names"):
        local_session(tmp_path / "split1")
    (tmp_path / "split1" / part).unlink()
    with pytest.raises(CommandError, match=f"{part}: no such file"):
        local_session(tmp_path / "split1")


def refused(kind: str) -> ModelProto:
    made, _ = recommender()
    graph = made.graph
    if kind == "another reader":
        graph.node.append(helper.make_node("ReduceSum", ["table"], ["sum"], keepdims=0))
        graph.output.append(helper.make_tensor_value_info("sum", TensorProto.FLOAT, []))
    elif kind == "a graph inside":
        inner = helper.make_graph(
            [helper.make_node("ReduceSum", ["table"], ["total"], keepdims=0)],
            "inner",
            [],
            [helper.make_tensor_value_info("total", TensorProto.FLOAT, [])],
        )
        graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
        graph.node.append(helper.make_node("If", ["yes"], ["sum"], then_branch=inner, else_branch=inner))
        graph.output.append(helper.make_tensor_value_info("sum", TensorProto.FLOAT, []))
    elif kind == "an input":
        graph.input.append(helper.make_tensor_value_info("table", TensorProto.FLOAT, [ROWS, WIDTH]))
    elif kind == "ids from a table":
        next(n for n in graph.node if n.output[0] == "known").input[0] = "chosen"
        graph.initializer.append(numpy_helper.from_array(np.arange(ROWS), "chain"))
        graph.node.insert(1, helper.make_node("Gather", ["chain", "positive"], ["chosen"]))
    elif kind == "its own ids":
        graph.initializer.append(numpy_helper.from_array(np.arange(ROWS), "ring"))
        graph.node.append(helper.make_node("Gather", ["ring", "ring"], ["next"]))
        graph.output.append(helper.make_tensor_value_info("next", TensorProto.INT64, [ROWS]))
    elif kind == "4 bits":
        words = next(t for t in graph.initializer if t.name == "words")
        words.CopyFrom(helper.make_tensor("words", TensorProto.INT4, [ROWS, 2, 3], [1] * ROWS * 6))
    return made


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("another reader", r'table: ReduceSum node "sum" reads table, too, as input 0'),
        ("a graph inside", r'table: If node "sum" reads table, too, in a graph inside'),
        ("an input", "table: table is an input or an output of the model"),
        ("ids from a table", 'table chain cannot be split: ids of another lookup depend on what Gather node "chosen"'),
        ("its own ids", 'ring: Gather node "next" reads it as its ids'),
        ("4 bits", "words: its elements are INT4"),
    ],
)
def test_what_cannot_be_proved_is_refused_by_name(kind: str, why: str, tmp_path: Path) -> None:
    onnx.save(refused(kind), tmp_path / "m.onnx")
    with pytest.raises(ValueError, match=why):
        onnx_sparse.shard(tmp_path / "m.onnx", tmp_path / "split", shards=2, at_least=1)
    assert not (tmp_path / "split").exists()


def test_sparse_features_are_compared_also_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "baskets.onnx"
    onnx.save(load_recorded().model, path)
    made = onnx_sparse.shard(path, tmp_path / "split", shards=3, at_least=1, verify=True)
    assert "the answers to 5 generated batches are equal" in made.verified


def test_a_split_model_that_differs_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "baskets.onnx"
    onnx.save(load_recorded().model, path)
    monkeypatch.setattr(verification, "_require_equal", lambda name, *rest: refuse(name))
    with pytest.raises(ValueError, match="totals differs"):
        onnx_sparse.shard(path, tmp_path / "split", shards=3, at_least=1, verify=True)
    assert not (tmp_path / "split").exists()


def refuse(name: str) -> None:
    raise CommandError(f"{name} differs")


def test_a_message_with_more_bytes_than_may_come_is_refused() -> None:
    """Before memory is taken for them: whoever connects to a shard has not yet said who it is."""
    one, other = socket.socketpair()
    with one, other:
        send(one, {"secret": "none"}, {"x": np.zeros(3)})
        with pytest.raises(BrokenMessageError, match="not a message of a shard"):
            receive(other, most_bytes=0)
        one.close()
    one, other = socket.socketpair()
    with one, other:
        send(one, {"secret": "mine"}, {})
        assert receive(other, most_bytes=0) == ({"secret": "mine"}, {})


def test_the_command(cli_main: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, feeds = recommender()
    onnx.save(made, tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", **feeds)
    split, out = str(tmp_path / "split"), str(tmp_path / "out.npz")
    model_path = str(tmp_path / "m.onnx")
    assert cli_main(["shard", model_path, "-o", split, "--shards", "2", "--at-least", "1", "--verify"]) == 0
    assert "shard-1" in capsys.readouterr().out
    for run in (model_path, split):
        assert cli_main(["run", run, "--input", str(tmp_path / "in.npz"), "-o", out]) == 0
    require_same(onnx_sparse.InferenceSession(model_path).run(None, feeds), list(np.load(out).values()), exact=False)
    assert cli_main(["shard", model_path, "-o", split, "--shards", "2", "--at-least", "1"]) == 1
    assert "is there already" in capsys.readouterr().err
    assert cli_main(["shard", model_path, "-o", split + "2", "--shards", "2"]) == 1
    assert "no table that lookups read has 67,108,864 bytes" in capsys.readouterr().err
    (tmp_path / "split" / MANIFEST).write_text("{}")
    assert cli_main(["run", split, "--input", str(tmp_path / "in.npz")]) == 1
    assert "manifest.json is damaged" in capsys.readouterr().err


@pytest.fixture
def cli_main() -> Any:
    from onnx_sparse.cli import main

    return main
