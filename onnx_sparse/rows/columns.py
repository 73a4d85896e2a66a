"""Columns as people hold them, as arrays: nested rows, and values of any Python type as values of an element type."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from numbers import Rational
from typing import Any, cast

import numpy as np
from onnx import TensorProto

from onnx_sparse.rows.foreign_rows import SparseParts, described, plain_column, plain_parts
from onnx_sparse.rows.json_texts import JsonTexts
from onnx_sparse.schemas.declaration import DType, dtype_name, element_type, numpy_dtype
from onnx_sparse.schemas.features import Feature

Array = np.ndarray[Any, Any]

#: What no element type has, and nobody means the same number by.
_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)

#: What has a length and is no list of rows or values: texts, and what has no order.
_NO_LISTS = (str, bytes, Mapping, Set)


class RowError(ValueError):
    """A row that does not fit.

    Attributes:
        row: Its number.
        reason: The end of the message.
    """

    def __init__(self, where: str, row: int, reason: str) -> None:
        super().__init__(f"{where}, row {row}{reason}")
        self.row, self.reason = row, reason
        self._where = where

    def after(self, first: int) -> str:
        """The message for rows that are numbered from another number than 0."""
        return f"{self._where}, row {first + self.row}{self.reason}"

    def __reduce__(self) -> Any:
        return RowError, (self._where, self.row, self.reason)


@dataclass(frozen=True)
class Rows:
    """The values of a column, row after row.

    Attributes:
        values: All values.
        lengths: How many there are in each row; then how many there are in each list of a row, and so on.
    """

    values: Any
    lengths: tuple[Array, ...]


def rows_of(where: str, column: Any, depth: int) -> Rows:
    """The values of a column of nested rows.

    Args:
        where: What an error begins with.
        column: Rows of lists, `depth` deep; None for a list is an empty one. Or a ragged or sparse tensor, or Rows.
        depth: How many levels of lists each row has.

    Raises:
        ValueError: A row is no list.
    """
    column = plain_column(where, column)
    if isinstance(column, Rows):
        return column
    if hasattr(column, "nested_row_splits") and hasattr(column, "flat_values"):
        splits = [np.asarray(part) for part in column.nested_row_splits]
        if len(splits) != depth:
            raise ValueError(f"{where} has {len(splits)} levels of rows; the model expects {depth}")
        return Rows(np.asarray(column.flat_values), tuple(map(np.diff, splits)))
    if hasattr(column, "tocsr"):
        matrix = column.tocsr()
        return Rows(matrix.data, (np.diff(matrix.indptr),))
    if isinstance(column, SparseParts):
        return _rows_of_parts(where, column)
    is_scalar = getattr(column, "shape", None) == ()
    if not hasattr(column, "__len__") or isinstance(column, _NO_LISTS) or is_scalar:
        raise ValueError(f"{where}: expected a list of rows, got {described(column)}")
    lists: Any = column
    levels: list[Array] = []
    for _ in range(depth):
        if isinstance(lists, np.ndarray) and lists.dtype.kind != "O" and lists.ndim > 1:
            levels.append(np.full(lists.shape[0], lists.shape[1], np.int64))
            lists = lists.reshape(lists.shape[0] * lists.shape[1], *lists.shape[2:])
            continue
        lists = [() if row is None else row for row in plain_parts(where, lists)]
        for number, row in enumerate(lists):
            if isinstance(row, _NO_LISTS) or not hasattr(row, "__len__") or getattr(row, "shape", None) == ():
                raise RowError(where, _row(number, levels), f": expected a list, got {described(row)}")
        levels.append(np.fromiter(map(len, lists), np.int64, len(lists)))
        lists = _joined(lists)
    return Rows(lists, tuple(levels))


def _joined(lists: list[Any]) -> Any:
    """The elements of lists, as one array if all are arrays of one type. An empty list has no type."""
    filled = [row for row in lists if len(row)]
    first = filled[0] if filled else None
    if isinstance(first, np.ndarray) and all(
        isinstance(row, np.ndarray) and row.dtype == first.dtype and row.shape[1:] == first.shape[1:] for row in filled
    ):
        return np.concatenate(filled)
    parts = (row.tolist() if isinstance(row, np.ndarray) else row for row in filled)
    return list(itertools.chain.from_iterable(parts))


def _rows_of_parts(where: str, tensor: SparseParts) -> Rows:
    """The rows of a sparse tensor, whose values may be in any order."""
    indices, shape = np.asarray(tensor.indices), np.asarray(tensor.dense_shape)
    if indices.ndim != 2 or indices.shape[1] != 2 or len(shape) != 2 or len(indices) != len(tensor.values):
        raise ValueError(f"{where}: a sparse tensor of {len(shape)} dimensions has no rows of values")
    order = np.lexsort(indices.T[::-1])
    return Rows(np.asarray(tensor.values)[order], (np.bincount(indices[:, 0], minlength=int(shape[0])),))


def _row(number: int, levels: Sequence[Array]) -> int:
    """The row of the list with that number, inside further lists."""
    for lengths in reversed(levels):
        number = int(np.searchsorted(np.cumsum(lengths), number, "right"))
    return number


def row_splits(lengths: Array, dtype: np.dtype[Any]) -> Array:
    """Where rows of these lengths begin and end."""
    splits = np.zeros(len(lengths) + 1, dtype)
    np.cumsum(lengths, out=splits[1:])
    return splits


def triple_of_tensor(column: Any) -> tuple[Any, Any, Any] | None:
    """The parts of a sparse tensor, of a column as `plain_column` returns it; None if it is none."""
    if hasattr(column, "tocoo"):
        matrix = column.tocsr()
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        return np.stack([rows, matrix.indices], axis=1), matrix.data, np.array(matrix.shape)
    if isinstance(column, SparseParts):
        return np.asarray(column.indices), np.asarray(column.values), np.asarray(column.dense_shape)
    return None


def triple_of_rows(where: str, feature: Feature, rows: Rows) -> tuple[Array, Any, Array]:
    """The parts of the sparse tensor with these rows."""
    (lengths,) = rows.lengths
    widest = int(lengths.max(initial=0))
    width = widest
    if feature.shape is not None:
        if len(feature.shape) != 2:
            raise ValueError(f"{where} is a sparse tensor of rank {len(feature.shape)}; give its parts, not rows")
        if feature.shape[1] is not None:
            width = feature.shape[1]
    if widest > width:
        raise RowError(where, int(lengths.argmax()), f" has {widest} values; the model takes at most {width}")
    splits = row_splits(lengths, np.dtype(np.int64))
    # The row, and where it begins: repeated at once, which takes half the time of two columns.
    indices = np.repeat(np.stack([np.arange(len(lengths)), splits[:-1]], axis=1), lengths, axis=0)
    np.subtract(np.arange(splits[-1]), indices[:, 1], out=indices[:, 1])
    return indices, rows.values, np.array([len(lengths), width])


# --- Values -----------------------------------------------------------------------------------------------------------


def typed(where: str, values: Any, dtype: DType, lengths: Sequence[Array]) -> Array:
    """Values as an array of an element type.

    Args:
        where: What an error begins with.
        values: An array or lists.
        dtype: The element type, as in TensorProto.
        lengths: The lengths of the rows that the values are in, for errors.

    Returns:
        The array; without a copy if it has the element type already.

    Raises:
        ValueError: A value is missing or does not fit.
    """
    wanted = numpy_dtype(dtype)
    if isinstance(values, JsonTexts):
        if dtype == TensorProto.STRING:
            return cast("Array", values)  # which it stands for
        values = values[:1]  # the first one is the error
    if isinstance(values, np.ndarray) and values.dtype.kind == "O" and values.ndim == 1:  # of lists, in data frames
        values = values.tolist()
    if isinstance(values, (list, tuple)):
        values = plain_parts(where, values)
    # numpy's own choice of a type for objects would make texts of numbers, and floats of large integers.
    array = values if isinstance(values, np.ndarray) else np.array(values, object)
    if not array.ndim and isinstance(values, (Mapping, Set)):
        raise ValueError(f"{where}: expected a list or an array, got {described(values)}")
    if array.dtype == wanted and dtype != TensorProto.STRING:
        return np.asarray(array, order="C")
    if not array.size:  # and so has no type of its own
        return np.empty(array.shape, wanted)
    if array.dtype == object or array.dtype.kind in "SUT":
        return _from_objects(where, array.reshape(-1).tolist(), array.shape, wanted, lengths)
    bad = _misfits(array, wanted)
    if bad is None and array.dtype.kind == "f" and np.isnan(array).any():  # what pandas makes of missing integers
        bad = np.isnan(array)
    if bad is None:
        expected = f"the model expects {dtype_name(dtype)}"
        if array.dtype.kind in "mM":
            way_out = "as texts" if wanted.kind == "O" else "as numbers, of days or seconds for example"
            expected = f"{expected}; pass times {way_out}"
        raise ValueError(f"{where} has values of the type {array.dtype}; {expected}")
    if bad.any():
        raise row_error(where, bad, lengths, f": {misfit(array[bad][0].item(), dtype)}")
    with np.errstate(over="ignore"):
        return np.asarray(array.astype(wanted, copy=False), order="C")


def typed_list(where: str, objects: list[Any], dtype: DType, shape: Sequence[int]) -> Array:
    """Python's objects, as many as a shape has, as an array of an element type; see `typed`."""
    return _from_objects(where, objects, tuple(shape), numpy_dtype(dtype), ())


def _from_objects(
    where: str, objects: list[Any], shape: tuple[int, ...], wanted: np.dtype[Any], lengths: Sequence[Array]
) -> Array:
    """Python's objects as an array of a dtype: in parts, between which other threads run."""
    made = np.empty(len(objects), wanted)
    for begin in range(0, len(objects), _PART):
        part = objects[begin : begin + _PART]
        usual = _usual(part, wanted)
        if usual is not None:
            made[begin : begin + _PART] = usual
            continue
        for number, value in enumerate(part, begin):
            try:
                made[number] = _object_as(value, wanted)
            except ValueError as error:
                if not lengths and isinstance(value, (list, tuple, np.ndarray)) and not _is_scalar(value):
                    raise _uneven(where, objects) from None
                marked = np.arange(len(objects)).reshape(shape) == number
                reason = " has no value" if plain_column(where, value) is None else f": {error}"
                raise row_error(where, marked, lengths, reason) from None
    return made.reshape(shape)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, np.ndarray) and not value.ndim


def _uneven(where: str, rows: list[Any]) -> RowError:
    """The error of rows that make no array, since one has another length than the first, or is no list."""
    if (missing := next((number for number, row in enumerate(rows) if row is None), None)) is not None:
        return RowError(where, missing, " has no value")
    sizes = [len(row) if isinstance(row, (list, tuple, np.ndarray)) and np.ndim(row) else None for row in rows]
    number = next((number for number, size in enumerate(sizes) if size != sizes[0]), 0)
    if sizes[number] is None or sizes[0] is None or number == 0:
        return RowError(where, number, f": {described(rows[number])} and row 0, {described(rows[0])}, differ in shape")
    return RowError(where, number, f" has {sizes[number]} values; the first has {sizes[0]}")


#: How many objects are converted at once.
_PART = 1 << 14
#: By kind of dtype, the types that its objects usually have.
_USUAL: dict[str, set[type]] = {"i": {int}, "u": {int}, "f": {int, float}, "V": {int, float}, "O": {str}, "b": {bool}}
#: The powers of ten of decimals that are tried as numbers: no element type has larger ones.
_LARGEST_EXPONENT = 400
#: Below it, no integer is rounded to a double.
_EXACT = 2.0**53


def _usual(objects: list[Any], wanted: np.dtype[Any]) -> Array | None:
    """Objects of the usual types as an array; None if there is another one, or one that does not fit."""
    types = {*map(type, objects)}
    if not types <= _USUAL[wanted.kind]:
        return None
    try:
        if wanted.kind in "iu":
            array = np.array(objects, np.int64 if wanted.kind == "i" else np.uint64)
            return None if (array.astype(wanted) != array).any() else array
        if wanted.kind not in "fV":
            return np.array(objects, wanted)
        wide = np.array(objects, np.float64)
    except OverflowError:
        return None
    with np.errstate(over="ignore"):
        made = wide.astype(wanted)
    bad = np.isinf(made) & ~np.isinf(wide)
    if int in types:  # floats are rounded, integers must be exact
        mixed = (type(value) is int for value in objects)
        whole = np.fromiter(mixed, bool, len(objects)) if float in types else np.ones(len(objects), bool)
        bad |= whole & (made.astype(np.float64) != wide)
        large = np.flatnonzero(
            whole & (np.abs(wide) >= _EXACT)
        )  # which may be rounded already; Python compares exactly
        pairs = zip(wide[large].tolist(), [objects[number] for number in large.tolist()], strict=True)
        bad[large] |= np.fromiter((rounded != value for rounded, value in pairs), bool, len(large))
    return None if bad.any() else made


def _object_as(value: Any, wanted: np.dtype[Any]) -> Any:
    """A Python object as one of a dtype.

    Raises:
        ValueError: It does not fit.
    """
    plain = plain_column("", value) if isinstance(value, np.ma.MaskedArray) else value
    plain = plain.item() if isinstance(plain, (np.generic, np.ndarray)) and plain.ndim == 0 else plain
    if wanted.kind == "O":
        if isinstance(plain, bytes):
            try:
                return plain.decode()
            except UnicodeDecodeError:
                raise ValueError(f"{value!r} is not UTF-8") from None
        if isinstance(plain, str):
            return plain
        way_out = f"; pass its text, as {str(plain)!r}" if isinstance(plain, _TIMES) else ""
        raise ValueError(f"expected a string, got {described(value)}{way_out}")
    plain = _number(plain, wanted)
    if isinstance(plain, bool) or wanted.kind == "b":
        if isinstance(plain, bool) and wanted.kind == "b":
            return plain
    elif wanted.kind in "iu":
        if isinstance(plain, int) and np.iinfo(wanted).min <= plain <= np.iinfo(wanted).max:
            return plain
    elif isinstance(plain, (int, float)):
        with contextlib.suppress(OverflowError), np.errstate(over="ignore"):
            rounded = float(np.float64(plain).astype(wanted))
            if rounded == plain or (isinstance(plain, float) and math.isinf(rounded) == math.isinf(plain)):
                return rounded
    raise ValueError(misfit(plain, element_type(wanted)))


def _number(value: Any, wanted: np.dtype[Any]) -> Any:
    """A decimal or a fraction as an int if it is whole, else as a float; others, and those beyond floats, as they are.

    A decimal that is written with decimals, as 3.00, is whole where the model expects integers alone.
    """
    if isinstance(value, Decimal):
        if value.is_snan() or (value.is_finite() and value.adjusted() > _LARGEST_EXPONENT):
            return value
        if value.is_finite() and value == int(value) and (wanted.kind in "iu" or int(value.as_tuple().exponent) >= 0):
            return int(value)
    elif isinstance(value, (int, float)) or not isinstance(value, Rational):
        return value
    elif value.denominator == 1:
        return int(value.numerator)
    with contextlib.suppress(OverflowError):
        number = float(value)
        return value if math.isinf(number) and abs(value) != math.inf else number
    return value


def misfit(value: Any, dtype: DType) -> str:
    """What is wrong with a value that does not fit into an element type.

    A whole number must be exact, in every form that rows have: it may be an id. A float is rounded to the type.
    """
    reason = f"{value!r} does not fit into {dtype_name(dtype)}"
    wanted = numpy_dtype(dtype)
    if isinstance(value, _TIMES):
        return f"{reason}; pass a number, of days or seconds for example"
    if type(value) is not int or wanted.kind not in "fV":
        return reason
    with contextlib.suppress(OverflowError), np.errstate(over="ignore"):
        if math.isfinite(wanted.type(float(value))):
            return f"{reason} exactly; pass a float, as {float(value)!r}, to round it"
    return reason


def _misfits(array: Array, wanted: np.dtype[Any]) -> Array | None:
    """Where values are out of the range of a type; None where the kind of values does not fit at all."""
    nowhere = np.zeros(array.shape, bool)
    kind = array.dtype.kind if array.dtype.kind != "V" else "f"  # bfloat16 is one to numpy
    if wanted.kind in "iu":
        if kind not in "iu":
            return None
        info = np.iinfo(wanted)
        return (array < info.min) | (array > info.max) if array.dtype != wanted else nowhere
    if wanted.kind == "b" or wanted.kind == "O":
        return nowhere if kind == wanted.kind else None
    if kind in "iu":
        return _inexact(array, wanted)
    if kind != "f":
        return None
    with np.errstate(over="ignore"):
        return np.asarray(np.isinf(array.astype(wanted)) & ~np.isinf(array))


def _inexact(integers: Array, wanted: np.dtype[Any]) -> Array:
    """Where integers are rounded by a floating type. Compared as integers: as floats, both would be rounded."""
    with np.errstate(over="ignore"):
        rounded = integers.astype(wanted).astype(np.float64)
    info = np.iinfo(integers.dtype)
    is_inside = (rounded >= float(info.min)) & (rounded < float(info.max + 1))
    return np.asarray(~is_inside | (np.where(is_inside, rounded, 0).astype(integers.dtype) != integers))


def row_error(where: str, marked: Array, lengths: Sequence[Array], reason: str) -> RowError:
    """The error of the first value that is marked, with its position in its row.

    Args:
        where: What the message begins with.
        marked: Which values are marked.
        lengths: The lengths of the rows that the values are in, as in `Rows`; empty where each row is an element.
        reason: What the message ends with.
    """
    position = np.argwhere(np.atleast_1d(marked))[0].tolist()
    if not lengths:
        inside = f", position {position[1]}" if len(position) > 1 else ""
        return RowError(where, position[0], inside + reason)
    row = _row(position[0], lengths)
    inside = f", position {position[0] - int(lengths[0][:row].sum())}" if len(lengths) == 1 else ""
    return RowError(where, row, inside + reason)
