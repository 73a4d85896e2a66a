"""A model that is updated while it is served: no request is lost, and none is answered by a mixture of two models."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.live_models import WIDTH, live_model

import onnx_sparse
from onnx_sparse.files.ranges import damage
from onnx_sparse.serving import watched_files
from onnx_sparse.serving.served_model import ServedModel
from onnx_sparse.serving.settings import Limits

#: `pytest` updates a few times; set the variables for more updates, and for requests a second.
UPDATES = int(os.environ.get("ONNX_SPARSE_UPDATES", "4"))
RATE = int(os.environ.get("ONNX_SPARSE_REQUESTS", "200"))
_COUNT, _INTERVAL, _PATIENCE = 2000, 0.02, 30


def changes(form: str, source: random.Random) -> Iterator[dict[str, np.ndarray]]:
    """Changes that give every row the number of the update; they also add some keys, and delete some of those."""
    for number in range(1, UPDATES + 1):
        keys = np.arange(_COUNT if form == "rows" else _COUNT + 20)
        change = {"row" if form == "rows" else "key": keys, "values": np.full((len(keys), WIDTH), number, np.float32)}
        yield change if form == "rows" else {**change, "deleted": keys >= _COUNT + source.randrange(20)}


@pytest.mark.parametrize("form", ["rows", "int64"])
def test_requests_while_tables_change(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, source = tmp_path / "m.onnx", random.Random(1)
    onnx.save(live_model(form, "first", [*range(_COUNT)], np.zeros((_COUNT, WIDTH), np.float32)), path)
    onnx_sparse.tables(path, update={"table": next(changes(form, source))})  # it gets a file of its own
    asked = np.arange(0, _COUNT, 40)
    answers: list[np.ndarray] = []
    read: list[int] = []
    monkeypatch.setattr(watched_files, "damage", lambda file, part: read.append(part.begin) or damage(file, part))

    async def request(model: ServedModel) -> None:
        answers.append((await model.answer(model.loaded, {"queries": asked}))["sums"][0])

    async def serve() -> None:
        model = ServedModel("m", path, Limits(64, 4096, 1))
        tasks = [asyncio.create_task(model.work()), asyncio.create_task(model.follow_file(_INTERVAL))]
        requests: list[asyncio.Task[None]] = []
        updates = asyncio.create_task(asyncio.to_thread(change_all))
        begun = time.monotonic()
        while not updates.done():
            while len(requests) < (time.monotonic() - begun) * RATE:
                requests.append(asyncio.create_task(request(model)))
            await asyncio.sleep(0.001)
        await asyncio.gather(*requests)
        await updates
        assert len(answers) == len(requests) > UPDATES
        for task in tasks:
            task.cancel()

    def change_all() -> None:
        for number, change in enumerate(changes(form, source), 1):
            onnx_sparse.tables(path, update={"table": change})
            end = time.monotonic() + _PATIENCE
            while not answers or answers[-1][0] != number * len(asked):  # the server has not read it yet
                assert time.monotonic() < end
                time.sleep(_INTERVAL)

    asyncio.run(serve())
    found = np.array(answers) / len(asked)
    assert (found == found[:, :1]).all(), "some rows are of another update"
    versions = found[:, 0].tolist()
    assert all(map(float.is_integer, versions)), "some rows are of another update"
    assert versions == sorted(versions)
    assert {*versions} >= {*range(1, UPDATES + 1)}
    assert 0 not in read, "the whole table is read again"
