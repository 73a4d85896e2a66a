"""Function bodies on many rows, which they reduce in blocks: segments of every length, and what is special in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto
from onnx.helper import tensor_dtype_to_np_dtype

import onnx_sparse
from onnx_sparse.schemas.blocked_reduction import FEWEST_NUMBERS

Array = np.ndarray[Any, Any]

_RANDOM = np.random.default_rng(0)


def _ids(*lengths: int) -> Array:
    return np.repeat(np.arange(len(lengths)), lengths)


#: Sorted segment ids, of some 200 entries, and the number of segments.
SEGMENTS: dict[str, tuple[Array, int]] = {
    "short": (np.sort(_RANDOM.integers(0, 60, 300)), 60),
    "every length to 20": (_ids(*range(21)), 21),
    "around a block": (_ids(0, 63, 64, 65, 1, 127, 128, 129, 0), 9),
    "one": (_ids(300), 1),
    "long and short": (_ids(1, 1, 500, 2, 0, 0, 3, 700, 1), 9),
    "single entries": (np.arange(300), 300),
    "all but one are empty": (np.full(300, 70), 200),
    "dropped at the end": (_ids(*[7] * 40), 25),
}
SORTED = ("EmbeddingSegmentsSum", "EmbeddingSegmentsMean", "EmbeddingSegmentsSqrtN", "SegmentSum", "SegmentMean",
          "SegmentMax", "SegmentMin", "EmbeddingBagOffsetsSum", "EmbeddingBagOffsetsMax")  # fmt: skip
WEIGHTED = (*SORTED[:3], "EmbeddingBagOffsetsSum")
UNSORTED = tuple(f"UnsortedSegment{kind}" for kind in ("Sum", "Mean", "Max", "Min"))


def _model(op: str, inputs: str, inner: str, dtype: str, attributes: str) -> onnx.ModelProto:
    """A node of an operator; an input `x=3` is the constant 3."""
    given = [text.strip() for text in inputs.split(",")]
    rows = f"{dtype}[v, {inner}]"
    types = {"table": rows, "data": rows, "indices": "int64[k]", "ids": "int64[k]", "offsets": "int64[b]"}
    types |= {"weights": f"{dtype}[k]", "size": "int64"}
    names = [text.partition("=")[0] for text in given]
    fed = ", ".join(f"{types[name]} {name}" for name, text in zip(names, given, strict=True) if "=" not in text)
    held = ", ".join(f"int64 {text.replace('=', ' = {')}}}" for text in given if "=" in text)
    return onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 18, "onnx_sparse" : 1]>
    g ({fed}) => ({dtype}[s, {inner}] y) {f"<{held}>" if held else ""} {{
        y = onnx_sparse.{op} {f"<{attributes}>" if attributes else ""} ({", ".join(names)})
    }}""")


def _signature(op: str, weights: bool) -> tuple[str, str]:
    """The inputs and attributes of an operator."""
    if op.startswith("EmbeddingSegments"):
        return "table, indices, ids, size, default=2" + (", weights" if weights else ""), ""
    if op.startswith("EmbeddingBag"):
        last = 'include_last_offset = "true"'
        return "table, indices, offsets, default=2" + (", weights" if weights and op in WEIGHTED else ""), last
    fill = 'fill_mode = "ZERO"' if op in ("SegmentMax", "SegmentMin") else ""
    return "data, ids, size", fill


def _assert_equal(model: onnx.ModelProto, *runs: dict[str, Array], threads: int = 1, tolerance: float = 1e-5) -> None:
    """Both forms of the body give the native kernels' answers."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    native = onnx_sparse.InferenceSession(model)
    for form in (onnx_sparse.lower, onnx_sparse.embed_functions):
        session = onnxruntime.InferenceSession(form(model).SerializeToString(), options)
        for k, feeds in enumerate(runs):
            (want,), (got,) = native.run(None, feeds), session.run(None, feeds)
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * 10, err_msg=f"run {k}")


def _feeds(model: onnx.ModelProto, ids: Array, size: int, width: tuple[int, ...], dtype: Any = np.float32) -> Any:
    rng = np.random.default_rng(len(ids))
    offsets = np.searchsorted(ids, np.arange(size + 1))
    made: dict[str, Callable[[], Array]] = {
        "table": lambda: rng.standard_normal((50, *width)).astype(dtype),
        "data": lambda: rng.standard_normal((len(ids), *width)).astype(dtype),
        "indices": lambda: rng.integers(0, 50, len(ids)),
        "ids": lambda: ids,
        "offsets": lambda: offsets,
        "weights": lambda: rng.uniform(0.5, 2, len(ids)).astype(dtype),
        "size": lambda: np.array(size),
    }
    return {value.name: made[value.name]() for value in model.graph.input}


#: So wide that the segments above have enough numbers.
_WIDTH = FEWEST_NUMBERS // 200


@pytest.mark.parametrize(
    ("op", "weights"), [(op, weights) for op in SORTED for weights in (False, True) if not weights or op in WEIGHTED]
)
def test_sorted(op: str, weights: bool) -> None:
    inputs, attributes = _signature(op, weights)
    model = _model(op, inputs, str(_WIDTH), "float", attributes)
    _assert_equal(model, *(_feeds(model, *segments, (_WIDTH,)) for segments in SEGMENTS.values()))


@pytest.mark.parametrize("op", [*UNSORTED, "EmbeddingSegmentsSum", "EmbeddingSegmentsMean"])
def test_in_any_order(op: str) -> None:
    inputs, attributes = _signature(op, weights=True)
    if op.startswith("Embedding"):
        attributes = 'segment_ids_order = "any"'
    model, runs = _model(op, inputs, str(_WIDTH), "float", attributes), []
    for ids, size in SEGMENTS.values():
        mixed = np.random.default_rng(1).permutation(ids[ids < size])
        if op.startswith("Unsorted"):
            mixed[::9] = -1  # dropped
        runs.append(_feeds(model, mixed, size, (_WIDTH,)))
    _assert_equal(model, *runs)


@pytest.mark.parametrize("inner", ["d", "3, 60", "d, e"])
@pytest.mark.parametrize("op", ["EmbeddingSegmentsMean", "SegmentMax", "UnsortedSegmentSum", "EmbeddingBagOffsetsMax"])
def test_rows_of_any_shape(op: str, inner: str) -> None:
    inputs, attributes = _signature(op, weights=True)
    model = _model(op, inputs, inner, "float", attributes)
    width = (3, 60) if "," in inner else (_WIDTH,)
    ids, size = SEGMENTS["long and short"]
    _assert_equal(model, _feeds(model, ids, size, width))


@pytest.mark.parametrize("dtype", ["double", "float16", "int32"])
@pytest.mark.parametrize("op", ["EmbeddingSegmentsSum", "SegmentMean", "SegmentMax", "UnsortedSegmentMin"])
def test_element_types(op: str, dtype: str) -> None:
    kind = TensorProto.DataType.Value(dtype.upper())
    inputs, attributes = _signature(op, weights=False)
    model = _model(op, inputs, str(_WIDTH), dtype, attributes)
    feeds = _feeds(model, *SEGMENTS["short"], (_WIDTH,), tensor_dtype_to_np_dtype(kind))
    _assert_equal(model, feeds, tolerance=1e-2 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("op", [*SORTED[3:7], *UNSORTED])
def test_numbers_that_are_not_finite(op: str) -> None:
    inputs, attributes = _signature(op, weights=False)
    model, runs = _model(op, inputs, str(_WIDTH), "float", attributes), []
    for ids, size in (SEGMENTS["short"], SEGMENTS["long and short"]):
        for values in ([-np.inf], [np.inf], [np.inf, -np.inf], [np.nan], [np.nan, np.inf]):
            feeds = _feeds(model, ids, size, (_WIDTH,))
            for value in values:
                feeds["data"][np.random.default_rng(2).integers(0, len(ids), 5), ::7] = value
            if values == [-np.inf]:
                feeds["data"][ids == ids[0]] = -np.inf
            runs.append(feeds)
    _assert_equal(model, *runs, threads=2)


@pytest.mark.parametrize("op", ["EmbeddingSegmentsSum", "SegmentMax", "UnsortedSegmentMean"])
def test_few_and_many_entries_and_segments(op: str) -> None:
    inputs, attributes = _signature(op, weights=False)
    model, runs = _model(op, inputs, "64", "float", attributes), []
    for size in (0, 1, 7, 5_000):
        for count in (0, 1, 5, FEWEST_NUMBERS // 64, FEWEST_NUMBERS // 64 + 1):
            ids = np.sort(np.random.default_rng(3).integers(0, max(size, 1), count if size else 0))
            runs.append(_feeds(model, ids, size, (64,)))
    _assert_equal(model, *runs)


def test_an_infinite_row_stays_in_its_segments() -> None:
    """Nothing is multiplied by zero."""
    model = _model("EmbeddingSegmentsSum", "table, indices, ids, size", "64", "float", "")
    ids = np.repeat(np.arange(200), 5)
    feeds = _feeds(model, ids, 200, (64,))
    feeds["table"][7] = np.inf
    _assert_equal(model, feeds)


def test_many_sums_are_in_blocks(tmp_path: Path) -> None:
    """What the other tests test: the body has a Loop, and takes it."""
    model = _model("SegmentSum", "data, ids, size", "64", "float", "")
    ids, size = SEGMENTS["short"]
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    lowered = onnx_sparse.lower(model)
    for times, is_taken in ((1, False), (3, True)):
        session = onnxruntime.InferenceSession(lowered.SerializeToString(), options)
        session.run(None, _feeds(model, np.sort(np.tile(ids, times)), size, (64,)))
        nodes = {event["args"].get("op_name") for event in json.loads(Path(session.end_profiling()).read_text())}
        assert ("Loop" in nodes) == is_taken
