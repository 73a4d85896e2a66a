"""Requests joined into one run give the results of runs of their own."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.baskets import model

import onnx_sparse
from onnx_sparse.batching import join, rows_between, run_joined, split
from onnx_sparse.rows.row_independence import reason_against_joining
from onnx_sparse.schemas.features import Feature

SESSION = onnx_sparse.InferenceSession(model())
FEATURES = onnx_sparse.features(SESSION)
lists = st.lists(st.integers(0, 8), max_size=4)
rows = st.lists(st.tuples(lists, lists, st.tuples(*[st.integers(-9, 9)] * 2)), max_size=4)


def request(given_rows: list[tuple[list[int], list[int], tuple[int, int]]]) -> dict[str, np.ndarray]:
    items, path, box = zip(*given_rows, strict=True) if given_rows else ([], [], [])
    return FEATURES.feeds({"items": items, "path": path, "box": np.array(box, np.float32).reshape(-1, 2)})


@given(st.lists(rows, min_size=1, max_size=5))
def test_joined_requests(given_requests):
    requests = [request(each) for each in given_requests]
    feeds, counts = join(requests, FEATURES)
    assert counts == [len(each) for each in given_requests]
    together = request([row for each in given_requests for row in each])
    for name, expected in together.items():
        assert feeds[name].dtype == expected.dtype
        assert feeds[name].tolist() == expected.tolist()
    for got, alone in zip(split(SESSION.run(None, feeds), counts), requests, strict=True):
        for result, expected in zip(got, SESSION.run(None, alone), strict=True):
            assert result.tolist() == expected.tolist()


@given(rows, st.integers(0, 4), st.integers(0, 4))
def test_some_rows_of_a_request(given_rows, first, count):
    first, end = min(first, len(given_rows)), min(first + count, len(given_rows))
    for name, expected in request(given_rows[first:end]).items():
        found = rows_between(request(given_rows), FEATURES, first, end)[name]
        if name == "items_s":  # whose columns are those of all rows
            found, expected = found[:1], expected[:1]
        assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())


def test_nested_rows():
    known = onnx_sparse.rows.model_features.Features(
        [Feature("x", "ragged", {"values": "v", "row_splits": "outer", "row_splits_1": "inner"})],
        {name: onnx_sparse.rows.model_features.InputType(7, (None,)) for name in ("v", "outer", "inner")},
    )
    first, second = ([[[1, 2], []], []], [[[3]], [[], [4]]])
    feeds, counts = join([known.feeds({"x": first}), known.feeds({"x": second})], known)
    assert counts == [2, 2]
    for name, expected in known.feeds({"x": [*first, *second]}).items():
        assert feeds[name].tolist() == expected.tolist()
    for name, expected in known.feeds({"x": second}).items():
        assert rows_between(feeds, known, 2, 4)[name].tolist() == expected.tolist()


def test_nested_rows_that_do_not_fit():
    known = onnx_sparse.rows.model_features.Features(
        [Feature("x", "ragged", {"values": "v", "row_splits": "outer", "row_splits_1": "inner"})],
        {name: onnx_sparse.rows.model_features.InputType(7, (None,)) for name in ("v", "outer", "inner")},
    )
    good = known.feeds({"x": [[[1, 2], []], []]})
    for name, array, message in [
        ("inner", [0, 2, 3], "row_splits_1 end at 3, and there are 2 to split"),
        ("outer", [0, 1, 1], "row_splits end at 1, and there are 2 to split"),
    ]:
        with pytest.raises(ValueError, match=message):
            join([good | {name: np.array(array)}], known)


def test_messages_of_different_lengths():
    known = onnx_sparse.rows.model_features.Features(
        [Feature("m", "example", {"serialized": "m"})], {"m": onnx_sparse.rows.model_features.InputType(8, (None,))}
    )
    feeds, counts = join([known.feeds({"m": [b"a", b"bcd"]}), known.feeds({"m": [b"e" * 9]})], known)
    assert counts == [2, 1]
    assert [message[-1:] for message in feeds["m"].tolist()] == [b"a", b"d", b"e"]


def same(got, expected):
    """Equal results, or errors of one kind that say the same."""
    if isinstance(expected, Exception):
        return type(got) is type(expected) and str(got) == str(expected)
    return not isinstance(got, Exception) and all((a == b).all() for a, b in zip(got, expected, strict=True))


def alone(inputs):
    (answer,) = run_joined(SESSION, [inputs], FEATURES)
    return answer


@st.composite
def corrupted(draw):
    """A request with one number, or the length of one input, changed."""
    inputs = dict(request(draw(rows)))
    name = draw(st.sampled_from(sorted(inputs)))
    array = inputs[name].copy()
    if array.size and draw(st.booleans()):
        array.flat[draw(st.integers(0, array.size - 1))] += draw(st.sampled_from([-9, -2, -1, 1, 2, 9]))
    elif len(array) and draw(st.booleans()):
        array = array[:-1]
    else:
        array = np.concatenate([array, np.ones((1, *array.shape[1:]), array.dtype)])
    return inputs | {name: array}


@settings(max_examples=300)
@given(st.lists(rows, min_size=1, max_size=3), corrupted(), st.integers(0, 3))
def test_a_bad_request_changes_no_other(given_requests, bad, position):
    """Each gets what it gets alone."""
    requests = [request(each) for each in given_requests]
    requests.insert(position, bad)
    for got, inputs in zip(run_joined(SESSION, requests, FEATURES), requests, strict=True):
        assert same(got, alone(inputs))


@settings(max_examples=200)
@given(rows, corrupted())
def test_what_cannot_be_told_from_another_request_is_not_joined(good, bad):
    """`join` refuses what the model refuses alone, if it is about rows; else others would have its entries."""
    good = request(good)
    try:
        feeds, counts = join([bad, good], FEATURES)
        results = split(SESSION.run(None, feeds), counts)
    except Exception:
        return
    assert same(results[1], alone(good))


def test_good_requests_are_one_run(monkeypatch):
    run_joined(SESSION, [request([ROW])] * 2)  # the first time, rows are tried
    calls = []
    run = onnx_sparse.InferenceSession.run
    monkeypatch.setattr(onnx_sparse.InferenceSession, "run", lambda *given: calls.append(given) or run(*given))
    requests = [request([ROW]), request([]), request([ROW, ROW])]
    for got, inputs in zip(run_joined(SESSION, requests), requests, strict=True):
        assert same(got, run(SESSION, None, inputs))
    assert len(calls) == 1


#: A row alone is divided by 0: NaN and infinities, which are numbers among other rows.
COUNT = """shape = Shape <end = 1> (x) n = Cast <to = 1> (shape) one = Div (n, n) minus = Neg (one)
    zero = Sub (n, n) less = Sub (n, one)"""


@pytest.mark.parametrize(
    ("nodes", "is_joined"),
    [
        ("sums = Sub (x, mean) mean = ReduceMean <keepdims = 1> (x, rows)", False),
        ("sums = Softmax <axis = 0> (x)", False),
        ("sums = Sub (x, mean) mean = ReduceMean <keepdims = 1> (x, columns)", True),
        *((f"{COUNT} lost = Div ({part}, less) sums = Add (x, lost)", False) for part in ("zero", "one", "minus")),
    ],
)
def test_rows_that_depend_on_each_other_are_not_joined(nodes, is_joined):
    """An answer would depend on who else asks."""
    text = f"""<ir_version: 10, opset_import: ["" : 18]> g (float[b,2] x) => (float[b,2] sums)
    <int64[1] rows = {{0}}, int64[1] columns = {{1}}> {{ {nodes} }}"""
    proto = onnx.parser.parse_model(text)
    proto.graph.node.sort(key=lambda node: "sums" in node.output)
    session = onnx_sparse.InferenceSession(proto)
    requests = [{"x": np.array([row], np.float32)} for row in ([1, 2], [5, 3], [4, 4])]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answers = [run_joined(session, requests) for _ in range(2)][1]
    for got, inputs in zip(answers, requests, strict=True):
        np.testing.assert_array_equal(got[0], session.run(None, inputs)[0])
    reason = "the rows of output 'sums' change with the other rows of a batch: requests are not joined"
    assert [str(warning.message) for warning in caught] == ([] if is_joined else [reason])


TEXTS = {
    "numbers": ("x = Cast <to = 1> (t)", ["11", "50", "0.5"]),
    "dates": ("""parts, counts = StringSplit <delimiter = "-"> (t) years = Slice (parts, zero, one, one)
        column = Cast <to = 1> (years) x = ReduceSum <keepdims = 0> (column, one)""", ["2024-01-02", "1999-02-01"]),
    "words of a table": ("""x = ai.onnx.ml.LabelEncoder <keys_strings = ["red", "blue", "green"],
        values_floats = [1.0, 20.0, 300.0], default_float = 0.0> (t)""", ["red", "green", "blue"]),
}  # fmt: skip


@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize(
    ("then", "is_joined"),
    [
        ("mean = ReduceMean <keepdims = 1> (x, zero) y = Sub (x, mean)", False),
        ("all = CumSum (x, zero) part = Mul (all, all) many = Mul (part, small) y = Add (x, many)", False),
        ("y = Mul (x, x)", True),
    ],
)
def test_rows_of_text_that_depend_on_each_other_are_not_joined(texts, then, is_joined):
    """Texts are drawn that the model takes: numbers, dates, words that it knows."""
    reads, rows = TEXTS[texts]
    text = f"""<ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 3]> g (string[b] t) => (float[b] y)
    <int64[1] zero = {{0}}, int64[1] one = {{1}}, float small = {{0.00001}}> {{ {reads} {then} }}"""
    proto = onnx.parser.parse_model(text)
    session = onnx_sparse.InferenceSession(proto)
    requests = [{"t": np.array([row], object)} for row in rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = run_joined(session, requests)
    for got, inputs in zip(answers, requests, strict=True):
        np.testing.assert_array_equal(got[0], session.run(None, inputs)[0])
    assert (reason_against_joining(session, onnx_sparse.features(session)) is None) == is_joined


def test_what_was_not_tried_is_not_joined():
    """The model takes no text that is drawn; it runs each request by itself, and says why."""
    text = """<ir_version: 10, opset_import: ["" : 20]> g (string[b] t) => (float[b] y) <int64 one = {1}>
    { parts, counts = StringSplit <delimiter = "x"> (t) second = Gather <axis = 1> (parts, one)
      y = Cast <to = 1> (second) }"""
    session = onnx_sparse.InferenceSession(onnx.parser.parse_model(text))
    requests = [{"t": np.array([row], object)} for row in ("1.5x2", "3x4")]
    with pytest.warns(UserWarning, match="refused the inputs that were generated"):
        answers = run_joined(session, requests)
    assert [answer[0].tolist() for answer in answers] == [[2], [4]]


@pytest.mark.parametrize("size", [1e-6, 1, 1e4])
def test_rows_that_depend_a_little_are_not_joined(size):
    text = f"""<ir_version: 10, opset_import: ["" : 18]> g (float[b,2] x) => (float[b,2] y)
    <int64[1] rows = {{0}}, float part = {{0.0003}}, float size = {{{size}}}>
    {{ mean = ReduceMean <keepdims = 1> (x, rows) some = Mul (mean, part) sum = Add (x, some) y = Mul (sum, size) }}"""
    session = onnx_sparse.InferenceSession(onnx.parser.parse_model(text))
    with pytest.warns(UserWarning, match="change with the other rows"):
        run_joined(session, [{"x": np.ones((1, 2), np.float32)}] * 2)


ROW = ([1], [2], (3, 4))


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        ([], "there are no requests to join"),
        ([request([ROW]), {}], "request 1 lacks the input 'items_i'"),
        (
            [request([ROW]) | {"box": np.zeros((2, 2), np.float32)}],
            "request 0: feature 'box' has 2 rows, and 'items' has 1",
        ),
        (
            [request([ROW]), request([ROW]) | {"box": np.zeros((1, 3), np.float32)}],
            "the requests do not fit together: feature 'box'",
        ),
        *(
            ([request([ROW]), request([ROW]) | {name: np.array(array)}], f"request 1: feature {message}")
            for name, array, message in [
                ("items_i", [[1, 0]], "'items': indices[0,0] = 1 is out of range [0, 1)"),
                ("items_i", [[-1, 0]], "'items': indices[0,0] = -1 is out of range [0, 1)"),
                ("items_i", [0, 0], "'items': indices have the shape [2], and dense_shape [2]"),
                ("items_v", [1, 1], "'items': indices have the shape [1, 2], and values [2]"),
                ("items_s", [-1, 1], "'items': dense_shape[0] = -1 is negative"),
                ("path_r", [1, 1], "'path': row_splits[0] = 1 is not 0"),
                ("path_r", [0, 2, 1], "'path': row_splits[2] = 1 is below row_splits[1] = 2"),
                ("path_r", [0, 2], "'path': row_splits end at 2, and there are 1 to split"),
                ("path_r", [], "'path': row_splits have the shape [0]"),
                ("items_v", ["a"], "'items': values are <U1, but int64 in request 0"),
                ("items_i", [[0.0, 0.0]], "'items': indices are float64, but int64 in request 0"),
                ("box", [[1.0, 2.0]], "'box': values are float64, but float32 in request 0"),
            ]
        ),
    ],
)
def test_requests_that_do_not_fit(requests, reason):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        join(requests, FEATURES)
    assert reason in str(caught.value)


def test_results_that_are_not_of_rows():
    with pytest.raises(ValueError, match=r"result 0 has the shape \[4\]; the requests have 3 rows"):
        split([np.zeros(4)], [1, 2])
    with pytest.raises(ValueError, match="result 0 is a list; only arrays can be split"):
        split([[np.zeros(1), np.zeros(1)]], [1, 1])
