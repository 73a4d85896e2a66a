"""Long lists of numbers and texts mean in pieces what they mean in whole JSON."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import time
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto

pytest.importorskip("uvicorn")

from onnx_sparse.rows.json_texts import JsonTexts
from onnx_sparse.rows.model_features import Features, InputType
from onnx_sparse.schemas.features import Feature
from onnx_sparse.serving import long_lists, written_json
from onnx_sparse.serving.errors import RequestError
from onnx_sparse.serving.inference_requests import read_request
from onnx_sparse.serving.reading_process import ReadingProcess
from onnx_sparse.serving.row_requests import read_rows
from onnx_sparse.serving.tensors import Tensors, datatype

VALUES = [
    "1",
    "0",
    "-3",
    "2.5",
    "1e-7",
    "1e999",
    "NaN",
    "-Infinity",
    "9007199254740993",
    "16777217",
    "-0",
    "257",
    "null",
    "true",
    '"a"',
    "[4]",
]
VALUES += ["[]", "{}", "", " ", "1 2", "+1", "01", '"data": [1, 2]', '"\\"data\\": [5, 6]"', '"],["', "\n7"]
#: Integers of more than 64 bits: of few bits, of too many, and the largest double and one beyond.
WIDE = [str(2**64), str(2**64 + 2**40), str(2**64 + 1), str(-(2**80)), "1" + "0" * 22, "1" + "0" * 30, str(2**127)]
WIDE += [str(2**1023), str(2**1024 - 2**970), str(2**1024), "1" + "0" * 309]
#: Texts with every escape, halves and whole of surrogate pairs, what looks like the end of a list, and what is no JSON.
TEXTS = ['"a"', '""', '"\\""', '"é"', '"\\u00e9"', '"\\uD83D\\ude00"', '"😀"', '"\\\\"', '"],["', '"\\u0000"']
TEXTS += [
    '"\\b\\f\\n\\r\\t\\/"',
    '"\x7f"',
    '"\uffff"',
    '"x": [1, 2]',
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\ud800\\u0041"',
]
TEXTS += [
    '"\n"',
    '"\\q"',
    '"\\u12g4"',
    '"\\u-123"',
    '"\\u12"',
    '"\udc80"',
    '"\udced\udca0\udc80"',
    '"\udcc0\udc80"',
    '"\udcf5\udc80\udc80\udc80"',
]
TEXTS += ["null", "1", "true", '["a"]', "[]", '{"x": ["a"]}', "", '"a" "b"', '"']
GOOD_TEXTS = TEXTS[:13]
BEFORE = ["", '"id": ":[1,2", ', '"id": "\\"data\\":[1,2,3]", ', '"\\"data": [1,2,3], ', '"data": [1,2,3], ']
BEFORE += ['"parameters": {"data": ["abc],[", 1]}, ']


@st.composite
def lists(draw: st.DrawFn, depth: int, good: list[str] = VALUES[:5], others: list[str] = VALUES) -> str:
    """JSON, or not: lists within each other, mostly of good values and mostly equally deep."""
    if depth > 1:
        inner = lists(depth - 1 if draw(st.integers(0, 20)) else 1, good, others)
        values = draw(st.lists(inner, max_size=4))
        if draw(st.booleans()):  # all as long as one of them
            values = values[:1] * draw(st.integers(1, 3))
    else:
        values = draw(st.lists(st.sampled_from(good), max_size=12))
    if not draw(st.integers(0, 2)):
        values.insert(draw(st.integers(0, len(values))), draw(st.sampled_from(others)))
    return f"[{draw(st.sampled_from([',', ', ', ' ,'])).join(values)}]"


def outcome(read: Any, *arguments: Any) -> dict[str, np.ndarray] | str:
    """The inputs, or the error."""
    try:
        found = read(*arguments)
    except RequestError as error:
        return str(error)
    feeds: dict[str, np.ndarray] = found.feeds if hasattr(found, "feeds") else found[0]
    return {name: array[:] if isinstance(array, JsonTexts) else array for name, array in feeds.items()}


pytestmark = pytest.mark.skipif(long_lists._library() is None, reason="without the library, no list is cut out")
KINDS = ["FP32", "INT64", "FP16", "UINT8", "FP64", "BF16", "UINT64", "BOOL", "BYTES"]


@settings(max_examples=100)
@given(st.data(), st.sampled_from(["", *BEFORE]), st.sampled_from(KINDS[:3]))
def test_pieces_mean_what_the_whole_means(data: st.DataObject, before: str, kind: str) -> None:
    depth = data.draw(st.integers(1, 3))
    check(data.draw(lists(depth)), depth, kind, before)


@settings(max_examples=150)
@given(st.data(), st.sampled_from(["", *BEFORE]), st.sampled_from(["BYTES", "BYTES", "FP32"]))
def test_pieces_of_texts_mean_what_the_whole_means(data: st.DataObject, before: str, kind: str) -> None:
    depth = data.draw(st.integers(1, 3))
    check(data.draw(lists(depth, GOOD_TEXTS, TEXTS)), depth, kind, before)


@pytest.mark.parametrize("kind", ["BYTES", "FP32", "BOOL"])
def test_every_text_at_every_place(kind: str) -> None:
    for text in TEXTS:
        for place in range(4):
            good = ['"b"', '"é"', '"\\\\"']
            good.insert(place, text)
            check(f"[{', '.join(good)}]", 1, kind, "")
            check(f"[[{good[0]}, {good[1]}],[{good[2]} , {good[3]}]]", 2, kind, "")


@pytest.mark.parametrize("text", TEXTS)
def test_good_texts_are_read_here(text: str) -> None:
    """Others are left to the reader of whole JSON, so that they mean the same."""
    content = f'["a", {text}]'.encode("utf-8", "surrogateescape")
    size, counts = long_lists._find(np.frombuffer(content, np.uint8), are_texts=True)
    assert (size, counts) == ((len(content), (2,)) if text in GOOD_TEXTS else (0, counts))


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_at_every_place(kind: str) -> None:
    for value in [*VALUES, "1e40", "70000", "18446744073709551615", "-9223372036854775808", *WIDE, "1-2"]:
        for place in range(4):
            check(f"[{', '.join(['0', '3', '1', '1'][:place] + [value] + ['0'] * (3 - place))}]", 1, kind, "")


def check(text: str, depth: int, kind: str, before: str) -> None:
    """Compare requests and rows of dense, ragged and sparse features with lists cut out with the same read whole."""
    dtype = next(dtype for dtype in TensorProto.DataType.values() if dtype and datatype(dtype) == kind)
    inputs = {"x": InputType(dtype, (None,) * depth)}
    value, whole_number = InputType(dtype, (None,)), InputType(TensorProto.INT64, (None,))
    splits = {f"r{k}": whole_number for k in range(depth - 1)}
    roles = {"row_splits" if k == 0 else f"row_splits_{k}": f"r{k}" for k in range(depth - 1)}
    kinds = [Features([Feature("x", "dense", {"values": "x"}, None)], inputs)]
    if depth > 1:
        kinds.append(Features([Feature("x", "ragged", {"values": "x", **roles})], {"x": value, **splits}))
    if depth == 2:
        parts = {"indices": "i", "values": "x", "dense_shape": "s"}
        types = {"i": InputType(TensorProto.INT64, (None, 2)), "x": value, "s": InputType(TensorProto.INT64, (2,))}
        kinds.append(Features([Feature("x", "sparse", parts)], types))
    try:
        shape = list(np.array(json.loads(text)).shape) if outcome_of_json(text) else [1] * depth
    except ValueError:  # lists of different lengths
        shape = [len(re.findall(r"[^][, ]+", text))]
    tensor = f'{{"name": "x", "shape": {shape}, "datatype": "{kind}", "data": {text}}}'
    request = f'{{{before}"inputs": [{tensor}]}}'.encode("utf-8", "surrogateescape")
    calls: list[Any] = [(read_request, request, None, Tensors({"x": InputType(dtype, None)}, []), ["y"])]
    for features in kinds:
        texts = [f'{{"instances": {text}}}', f'{{"inputs": {text}}}', f'{{"inputs": {{"x": {text}}}}}']
        texts += [f'{{"instances": [{{"x": {text}}}, {{"x": {other}}}]}}' for other in ("[1]", '["a", "b"]', text)]
        calls += [(read_rows, body.encode("utf-8", "surrogateescape"), features, ["y"]) for body in texts]
    whole = [outcome(*call) for call in calls]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_lists, "_LONG", 2)
        patch.setattr(long_lists, "_PART", 3)
        patch.setattr(long_lists, "PIECE", 3)
        pieces = [outcome(*call) for call in calls]
    for call, one, other in zip(calls, whole, pieces, strict=True):
        assert type(one) is type(other), (call, one, other)
        if isinstance(one, str):
            # Of two mistakes, a row of another length and a value of another kind, either may be the one that is said.
            is_either = "; the first has" in one and ", position " in other
            is_free = is_either or not re.search(r"does not fit$|has the shape|values", one)
            assert one == other or is_free, (call, one, other)
        else:
            assert isinstance(other, dict)
            assert [*map(bits, one.values())] == [*map(bits, other.values())], call
            assert [*one] == [*other]


def bits(array: np.ndarray) -> Any:
    """An array, for comparisons that know NaN from NaN."""
    return array.dtype, array.shape, array.tolist() if array.dtype.kind == "O" else array.tobytes()


@pytest.mark.parametrize("more", ["", ", [1]"])
def test_the_native_library_reads_lists_so_deep(more: str) -> None:
    """Arrays of C++ have a place for each depth: of a list that is deeper nothing is read."""
    for depth in range(1, 40):
        text = "[" * depth + "7" + "]" * (depth - 1) + more * (depth == 2) + "]"
        size, counts = long_lists._find(np.frombuffer(text.encode(), np.uint8))
        if depth > long_lists._DEEPEST:
            assert size == 0
        else:
            assert size == len(text)
            assert counts == ((2, 2) if more and depth == 2 else (1,) * depth)


@pytest.mark.parametrize("key", ["data", "parameters"])
@pytest.mark.parametrize("item", ["[]", "[1]", "{}"])
def test_lists_have_a_number(key: str, item: str) -> None:
    """What is in the lists of numbers that are cut out counts, and what is in the rest."""
    tensors = Tensors({"x": InputType(TensorProto.FLOAT, None)}, [])
    for count in (long_lists.MOST_LISTS // 2, long_lists.MOST_LISTS + 1):
        body = f'{{"inputs": [{{"{key}": [{", ".join([item] * count)}]}}]}}'.encode()
        with pytest.raises(RequestError) as refused:
            read_request(body, None, tensors, ["y"])
        is_too_many = count > long_lists.MOST_LISTS
        assert (refused.value.status == 413) == is_too_many
        assert ("lists and objects; send less" in str(refused.value)) == is_too_many


@given(st.data(), st.integers(4, 40))
def test_every_long_list_of_a_key_is_cut_out(data: st.DataObject, long: int) -> None:
    """Where any number of short lists, strings and blanks are around it."""
    number, blanks = st.sampled_from(["1", "2.5", "-30", "[4]", "[]"]), st.text(" \n", max_size=3)
    parts = []
    for _ in range(data.draw(st.integers(0, 12))):
        key = data.draw(st.sampled_from(["x", "y", "data", "", "x y"]))
        value = f"[{','.join(data.draw(st.lists(number, max_size=12)))}]"
        parts.append(f'"{key}"{data.draw(blanks)}:{data.draw(blanks)}{value}')
        parts.append(data.draw(st.sampled_from(["{}", '"["', '"x"', '"' + "a" * 30 + '"', "[1, 2]", " " * 30])))
    text = ",".join(parts).encode()
    wanted = []
    for found in re.finditer(rb'"(?:x|data)"\s*:\s*\[', text):
        size, counts = long_lists._find(np.frombuffer(text, np.uint8)[found.end() - 1 :])
        if size >= long and counts[0]:
            wanted.append(text[found.end() - 1 : found.end() - 1 + size])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_lists, "_LONG", long)
        rest, cut_out = long_lists.cut(text, ["x", "data"])
    assert [text[each.begin : each.end] for each in cut_out] == wanted
    marks = [b'{"%b": %d}' % (long_lists._MARK.encode(), k) for k in range(len(wanted))]
    for mark, each in zip(marks, wanted, strict=True):
        rest = bytes(rest).replace(mark, each)
    assert rest == text


MANY = [
    '{"x": ["a"]}',
    '"x": [["a"], []]',
    '"x": ["a", 1]',
    '{"x": [0.5]}',
    '"x": [1, 2]',
    '"x": []',
    '"x":[[1],[2]]',
    '"x"',
    '"x": [',
    '{"x": [1, "a"]}',
    '"',
    '"x": 1',
]


@pytest.mark.parametrize("part", MANY)
def test_what_is_short_is_not_looked_at_one_by_one(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All large requests wait for this search, so it may take no time for each of a million records."""
    library = Mock(wraps=long_lists._library())
    monkeypatch.setattr(long_lists, "_library", lambda: library)
    body = b"[%b]" % b",".join([part.encode()] * ((2 << 20) // len(part)))
    assert long_lists.cut(body, ["x"]) == (body, [])
    assert [call[0] for call in library.method_calls] == ["OnnxSparseFindLongList"]


NUMBERS = ["1", "0.1", "1e-400", "-0", "2048", "NaN"]


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        *itertools.product(["FP16", "BF16", "FP32", "FP64"], NUMBERS),
        *itertools.product(["BF16", "FP32", "FP64"], [str(2**40), str(2**64), str(-(2**100))]),
    ],
)
def test_no_number_is_read_by_itself(dtype: str, number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the library does not read costs as much as a thousand others: only errors may be of these."""
    monkeypatch.setattr(long_lists, "parsed", lambda text: pytest.fail(f"{text!r} was read by itself"))
    count = long_lists._LONG // len(number)
    tensor = f'{{"name": "x", "shape": [{count}], "datatype": "{dtype}", "data": [{", ".join([number] * count)}]}}'
    kind = next(kind for kind in TensorProto.DataType.values() if kind and datatype(kind) == dtype)
    tensors = Tensors({"x": InputType(kind, None)}, [])
    read = read_request(f'{{"inputs": [{tensor}]}}'.encode(), None, tensors, ["y"]).feeds["x"]
    wanted = np.full(count, float(number)).astype(read.dtype)
    np.testing.assert_array_equal(read.astype(np.float64), wanted.astype(np.float64))


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
