"""What the library allocates: bounded by inputs and outputs, never in a task, and an error where it fails.

These tests need the build that watches allocations, as `onnx_sparse/native/sanitize.sh allocations` makes it; it also
ends the process where a task allocates, whatever test runs on it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from contract.models import SEGMENT_SUM
from native.sessions import Array, run
from native.test_threads import every_operator

import onnx_sparse
from onnx_sparse import KernelError
from onnx_sparse.runtime import available_backends
from onnx_sparse.schemas import OPS

Inputs = dict[str, Array]

#: What the library may allocate beyond twice the bytes of a call's inputs and outputs.
SLACK = 64 << 10


def _watched() -> ctypes.CDLL | None:
    if "native" not in available_backends():
        return None
    library = ctypes.CDLL(onnx_sparse.get_library_path())
    try:
        for function in (library.onnx_sparse_allocations_total, library.onnx_sparse_allocations_blocks):
            function.restype = ctypes.c_int64
        library.onnx_sparse_allocations_fail_after.restype = ctypes.c_int64
        library.onnx_sparse_allocations_fail_after.argtypes = [ctypes.c_int64]
    except AttributeError:
        return None
    return library


LIBRARY = _watched()
pytestmark = pytest.mark.skipif(LIBRARY is None, reason="needs the build that watches allocations")


def allocated(call: Callable[[], list[Array]]) -> tuple[int, list[Array]]:
    """The bytes that the library allocates in a call, and the call's outputs."""
    assert LIBRARY is not None
    before = LIBRARY.onnx_sparse_allocations_total()
    outputs = call()
    return LIBRARY.onnx_sparse_allocations_total() - before, outputs


def size_of(arrays: list[Array]) -> int:
    """The bytes of arrays in ONNX Runtime, which keeps a string in 32 bytes or more."""
    return sum(
        a.nbytes if a.dtype != object else sum(32 + len(text.encode()) for text in a.reshape(-1)) for a in arrays
    )


def segment(op: str, entries: int, segments: int, width: int, dtype: str) -> Inputs:
    random = np.random.default_rng(0)
    ids = random.integers(0, max(segments, 1), entries)
    data = np.ones((entries, width), dtype)
    sizes = {"num_segments": np.array(segments)}
    if op.startswith("Unsorted"):
        return {"data": data, "segment_ids": ids if segments else ids - 1, **sizes}
    if op.startswith("Segment"):
        return {"data": data, "segment_ids": np.sort(ids), **sizes}
    indices = np.zeros(entries, np.int64)
    return {"emb_table": np.ones((1, width), dtype), "indices": indices, "segment_ids": np.sort(ids), **sizes}


def sparse(op: str, entries: int, rows: int, rank: int, sort: bool) -> Inputs:
    rows = max(rows, 1)
    at = np.random.default_rng(0).integers(0, rows, entries)
    at = np.sort(at) if sort else at
    values = {"values": np.ones(entries, np.int8), "default_value": np.array(0, np.int8)}
    if op.startswith("Ragged"):
        return {"value_rowids": at, "nrows": np.array(rows), **values}
    rank = max(rank, 1)
    indices = np.zeros((entries, rank), np.int32)
    indices[:, 0] = at
    return {"dense_shape": np.full(rank, rows, np.int32), "indices": indices, **values}


def reshape(entries: int, before: int, after: int) -> Inputs:
    return {
        "input_indices": np.zeros((entries, before), np.int64),
        "input_shape": np.ones(before, np.int64),
        "new_shape": np.ones(after, np.int64),
    }


def masked(rows: int, columns: int, narrow: bool) -> Inputs:
    mask = np.ones(columns if narrow else (rows, columns), np.int8)
    return {"x": np.ones((rows, columns), np.int8), "mask": mask, "value": np.array(2, np.int8)}


def strings(count: int, length: int) -> Inputs:
    return {"input": np.array(["x" * length] * count, object), "num_buckets": np.array(7)}


def filled(rows: int, columns: int) -> Inputs:
    return {"dims": np.array([rows, columns]), "value": np.array(2, np.int8)}


def cases() -> Iterator[Any]:
    """An operator, and a function from its sizes to inputs, for every size that an input or an output has."""
    for op in OPS:
        made: list[tuple[str, int, Callable[..., Inputs]]] = []
        if "Segment" in op:
            for dtype in ("int8", "float16", "float64"):
                if dtype != "int8" or not op.startswith("EmbeddingSegments") or op.endswith("Sum"):
                    made.append((dtype, 3, lambda *s, op=op, dtype=dtype: segment(op, *s, dtype)))
        elif op.endswith("FillEmptyRows"):
            for sort in (False, True):
                made.append(("sorted" if sort else "shuffled", 3, lambda *s, op=op, sort=sort: sparse(op, *s, sort)))
        elif op == "SparseReshape":
            made.append(("", 3, reshape))
        elif op == "MaskedFill":
            made.extend(("narrow" if n else "whole", 2, lambda *s, n=n: masked(*s, n)) for n in (False, True))
        elif op == "StringToHashBucketFast":
            made.append(("", 2, strings))
        else:
            made.append(("", 2, filled))
        for name, count, inputs in made:
            for grown in range(count):
                yield pytest.param(op, count, grown, inputs, id=f"{op} {name} size {grown}")


@pytest.mark.parametrize(("op", "count", "grown", "inputs"), list(cases()))
def test_memory_is_bounded_by_the_sizes_of_inputs_and_outputs(
    op: str, count: int, grown: int, inputs: Callable[..., Inputs]
) -> None:
    modes: dict[str, str] = {a.name: a.choices[0] for a in OPS[op].attributes}
    for others in (0, 1, 30):
        sizes = [others] * count
        for exponent in (12, 15, 18, 20):
            sizes[grown] = 1 << exponent
            given = inputs(*sizes)
            run(op, given, **modes)  # the session is made
            spent, outputs = allocated(lambda given=given: run(op, given, **modes))
            assert spent <= 2 * size_of([*given.values(), *outputs]) + SLACK, sizes


@pytest.mark.parametrize("op", [op for op in OPS if "Segment" in op])
def test_rows_of_no_segment_are_not_made(op: str) -> None:
    """However wide they are: ONNX Runtime has such a tensor without taking memory for it."""
    width = 1 << 29
    given = segment(op, 0, 0, 0, "float32")
    given = {n: np.empty((0, width), np.float32) if n in ("data", "emb_table") else v for n, v in given.items()}
    modes = {a.name: a.choices[0] for a in OPS[op].attributes}
    spent, (output,) = allocated(lambda: run(op, given, **modes))
    assert output.shape == (0, width)
    assert spent <= SLACK


def test_no_task_of_any_operator_allocates() -> None:
    """The library ends the process where one does; inputs are large enough for many tasks."""
    assert sum(1 for _ in every_operator(threads=2)) > 50


def calls() -> Iterator[Any]:
    """Every operator on its examples."""
    from contract.illegal import as_arrays

    for op in OPS.values():
        for example in op.examples:
            given = as_arrays(op, example.types, example.inputs)
            yield pytest.param(op.name, given, dict(example.attributes), id=f"{op.name} {example.name}")
    words = np.array(["a" * 50, "b" * 60, "c"], object)
    shuffled = {"value_rowids": np.array([2, 0, 2]), "values": words, "nrows": np.array(9)}
    yield pytest.param(
        "RaggedFillEmptyRows", shuffled | {"default_value": np.array("d" * 40, object)}, {}, id="shuffled strings"
    )
    long = segment("UnsortedSegmentSum", 40_000, 2, 3, "float16")
    yield pytest.param("UnsortedSegmentSum", long, {}, id="long segments")
    few = segment("UnsortedSegmentSum", 100, 1 << 16, 1, "int8")
    yield pytest.param("UnsortedSegmentSum", few, {}, id="few entries")
    unsorted = {"data": np.ones((2, 1), np.float32), "segment_ids": np.array([1, 0])}
    yield pytest.param("SegmentSum", unsorted, {}, id="an error")


@pytest.mark.parametrize(("op", "given", "attributes"), list(calls()))
def test_each_allocation_may_fail(op: str, given: Inputs, attributes: dict[str, str]) -> None:
    assert LIBRARY is not None
    try:
        expected: list[Array] | None = run(op, given, **attributes)
    except KernelError:
        expected = None
    blocks = LIBRARY.onnx_sparse_allocations_blocks()
    for succeeding in range(10_000):
        LIBRARY.onnx_sparse_allocations_fail_after(succeeding)
        try:
            outputs = run(op, given, **attributes)
        except KernelError as error:
            outputs, message = [], str(error)
        else:
            message = ""
        failed = LIBRARY.onnx_sparse_allocations_fail_after(-1) < 0
        assert LIBRARY.onnx_sparse_allocations_blocks() == blocks, "memory is lost"
        if not failed:
            assert bool(message) == (expected is None), message
            break
        assert "out of memory" in message
    else:
        pytest.fail("the number of allocations is not bounded")
    assert succeeding > 0
    for got, wanted in zip(outputs, expected or [], strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_each_allocation_may_fail_when_a_session_is_made() -> None:
    assert LIBRARY is not None
    model = SEGMENT_SUM.SerializeToString()
    for succeeding in range(10_000):
        options = ort.SessionOptions()
        options.log_severity_level = 4
        LIBRARY.onnx_sparse_allocations_fail_after(succeeding)
        message = ""
        try:
            options.register_custom_ops_library(onnx_sparse.get_library_path())
            ort.InferenceSession(model, options)
        except Exception as error:
            message = str(error)
        if LIBRARY.onnx_sparse_allocations_fail_after(-1) >= 0:
            assert not message
            return
        assert "out of memory" in message
    pytest.fail("the number of allocations is not bounded")
