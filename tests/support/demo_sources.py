"""Writes the sources of all roads that `onnx-sparse demo --keep DIR --all` leaves, each with its own framework.

`cd tests && python -m support.demo_sources [NAME ...]` renews them: openvino, tf2onnx, torch, ascend. An NPU's dump
cannot be had here: the layer and its dump are written as ATB's tools write them.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
from support.ascend_graphs import layer, operation, write, write_tensors

from onnx_sparse.cli.demo.sources import FOLDER


def openvino(folder: Path) -> None:
    """A recommender's lookup, and a network with a state."""
    import openvino as ov
    from openvino import opset16 as op

    def given(name: str, shape: list[int], dtype: Any) -> Any:
        node = op.parameter(shape, dtype, name)
        node.output(0).set_names({name})
        return node

    table = op.constant(np.arange(20, dtype=np.float32).reshape(10, 2))
    inputs = [given("items", [-1], ov.Type.i64), given("baskets", [-1], ov.Type.i64), given("count", [], ov.Type.i64)]
    totals = op.embedding_segments_sum(table, *inputs, op.constant(np.int64(0)))
    totals.output(0).set_names({"totals"})
    ov.save_model(ov.Model([totals], inputs, "baskets"), folder / "model.xml", False)

    audio = given("audio", [1, 160], ov.Type.f32)
    before = op.read_value(op.constant(np.zeros((1, 160), np.float32)), "sum", ov.Type.f32, [1, 160])
    after = op.add(before, audio)
    after.output(0).set_names({"sum"})
    stream = ov.Model([op.result(after)], [op.assign(after, "sum")], [audio], "streaming")
    ov.save_model(stream, folder / "streaming.xml", False)


def tf2onnx(folder: Path) -> None:
    """A lookup of TensorFlow as tensorflow-onnx exports it."""
    import tensorflow as tf
    import tf2onnx.convert

    table = tf.constant(np.arange(20, dtype=np.float32).reshape(10, 2))
    indices, items = tf.TensorSpec([None, 2], tf.int64, "indices"), tf.TensorSpec([None], tf.int64, "items")

    @tf.function(input_signature=[indices, items, tf.TensorSpec([2], tf.int64, "shape")])
    def lookup(indices: Any, items: Any, shape: Any) -> Any:
        baskets = tf.SparseTensor(indices, items, shape)
        return tf.nn.safe_embedding_lookup_sparse(table, baskets, combiner="sum")

    tf2onnx.convert.from_function(lookup, lookup.input_signature, opset=18, output_path=str(folder / "by_tf2onnx.onnx"))


def torch(folder: Path) -> None:
    """A bag of embeddings as torch saves it, and means of rows, which torch's exporter writes wrongly."""
    import torch
    from torch.export import Dim

    class Recommender(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.items = torch.nn.EmbeddingBag(100, 4, mode="mean", padding_idx=0)
            self.score = torch.nn.Linear(4, 1)

        def forward(self, items: Any, offsets: Any) -> Any:
            return self.score(self.items(items, offsets))

    class Means(torch.nn.Module):
        def forward(self, start: Any, ids: Any, rows: Any) -> Any:
            return start.scatter_reduce(0, ids[:, None].expand_as(rows), rows, "mean", include_self=False)

    torch.manual_seed(0)
    many = ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC})
    example = (torch.tensor([3, 1, 4, 1]), torch.tensor([0, 2, 2]))
    program = torch.export.export(Recommender().eval(), example, dynamic_shapes=many)
    torch.export.save(program, folder / "recommender.pt2")
    rows = (torch.zeros(4, 3), torch.tensor([0, 2, 2]), torch.ones(3, 3))
    means = torch.onnx.export(Means(), rows, dynamo=True, dynamic_shapes=(*many, {0: Dim.DYNAMIC}), verbose=False)
    means.save(folder / "by_torch.onnx")


def ascend(folder: Path) -> None:
    """A layer of ATB with its dump, as msit writes them, and a graph of GE."""
    x = np.arange(6, dtype=np.float16).reshape(2, 3)
    graph = layer(["x"], ["y"], [operation("ElewiseOperation", ["x", "x"], ["y"], {"elewiseType": 8})])
    write(folder, graph)
    write_tensors(folder / "dump", [x], [x + x])
    dump = folder / "msit_dump_20260101_120000"
    write(dump / "layer/77", graph, "Layer_0.json")
    place = dump / "tensors/0_77/0/0_Layer"
    write_tensors(place, [x], [x + x])
    write_tensors(place / "0_ElewiseOperation", [x, x], [x + x])
    shutil.copy(Path(__file__).parents[1] / "data/ascend/fill_family.air", folder / "export.air")


def main(names: list[str]) -> None:
    """Write the sources of these names, or of all."""
    FOLDER.mkdir(exist_ok=True)
    for made in (openvino, tf2onnx, torch, ascend):
        if not names or made.__name__ in names:
            made(FOLDER)


if __name__ == "__main__":
    main(sys.argv[1:])
