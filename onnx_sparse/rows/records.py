"""Records that are no mappings: what libraries make a row of, as a mapping of its fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np


def as_mapping(row: Any) -> Mapping[str, Any] | None:
    """A record as a mapping; None if it is no record.

    Args:
        row: A mapping; a named tuple, or a Row of Spark; an object of a dataclass, of attrs, pydantic or msgspec, or a
            SimpleNamespace; an element of a numpy array with named fields; or a pandas Series, which is a row by its
            index.
    """
    if isinstance(row, Mapping):
        return row
    if isinstance(row, tuple):  # whose fields may have the names of its methods, such as count
        names = getattr(row, "_fields", None) or getattr(row, "__fields__", None)
        return None if names is None else dict(zip(names, row, strict=True))
    if isinstance(row, np.void):
        return None if row.dtype.names is None else {name: row[name] for name in row.dtype.names}
    if type(row).__module__.partition(".")[0] == "pandas" and type(row).__name__ == "Series":
        return {str(name): value for name, value in row.items()}
    fields = _fields(row)
    return None if fields is None else {name: getattr(row, name) for name in fields}


def _fields(row: Any) -> Iterable[str] | None:
    kind = type(row)
    if isinstance(row, SimpleNamespace):
        return vars(row)
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    if hasattr(kind, "__attrs_attrs__"):
        return [field.name for field in kind.__attrs_attrs__]
    found: Iterable[str] | None = getattr(kind, "model_fields", None)  # pydantic
    return getattr(kind, "__struct_fields__", None) if found is None else found  # msgspec
