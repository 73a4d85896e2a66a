"""SparseFillEmptyRows, RaggedFillEmptyRows, SparseReshape: operators on the coordinates of a sparse tensor."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.schemas.declaration import Attribute, DecidedSize, Example, Family, Input, Op, Output, Values
from onnx_sparse.schemas.element_types import INDEX, NUMBERS
from onnx_sparse.schemas.function_body import Body, Value
from onnx_sparse.schemas.segment_body import END

_VALUE_TYPES = (*NUMBERS, TensorProto.BOOL, TensorProto.STRING)


def _fill_rows(b: Body, rows: Value, row_count: Value) -> tuple[Value, Value]:
    """Which of `row_count` (int64 [1]) rows have no entry.

    Returns:
        empty: bool [rows].
        fill: int64 [f, 1], the empty rows in order.
    """
    none = b.filled(b.Shape(rows), False, TensorProto.BOOL)
    every = b.filled(row_count, True, TensorProto.BOOL)
    empty = b.ScatterND(every, b.Unsqueeze(rows, b.constant([-1])), none)
    return empty, b.Transpose(b.NonZero(empty), perm=[1, 0])


def _stable_order(b: Body, keys: Value, count: Value) -> Value:
    """The permutation that sorts `count` int64 keys; TopK breaks ties by the lower position: it is stable."""
    return b.node("TopK", keys, count, outputs=2, axis=0, largest=0, sorted=1)[1]


def _stable_order_of_rows(b: Body, rows: Value, count: Value) -> Value:
    """The permutation that sorts `count` row numbers, stably also where a runtime's TopK is not, as OpenVINO's."""
    return _stable_order(b, b.Add(b.Mul(rows, count), _positions(b, count)), count)


def _positions(b: Body, count: Value) -> Value:
    """The numbers from 0 on, `count` (int64 [1]) of them."""
    return b.Range(b.constant(0), b.Squeeze(count, b.constant([0])), b.constant(1))


def _inverse(b: Body, order: Value, total: Value, count: Value) -> Value:
    """Where the first `count` (int64 [1]) inputs of a permutation of `total` went."""
    inverse = b.ScatterElements(order, order, _positions(b, total), axis=0)
    return b.Slice(inverse, b.constant([0]), count)


def _filled_values(b: Body, order: Value) -> Value:
    """The values in order, where every position behind them is the default value."""
    candidates = b.Concat("values", b.Reshape("default_value", b.constant([1])), axis=0)
    return b.Gather(candidates, b.Min(order, b.Shape("values")), axis=0)


def _column(b: Body, coordinates: Value, column: int) -> Value:
    return b.Gather(coordinates, b.constant(column), axis=1)


def _lexicographic_order(b: Body, coordinates: Value, count: Value) -> Value:
    """The permutation that sorts `count` coordinates [M, R], stably."""
    rank = b.size("indices", 1)
    if rank is None:
        return _stable_order(b, _lexicographic_keys(b, coordinates), count)
    rows = _column(b, coordinates, 0)
    if rank == 1:
        return _stable_order_of_rows(b, rows, count)
    order = _stable_order(b, _column(b, coordinates, rank - 1), count)
    for column in reversed(range(1, rank - 1)):
        keys = b.Gather(_column(b, coordinates, column), order, axis=0)
        order = b.Gather(order, _stable_order(b, keys, count), axis=0)
    return b.Gather(order, _stable_order_of_rows(b, b.Gather(rows, order, axis=0), count), axis=0)


def _lexicographic_keys(b: Body, coordinates: Value) -> Value:
    """int64 keys [M] that sort as the coordinates [M, R] do.

    They are the positions in the dense tensor where these fit into a double, which is ten times as fast as the
    alternative: Unique, which gives each coordinate's rank in lexicographic order.
    """
    sizes = b.larger(b.int64("dense_shape"), b.constant([1]))
    size = b.ReduceProd(b.cast(sizes, TensorProto.DOUBLE), keepdims=0)
    positions = b.branch()
    positions.ReduceSum(positions.Mul(coordinates, _strides(positions, sizes)), positions.constant([1]), keepdims=0)
    ranks = b.branch()
    # An extra first entry keeps Unique's input from being empty.
    columns = ranks.Shape(coordinates, start=1)
    extra = ranks.filled(ranks.Concat(ranks.constant([1]), columns, axis=0), -1)
    inverse = ranks.node("Unique", ranks.Concat(extra, coordinates, axis=0), outputs=4, axis=0, sorted=1)[2]
    ranks.Slice(inverse, ranks.constant([1]), ranks.constant([END]))
    # ONNX Runtime computes ReduceSum and ReduceProd of int64 in double.
    return b.choose(b.Less(size, b.constant(2.0**53, TensorProto.DOUBLE)), positions, ranks, TensorProto.INT64)


def _filled_coordinates(b: Body, fill: Value) -> Value:
    """The coordinates of the entries that fill rows [f, 1]: zeros behind the row."""
    rank = b.size("indices", 1)
    if rank is not None:
        return fill if rank == 1 else b.Mul(fill, b.constant([[1] + [0] * (rank - 1)]))
    columns = b.Sub(b.Shape("indices", start=1), b.constant([1]))
    zeros = b.filled(b.Concat(b.Shape(fill, end=1), columns, axis=0), 0)
    return b.Concat(fill, zeros, axis=1)


def _sparse_fill_empty_rows_body(b: Body) -> None:
    indices = b.int64("indices")
    row_count = b.int64(b.Gather("dense_shape", b.constant([0]), axis=0))
    empty, fill = _fill_rows(b, _column(b, indices, 0), row_count)
    filled = b.Concat(indices, _filled_coordinates(b, fill), axis=0)
    total = b.Shape(filled, end=1)
    if b.attributes["order"] == "row_major":
        order = _lexicographic_order(b, filled, total)
    else:
        order = _stable_order_of_rows(b, _column(b, filled, 0), total)
    b.output("output_indices", b.Gather(filled, order, axis=0))
    b.output("output_values", _filled_values(b, order))
    b.output("empty_row_indicator", empty)
    b.output("reverse_index_map", _inverse(b, order, total, b.Shape("values")))


def _ragged_fill_empty_rows_body(b: Body) -> None:
    empty, fill = _fill_rows(b, "value_rowids", b.as_vector("nrows"))
    filled = b.Concat("value_rowids", b.Squeeze(fill, b.constant([1])), axis=0)
    total = b.Shape(filled)
    order = _stable_order_of_rows(b, filled, total)
    b.output("output_value_rowids", b.Gather(filled, order, axis=0))
    b.output("output_values", _filled_values(b, order))
    b.output("empty_row_indicator", empty)
    b.output("reverse_index_map", _inverse(b, order, total, b.Shape("values")))


def _strides(b: Body, shape: Value, rank: int | None = None) -> Value:
    """The row-major strides of a shape: the product of the dimensions after each."""
    if rank:
        strides = [b.constant([1])]
        for size in reversed(_elements(b, shape, rank)[1:]):
            strides.insert(0, b.Mul(size, strides[0]) if len(strides) > 1 else size)
        return b.Concat(*strides, axis=0) if rank > 1 else strides[0]
    axes = b.Range(b.constant(0), b.Size(shape), b.constant(1))
    after = b.Less(b.Unsqueeze(axes, b.constant([1])), b.Unsqueeze(axes, b.constant([0])))
    return b.ReduceProd(b.Where(after, shape, b.constant(1)), b.constant([1]), keepdims=0)


def _elements(b: Body, vector: Value, size: int) -> list[Value]:
    """The elements of a vector, each [1]."""
    return [b.Gather(vector, b.constant([k]), axis=0) for k in range(size)]


def _product(b: Body, vector: Value, size: int | None) -> Value:
    """The product of a vector's elements [1]; exact where their number is known."""
    if not size:
        return b.ReduceProd(vector, keepdims=1)
    return functools.reduce(b.Mul, _elements(b, vector, size))


def _positions_in(b: Body, coordinates: Value, strides: Value, rank: int | None) -> Value:
    """The row-major positions of coordinates [N, R] as [N, 1]; exact where R is known."""
    terms = b.Mul(coordinates, strides)
    if not rank:
        return b.ReduceSum(terms, b.constant([1]), keepdims=1)
    return functools.reduce(b.Add, (b.Gather(terms, b.constant([k]), axis=1) for k in range(rank)))


def _sparse_reshape_body(b: Body) -> None:
    one = b.constant([1])
    old_rank = b.size("input_shape") if b.size("input_indices", 1) is None else b.size("input_indices", 1)
    new_rank = b.size("new_shape")
    # The inferred dimension: the size divided by the product of the other dimensions.
    inferred = b.Less("new_shape", b.constant(0))
    others = _product(b, b.Where(inferred, b.constant(1), "new_shape"), new_rank)
    total = _product(b, "input_shape", old_rank)
    shape = b.Where(inferred, b.Div(total, b.larger(others, one)), "new_shape")

    linear = _positions_in(b, "input_indices", _strides(b, "input_shape", old_rank), old_rank)
    # Column c is (linear mod stride[c - 1]) / stride[c]; nothing bounds the first one.
    strides = b.larger(_strides(b, shape, new_rank), one)
    bounds = b.Concat(b.constant([2**63 - 1]), b.Slice(strides, b.constant([0]), b.constant([-1])), axis=0)
    b.output("output_indices", b.Div(b.Mod(linear, bounds), strides))
    b.output("output_shape", shape)


def _filled_size(rows: np.ndarray[Any, Any], row_count: int) -> int | None:
    """How many entries there are once each empty row has one."""
    if rows.size and not 0 <= rows.min() <= rows.max() < row_count:
        return None
    return len(rows) + row_count - len(np.unique(rows))


_DEFAULT_VALUE = Input("default_value", "T", "", "The value of the entries put into empty rows.")
_EMPTY_ROW_INDICATOR = "Which rows had no entry."

SPARSE_FILL_EMPTY_ROWS = Op(
    name="SparseFillEmptyRows",
    summary="Adds an entry with a default value to each empty row of a sparse tensor.",
    semantics="""
Each row `i` in [0, `dense_shape[0]`) without an entry gets one at `[i, 0, ..., 0]` with `default_value`.

- Any rank R >= 1 is legal. R = 0 is an error, and so is a negative dimension.
- `order` = `row_major` sorts all entries by all coordinates, stably. `row_stable` sorts them by row only, stably: the
  entries of one row keep their order, whatever their columns.
- Duplicates are kept.
- A coordinate outside its dimension is an error; `row_stable` checks rows only. With `dense_shape[1]` = 0 a filled row
  still gets column 0.
- `reverse_index_map[i]` is the position of input entry `i` in the output. With int32 indices, an output of more than
  2^31 - 1 entries is an error.
- Zero rows and zero entries are legal.
""".strip(),
    source="OpenVINO SparseFillEmptyRows-16 (order row_major); tf.raw_ops.SparseFillEmptyRows (order row_stable)",
    inputs=(
        Input("values", "T", "N", "The values of the entries."),
        Input("dense_shape", "I", "R", "The shape of the dense tensor.", Values("size")),
        Input("indices", "I", "N, R", "The coordinates of the entries.", Values("coordinates", of="dense_shape")),
        _DEFAULT_VALUE,
    ),
    outputs=(
        Output("output_indices", "I", "M, R", "The coordinates with the empty rows filled."),
        Output("output_values", "T", "M", "The values with the empty rows filled."),
        Output("empty_row_indicator", "bool", "dense_shape[0]", _EMPTY_ROW_INDICATOR),
        Output("reverse_index_map", "I", "N", "The output position of each input entry.", optional=True),
    ),
    types={"T": _VALUE_TYPES, "I": INDEX},
    decided={
        "M": DecidedSize(("indices", "dense_shape"), lambda at, shape: _filled_size(at[:, 0], int(shape[0]))),
    },
    attributes=(Attribute("order", ("row_major", "row_stable"), "How the output is sorted.", default="row_major"),),
    body=_sparse_fill_empty_rows_body,
    examples=(
        Example(
            "SparseFillEmptyRows-16 example 1",
            {"T": TensorProto.STRING, "I": TensorProto.INT64},
            {
                "values": ["a", "b", "c", "d"],
                "dense_shape": [5, 6],
                "indices": [[0, 1], [0, 3], [2, 0], [3, 1]],
                "default_value": "default",
            },
            {
                "output_indices": [[0, 1], [0, 3], [1, 0], [2, 0], [3, 1], [4, 0]],
                "output_values": ["a", "b", "default", "c", "d", "default"],
                "empty_row_indicator": [False, True, False, False, True],
                "reverse_index_map": [0, 1, 3, 4],
            },
            {"order": "row_major"},
        ),
        Example(
            "SparseFillEmptyRows-16 XML example",
            {"T": TensorProto.FLOAT, "I": TensorProto.INT32},
            {"values": [1, 3], "dense_shape": [3, 3], "indices": [[0, 0], [2, 2]], "default_value": 42},
            {
                "output_indices": [[0, 0], [1, 0], [2, 2]],
                "output_values": [1, 42, 3],
                "empty_row_indicator": [False, True, False],
                "reverse_index_map": [0, 2],
            },
            {"order": "row_major"},
        ),
        Example(
            "row_stable keeps the order within a row",
            {"T": TensorProto.INT64, "I": TensorProto.INT64},
            {
                "values": [10, 11, 12, 13, 14],
                "dense_shape": [5, 4],
                "indices": [[3, 1], [0, 3], [2, 0], [0, 1], [3, 0]],
                "default_value": -1,
            },
            {
                "output_indices": [[0, 3], [0, 1], [1, 0], [2, 0], [3, 1], [3, 0], [4, 0]],
                "output_values": [11, 13, -1, 12, 10, 14, -1],
                "empty_row_indicator": [False, True, False, False, True],
                "reverse_index_map": [4, 0, 3, 1, 5],
            },
            {"order": "row_stable"},
        ),
    ),
)

RAGGED_FILL_EMPTY_ROWS = Op(
    name="RaggedFillEmptyRows",
    summary="Adds an entry with a default value to each empty row of a ragged tensor.",
    semantics="""
Each row `i` in [0, `nrows`) without an entry gets one with `default_value`. The output is sorted by row, stably.

- Row ids may be in any order; one outside [0, nrows) is an error, and so is a negative `nrows`.
- `reverse_index_map[i]` is the position of input entry `i` in the output.
- With `nrows` = 0 every output has shape (0,) (TensorFlow's has shape (0, 1) for the row ids).
""".strip(),
    source="tf.raw_ops.RaggedFillEmptyRows",
    inputs=(
        Input("value_rowids", "int64", "N", "The row of each value.", Values("index", of="nrows")),
        Input("values", "T", "N", "The values."),
        Input("nrows", "int64", "", "The number of rows.", Values("size")),
        _DEFAULT_VALUE,
    ),
    outputs=(
        Output("output_value_rowids", "int64", "M", "The row ids with the empty rows filled."),
        Output("output_values", "T", "M", "The values with the empty rows filled."),
        Output("empty_row_indicator", "bool", "nrows", _EMPTY_ROW_INDICATOR),
        Output("reverse_index_map", "int64", "N", "The output position of each input entry.", optional=True),
    ),
    types={"T": _VALUE_TYPES},
    decided={"M": DecidedSize(("value_rowids", "nrows"), lambda rows, count: _filled_size(rows, int(count)))},
    body=_ragged_fill_empty_rows_body,
    examples=(
        Example(
            "one empty row",
            {"T": TensorProto.INT64},
            {"value_rowids": [0, 0, 2], "values": [7, 8, 9], "nrows": 3, "default_value": -1},
            {
                "output_value_rowids": [0, 0, 1, 2],
                "output_values": [7, 8, -1, 9],
                "empty_row_indicator": [False, True, False],
                "reverse_index_map": [0, 1, 3],
            },
        ),
    ),
)

SPARSE_RESHAPE = Op(
    name="SparseReshape",
    summary="Computes the coordinates of a sparse tensor's entries after a reshape of the dense tensor.",
    semantics="""
Entry `i` keeps its row-major position in the dense tensor: `output_indices[i]` are that position's coordinates in
`output_shape`, which is `new_shape` with a -1 replaced by the inferred dimension.

- At most one dimension of `new_shape` is -1; any other negative one is an error. Both shapes must have the same number
  of elements.
- A -1 next to dimensions whose product is zero is an error, because it cannot be inferred.
- Coordinates are not validated, as in TensorFlow; between equal shapes they pass through unchanged.
""".strip(),
    source="tf.raw_ops.SparseReshape",
    inputs=(
        Input(
            "input_indices",
            "int64",
            "N, R",
            "The coordinates of the entries.",
            Values("coordinates", of="input_shape", checked=False),
        ),
        Input("input_shape", "int64", "R", "The shape of the dense tensor.", Values("size")),
        Input("new_shape", "int64", "Q", "The requested shape.", Values("reshape", of="input_shape")),
    ),
    outputs=(
        Output("output_indices", "int64", "N, Q", "The coordinates in the new shape.", holds_data=True),
        Output("output_shape", "int64", "Q", "The new shape, without -1.", holds_data=True),
    ),
    types={},
    body=_sparse_reshape_body,
    body_notes="If the number of dimensions is unknown, positions beyond 2^53 are rounded in ONNX Runtime.",
    examples=(
        Example(
            "two rows of three become three rows of two",
            {},
            {"input_indices": [[0, 0], [0, 2], [1, 1]], "input_shape": [2, 3], "new_shape": [3, -1]},
            {"output_indices": [[0, 0], [1, 0], [2, 0]], "output_shape": [3, 2]},
        ),
    ),
)

FAMILY = Family(
    "sparse",
    (SPARSE_FILL_EMPTY_ROWS, RAGGED_FILL_EMPTY_ROWS, SPARSE_RESHAPE),
    origin="OpenVINO SparseFillEmptyRows-16, `tf.sparse.fill_empty_rows`, `tf.nn.safe_embedding_lookup_sparse`",
)
