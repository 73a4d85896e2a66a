"""The outputs of a model as its rows came: columns, records, or a frame or table of the caller's library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onnx_sparse.errors import meant
from onnx_sparse.rows.columns import Array
from onnx_sparse.rows.foreign_rows import library_of, table_of
from onnx_sparse.schemas.features import listed


def chosen_outputs(outputs: Sequence[str] | None, there: Sequence[str]) -> list[str]:
    """The names of the outputs asked for; of all when None.

    Raises:
        TypeError: They are a text.
        ValueError: The model has no such output.
    """
    if isinstance(outputs, str):
        raise TypeError(f"outputs is a list of names, not the name {outputs!r}")
    names = list(there if outputs is None else outputs)
    if unknown := [name for name in names if name not in there]:
        known = listed(map(repr, there))
        raise ValueError(f"the model has no output {unknown[0]!r}{meant(unknown[0], there)}; it has {known}")
    return names


def require_rows(name: str, result: Array, rows: int) -> None:
    """Check that an output has an element for each row.

    Raises:
        ValueError: It has not.
    """
    if not result.ndim or result.shape[0] != rows:
        raise ValueError(f"output {name!r} has the shape {list(result.shape)}; the batch has {rows} rows")


def answers_of(rows: Any, results: Mapping[str, Array], shapes: Mapping[str, Sequence[Any]]) -> Any:
    """Outputs in the form of the rows that they answer.

    Args:
        rows: What `Features.feeds` took.
        results: The outputs by name, each with an element for each row.
        shapes: The shapes that the model declares, by output; a size that is not an int is open.

    Returns:
        For a data frame of pandas or polars the same kind of frame (of pandas with the index of the rows); for other
        tables with the Arrow PyCapsule interface a `pyarrow.Table`; for a list of records as many dicts of Python
        values; else a dict of arrays.
    """
    library = library_of(rows)
    if library == "pandas" and hasattr(rows, "columns"):
        columns = {name: _one_value_a_row(_without_bfloat16(result)) for name, result in results.items()}
        return type(rows)(columns, index=rows.index)
    if table_of(rows) is not None:
        import pyarrow as pa

        from onnx_sparse.rows.arrow_columns import column_of_output

        table = pa.table({name: column_of_output(result, shapes[name]) for name, result in results.items()})
        if library != "polars":
            return table
        import polars as pl

        return pl.from_arrow(table)
    if isinstance(rows, Sequence):
        values = {name: _without_bfloat16(result).tolist() for name, result in results.items()}
        return [{name: column[number] for name, column in values.items()} for number in range(len(rows))]
    return dict(results)


def _without_bfloat16(result: Array) -> Array:
    """An output whose type other libraries have: float32 holds all values of bfloat16."""
    return result.astype(np.float32) if result.dtype.kind == "V" else result


def _one_value_a_row(result: Array) -> Any:
    return result if result.ndim == 1 else list(result)
