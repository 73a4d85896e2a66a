"""Long lists of numbers mean in pieces what they mean in whole JSON."""

from __future__ import annotations

import json
import os
import random
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto

pytest.importorskip("uvicorn")

from onnx_sparse.rows.model_features import Features, InputType
from onnx_sparse.schemas.features import Feature
from onnx_sparse.serving import number_lists, written_json
from onnx_sparse.serving.errors import RequestError
from onnx_sparse.serving.inference_requests import read_request
from onnx_sparse.serving.reading_process import ReadingProcess
from onnx_sparse.serving.row_requests import read_rows
from onnx_sparse.serving.tensors import Tensors

VALUES = ["1", "0", "-3", "2.5", "1e-7", "1e999", "NaN", "-Infinity", "9007199254740993", "null", "true", '"a"', "[4]"]
VALUES += ["[]", "{}", "", " ", "1 2", "+1", "01", '"data": [1, 2]', '"\\"data\\": [5, 6]"', '"],["', "\n7"]
BEFORE = ["", '"id": ":[1,2", ', '"id": "\\"data\\":[1,2,3]", ', '"\\"data": [1,2,3], ', '"data": [1,2,3], ']
BEFORE += ['"parameters": {"data": ["abc],[", 1]}, ']


@st.composite
def lists(draw: st.DrawFn) -> str:
    usual = draw(st.lists(st.sampled_from(VALUES[:5]), max_size=12))
    odd = draw(st.lists(st.sampled_from(VALUES), max_size=2))
    values = usual + odd
    draw(st.randoms(use_true_random=False)).shuffle(values)
    return f"[{draw(st.sampled_from([',', ', ', ' ,'])).join(values)}]"


def outcome(read: Any, *arguments: Any) -> Any:
    try:
        return read(*arguments)
    except RequestError:
        return None


@settings(max_examples=200)
@given(lists(), st.sampled_from(BEFORE), st.sampled_from([TensorProto.FLOAT, TensorProto.INT64]))
def test_pieces_mean_what_the_whole_means(text: str, before: str, dtype: int) -> None:
    inputs = {"x": InputType(dtype, (None,))}
    features = Features([Feature("x", "dense", {"values": "x"}, None)], inputs)
    tensors = Tensors(inputs, [])
    count = len(json.loads(text)) if outcome_of_json(text) else text.count(",") + 1
    kind = {TensorProto.FLOAT: "FP32", TensorProto.INT64: "INT64"}[dtype]
    tensor = f'{{"name": "x", "shape": [{count}], "datatype": "{kind}", "data": {text}}}'
    request = f'{{{before}"inputs": [{tensor}]}}'.encode()
    rows = [f'{{"{key}": {text}}}'.encode() for key in ("instances", "inputs")]
    rows += [f'{{"inputs": {{"x": {text}}}}}'.encode()]
    calls: list[Any] = [(read_request, request, None, tensors, ["y"]), *((read_rows, row, features) for row in rows)]
    whole = [outcome(*call) for call in calls]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(number_lists, "_LONG", 2)
        patch.setattr(number_lists, "_PIECE", 5)
        pieces = [outcome(*call) for call in calls]
    for one, other in zip(whole, pieces, strict=True):
        assert (one is None) == (other is None), text
        if one is not None:
            feeds = [found.feeds if hasattr(found, "feeds") else found[0] for found in (one, other)]
            assert feeds[0]["x"].tobytes() == feeds[1]["x"].tobytes()
            assert feeds[0]["x"].dtype == feeds[1]["x"].dtype


def outcome_of_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@given(st.lists(st.integers(0, 4), max_size=3), st.booleans(), st.randoms(use_true_random=False))
def test_arrays_are_written_as_python_does(shape: list[int], has_nan: bool, source: random.Random) -> None:
    rng = np.random.default_rng(source.getrandbits(30))
    array = rng.standard_normal(shape).astype(np.float32)
    if has_nan and array.size:
        array.flat[0] = np.nan
    texts = np.array([f"é{number}" for number in range(array.size)], object).reshape(shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(written_json, "_ELEMENTS", 3)
        for each in (array, texts, array > 0):
            content = bytearray()
            written_json.write(content, each)
            assert repr(json.loads(content)) == repr(each.tolist())
        if shape:
            content = bytearray()
            written_json.write_objects(content, {"a": array, "b": texts})
            expected = [
                {"a": a.tolist() if shape[1:] else a.item(), "b": b.tolist() if shape[1:] else b}
                for a, b in zip(array, texts, strict=True)
            ]
            assert repr(json.loads(content)) == repr(expected)


def test_a_reading_process_that_dies_is_replaced() -> None:
    process = ReadingProcess()
    assert process.call(sum, [1, 2]) == 3
    with pytest.raises(RequestError, match="too much memory") as refused:
        process.call(os._exit, 1)
    assert refused.value.status == 413
    first = process.call(os.getpid)
    with pytest.raises(ZeroDivisionError):
        process.call(divmod, 1, 0)
    assert process.call(os.getpid) == first != os.getpid()
    process._end()
    assert process.call(time.time) > 0
    process._end()
