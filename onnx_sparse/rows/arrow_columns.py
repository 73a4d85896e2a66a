"""Arrow columns of every layout as values and the lengths of their rows, and a model's outputs as Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from onnx_sparse.rows.columns import Array, RowError, Rows, row_error
from onnx_sparse.rows.foreign_rows import plain_column, plain_parts
from onnx_sparse.schemas.features import Feature

#: What is as good as an array of views.
_WITHOUT_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def values_of_column(where: str, feature: Feature, column: Any) -> Any:
    """An Arrow column as what `Features.feeds` takes for a feature.

    Args:
        where: What an error begins with.
        feature: The feature.
        column: An Array or ChunkedArray.
    """
    array = _plain(where, column)
    if feature.kind == "example":
        return _leaves(where, array, ()).tolist()
    if feature.kind == "dense":
        return _dense(where, array)
    lengths = []
    for _ in range(max(1, len(feature.row_splits))):
        if types.is_null(array.type):
            array = array.cast(pa.list_(pa.null()))
        if not _is_list(array.type):
            raise ValueError(f"{where}: the column is {column.type}; lists expected")
        lengths.append(_lengths(array))
        array = _plain(where, array.flatten())
    return Rows(_leaves(where, array, lengths), tuple(lengths))


def _plain(where: str, column: Any) -> Any:
    """One Array of a column, without dictionaries, runs and extensions."""
    array = column
    if isinstance(column, pa.ChunkedArray):  # combine_chunks would copy a single chunk
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # more than one chunk holds
        rows = f"a column of {len(array)} rows"
        raise ValueError(f"{where}: {rows} has more values than fit into one array; take fewer rows")
    while isinstance(array, (pa.ExtensionArray, pa.DictionaryArray, pa.RunEndEncodedArray)):
        if isinstance(array, pa.RunEndEncodedArray):
            array = pc.run_end_decode(array)
        else:
            array = array.storage if isinstance(array, pa.ExtensionArray) else _decoded(where, array)
    return array


def _decoded(where: str, array: Any) -> Any:
    """The values of an array with a dictionary. Arrow cannot take any out of an array of views, or of lists of them."""
    dictionary = array.dictionary
    dictionary = dictionary.cast(_WITHOUT_VIEWS.get(dictionary.type, dictionary.type))
    try:
        return dictionary.take(array.indices)
    except pa.ArrowNotImplementedError:
        raise ValueError(f"{where}: the column has a dictionary of {dictionary.type}, which cannot be read") from None


def _is_list(dtype: pa.DataType) -> bool:
    return any(
        test(dtype)
        for test in (
            types.is_list,
            types.is_large_list,
            types.is_fixed_size_list,
            types.is_list_view,
            types.is_large_list_view,
        )
    )


def _lengths(array: Any) -> Array:
    """How many values each list has; a null has none."""
    if types.is_fixed_size_list(array.type):
        return np.where(array.is_valid().to_numpy(zero_copy_only=False), array.type.list_size, 0).astype(np.int64)
    lengths = pc.list_value_length(array)
    return np.asarray(lengths.fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def _leaves(where: str, array: Any, lengths: Sequence[Array]) -> Array:
    """The values, none of which may be null."""
    if array.null_count:
        missing = array.is_null().to_numpy(zero_copy_only=False)
        raise row_error(where, missing, lengths, " has no value")
    if types.is_null(array.type):
        return np.zeros(0, object)
    if _is_list(array.type) or types.is_nested(array.type):
        raise ValueError(f"{where}: the values are {array.type}; numbers or strings expected")
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _dense(where: str, array: Any) -> Array:
    """A tensor of the rows, all of which have equally many values."""
    shape = [len(array)]
    while _is_list(array.type):
        if array.null_count:
            row = int(array.is_null().to_numpy(zero_copy_only=False).argmax()) // int(np.prod(shape[1:]))
            raise RowError(where, row, " has no value")
        lengths = _lengths(array)
        width = int(lengths[0]) if len(lengths) else getattr(array.type, "list_size", 0)
        if (different := lengths != width).any():
            number = int(different.argmax())
            row = number // int(np.prod(shape[1:]))
            raise RowError(where, row, f" has {lengths[number]} values; the first has {width}")
        shape.append(width)
        array = _plain(where, array.flatten())
    rows = [np.full(shape[0], int(np.prod(shape[1:])))] if len(shape) > 1 else []
    return _leaves(where, array, rows).reshape(shape)


def arrow_column(where: str, column: Any) -> Any:
    """A column of any library as an Arrow array.

    Raises:
        ValueError: Arrow has no type for its values; the message begins with `where`.
    """
    plain = plain_column(where, column)
    if isinstance(plain, (list, tuple)):
        values = plain_parts(where, plain)
        plain = [value.item() if isinstance(value, np.ndarray) and not value.ndim else value for value in values]
    try:
        return pa.array(plain)
    except pa.ArrowException as error:
        raise ValueError(f"{where} has no type in Arrow: {error}".partition("\n")[0]) from None


def column_of_output(result: Array, declared: Sequence[Any]) -> Any:
    """An output as a column; its further dimensions as lists, of a fixed size where the model fixes it.

    Args:
        result: The output, with an element for each row.
        declared: The shape that the model declares; a size that is not an int is open.
    """
    if result.dtype.kind == "V":  # Arrow has no bfloat16
        result = result.astype(np.float32)
    flat = result.reshape(-1)
    column = pa.array(flat.tolist() if flat.dtype == object else flat, pa.string() if flat.dtype == object else None)
    for axis in range(result.ndim - 1, 0, -1):
        size, count = result.shape[axis], int(np.prod(result.shape[:axis]))
        is_fixed = len(declared) == result.ndim and isinstance(declared[axis], int)
        if is_fixed and size:
            column = pa.FixedSizeListArray.from_arrays(column, size)
        elif is_fixed:
            column = pa.array([[]] * count, pa.list_(column.type, 0))
        else:
            column = pa.LargeListArray.from_arrays(np.arange(count + 1) * size, column)
    return column
