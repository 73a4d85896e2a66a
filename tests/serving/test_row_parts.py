"""Very many texts: a model that answers each row by itself runs in parts of them, and answers what it does of all."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("uvicorn")

from onnx_sparse.rows.json_texts import JsonTexts
from onnx_sparse.rows.row_independence import reason_against_joining
from onnx_sparse.serving import long_lists, row_parts, served_model
from onnx_sparse.serving.errors import RequestError
from onnx_sparse.serving.inference_requests import InferenceRequest, write_response
from onnx_sparse.serving.located_errors import located
from onnx_sparse.serving.row_requests import read_rows, write_rows
from onnx_sparse.serving.served_model import ServedModel
from onnx_sparse.serving.settings import Limits

pytestmark = pytest.mark.skipif(long_lists._library() is None, reason="without the library, no list is cut out")

#: Texts and numbers by row; of rows of three; of rows that depend on others.
MODELS = {
    "each": '(string[n] x) => (string[n] y, bool[n] z) { y = Identity (x) c = Constant <value = string[1] {"b"}> () '
    "z = Equal (x, c) }",
    "wide": "(string[n,3] x) => (string[n,3] y) { y = Identity (x) }",
    "all": "(string[n] x) => (int64[1] y, string[n] z) { y = Shape (x) z = Identity (x) }",
}


def served(folder: Path, name: str, **limits: Any) -> ServedModel:
    path = folder / f"{name}.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 19]> g {MODELS[name]}'), path)
    return ServedModel(name, path, Limits(batch_requests=4, waiting_requests=100, threads=1, **limits))


def answer(given: ServedModel, feeds: dict[str, Any]) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        model = ServedModel(given.name, given.path, given._limits)  # whose queue is one of this loop
        worker = asyncio.create_task(model.work())
        try:
            return await asyncio.wait_for(model.answer(model.loaded, feeds), 20)
        finally:
            worker.cancel()

    return asyncio.run(ask())


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The rows of the runs, in parts of eight texts."""
    monkeypatch.setattr(row_parts, "_TEXTS", 8)
    runs: list[Any] = []
    run = served_model.run_joined

    def joined(session: Any, requests: Sequence[Any], known: Any) -> Any:
        runs.append([len(each["x"]) for each in requests])
        return run(session, requests, known)

    monkeypatch.setattr(served_model, "run_joined", joined)
    return runs


@pytest.mark.filterwarnings("ignore:.*not joined")
@pytest.mark.parametrize("name", ["each", "wide", "all"])
@pytest.mark.parametrize("rows", [1, 2, 8, 9, 1000])
def test_parts_answer_what_all_rows_do(name: str, rows: int, parts: list[Any], tmp_path: Path) -> None:
    model = served(tmp_path, name)
    sizes = (rows, 3) if name == "wide" else (rows,)
    texts = np.array([["a", "b", '\u00e9\n"'][k % 3] for k in range(np.prod(sizes))], object).reshape(sizes)
    assert (reason_against_joining(model.loaded.timed, model.loaded.features) is None) == (name != "all")
    parts.clear()
    whole = answer(model, {"x": texts})
    assert parts == [[rows]]
    parts.clear()
    found = answer(model, {"x": JsonTexts.of(texts)})
    assert sum(size for run in parts for size in run) == rows
    count = min(-(-texts.size // 8), 64, rows)
    assert len(parts) == (1 if name == "all" else count)
    assert [*found] == [*whole]
    for output, array in found.items():
        assert (array.shape, array.dtype) == (whole[output].shape, whole[output].dtype)
        assert array[:].tolist() == whole[output].tolist()
        assert isinstance(array, JsonTexts) == (array.dtype.kind == "O" and len(parts) > 1)
    for columns in (None, rows):
        if name != "all" or columns is None:
            assert write_rows(found, columns) == write_rows(whole, columns)
            assert write_rows({"y": found["y"]}, columns) == write_rows({"y": whole["y"]}, columns)
    for is_binary in (False, True):
        request = InferenceRequest({}, {}, is_binary, None)
        assert write_response("m", request, found) == write_response("m", request, whole)


def test_an_error_names_the_row_of_the_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = served(tmp_path, "each")
    texts = np.array(["a"] * 1000, object)
    texts[700] = "bad"

    def run(names: Any, feeds: Any) -> list[Any]:
        if "bad" in feeds["x"].tolist():
            raise ValueError("a bad text")
        return [feeds["x"]]

    session: Any = SimpleNamespace(run=run)
    part = {"x": texts[690:720]}
    assert located(session, part, model.loaded.features, ValueError(), first=690) == "feature 'x', row 700: a bad text"
    monkeypatch.setattr(row_parts, "_TEXTS", 8)
    monkeypatch.setattr(
        served_model,
        "run_joined",
        lambda _, requests, known: [ValueError("no") if "bad" in r["x"] else [r["x"], r["x"]] for r in requests],
    )
    with pytest.raises(RequestError, match=r"in the rows from 687 on: no"):
        answer(model, {"x": JsonTexts.of(texts)})


def test_parts_have_the_time_of_one_run(parts: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request does not hold its lane for sixty times the time of a run."""
    model = served(tmp_path, "each", run_seconds=100)
    times = iter(range(0, 10**6, 5))
    monkeypatch.setattr(served_model, "perf_counter", lambda: next(times))
    with pytest.raises(RequestError, match="longer than 100 seconds"):
        answer(model, {"x": JsonTexts.of(np.array(["a"] * 1000, object))})
    assert 1 < len(parts) < 20


def test_a_text_takes_little_memory_next_to_its_json(tmp_path: Path) -> None:
    """These texts as objects take 15 MB, and those of the answer as many."""
    model = served(tmp_path, "each")
    count = 1 << 18
    body = b'{"instances": [%b]}' % b",".join([b'"xy"'] * count)
    tracemalloc.start()
    try:
        feeds, rows, _ = read_rows(body, model.loaded.features, ["y", "z"])
        results = answer(model, feeds)
        written = write_rows({"y": results["y"]}, rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert written.count(b'"xy"') == count
    assert peak < 12 << 20


@given(st.lists(st.lists(st.text(max_size=3), max_size=6), max_size=12), st.integers(0, 12), st.integers(0, 12))
def test_rows_of_texts_that_are_held_as_json(rows: list[list[str]], begin: int, end: int) -> None:
    for array in (
        np.array([*map(str, rows)], object),
        np.array(["".join(r)[:2] for r in rows] * 4, object).reshape(-1, 4),
    ):
        held = JsonTexts.joined([JsonTexts.of(array[:begin]), JsonTexts.of(array[begin:])])
        assert (held.shape, held.size, held.ndim, len(held)) == (array.shape, array.size, array.ndim, len(array))
        assert held[begin:end].tolist() == array[begin:end].tolist()
        assert held[begin:end].shape == array[begin:end].shape
        assert held.reshape(-1)[:].tolist() == array.reshape(-1).tolist()
        if begin < len(array):
            assert np.array_equal(held[begin], array[begin])


def test_texts_come_from_the_reading_process_as_json() -> None:
    def read(count: int) -> Any:
        return {"x": np.array(["a"] * count, object), "y": np.zeros(count)}, 1, []

    few, many = (row_parts.with_held_texts(read, count)[0] for count in (10, 1 << 17))
    assert isinstance(few["x"], np.ndarray)
    assert isinstance(many["x"], JsonTexts)
    assert many["x"].tolist() == ["a"] * (1 << 17)
    assert isinstance(many["y"], np.ndarray)
