"""The queue of a model: no request waits forever, whatever happens to a run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.baskets import model
from test_batching import request

from onnx_sparse.serving import served_model
from onnx_sparse.serving.errors import RequestError
from onnx_sparse.serving.served_model import ServedModel
from onnx_sparse.serving.settings import Limits

FEEDS = request([([1, 2], [3], (0, 0))])


@pytest.fixture
def served(tmp_path: Path) -> ServedModel:
    path = tmp_path / "baskets.onnx"
    onnx.save(model(), path)
    return ServedModel(tmp_path.name, path, Limits(batch_requests=4, waiting_requests=100, threads=1))


async def working(served: ServedModel, *asked: Any) -> list[Any]:
    """The answers to what is asked while the model works."""
    waiting = [asyncio.ensure_future(each) for each in asked]
    await asyncio.sleep(0)
    worker = asyncio.create_task(served.work())
    answers = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60)
    worker.cancel()
    return answers


def test_a_run_that_fails_outside_of_the_model(served, monkeypatch):
    """Its requests get status 500, and the next ones their answers."""
    run_joined = served_model.run_joined
    sizes: list[int] = []

    def failing_once(session: Any, requests: Any, features: Any) -> Any:
        sizes.append(len(requests))
        if len(sizes) == 1:
            raise MemoryError("no memory")
        return run_joined(session, requests, features)

    monkeypatch.setattr(served_model, "run_joined", failing_once)
    answers = asyncio.run(working(served, *(served.answer(served.loaded, FEEDS) for _ in range(6))))
    assert sizes == [4, 2]
    assert [(error.status, str(error)) for error in answers[:4]] == [(500, "the model failed: no memory")] * 4
    assert [answer["sums"].tolist() for answer in answers[4:]] == [[[3, 30]]] * 2


def test_requests_are_answered_by_the_model_they_were_read_for(served):
    """Also by one whose inputs have other names: the two are not joined."""
    old = served.loaded
    text = '<ir_version: 10, opset_import: ["" : 18]> g (float[n] x) => (float[n] y) { y = Neg (x) }'
    onnx.save(onnx.parser.parse_model(text), served.path)

    async def ask() -> list[Any]:
        await served.reload()
        new = served.loaded
        assert new is not old
        feeds = {"x": np.array([1], np.float32)}
        return await working(served, served.answer(old, FEEDS), served.answer(new, feeds), served.answer(old, FEEDS))

    first, second, third = asyncio.run(ask())
    assert first["sums"].tolist() == third["sums"].tolist() == [[3, 30]]
    assert second["y"].tolist() == [-1]


def test_a_client_that_goes_away(served):
    async def ask() -> list[Any]:
        gone = asyncio.ensure_future(served.answer(served.loaded, FEEDS))
        await asyncio.sleep(0)
        gone.cancel()
        return await working(served, gone, served.answer(served.loaded, FEEDS))

    gone, answered = asyncio.run(ask())
    assert isinstance(gone, asyncio.CancelledError)
    assert answered["sums"].tolist() == [[3, 30]]


def test_an_input_is_missing(served):
    (error,) = asyncio.run(working(served, served.answer(served.loaded, {})))
    assert isinstance(error, RequestError)
    assert str(error) == "input 'items_i' is missing"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            {5: ([1, 9], [3], (0, 0))},
            "feature 'items', row 5: EmbeddingSegmentsSum: indices[1] = 9 is out of range [0, 9)",
        ),
        ({0: ([], [-1, 2], (0, 0))}, "feature 'path', row 0: EmbeddingBagOffsetsSum: indices[0] = -1 is out of range"),
        ({2: ([1], [2], (0, 0)), 6: ([9], [], (0, 0))}, "feature 'items', row 6: "),
        ({3: ([9], [9], (0, 0))}, "row 3: Embedding"),
    ],
    ids=["sparse", "ragged", "the last row", "two features"],
)
def test_errors_name_the_feature_and_the_row(rows, message, served):
    """Those of the client's request, whatever other requests ran with it."""
    bad = request([rows.get(number, ([1], [2, 3], (0, 0))) for number in range(7)])
    answers = asyncio.run(working(served, *(served.answer(served.loaded, feeds) for feeds in (FEEDS, bad, FEEDS))))
    assert str(answers[1]).startswith(message)
    assert answers[1].status == 400
    assert answers[0]["sums"].tolist() == answers[2]["sums"].tolist()


def test_rows_are_looked_for_in_a_fixed_time(served, monkeypatch):
    monkeypatch.setattr(served_model, "_SEARCH_SECONDS", -1)
    bad = request([([1, 9], [3], (0, 0))])
    (answer,) = asyncio.run(working(served, served.answer(served.loaded, bad)))
    assert str(answer).startswith("EmbeddingSegmentsSum: indices[1] = 9 is out of range")


@pytest.mark.parametrize(
    ("name", "value"),
    [("path_r", np.array([1, 0], np.int32)), ("items_i", np.zeros((3, 2), np.int64)), ("box", np.zeros((0, 2), "f"))],
)
def test_inputs_that_do_not_fit_together_have_no_row_at_fault(name, value, served):
    wrong = FEEDS | {"items_v": np.array([1, 99])} | {name: value}
    (answer,) = asyncio.run(working(served, served.answer(served.loaded, wrong)))
    assert isinstance(answer, RequestError)
    assert "row 0" not in str(answer)
