"""Files of arrays, rows of tables, shards, checkpoints and dumps for `files.py`: sound ones, and their mutations."""

from __future__ import annotations

import csv
import io
import json
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from torture import row_files
from torture.mutations import mutate_message, mutated_bytes, mutated_json, mutated_text, mutated_zip

Mutation = Callable[[bytes, random.Random], bytes]

# --- Archives of arrays, which `run` takes ----------------------------------------------------------------------------

_INPUTS = {
    "x": np.float32([[1, 2, 3], [4, 5, 6]]),
    "ids": np.arange(5),
    "words": np.array(["a", "é", ""]),
    "half": np.float16([0.5, 1]),
}


def make_archives(folder: Path) -> list[Path]:
    """Archives with the inputs of a model that gives them back."""
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in _INPUTS.items() if name != "words"}
    kinds["words"] = TensorProto.STRING
    inputs = [helper.make_tensor_value_info(n, kinds[n], [None] * a.ndim) for n, a in _INPUTS.items()]
    outputs = [helper.make_tensor_value_info(f"{n}_out", kinds[n], [None] * a.ndim) for n, a in _INPUTS.items()]
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in _INPUTS]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / "model.onnx")
    made = [folder / "plain.npz", folder / "compressed.npz"]
    for path, save in zip(made, (np.savez, np.savez_compressed), strict=True):
        save(path, **_INPUTS)
    return made


def archive_command(path: Path, seeds: Path, out: Path, source: random.Random) -> list[str]:
    """Run the model on an archive."""
    return ["run", str(seeds / "model.onnx"), "--input", str(path), "-o", str(out / "out.npz")]


def archive_fault(path: Path, out: Path) -> str:
    """What is wrong with the outputs for an archive: each is its input, as numpy reads it."""
    with np.load(path) as given, np.load(out / "out.npz") as found:
        for name, array in _INPUTS.items():
            wanted = given[name].astype(str if name == "words" else array.dtype)
            if not np.array_equal(found[f"{name}_out"], wanted, equal_nan=name in ("x", "half")):
                return f"{name} is {found[f'{name}_out']}, not {wanted}"
    return ""


def mutated_archive(data: bytes, source: random.Random) -> bytes:
    """An entry damaged, or arrays of other types, shapes and values."""
    if source.random() < 0.4:
        return mutated_zip(data, source)
    with np.load(io.BytesIO(data)) as archive:
        arrays = dict(archive)
    for _ in range(source.choice([1, 1, 2])):
        name = source.choice(list(arrays))
        array = arrays[name]
        kind = source.choice(["f2", "f4", "f8", "i1", "i4", "u8", "?", "c8", "U3", "S2", "O", "M8[s]", "V4", "i4,f4"])
        match source.choice(["drop", "rename", "copy", "cast", "other", "order", "rows", "shape", "value"]):
            case "drop" if len(arrays) > 1:
                del arrays[name]
            case "rename":
                arrays[source.choice(["x", "key", "row", "values", "deleted", "é", ""])] = arrays.pop(name)
            case "copy":
                arrays[name] = arrays[source.choice(list(arrays))]
            case "cast" if np.dtype(kind).kind in "fiu?O" and array.dtype.kind in "fiu?":
                arrays[name] = array.astype(kind)
            case "other":
                arrays[name] = np.zeros(array.shape, kind)
            case "order":
                arrays[name] = np.asfortranarray(array[::-1]).astype(array.dtype.newbyteorder(source.choice("<>")))
            case "rows" if array.ndim:
                arrays[name] = array.repeat(source.choice([0, 2, 1000]), source.randrange(array.ndim))
            case "shape":
                arrays[name] = source.choice([array.reshape(-1), array[..., None], array[None], np.array(7)])
            case _ if array.size and array.dtype.kind in "fiu":
                array.flat[source.randrange(array.size)] = _extreme(array.dtype, source)
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def _extreme(dtype: Any, source: random.Random) -> Any:
    if dtype.kind == "f":
        return source.choice([np.nan, np.inf, -0.0, np.finfo(dtype).max])
    return source.choice([np.iinfo(dtype).min, np.iinfo(dtype).max, 0])


# --- Rows that `tables update` takes ----------------------------------------------------------------------------------

_FORMS = ("rows", "int64", "strings")


def make_updates(folder: Path) -> list[Path]:
    """Changes of tables that are keyed in three ways, in each kind of file, and the models."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from support.live_models import WIDTH, array_of, keys_of, live_model

    made = []
    for form in _FORMS:
        source, is_keyed = random.Random(form), form != "rows"
        keys = keys_of(form, 9, source) if is_keyed else list(range(9))
        onnx.save(
            live_model(form, "first", keys[:7], np.ones((7, WIDTH), np.float32)),
            folder / f"{form}.onnx",
        )
        columns: dict[str, Any] = {
            "key" if is_keyed else "row": array_of(form, keys[4:]),
            "values": np.arange(5 * WIDTH, dtype=np.float32).reshape(5, WIDTH),
        }
        if is_keyed:
            columns["deleted"] = np.arange(5) == 1
        listed = {name: column.tolist() for name, column in columns.items()}
        typed = pa.table(listed | {"values": pa.array(listed["values"], pa.list_(pa.float32()))})
        made += [folder / f"{form}.{suffix}" for suffix in ("npz", "parquet", "arrow", "csv")]
        archived, as_parquet, as_arrow, as_csv = made[-4:]
        np.savez(archived, **{n: c.astype(str) if c.dtype == object else c for n, c in columns.items()})
        pq.write_table(typed, as_parquet)
        with pa.ipc.new_file(str(as_arrow), typed.schema) as writer:
            writer.write_table(typed)
        with open(as_csv, "w", newline="", encoding="utf-8") as file:
            written = csv.writer(file)
            written.writerow(listed)
            for row in zip(*listed.values(), strict=True):
                written.writerow([json.dumps(cell) if isinstance(cell, list) else cell for cell in row])
    return made


def prepare_update(path: Path, seeds: Path, out: Path) -> None:
    """The model that is changed."""
    shutil.copy(seeds / f"{path.stem}.onnx", out / "model.onnx")


def update_command(path: Path, seeds: Path, out: Path, source: random.Random) -> list[str]:
    """Change the rows of a table."""
    return ["tables", str(out / "model.onnx"), "update", f"table={path}"]


def update_fault(path: Path, out: Path) -> str:
    """What is wrong with a model that was changed: its checksums, the index of its keys, or that it does not run."""
    import onnx_sparse
    from onnx_sparse.errors import CommandError

    try:
        onnx_sparse.tables(out / "model.onnx", check=True)
        session = onnx_sparse.InferenceSession(out / "model.onnx")
        queries = session.get_inputs()[0]
        kind = object if queries.type == "tensor(string)" else np.int64
        session.run(None, {queries.name: np.zeros(0, kind)})
    except (CommandError, RuntimeError) as error:
        return f"the model is damaged: {error}"
    return ""


def update_mutations() -> Mapping[str, Mutation]:
    """How to mutate a file of rows, by the end of its name."""
    return {**row_files.mutations(), ".npz": mutated_archive}


# --- Shards, which `run` takes ----------------------------------------------------------------------------------------


def make_shards(folder: Path) -> list[Path]:
    """A model whose table is split by rows, another by tables, and inputs."""
    from support.live_models import WIDTH, keys_of, live_model

    import onnx_sparse

    made = []
    for form, shards, by in (("rows", 2, "rows"), ("rows of Gather", 1, "table"), ("int64", 3, "rows")):
        keys = list(range(9)) if form.startswith("rows") else keys_of(form, 9, random.Random(form))
        whole = folder / f"{form}.onnx"
        onnx.save(live_model(form, "first", keys, np.arange(9 * WIDTH, dtype=np.float32).reshape(9, WIDTH)), whole)
        made.append(folder / f"{form.replace(' ', '_')}.split")
        onnx_sparse.shard(whole, made[-1], shards=shards, by=by, at_least=1)
    np.savez(folder / "queries.npz", queries=np.array([0, 3, 5, 5]))
    return made


def shard_command(path: Path, seeds: Path, out: Path, source: random.Random) -> list[str]:
    """Run all shards."""
    return ["run", str(path), "--input", str(seeds / "queries.npz"), "-o", str(out / "out.npz")]


# --- Checkpoints with their graph -------------------------------------------------------------------------------------


def make_checkpoints(folder: Path) -> list[Path]:
    """A graph of TensorFlow 1 with its checkpoint, whose table has two parts."""
    import tensorflow as tf

    v1 = tf.compat.v1
    place = folder / "trained"
    place.mkdir()
    with tf.Graph().as_default(), v1.Session() as session:
        ids, bags = v1.placeholder(tf.int64, [None], "ids"), v1.placeholder(tf.int32, [None], "bags")
        parts = v1.fixed_size_partitioner(2)
        table = v1.get_variable("table", [10, 2], initializer=v1.ones_initializer(), partitioner=parts)
        dense = v1.get_variable("dense", [2, 3], initializer=v1.ones_initializer(), use_resource=True)
        rows = tf.sparse.segment_mean(tf.concat([*table], 0), ids, bags)
        tf.identity(rows @ dense, "pooled")
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(place / "model.ckpt"))
    (place / "checkpoint").unlink()
    return [place / "model.ckpt.meta"]


def checkpoint_mutations() -> Mapping[str, Mutation]:
    """How to mutate the graph and the index of its values."""
    from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef

    def graph(data: bytes, source: random.Random) -> bytes:
        message = MetaGraphDef.FromString(data)
        mutate_message(message, source)
        return bytes(message.SerializePartialToString())

    return {".meta": graph, ".index": _mutated_index}


def _mutated_index(data: bytes, source: random.Random) -> bytes:
    """Entries with other types, shapes, places, slices and keys, in an index that has its checksums."""
    from support.sorted_tables import block, table

    from onnx_sparse.converters.tensorflow.reading import sorted_table
    from onnx_sparse.converters.tensorflow.reading.messages import BundleEntryProto, BundleHeaderProto

    found = sorted_table.entries(data)
    key = source.choice(list(found))
    match source.choice(["drop", "rename", "copy", *["change"] * 6]):
        case "drop":
            del found[key]
        case "rename":
            found[mutated_bytes(key, source)] = found.pop(key)
        case "copy":
            found[key] = source.choice(list(found.values()))
        case _:
            message = (BundleEntryProto if key else BundleHeaderProto)()
            message.ParseFromString(found[key])
            mutate_message(message, source)
            found[key] = message.SerializePartialToString()
    return table([block([(0, name, value) for name, value in sorted(found.items())])])


# --- Dumps of a layer, which `replay` takes ---------------------------------------------------------------------------


def make_dumps(folder: Path) -> list[Path]:
    """A layer with its tensors, as two tools write them."""
    from cli.test_replay import dump

    msit, msprobe = folder / "msit", folder / "msprobe"
    dump((msit / "layer/77/FillLayer_0.json", msit / "tensors/0_77/0/0_FillLayer"))
    dump((msprobe / "info/layer/0_77/FillLayer_0.json", msprobe / "data/0_77/0/0_FillLayer"))
    return [msit, msprobe]


def mutated_tensor(data: bytes, source: random.Random) -> bytes:
    """A word of a tensor's head changed, or its data."""
    head, end, content = data.partition(b"$End=1\n")
    if source.random() < 0.3:
        return head + end + mutated_bytes(content, source)
    return mutated_text(head.decode(), source).encode(errors="replace") + end + content


DUMP_MUTATIONS: Mapping[str, Mutation] = {
    ".json": lambda data, source: mutated_json(data.decode(), source).encode(errors="replace"),
    ".bin": mutated_tensor,
}
