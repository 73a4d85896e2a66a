"""Rows as other libraries hold them, as columns by name and as what `columns.rows_of` and `columns.typed` read.

No library is imported for its rows: each is known by the protocol that it implements (a mapping, the Arrow PyCapsule
interface, `__array__`, DLPack) or by its own accessors (nested, jagged and sparse tensors of torch).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, MappingView, Sequence, Set
from dataclasses import dataclass
from itertools import chain, count, cycle
from typing import Any

import numpy as np

from onnx_sparse.rows.records import as_mapping

Array = np.ndarray[Any, Any]

#: What is read as it is.
_OWN = (list, tuple, str, bytes, int, float, bool, type(None), np.ndarray, np.generic)
_CAPSULES = ("__arrow_c_stream__", "__arrow_c_array__")
#: What libraries raise for an array that cannot be read: on a device, without storage, of a type of their own.
_UNREADABLE = (TypeError, ValueError, RuntimeError, NotImplementedError, BufferError)


@dataclass(frozen=True)
class SparseParts:
    """The parts of a sparse tensor, as TensorFlow names them."""

    indices: Array
    values: Any
    dense_shape: Sequence[int]


def in_memory(rows: Any) -> Any:
    """Rows as a table, columns or records in memory; those that are one already as they are.

    Lazy frames of polars and dask, data sets of Arrow, `datasets` and TensorFlow, and records of awkward; batches of
    Arrow, and frames of pandas and polars, as one; iterators, and series and arrays of records, as a list, and records
    that are no mappings as such.

    Raises:
        ValueError: A data set of TensorFlow never ends, or frames of polars have different types.
    """
    library = library_of(rows)
    if library == "polars" and hasattr(rows, "collect"):
        return rows.collect()
    if library in ("dask", "dask_expr") and hasattr(rows, "compute"):
        return rows.compute()
    if library == "datasets" and hasattr(rows, "with_format"):
        return rows.with_format("arrow")[:] if hasattr(rows, "__len__") else list(rows)
    if library == "pyarrow" and hasattr(rows, "to_table"):
        return rows.to_table()
    if library == "awkward" and getattr(rows, "fields", None):
        return {name: rows[name] for name in rows.fields}
    if library == "tensorflow" and (hasattr(rows, "as_numpy_iterator") or isinstance(rows, Iterator)):
        rows = _of_tensorflow(rows)
    elif _is_list_of_objects(rows) or (is_walked(rows) and as_mapping(rows) is None):
        rows = list(rows)
    if not isinstance(rows, Sequence) or not rows or isinstance(rows[0], Mapping):
        return rows
    if (one := _one_table(rows)) is not None:
        return one
    records = [*map(as_mapping, rows)]
    return rows if any(record is None for record in records) else records


def is_walked(rows: Any) -> bool:
    """Whether elements are in an order and reached by iterating alone, as those of a generator or a mapping's views."""
    if isinstance(rows, MappingView):
        return True
    is_ordered = isinstance(rows, Iterable) and not isinstance(rows, (Mapping, Set, str, bytes))
    arrays = ("__getitem__", "__array__", "__dlpack__", *_CAPSULES)
    return is_ordered and not any(hasattr(rows, way) for way in arrays)


def without_iterators(column: Any) -> Any:
    """A column whose iterators, and those in its lists, are lists, which can be read twice."""
    if isinstance(column, Iterator):
        column = list(column)
    if isinstance(column, (list, tuple)) and any(
        issubclass(kind, (Iterator, list, tuple)) for kind in {*map(type, column)}
    ):
        return [without_iterators(part) for part in column]
    return column


def _is_list_of_objects(rows: Any) -> bool:
    """Whether it is an array or a series of pandas with records."""
    is_series = library_of(rows) == "pandas" and type(rows).__name__ == "Series"
    return (is_series or isinstance(rows, np.ndarray)) and rows.dtype == object and rows.ndim == 1


def _of_tensorflow(dataset: Any) -> list[Any]:
    """The elements of a `tf.data.Dataset`, or of its iterator; of pairs with labels the first part, as in Keras."""
    if hasattr(dataset, "cardinality") and int(dataset.cardinality()) == -1:
        raise ValueError("the data set never ends; pass a part of it, as dataset.take(100)")
    return [part[0] if type(part) is tuple and part else part for part in dataset]


def _one_table(parts: Sequence[Any]) -> Any:
    """Batches of Arrow, or frames of pandas or polars, as one; None if they are none."""
    library = library_of(parts[0])
    if any(library_of(part) != library or not hasattr(part, "columns") for part in parts):
        return None
    if library == "pyarrow" and all(table_of(part) is part for part in parts):
        import pyarrow as pa

        return pa.concat_tables([pa.table(part) for part in parts])
    if library == "pandas":
        import pandas as pd

        joined = pd.concat(parts, join="inner")  # the outer one has NaN where a frame lacks a column
        if not joined.columns.is_unique:
            return joined
        # Of integers in one frame and floats in another pandas makes floats, which rounds large ones.
        kinds = {name: {getattr(part.dtypes[name], "kind", "O") for part in parts} for name in joined.columns}
        rounded = [name for name, held in kinds.items() if joined.dtypes[name].kind == "f" and held & {"i", "u"}]
        return pd.concat([part.astype(dict.fromkeys(rounded, object)) for part in parts], join="inner")
    if library == "polars":
        import polars as pl

        try:
            return pl.concat(parts)
        except pl.exceptions.PolarsError as error:
            raise ValueError(f"the frames do not fit together: {error}".partition("\n")[0]) from None
    return None


def columns_of(rows: Any, wanted: Collection[str] | None = None) -> Mapping[str, Any]:
    """Rows of all features as columns by name.

    Args:
        rows: A mapping of columns; a data frame or table (pandas, or anything with the Arrow PyCapsule interface); a
            numpy array with named fields; or a list of records, which are mappings.
        wanted: The names that are read; all when omitted. A record must have each of them that another one has.

    Raises:
        TypeError: It is none of these.
        ValueError: A record lacks a name that another one has, or a table has several columns of a name.
    """
    if isinstance(rows, Mapping):
        return rows
    if (table := table_of(rows)) is not None:
        return _by_name(table.schema.names, table.columns, wanted)
    if hasattr(rows, "__getitem__") and (lazy := [way for way in ("collect", "compute") if hasattr(rows, way)]):
        raise TypeError(f"expected a table in memory, got {_kind(rows)}; call its {lazy[0]}() first")
    if hasattr(rows, "columns") and hasattr(rows, "__getitem__"):
        columns = _by_name([*map(str, rows.columns)], rows.columns, wanted)
        return {name: rows[column] for name, column in columns.items()}
    if isinstance(rows, np.ndarray) and rows.dtype.names:
        return {name: rows[name] for name in rows.dtype.names}
    if isinstance(rows, Sequence) and rows and all(isinstance(row, Mapping) for row in rows):
        names = dict.fromkeys(chain.from_iterable(rows))
        needed = names.keys() if wanted is None else names.keys() & wanted
        for number, row in enumerate(rows):
            if not needed <= row.keys():
                lacking = next(name for name in names if name in needed and name not in row)
                raise ValueError(f"record {number} lacks {lacking!r}")
        return {name: [row.get(name) for row in rows] for name in names}
    got = described(rows)
    if isinstance(rows, (list, tuple)) and (others := [row for row in rows if not isinstance(row, Mapping)]):
        got = f"a list with {described(others[0])}"
    raise TypeError(f"expected columns by feature, a table or a list of records (mappings), got {got}")


def _by_name(names: Sequence[str], columns: Iterable[Any], wanted: Collection[str] | None) -> dict[str, Any]:
    found = dict(zip(names, columns, strict=True))
    if len(found) < len(names):
        several = [name for name, count in Counter(names).items() if count > 1 and (wanted is None or name in wanted)]
        if several:
            raise ValueError(f"the table has several columns {several[0]!r}")
    return found


def table_of(rows: Any) -> Any:
    """A table with the Arrow PyCapsule interface as pyarrow's own; None for others, or without pyarrow.

    pandas is read by its own columns: Arrow would take its NaN for missing values.
    """
    if library_of(rows) == "pyarrow" and hasattr(rows, "schema") and hasattr(rows, "columns"):
        return rows
    if library_of(rows) == "pandas" or not any(hasattr(rows, capsule) for capsule in _CAPSULES):
        return None
    try:
        import pyarrow as pa

        return pa.table(rows)
    except (ImportError, *_UNREADABLE):
        return None


def plain_column(where: str, column: Any) -> Any:
    """A column, a row or a value as a list, a numpy or Arrow array, a sparse or ragged tensor, or as it was.

    Args:
        where: What an error begins with.
        column: Anything. Of torch's tensors, nested and jagged ones are lists of their rows; bfloat16 is float32, which
            holds all its values.

    Raises:
        ValueError: A library cannot hand its array over.
    """
    library = library_of(column)
    if isinstance(column, np.ma.MaskedArray):
        return _without_mask(column)
    is_sparse = all(hasattr(column, part) for part in ("indices", "values", "dense_shape"))
    own = isinstance(column, _OWN) and not is_sparse  # a SparseTensorValue of TensorFlow is a tuple
    if own or library in ("pyarrow", "scipy") or hasattr(column, "nested_row_splits"):
        return column
    try:
        if library == "torch":
            return _of_torch(column)
        if callable(getattr(column, "offsets", None)) and callable(getattr(column, "values", None)):  # torchrec
            ends = plain_column(where, column.offsets())
            return np.split(plain_column(where, column.values()), ends[1:-1])
        if is_sparse:
            parts = (plain_column(where, getattr(column, part)) for part in ("indices", "values", "dense_shape"))
            return SparseParts(*parts)
        if library == "pandas":
            return _of_pandas(column)
        if any(hasattr(column, capsule) for capsule in _CAPSULES) or library == "awkward":
            return _of_capsule(column)
        if library == "datasets":
            return column[:]
        if hasattr(column, "__array__"):
            array = np.asanyarray(column)  # with its mask
            return _without_mask(array) if isinstance(array, np.ma.MaskedArray) else np.asarray(array)
        if hasattr(column, "__dlpack__"):
            return np.from_dlpack(column)
    except _UNREADABLE as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{where}: cannot read {described(column)}: {reason}") from None
    if isinstance(column, (count, cycle)):
        raise ValueError(f"{where}: {described(column)} never ends; pass a part, as itertools.islice(column, 100)")
    return list(column) if is_walked(column) else column


def plain_parts(where: str, parts: Sequence[Any]) -> Sequence[Any]:
    """The rows of a list, or its values, each as `plain_column`; the list itself if there is nothing to do."""
    if all(issubclass(kind, _OWN) and not issubclass(kind, np.ma.MaskedArray) for kind in {*map(type, parts)}):
        return parts
    return [_without_arrow(plain_column(f"{where}, row {number}", part)) for number, part in enumerate(parts)]


def _without_arrow(part: Any) -> Any:
    if library_of(part) != "pyarrow":
        return part
    return part.to_pylist() if hasattr(part, "to_pylist") else part.as_py()


def described(value: Any) -> str:
    """A value in an error: its type where its text has many lines or letters."""
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text and " at 0x" not in text else _kind(value)


def _kind(value: Any) -> str:
    return f"a {type(value).__module__}.{type(value).__qualname__}".replace("builtins.", "")


def library_of(value: Any) -> str:
    """The package that a value's type is from."""
    return type(value).__module__.partition(".")[0]


def _with_missing(values: Any, missing: Array) -> Array:
    """Values as objects, with None where they are missing: what is stored there is no value."""
    objects = np.array(values, object)
    objects[missing] = None
    return objects


def _without_mask(array: Any) -> Any:
    """A masked array as an array."""
    missing = np.ma.getmaskarray(array)
    if not missing.any():
        return np.asarray(array.data)
    return _with_missing(array.data, missing) if array.ndim else None


def _of_pandas(column: Any) -> Any:
    """A column, an index or a value of pandas.

    NaN is a number in a column of numpy's floats, as it is in numpy. In columns of nullable types, categories and
    texts, and next to lists and texts, it is how pandas writes a missing value.
    """
    if not hasattr(column, "isna"):
        return None if type(column).__name__ in ("NAType", "NaTType") else column
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return np.asarray(column)
    if hasattr(dtype, "fill_value"):  # a sparse column of numpy's values
        return np.asarray(column)
    missing = np.array(column.isna())
    if not missing.any():
        return np.asarray(column)
    values = np.asarray(column, object)
    if isinstance(dtype, np.dtype) and all(isinstance(value, (int, float)) for value in values[~missing].tolist()):
        missing &= np.array([not isinstance(value, float) for value in values.tolist()])
    return _with_missing(values, missing)


def _of_torch(tensor: Any) -> Any:
    import torch

    if not isinstance(tensor, torch.Tensor):
        return tensor
    tensor = tensor.detach().cpu()
    if tensor.is_nested:
        return [_of_torch(row) for row in tensor.unbind()]
    if tensor.layout is not torch.strided:
        coordinates = tensor.to_sparse_coo()
        unique = coordinates.coalesce()
        if unique._nnz() < coordinates._nnz():
            raise ValueError("it has several values at one coordinate")
        return SparseParts(_of_torch(unique.indices().T), _of_torch(unique.values()), [*unique.shape])
    if tensor.is_floating_point() and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        tensor = tensor.float()
    return tensor.resolve_conj().resolve_neg().numpy()


def _of_capsule(column: Any) -> Any:
    """An Arrow array, where there is pyarrow; else what the library itself makes of it."""
    try:
        import pyarrow as pa
    except ImportError:
        return column.to_list() if hasattr(column, "to_list") else np.asarray(column)
    return pa.chunked_array(column) if hasattr(column, _CAPSULES[0]) else pa.array(column)
