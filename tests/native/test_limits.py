"""Sizes beyond any memory, indices beyond 32 bits, and illegal inputs that a library must survive."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
import pytest
from contract.models import model
from native.sessions import Array, run

from onnx_sparse import InferenceSession, KernelError
from onnx_sparse.schemas import OPS

SIZES = [2**62, 2**63 - 1, 2**61 + 1, 2**48, 2**40]


def segments(count: int, **more: Any) -> dict[str, Array]:
    ids = {"data": np.ones((3, 8), np.float32), "segment_ids": np.array([0, 0, 2])}
    return {**ids, "num_segments": np.array(count), **more}


@pytest.mark.parametrize("size", SIZES)
class TestHostileSizes:
    @pytest.mark.parametrize("op", ["SegmentSum", "SegmentProd", "UnsortedSegmentSum", "UnsortedSegmentMax"])
    def test_segments(self, op: str, size: int) -> None:
        message = f"{op}: num_segments = {size}: an output of shape [{size}, 8] cannot be allocated"
        with pytest.raises(KernelError, match=f"^{re.escape(message)}$"):
            run(op, segments(size))

    def test_segments_of_no_width(self, size: int) -> None:
        inputs = segments(size, data=np.ones((3, 0), np.float32))
        if size * 4 < 2**63:  # the semantics count a dimension of size 0 as 1
            assert run("SegmentSum", inputs)[0].shape == (size, 0)
        else:
            with pytest.raises(KernelError, match="cannot be allocated"):
                run("SegmentSum", inputs)

    def test_a_last_id_that_asks_for_them(self, size: int) -> None:
        inputs = {"data": np.ones((2, 8), np.float32), "segment_ids": np.array([0, size])}
        with pytest.raises(KernelError, match=rf"^SegmentSum: segment_ids\[1\] = {size}: an output of"):
            run("SegmentSum", inputs)

    def test_embeddings(self, size: int) -> None:
        inputs = {
            "emb_table": np.ones((3, 8), np.float16),
            "indices": np.array([0, 1]),
            "segment_ids": np.array([0, 1]),
            "num_segments": np.array(size),
        }
        with pytest.raises(KernelError, match=f"^EmbeddingSegmentsSum: num_segments = {size}: an output of shape"):
            run("EmbeddingSegmentsSum", inputs)

    def test_fill(self, size: int) -> None:
        for dims in ([size, 8], [8, size], [size, size], [size, 8, 0]):
            inputs = {"dims": np.array(dims), "value": np.array(1, np.float64)}
            if 0 in dims and size * 64 < 2**63:
                assert run("Fill", inputs)[0].shape == tuple(dims)
                continue
            message = f"Fill: dims = {dims}: an output of shape {dims} cannot be allocated"
            with pytest.raises(KernelError, match=f"^{re.escape(message)}$"):
                run("Fill", inputs)

    def test_rows_of_sparse_tensors(self, size: int) -> None:
        inputs = {
            "values": np.array([1.0]),
            "dense_shape": np.array([size, 2]),
            "indices": np.array([[1, 1]]),
            "default_value": np.array(0.0),
        }
        with pytest.raises(KernelError, match=rf"^SparseFillEmptyRows: dense_shape\[0\] = {size}: an output of shape"):
            run("SparseFillEmptyRows", inputs)

    def test_rows_of_ragged_tensors(self, size: int) -> None:
        inputs = {
            "value_rowids": np.array([1]),
            "values": np.array(["a"], object),
            "nrows": np.array(size),
            "default_value": np.array("", object),
        }
        with pytest.raises(KernelError, match=f"^RaggedFillEmptyRows: nrows = {size}: an output of shape"):
            run("RaggedFillEmptyRows", inputs)

    def test_columns_are_not_counted(self, size: int) -> None:
        inputs = {
            "values": np.array([1.0, 2.0]),
            "dense_shape": np.array([3, size]),
            "indices": np.array([[2, size - 1], [2, 0]]),
            "default_value": np.array(0.0),
        }
        output_indices, values, *_ = run("SparseFillEmptyRows", inputs, order="row_major")
        assert output_indices.tolist() == [[0, 0], [1, 0], [2, 0], [2, size - 1]]
        assert values.tolist() == [0, 0, 2, 1]


class TestBeyond32Bits:
    def test_ids_that_are_dropped(self) -> None:
        inputs = segments(3, segment_ids=np.array([0, 2**31, 2**62]))
        assert run("SegmentSum", inputs)[0][:, 0].tolist() == [1, 0, 0]

    def test_an_index_is_not_cut_off(self) -> None:
        for index in (2**32, 2**32 + 1, -(2**32)):
            inputs = {
                "emb_table": np.ones((3, 2), np.float32),
                "indices": np.array([0, index]),
                "segment_ids": np.array([0, 1]),
                "num_segments": np.array(2),
            }
            message = f"EmbeddingSegmentsSum: indices[1] = {index} is out of range [0, 3)"
            with pytest.raises(KernelError, match=f"^{re.escape(message)}$"):
                run("EmbeddingSegmentsSum", inputs)

    def test_negative_ids_are_dropped(self) -> None:
        inputs = segments(3, segment_ids=np.array([-(2**63), -(2**32), 1]))
        assert run("UnsortedSegmentSum", inputs)[0][:, 0].tolist() == [0, 1, 0]

    @pytest.mark.skipif(
        "ONNX_SPARSE_LARGE_TESTS" not in os.environ,
        reason="takes 20 GB and minutes: set ONNX_SPARSE_LARGE_TESTS to run",
    )
    @pytest.mark.timeout(0)
    def test_more_segments_than_an_id_can_name(self) -> None:
        inputs = segments(0, segment_ids=np.array([0, 100, 127], np.int32))
        inputs["num_segments"] = np.array(2**31 + 5)
        inputs["data"] = np.ones(3, np.int8)
        (output,) = run("SegmentSum", inputs)
        assert output.shape == (2**31 + 5,)
        assert np.flatnonzero(output[:1000]).tolist() == [0, 100, 127]
        assert not output[-1000:].any()

    def test_reshaping_coordinates_that_overflow_does_no_harm(self) -> None:
        inputs = {
            "input_indices": np.array([[2**62, 2**62], [-(2**63), 7], [1, 1]]),
            "input_shape": np.array([2**30, 2**31]),
            "new_shape": np.array([2**31, -1]),
        }
        assert run("SparseReshape", inputs)[0][2].tolist() == [2, 1]


def test_a_session_keeps_working_after_impossible_sizes() -> None:
    """ONNX Runtime's arena fails every request after one of an absurd size; our requests never reach it."""
    for size in SIZES:
        with pytest.raises(KernelError, match="cannot be allocated"):
            run("Fill", {"dims": np.array([size, 8]), "value": np.array(1, np.float32)})
        (output,) = run("Fill", {"dims": np.array([40, 1 << 20]), "value": np.array(1, np.float32)})
        assert output.nbytes == 160 << 20
        with pytest.raises(KernelError, match="cannot be allocated"):
            run("SegmentSum", segments(size))
        assert run("SegmentSum", segments(1 << 20))[0].shape == (1 << 20, 8)


def test_an_error_anywhere_in_a_long_input_is_found() -> None:
    """Large inputs are checked in parts."""
    random = np.random.default_rng(0)
    count = 200_000
    ids = np.sort(random.integers(0, 1000, count))
    for k in (0, 1, 12_345, count // 2, count - 1):
        indices = random.integers(0, 50, count)
        indices[k] = -7
        inputs = {
            "emb_table": np.ones((50, 4), np.float32),
            "indices": indices,
            "segment_ids": ids,
            "num_segments": np.array(1000),
        }
        with pytest.raises(KernelError, match=rf"indices\[{k}\] = -7 is out of range \[0, 50\)$"):
            run("EmbeddingSegmentsSum", inputs)
        wrong = ids.copy()
        wrong[k] = -3
        with pytest.raises(KernelError, match=rf"segment_ids\[{k}\] = -3 must be >= 0$"):
            run("SegmentSum", {"data": np.ones((count, 2), np.float32), "segment_ids": wrong})
    entries = np.stack([ids, random.integers(0, 9, count)], axis=1)
    entries[150_000, 1] = 9
    inputs = {
        "values": np.ones(count, np.float32),
        "dense_shape": np.array([1000, 9]),
        "indices": entries,
        "default_value": np.array(0, np.float32),
    }
    with pytest.raises(KernelError, match=r"indices\[150000,1\] = 9 is out of range \[0, 9\)$"):
        run("SparseFillEmptyRows", inputs, order="row_major")
    assert run("SparseFillEmptyRows", inputs, order="row_stable")[0].shape == (count, 2)


def _shape_of(text: str, shape: list[int], before: str = "y =", **feeds: Array) -> list[int]:
    """The shape of the output of an operator on an empty float tensor `x` of a shape that numpy may not have."""
    inputs = ", ".join(f"int64{'[k]' if array.ndim else ''} {name}" for name, array in feeds.items())
    m = model(f"g (int64[n] shape, {inputs}) => (s) {{ x = ConstantOfShape (shape) {before} {text} s = Shape (y) }}")
    (found,) = InferenceSession(m, backend="native").run(None, {"shape": np.array(shape), **feeds})
    return [int(d) for d in found]


@pytest.mark.parametrize("inner", [[2**32, 2**32], [2**29], [2**62, 3], [0, 2**40]])
class TestEmptyTensorsOfWideRows:
    """A tensor of no rows takes no memory, whatever its rows would take."""

    @pytest.mark.parametrize("op", [op for op in OPS if op.startswith(("Segment", "UnsortedSegment"))])
    def test_no_segments(self, op: str, inner: list[int]) -> None:
        mode = '<fill_mode = "ZERO">' if op in ("SegmentMax", "SegmentMin") else ""
        text = f"onnx_sparse.{op} {mode} (x, ids, n)"
        feeds: dict[str, Any] = {"ids": np.zeros(0, np.int64), "n": np.array(0)}
        assert _shape_of(text, [0, *inner], **feeds) == [0, *inner]
        if 0 not in inner:
            with pytest.raises(KernelError, match=f"{op}: num_segments = 100000000: an output of shape"):
                _shape_of(text, [0, *inner], **feeds | {"n": np.array(10**8)})

    def test_no_segment_ids(self, inner: list[int]) -> None:
        assert _shape_of("onnx_sparse.SegmentSum (x, ids)", [0, *inner], ids=np.zeros(0, np.int64)) == [0, *inner]

    @pytest.mark.parametrize("op", [op for op in OPS if op.startswith("EmbeddingBagOffsets")])
    def test_no_bags(self, op: str, inner: list[int]) -> None:
        none = np.zeros(0, np.int64)
        text = f"onnx_sparse.{op} (x, i, offsets)"
        assert _shape_of(text, [0, *inner], i=none, offsets=none) == [0, *inner]
        if 0 not in inner:
            with pytest.raises(KernelError, match=rf"{op}: offsets of shape \[100000000\]: an output of shape"):
                _shape_of(text, [0, *inner], i=none, offsets=np.zeros(10**8, np.int64))

    @pytest.mark.parametrize("op", [op for op in OPS if op.startswith("EmbeddingSegments")])
    def test_no_lookups(self, op: str, inner: list[int]) -> None:
        none = np.zeros(0, np.int64)
        text = f"onnx_sparse.{op} (x, i, ids, n)"
        assert _shape_of(text, [0, *inner], i=none, ids=none, n=np.array(0)) == [0, *inner]

    def test_nothing_to_fill(self, inner: list[int]) -> None:
        text = "onnx_sparse.MaskedFill (x, mask, value)"
        before = "mask = Cast <to = 9> (m) value = Cast <to = 1> (v) y ="
        shape = _shape_of(text, [0, *inner], before, m=np.array(1), v=np.array(1))
        assert shape == [0, *inner]
