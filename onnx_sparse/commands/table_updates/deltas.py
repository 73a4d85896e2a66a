"""What changes in a table: rows by their keys, and keys that are deleted, from files and from memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.errors import CommandError, meant
from onnx_sparse.rows.columns import typed
from onnx_sparse.rows.foreign_rows import columns_of, plain_column
from onnx_sparse.schemas.declaration import DType, dtype_name
from onnx_sparse.schemas.features import Feature, listed

Array = np.ndarray[Any, Any]

#: The columns of a delta; that of the keys is named `key`, or `row` in tables that are read by row numbers.
VALUES, DELETED = "values", "deleted"
#: The kinds of files that have types.
_TYPED = (".parquet", ".arrow", ".feather")
_BATCH = 1 << 16


@dataclass(frozen=True)
class Delta:
    """Changes of a table.

    Attributes:
        keys: The keys whose rows there are, each once.
        values: Their rows.
        deleted: The keys that are deleted.
        is_exact: Whether the rows have a type of their own, which must be that of the table; texts and lists have none.
    """

    keys: Array
    values: Array
    deleted: Array
    is_exact: bool


def read_delta(source: Any, key: str, key_type: DType) -> Delta:
    """The changes that a file or columns hold.

    Args:
        source: The path of a file (Parquet, Arrow, CSV, .npz), or columns by name.
        key: The name of the column of keys.
        key_type: Their element type.

    Raises:
        CommandError: A column is missing, not known, or has a value that is no such key, or a key is there twice.
    """
    is_file = isinstance(source, (str, os.PathLike))
    name = os.fspath(source) if is_file else "the delta"
    columns, is_exact = _columns_of_file(name, key, key_type) if is_file else (columns_of(source), True)
    known = (key, VALUES, DELETED)
    if unknown := [column for column in columns if column not in known]:
        raise CommandError(
            f"{name}: column {unknown[0]!r} is not known{meant(str(unknown[0]), known)}; "
            f"the columns of a delta are {listed(known)}"
        )
    if key not in columns:
        raise CommandError(f"{name} has no column {key!r}; its columns are {listed(map(str, columns))}")
    try:
        keys = keys_of(f"{name}, column {key!r}", columns[key], key_type)
        is_deleted = np.zeros(len(keys), bool)
        if DELETED in columns:
            is_deleted = _flags(f"{name}, column {DELETED!r}", columns[DELETED])
            _check_count(name, DELETED, is_deleted, len(keys))
        _check_distinct(name, key, keys)
        kept = np.flatnonzero(~is_deleted)
        if VALUES in columns:
            _check_count(name, VALUES, columns[VALUES], len(keys))
            rows = columns[VALUES] if len(kept) == len(keys) else _taken(name, columns[VALUES], kept)
            values = _array(f"{name}, column {VALUES!r}", rows)
        elif len(kept):
            raise CommandError(f"{name} has no column {VALUES!r}, and keys that are not deleted")
        else:
            values = np.zeros(0, np.float32)
    except (ValueError, TypeError) as error:
        raise CommandError(error) from None
    return Delta(keys[kept], values, keys[is_deleted], is_exact and values.dtype != object)


def _check_count(name: str, label: str, column: Any, count: int) -> None:
    if not hasattr(column, "__len__") or getattr(column, "ndim", 1) == 0:
        raise CommandError(f"{name}, column {label!r} is a single value; one for each row is expected")
    if len(column) != count:
        raise CommandError(f"{name}: its columns have {len(column)} and {count} rows; all must have as many")


def _check_distinct(name: str, key: str, keys: Array) -> None:
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
    if len(again):
        first = min(again, key=lambda k: order[k + 1])
        raise CommandError(
            f"{name}: {key} {_shown(keys[order[first]])} is in row {order[first]} and in row {order[first + 1]}"
        )


def _shown(key: Any) -> str:
    return repr(key.decode(errors="backslashreplace")) if isinstance(key, bytes) else str(key)


def keys_of(where: str, column: Any, key_type: DType) -> Array:
    """Keys as an array: integers, or objects that are bytes.

    Raises:
        ValueError: A value is no such key.
    """
    array = _vector(where, column, "key")
    if key_type != TensorProto.STRING:
        for k, value in enumerate(array.tolist() if array.dtype.kind in "OSUT" else ()):
            if isinstance(value, (str, bytes)):
                shown = repr(value) if isinstance(value, str) else _shown(value)
                raise ValueError(f"{where}, row {k}: {shown} is text; the keys are {dtype_name(key_type)}")
        return typed(where, array, key_type, ())
    made = np.empty(len(array), object)
    for k, value in enumerate(array.tolist()):
        if not isinstance(value, (str, bytes)):
            raise ValueError(f"{where}, row {k}: {value!r} is not text; the keys are text")
        made[k] = value.encode() if isinstance(value, str) else value
    return made


def _flags(where: str, column: Any) -> Array:
    return typed(where, _vector(where, column, "value"), TensorProto.BOOL, ())


def _vector(where: str, column: Any, of: str) -> Array:
    array = _array(where, column)
    if array.ndim != 1:
        raise ValueError(f"{where} has the shape {list(array.shape)}; one {of} for each row is expected")
    return array


def _array(where: str, column: Any) -> Array:
    found = plain_column(where, column)
    if type(found).__module__.partition(".")[0] == "pyarrow":
        from onnx_sparse.rows.arrow_columns import values_of_column

        found = values_of_column(where, Feature(where, "dense", {"values": where}), found)
    if isinstance(found, np.ndarray):
        return found
    lengths = [() if isinstance(row, (str, bytes)) else np.shape(row) for row in found]
    if different := [row for row, shape in enumerate(lengths) if shape != lengths[0]]:
        raise ValueError(f"{where}, row {different[0]} has the shape {lengths[different[0]]}, and row 0 {lengths[0]}")
    return np.array(found, object)


def _taken(name: str, column: Any, rows: Array) -> Any:
    if isinstance(column, np.ndarray):
        return column[rows]
    if not hasattr(column, "take"):
        return [column[row] for row in rows.tolist()]
    try:
        return column.take(rows)
    except NotImplementedError:  # Arrow's
        raise ValueError(f"{name}, column {VALUES!r}: rows of {column.type} cannot be chosen; pass lists") from None


def _columns_of_file(name: str, key: str, key_type: DType) -> tuple[Mapping[str, Any], bool]:
    """The columns of a file, and whether their types are those that it says."""
    if name.endswith(".npz"):
        from onnx_sparse.files.array_file import read_npz

        return dict(read_npz(Path(name))), True
    try:
        import pyarrow as pa
    except ImportError:
        raise CommandError(f"{name} needs pyarrow: pip install 'onnx_sparse[score]'; .npz files need nothing") from None
    from onnx_sparse.scoring.places import place_of
    from onnx_sparse.scoring.row_files import batches_of, kind_of
    from onnx_sparse.scoring.row_sources import Source
    from onnx_sparse.scoring.text_rows import Wanted

    if kind_of(name) not in (*_TYPED, ".csv", ".tsv"):
        raise CommandError(f"{name}: a delta is a file of {listed((*_TYPED, '.csv', '.tsv', '.npz'))}")
    place = place_of(name)
    source = Source(place, place.name, "")
    if not place.store and not os.path.exists(place.path):
        raise CommandError(f"{name}: no such file")
    # A file that lacks a column is a batch with the names of all.
    first = next(batches_of(source, 1, Wanted({"": pa.string()})))
    names: Sequence[str] = first.rows.schema.names
    if [*names] == [""]:
        raise CommandError(f"{name} is empty; the columns of a delta are {listed((key, VALUES, DELETED))}")
    if len({*names}) < len(names):
        raise CommandError(f"{name} has several columns of one name: {listed(names)}")
    types = {int(TensorProto.STRING): pa.binary(), int(TensorProto.UINT64): pa.uint64()}
    known: dict[str, pa.DataType] = {
        key: types.get(int(key_type), pa.int64()),
        VALUES: pa.list_(pa.float64()),
        DELETED: pa.bool_(),
    }
    if any(column not in known for column in names) or key not in names:
        return dict.fromkeys(names), False  # which the caller refuses
    wanted = Wanted({column: known[column] for column in names})
    batches = list(batches_of(source, _BATCH, wanted))
    for batch in batches:
        for row, reason in batch.bad.items():
            raise CommandError(f"{name}, row {batch.first + row}: {reason}")
    table = pa.Table.from_batches([batch.rows for batch in batches])
    return dict(zip(table.schema.names, table.columns, strict=True)), kind_of(name) in _TYPED
