"""The types of columns of JSON that are only kept: what holds every value of the file without loss.

A file says no types, and is read in parts. Where a later part has values that the type before does not hold, the file
is read again with a wider one; where none holds all, the column is of texts: those of JSON, and texts as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import types

from onnx_sparse.scoring.text_cells import Number, json_text

#: The type of a column, None for texts of what has no type in common.
KeptType: TypeAlias = "pa.DataType | None"

_INT64 = range(-(2**63), 2**63)


class WidenedError(Exception):
    """A part of a file has values that the types of the parts before do not hold.

    Attributes:
        types: The types for the whole file, as far as it is known.
    """

    def __init__(self, widened: Mapping[str, KeptType]) -> None:
        super().__init__("the file must be read again")
        self.types = dict(widened)


def widened(before: KeptType, values: Sequence[Any]) -> KeptType:
    """The type that also holds further values."""
    for value in values:
        if before is None:
            return None
        before = _merged(before, _type_of(value))
    return before if before is None or all(_is_held(value, before) for value in values) else None


def _is_held(value: Any, dtype: pa.DataType) -> bool:
    """Whether a type of such values loses nothing: a double does not hold every integer."""
    if types.is_floating(dtype):
        return not isinstance(value, int) or float(value) == value
    if types.is_list(dtype) and value is not None:
        return all(_is_held(item, dtype.value_type) for item in value)
    if types.is_struct(dtype) and value is not None:
        return all(_is_held(value.get(field.name), field.type) for field in dtype)
    return True


def kept_column(values: Sequence[Any], dtype: KeptType) -> pa.Array:
    """The column of values that a type holds.

    Raises:
        pa.ArrowException, UnicodeEncodeError: A text is not one of Unicode.
    """
    if dtype is None:
        texts = [value if value is None or isinstance(value, str) else json_text(value) for value in values]
        return pa.array(texts, pa.string())
    return pa.array(values, dtype)


def _type_of(value: Any) -> KeptType:
    if value is None:
        return pa.null()
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64() if value in _INT64 else None
    if isinstance(value, float):
        return None if isinstance(value, Number) and not value.is_exact() else pa.float64()
    if isinstance(value, str):
        return pa.string()
    if isinstance(value, list):
        inner = widened(pa.null(), value)
        return None if inner is None else pa.list_(inner)
    if value.repeated:
        return None
    fields = {name: _type_of(item) for name, item in value.items()}
    return None if None in fields.values() else pa.struct(list(fields.items()))


def _merged(one: pa.DataType, other: KeptType) -> KeptType:
    """The type that holds the values of both."""
    if other is None or one == other or types.is_null(other):
        return other if other is None else one
    if types.is_null(one):
        return other
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if types.is_list(one) and types.is_list(other):
        inner = _merged(one.value_type, other.value_type)
        return None if inner is None else pa.list_(inner)
    if types.is_struct(one) and types.is_struct(other):
        fields: dict[str, KeptType] = {field.name: field.type for field in one}
        for field in other:
            held = fields.get(field.name, pa.null())
            fields[field.name] = None if held is None else _merged(held, field.type)
        return None if None in fields.values() else pa.struct(list(fields.items()))
    return None
