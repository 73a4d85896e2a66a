"""Whatever is written in whatever order, a server at rest answers with the newest whole model.

Scenarios are drawn: versions of a model with its table in a file beside it, whose files are renamed or written in
place, whole or in two halves, graph first or table first or one of them alone, with signals in between.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_sparse.serving.served_model import ServedModel
from onnx_sparse.serving.settings import Limits

#: `pytest` draws few; set the variable for more.
SCENARIOS = int(os.environ.get("ONNX_SPARSE_RELOADS", "24"))
_INTERVAL = 0.02


def files(version: int, source: random.Random, *, has_checksum: bool) -> tuple[bytes, bytes]:
    """A graph that adds a table, and the table; its size may differ from the one before."""
    table = np.full(source.choice([1, 1, 50_000]), version, np.float32)
    weight = numpy_helper.from_array(table, "w")
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [None])] for name in "xy"]
    nodes = [
        helper.make_node("ReduceMax", ["w"], ["c"], keepdims=0),
        helper.make_node("Add", ["x", "c"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", *ports, [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    (tensor,) = model.graph.initializer
    content, tensor.raw_data = tensor.raw_data, b""
    tensor.ClearField("raw_data")
    tensor.data_location = tensor.EXTERNAL
    entries = {"location": "m.data", "offset": "0", "length": str(len(content))}
    if has_checksum:
        entries["checksum"] = hashlib.sha1(content).hexdigest()
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return model.SerializeToString(), content


def steps(path: Path, content: bytes, source: random.Random) -> Iterator[None]:
    """Write a file, in one or two steps."""
    if source.random() < 0.6:
        part = path.with_name("part")
        part.write_bytes(content)
        os.replace(part, path)
        yield
        return
    path.unlink(missing_ok=True)  # what is mapped does not change
    with path.open("wb") as file:
        half = source.randrange(len(content))
        file.write(content[:half])
        file.flush()
        yield
        file.write(content[half:])
    yield


def scenario(folder: Path, source: random.Random) -> Iterator[int]:
    """The steps of a scenario; what each yields is the version that is whole afterwards, at the end at least."""
    checksums = source.random() < 0.5
    table = b""
    for version in range(1, source.randint(3, 5)):
        graph, new = files(version, source, has_checksum=checksums)
        alone = version > 1 and not checksums and len(new) == len(table) and source.random() < 0.5
        table = new
        writes = [(folder / "m.data", table)] if alone else [(folder / "m.data", table), (folder / "m.onnx", graph)]
        source.shuffle(writes)
        for path, content in writes:
            for _ in steps(path, content, source):
                yield version


@pytest.mark.parametrize("seed", range(SCENARIOS))
def test_the_newest_whole_model_answers_at_rest(seed: int, tmp_path: Path) -> None:
    source, newest = random.Random(seed), 0
    graph, table = files(0, source, has_checksum=False)
    (tmp_path / "m.data").write_bytes(table)
    (tmp_path / "m.onnx").write_bytes(graph)

    async def serve() -> float:
        nonlocal newest
        model = ServedModel("m", tmp_path / "m.onnx", Limits(8, 8, 1))
        tasks = [asyncio.create_task(model.work()), asyncio.create_task(model.follow_file(_INTERVAL))]
        for version in scenario(tmp_path, source):
            newest = version
            if source.random() < 0.3:
                tasks.append(asyncio.create_task(model.reload()))
            await asyncio.sleep(source.choice([0, 0, _INTERVAL, 3 * _INTERVAL]))
        answer = 0.0
        for _ in range(300):
            await asyncio.sleep(_INTERVAL)
            feeds = {"x": np.zeros(1, np.float32)}
            answer = float((await model.answer(model.loaded, feeds))["y"][0])
            if answer == newest:
                break
        await asyncio.sleep(5 * _INTERVAL)
        answer = float((await model.answer(model.loaded, feeds))["y"][0])
        for task in tasks:
            task.cancel()
        return answer

    assert asyncio.run(serve()) == newest
