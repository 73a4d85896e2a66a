"""Requests joined into one run give the results of runs of their own."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onnx_sparse
from onnx_sparse.batching import join, split
from onnx_sparse.schemas.features import Feature, write_features

TEXT = """
<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
g (int64[n,2] items_i, int64[n] items_v, int64[2] items_s, int64[m] path_v, int32[r] path_r, float[b,2] box)
  => (float[s,2] sums, float[q,2] paths, float[b,2] boxes)
  <float[9,2] table = {0,0, 1,10, 2,20, 3,30, 4,40, 5,50, 6,60, 7,70, 8,80}, int64 zero = {0}>
{
  segments = Gather <axis = 1> (items_i, zero)
  count = Gather (items_s, zero)
  sums = onnx_sparse.EmbeddingSegmentsSum (table, items_v, segments, count)
  offsets = Cast <to = 7> (path_r)
  paths = onnx_sparse.EmbeddingBagOffsetsSum <include_last_offset = "true"> (table, path_v, offsets)
  boxes = Identity (box)
}"""


def model() -> onnx.ModelProto:
    made = onnx_sparse.canonicalize(onnx.parser.parse_model(TEXT))
    write_features(
        made,
        [
            Feature("items", "sparse", {"indices": "items_i", "values": "items_v", "dense_shape": "items_s"}),
            Feature("path", "ragged", {"values": "path_v", "row_splits": "path_r"}),
            Feature("box", "dense", {"values": "box"}),
        ],
    )
    return made


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


def test_nested_rows():
    known = onnx_sparse.model_features.Features(
        [Feature("x", "ragged", {"values": "v", "row_splits": "outer", "row_splits_1": "inner"})],
        {name: onnx_sparse.model_features.InputType(7, (None,)) for name in ("v", "outer", "inner")},
    )
    first, second = ([[[1, 2], []], []], [[[3]], [[], [4]]])
    feeds, counts = join([known.feeds({"x": first}), known.feeds({"x": second})], known)
    assert counts == [2, 2]
    for name, expected in known.feeds({"x": [*first, *second]}).items():
        assert feeds[name].tolist() == expected.tolist()


def test_messages_of_different_lengths():
    known = onnx_sparse.model_features.Features(
        [Feature("m", "example", {"serialized": "m"})], {"m": onnx_sparse.model_features.InputType(8, (None,))}
    )
    feeds, counts = join([known.feeds({"m": [b"a", b"bcd"]}), known.feeds({"m": [b"e" * 9]})], known)
    assert counts == [2, 1]
    assert [message[-1:] for message in feeds["m"].tolist()] == [b"a", b"d", b"e"]


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
    ],
)
def test_requests_that_do_not_fit(requests, reason):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        join(requests, FEATURES)
    assert reason in str(caught.value)


def test_results_that_are_not_of_rows():
    with pytest.raises(ValueError, match=r"result 0 has the shape \[4\]; the requests have 3 rows"):
        split([np.zeros(4)], [1, 2])
