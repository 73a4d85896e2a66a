"""The kinds of files that `files.py` mutates: sound ones of each kind, how they are mutated, and what takes them."""

from __future__ import annotations

import importlib.util
import io
import random
import shutil
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torture import data_files, row_files
from torture.mutations import (
    mutate_message,
    mutated_json,
    mutated_text,
    mutated_xml,
    mutated_zip,
)

DATA = Path(__file__).parent.parent / "data"

Mutation = Callable[[bytes, random.Random], bytes]

#: The arguments of `onnx-sparse` for a mutated source: from its path, the folder of the sound ones, that for what is
#: written, and a source of random choices.
Command = Callable[[Path, Path, Path, random.Random], list[str]]


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


def as_text(mutation: Callable[[str, random.Random], str]) -> Mutation:
    return lambda data, source: mutation(data.decode(), source).encode(errors="replace")


@dataclass(frozen=True)
class Road:
    """A kind of source.

    Attributes:
        make: Writes sound sources into a folder, and returns the files and folders to convert.
        mutations: How to mutate a file of a source, by the end of its name; other files get mutated bytes.
        command: What is done with it.
        fault: What is wrong with what was written, from the source and the folder; "" if nothing is.
        results: What may be written, relative to the folder of the scene.
        prints_failures: Whether what is wrong is printed as the result.
        prepare: Writes what is there before, from the source, the folder of the sound ones and that for what is
            written: after an error it is as before.
        mostly: How often the source's main file is mutated, and not any of its files.
    """

    make: Callable[[Path], list[Path]]
    mutations: Callable[[], Mapping[str, Mutation]]
    command: Command
    fault: Callable[[Path, Path], str]
    results: frozenset[Path]
    prints_failures: bool = False
    prepare: Callable[[Path, Path, Path], None] = lambda *_: None
    mostly: float = 0.8


def _converting(
    make: Callable[[Path], list[Path]],
    mutations: Callable[[], Mapping[str, Mutation]],
    *arguments: str,
    mostly: float = 0.8,
) -> Road:
    """A kind of source that is converted."""

    def command(path: Path, seeds: Path, out: Path, source: random.Random) -> list[str]:
        return ["convert", str(path), "-o", str(out / "model.onnx"), *arguments]

    def fault(path: Path, out: Path) -> str:
        wrong = _unsound(out / "model.onnx")
        # What is wrong with an ONNX file stays so: its nodes are not ours.
        return "" if wrong and _is_onnx(path) and _unsound(path) else wrong

    written = frozenset(map(Path, ("out/model.onnx", "out/model.onnx.data")))
    return Road(make, mutations, command, fault, written, mostly=mostly)


def _is_onnx(path: Path) -> bool:
    return path.suffix in (".onnx", ".onnxtxt", ".textproto", ".onnxjson")


def _unsound(path: Path) -> str:
    """What is wrong with a model; "" where onnx's checker and shape inference find nothing."""
    import onnx

    from onnx_sparse.models.tools.onnx_tools import check_model, infer_shapes

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # onnx calls its own text form experimental
            model = onnx.load(path)
            check_model(model)
            infer_shapes(model, check_type=True, strict_mode=True)
    except Exception as error:
        return f"the model is not sound: {error}"
    return ""


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
    tensor = onnx.numpy_helper.from_array(_array(400), "weights")  # large enough for --external-data
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
    from torture.models import mutated

    as_message = _as_message(ModelProto)

    def as_model(data: bytes, source: random.Random) -> bytes:
        if source.random() < 0.5:
            return as_message(data, source)
        return bytes(mutated(ModelProto.FromString(data), source).SerializeToString())

    return {
        ".onnx": as_model,
        ".textproto": _as_message(ModelProto, text=True),
        ".onnxjson": as_text(mutated_json),
        ".onnxtxt": as_text(mutated_text),
    }


def openvino_sources(folder: Path) -> list[Path]:
    """An IR of each operator, some of them with bodies."""
    path = Path(__file__).parent.parent / "converters" / "openvino" / "test_operators.py"
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
        ".json": as_text(mutated_json),
        ".onnx": _as_message(ModelProto),
        "dynamo.pbtxt": _as_message(lambda: schema.new("GraphDef"), text=True),
        ".pbtxt": _as_message(ModelProto, text=True),
        ".txt": _as_message(lambda: schema.new("ModelDef"), text=True),
        ".air": _as_message(lambda: schema.new("ModelDef")),
    }


#: What the files of ATB do not say: the types and shapes of the inputs.
_SPECS = {
    "FillLayer_0": ["float16:2,3"],
    "FillAdd_0": ["float16:2,3"],
    "GoLse_0": ["fp16:2,3", "fp16:2,3", "int8:2,3"],
}


def _atb_sources(folder: Path) -> list[Path]:
    """Graphs of ATB that are converted."""
    names = ("FillLayer_0.json", "FillAdd_0.msprobe_layer.json", "GoLse_0.msprobe_layer.json")
    return [Path(shutil.copy(DATA / "ascend" / name, folder)) for name in names]


def _atb_command(path: Path, seeds: Path, out: Path, source: random.Random) -> list[str]:
    name = path.name.split(".")[0]
    specs = [f"--input-spec={name}_input_{number}:{spec}" for number, spec in enumerate(_SPECS[name])]
    return ["convert", str(path), "-o", str(out / "model.onnx"), "--from", "ascend", *specs]


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
    made = []
    for version, package in ((3, "keras"), (2, "tf_keras")):
        if importlib.util.find_spec(package) is None:
            continue
        for number, model in enumerate(_keras_models(importlib.import_module(package))):
            for suffix in (".keras", ".h5"):
                made.append(folder / f"{version}_{number}{suffix}")
                model.save(made[-1])
    return made


def _mutated_hdf5(data: bytes, source: random.Random) -> bytes:
    """Another configuration of the model in a file."""
    import h5py

    content = io.BytesIO(data)
    with h5py.File(content, "r+") as file:
        config = mutated_json(file.attrs["model_config"], source)
        del file.attrs["model_config"]
        file.attrs["model_config"] = config
    return content.getvalue()


def _keras_models(keras: Any) -> list[Any]:
    """Models of one of the Kerases."""
    ids = keras.Input([3], name="ids", dtype="int32")
    pooled = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(10, 4)(ids))
    image, word = keras.Input([6, 6, 2], name="image"), keras.Input([], name="word", dtype="string")
    seen = keras.layers.Flatten()(keras.layers.Conv2D(2, 3, padding="same")(image))
    known = keras.layers.Embedding(4, 2)(keras.layers.StringLookup(vocabulary=["a", "b"])(word))
    return [
        keras.Model(ids, keras.layers.Dense(1, activation="sigmoid", name="score")(pooled)),
        keras.Sequential(
            [keras.Input([4], name="x"), keras.layers.Dense(3, "relu"), keras.layers.LayerNormalization()]
        ),
        keras.Sequential([keras.Input([5, 2], name="x"), keras.layers.Bidirectional(keras.layers.GRU(2, unroll=True))]),
        keras.Model({"image": image, "word": word}, keras.layers.Concatenate()([seen, known])),
    ]


def _torch_programs(folder: Path) -> list[Path]:
    import torch

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bags, self.dense = torch.nn.EmbeddingBag(10, 4, mode="mean"), torch.nn.Linear(4, 2)

        def forward(self, ids: Any, offsets: Any) -> Any:
            return torch.relu(self.dense(self.bags(ids, offsets)))

    class Chosen(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.cond(x.sum() > 0, lambda x: x * 2.0, lambda x: x - 1.0, (x,))

    dynamic = torch.export.Dim.DYNAMIC
    programs = {
        "pooled": (Pooled(), (torch.arange(6), torch.tensor([0, 2])), ({0: dynamic}, {0: dynamic})),
        "chosen": (Chosen(), (torch.ones(3, 2),), ({0: dynamic},)),
    }
    for name, (module, inputs, sizes) in programs.items():
        torch.export.save(torch.export.export(module, inputs, dynamic_shapes=sizes), folder / f"{name}.pt2")
    return [folder / f"{name}.pt2" for name in programs]


CONVERSIONS = {
    "onnx": _converting(_onnx_sources, _onnx_mutations),
    "openvino": _converting(openvino_sources, lambda: {".xml": as_text(mutated_xml)}),
    "ascend": _converting(_ascend_sources, _ascend_mutations, "--from", "ascend"),
    "saved_model": _converting(_saved_models, _saved_model_mutations),
    "graph_def": _converting(_graph_defs, _graph_def_mutations),
    "torch": _converting(_torch_programs, lambda: {".pt2": mutated_zip}),
    "checkpoints": _converting(
        data_files.make_checkpoints,
        data_files.checkpoint_mutations,
        "--inputs=ids:0,bags:0",
        "--outputs=pooled:0",
        mostly=0.3,
    ),
    "keras": _converting(_keras_files, lambda: {".keras": mutated_zip, ".h5": _mutated_hdf5}),
}


def _reading(*arguments: str, results: Collection[str] = (), prints_failures: bool = False) -> Road:
    """A command that reads an ONNX file."""

    def command(path: Path, seeds: Path, out: Path, source: random.Random) -> list[str]:
        name, *others = arguments
        return [name, str(path), *(other.replace("OUT", str(out)) for other in others)]

    found = frozenset(map(Path, results))
    return Road(_onnx_sources, _onnx_mutations, command, lambda *_: "", found, prints_failures)


ROADS = CONVERSIONS | {
    "inspect": _reading("inspect"),
    "check": _reading("check", prints_failures=True),
    "tables": _reading("tables"),
    "report": _reading("report", "--no-times", "-o", "OUT/report.html", results=["out/report.html"]),
    "rows": Road(
        row_files.make_sources,
        row_files.mutations,
        row_files.command,
        row_files.fault,
        frozenset([Path("out/rows.parquet"), Path("out/_bad")]),
    ),
    "atb": replace(CONVERSIONS["ascend"], make=_atb_sources, command=_atb_command),
    "archives": Road(
        data_files.make_archives,
        lambda: {".npz": data_files.mutated_archive},
        data_files.archive_command,
        data_files.archive_fault,
        frozenset([Path("out/out.npz")]),
    ),
    "updates": Road(
        data_files.make_updates,
        data_files.update_mutations,
        data_files.update_command,
        data_files.update_fault,
        frozenset(map(Path, ("out/model.onnx", "out/model.onnx.data"))),
        prepare=data_files.prepare_update,
    ),
    "shards": Road(
        data_files.make_shards,
        lambda: {".json": as_text(mutated_json), ".onnx": _onnx_mutations()[".onnx"]},
        data_files.shard_command,
        lambda *_: "",
        frozenset([Path("out/out.npz")]),
        mostly=0,
    ),
    "dumps": Road(
        data_files.make_dumps,
        lambda: data_files.DUMP_MUTATIONS,
        lambda path, *_: ["replay", str(path)],
        lambda *_: "",
        frozenset(),
        prints_failures=True,
        mostly=0,
    ),
}
