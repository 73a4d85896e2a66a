"""Corner cases of the semantics that drawn inputs seldom reach, on every backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contract.backends import BACKENDS, REPORTING, Call
from contract.expected import python_value
from contract.oracle import highest, lowest
from onnx import TensorProto

from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.declaration import FLOATS, HALF_FLOATS, NUMBERS, DType, dtype_name, numpy_dtype

Array = np.ndarray[Any, Any]

I64 = TensorProto.INT64

each_backend = pytest.mark.parametrize("backend", BACKENDS)
each_float = pytest.mark.parametrize("dtype", FLOATS, ids=dtype_name)


def run(backend: str, op_name: str, dtype: DType, inputs: dict[str, Array], **attributes: str) -> list[Array]:
    op = OPS[op_name]
    types = {"T": dtype, "I": I64, "N": I64, "M": TensorProto.BOOL}
    return BACKENDS[backend](Call.of(op, {v: types[v] for v in op.types}, attributes, inputs), inputs)


def bits(array: Array) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@each_backend
@pytest.mark.parametrize("dtype", NUMBERS, ids=dtype_name)
@pytest.mark.parametrize(
    ("op_name", "fill_mode", "limit"), [("SegmentMax", "LOWEST", lowest), ("SegmentMin", "HIGHEST", highest)]
)
def test_an_empty_segment_is_the_finite_limit_of_every_type(
    op_name: str, fill_mode: str, limit: Any, dtype: DType, backend: str
) -> None:
    inputs = {"data": np.ones(2, numpy_dtype(dtype)), "segment_ids": np.array([0, 2])}
    (output,) = run(backend, op_name, dtype, inputs, fill_mode=fill_mode)
    assert [python_value(v) for v in output] == [1, limit(numpy_dtype(dtype)), 1]


@each_backend
@each_float
@pytest.mark.parametrize(
    ("op_name", "value", "limit"),
    [("UnsortedSegmentMax", -np.inf, lowest), ("UnsortedSegmentMin", np.inf, highest)],
)
def test_an_unsorted_reduction_starts_from_the_finite_limit(
    op_name: str, value: float, limit: Any, dtype: DType, backend: str
) -> None:
    """So a segment of infinities gives a finite result; with the sorted operators it stays infinite."""
    data = np.array([value, value], numpy_dtype(dtype))
    inputs = {"data": data, "segment_ids": np.array([0, 0]), "num_segments": np.array(1)}
    (output,) = run(backend, op_name, dtype, inputs)
    assert python_value(output[0]) == limit(numpy_dtype(dtype))
    (output,) = run(backend, op_name.removeprefix("Unsorted"), dtype, inputs, fill_mode="ZERO")
    assert python_value(output[0]) == value


@each_backend
@each_float
@pytest.mark.parametrize(
    ("op_name", "initial", "start"),
    [("UnsortedSegmentMax", "NEG_INF", -np.inf), ("UnsortedSegmentMin", "POS_INF", np.inf)],
)
def test_an_unsorted_reduction_may_start_from_an_infinity(
    op_name: str, initial: str, start: float, dtype: DType, backend: str
) -> None:
    data = np.array([start, 1, start], numpy_dtype(dtype))
    inputs = {"data": data, "segment_ids": np.array([0, 2, 2]), "num_segments": np.array(3)}
    (output,) = run(backend, op_name, dtype, inputs, initial=initial)
    assert [python_value(v) for v in output] == [start, start, 1]


@each_backend
@each_float
@pytest.mark.parametrize("op_name", ["UnsortedSegmentSum", "UnsortedSegmentMean"])
def test_an_unsorted_sum_starts_from_zero(op_name: str, dtype: DType, backend: str) -> None:
    """So a segment of negative zeros gives a positive one, as in TensorFlow."""
    inputs = {"data": np.array([-0.0], numpy_dtype(dtype)), "segment_ids": np.array([0]), "num_segments": np.array(1)}
    (output,) = run(backend, op_name, dtype, inputs)
    assert not np.signbit(output.astype(float))[0]


@each_backend
@each_float
@pytest.mark.parametrize("op_name", ["SegmentMax", "SegmentMin", "UnsortedSegmentMax", "UnsortedSegmentMin"])
def test_nan_propagates_wherever_it_stands(op_name: str, dtype: DType, backend: str) -> None:
    data = np.array([np.nan, 1, 2, np.nan, 1, np.nan, 2, 1, 2], numpy_dtype(dtype))
    inputs = {"data": data, "segment_ids": np.array([0, 0, 1, 1, 2, 2, 2, 3, 3]), "num_segments": np.array(4)}
    mode = {} if op_name.startswith("Unsorted") else {"fill_mode": "ZERO"}
    (output,) = run(backend, op_name, dtype, inputs, **mode)
    assert np.isnan(output.astype(float)).tolist() == [True, True, True, False]


@pytest.mark.parametrize("backend", REPORTING)
@each_float
def test_values_that_are_only_moved_keep_their_bits(dtype: DType, backend: str) -> None:
    """Negative zeros and NaN payloads, except the NaN payloads of half floats that are carried as float32."""
    numpy_type = numpy_dtype(dtype)
    values = np.array([-0.0, np.nan], numpy_type)
    if not (backend == "ORT Python" and dtype in HALF_FLOATS):
        carried = values.view(f"u{numpy_type.itemsize}")
        carried[1] |= carried.dtype.type(1 << 5)
    zeros = np.zeros(2, numpy_type)
    for kept in values[:1], values[1:]:
        value, two = kept.reshape(()), bits(kept) * 2
        (output,) = run(backend, "Fill", dtype, {"dims": np.array([2]), "value": value})
        assert bits(output) == two
        (output,) = run(backend, "MaskedFill", dtype, {"x": zeros, "mask": np.array([True]), "value": value})
        assert bits(output) == two
        x = np.repeat(kept, 2)
        (output,) = run(
            backend, "MaskedFill", dtype, {"x": x, "mask": np.array([False]), "value": zeros[0:1].reshape(())}
        )
        assert bits(output) == two
        sparse = {"values": kept, "dense_shape": np.array([2, 1]), "indices": np.array([[1, 0]])}
        outputs = run(backend, "SparseFillEmptyRows", dtype, sparse | {"default_value": value}, order="row_major")
        assert bits(outputs[1]) == two
        lookup = {"emb_table": kept, "indices": np.zeros(0, np.int64), "segment_ids": np.zeros(0, np.int64)}
        sizes = {"num_segments": np.array(2), "default_index": np.array(0)}
        (output,) = run(backend, "EmbeddingSegmentsSum", dtype, lookup | sizes)
        assert bits(output) == two


each_bag_operator = pytest.mark.parametrize("op_name", [name for name in OPS if name.startswith("EmbeddingBagOffsets")])


@each_backend
@each_bag_operator
def test_indices_of_no_bag_are_not_looked_at(op_name: str, backend: str) -> None:
    """Those from the last offset on where it is the end of the last bag, and all where there are no bags."""
    table = {"emb_table": np.array([[3.0], [4.0]]), "indices": np.array([1, -7, 9])}
    bags = table | {"offsets": np.array([0, 0, 1])}
    (output,) = run(backend, op_name, TensorProto.DOUBLE, bags, include_last_offset="true")
    assert output.tolist() == [[0], [4]]
    for none, last in (([0], "true"), ([], "false")):
        bags = table | {"offsets": np.array(none, np.int64)}
        (output,) = run(backend, op_name, TensorProto.DOUBLE, bags, include_last_offset=last)
        assert output.shape == (0, 1)


@each_backend
@pytest.mark.parametrize("order", ["sorted", "any"])
@pytest.mark.parametrize("op_name", [name for name in OPS if name.startswith("EmbeddingSegments")])
def test_segments_of_entries_that_are_left_out_are_not_looked_at(op_name: str, order: str, backend: str) -> None:
    """An entry with a negative index may have any segment id; a segment without others is empty."""
    table = {"emb_table": np.array([[3.0], [4.0]]), "indices": np.array([-1, 1, -7, -1, 0])}
    sizes = {"num_segments": np.array(3), "default_index": np.array(-1)}
    for ids in ([7, 0, -1, 2, 1], [0, 0, 1, 1, 1], [2**62, 0, 0, 0, 1]):
        inputs = table | {"segment_ids": np.array(ids), **sizes, "per_sample_weights": np.ones(5)}
        (output,) = run(backend, op_name, TensorProto.DOUBLE, inputs, segment_ids_order=order, negative_indices="drop")
        assert output.tolist() == [[4], [3], [0]]


@each_backend
@each_bag_operator
def test_a_bag_of_padding_is_empty(op_name: str, backend: str) -> None:
    bags = {"emb_table": np.array([[-3.0], [4.0]]), "indices": np.array([1, 1, 0, 1]), "offsets": np.array([0, 2])}
    for default, empty in ((-1, 0), (1, 4), (0, -3)):
        inputs = bags | {"default_index": np.array(default), "padding_index": np.array(1)}
        (output,) = run(backend, op_name, TensorProto.DOUBLE, inputs)
        assert output.tolist() == [[empty], [-3]]


@each_backend
@each_float
def test_the_maximum_of_a_bag(dtype: DType, backend: str) -> None:
    """NaN propagates wherever it stands; an infinity is not the value of an empty bag."""
    table = np.array([[np.nan], [1], [-np.inf], [-2]], numpy_dtype(dtype))
    bags = {"indices": np.array([0, 1, 1, 0, 2, 3, 2, 2]), "offsets": np.array([0, 2, 4, 6, 8])}
    (output,) = run(backend, "EmbeddingBagOffsetsMax", dtype, {"emb_table": table, **bags})
    np.testing.assert_array_equal(output.astype(float), [[np.nan], [np.nan], [-2], [-np.inf], [0]])


@each_backend
def test_row_stable_looks_at_rows_only(backend: str) -> None:
    """Columns may have any value, as in TensorFlow."""
    inputs = {
        "values": np.array([1, 2, 3]),
        "dense_shape": np.array([3, 2]),
        "indices": np.array([[2, 7], [0, -5], [2, 2**40]]),
        "default_value": np.array(9),
    }
    indices, values, *_ = run(backend, "SparseFillEmptyRows", I64, inputs, order="row_stable")
    assert indices.tolist() == [[0, -5], [1, 0], [2, 7], [2, 2**40]]
    assert values.tolist() == [2, 9, 1, 3]


@each_backend
@pytest.mark.parametrize("step", [1, 2**31 - 1, 2**31, 2**40])
@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_row_major_sorts_by_all_columns_and_keeps_the_order_of_equals(
    rows: int, columns: int, step: int, backend: str
) -> None:
    """Rows with few or many entries and few distinct columns, which are far apart."""
    random = np.random.default_rng(rows + columns)
    indices = random.integers(0, 3, (150, 1 + columns)) * step
    indices[:, 0] = random.integers(0, rows, 150)
    indices[:rows, 0] = np.arange(rows)
    inputs = {
        "values": np.arange(150),
        "dense_shape": np.array([rows] + [3 * step] * columns),
        "indices": indices,
        "default_value": np.array(-1),
    }
    order = sorted(range(150), key=lambda k: (*indices[k],))  # Python's sort is stable
    sorted_indices, values, *_ = run(backend, "SparseFillEmptyRows", I64, inputs, order="row_major")
    assert values.tolist() == order
    assert sorted_indices.tolist() == indices[order].tolist()


@pytest.mark.parametrize("backend", REPORTING)
def test_reshaped_coordinates_are_not_validated(backend: str) -> None:
    """Negative ones are divided as in C and TensorFlow: rounded toward zero."""
    inputs = {
        "input_indices": np.array([[0, -1], [-1, 2], [5, 5]]),
        "input_shape": np.array([2, 3]),
        "new_shape": np.array([3, 2]),
    }
    op = OPS["SparseReshape"]
    indices, _ = BACKENDS[backend](Call.of(op, {}, {}, inputs), inputs)
    assert indices.tolist() == [[0, -1], [0, -1], [10, 0]]


@pytest.mark.parametrize("backend", ["reference", "ReferenceEvaluator"])
def test_numpys_text_has_room_for_longer_defaults(backend: str) -> None:
    """numpy's text arrays have elements of a fixed length."""
    text = {"values": np.array(["a"]), "default_value": np.array("default")}
    inputs = {"dense_shape": np.array([2, 2]), "indices": np.array([[0, 0]])} | text
    assert run(backend, "SparseFillEmptyRows", TensorProto.STRING, inputs)[1].tolist() == ["a", "default"]
    inputs = {"value_rowids": np.array([1]), "nrows": np.array(2)} | text
    assert run(backend, "RaggedFillEmptyRows", TensorProto.STRING, inputs)[1].tolist() == ["default", "a"]
