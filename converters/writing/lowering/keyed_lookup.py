"""Keys that are looked up in a table: what vocabularies and embeddings that are keyed by hashes have in common.

The one place that decides between LabelEncoder and the domain's FindKeys and FindStrings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Array, Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.models.arrays_on_disk import empty_array, row_ranges
from onnx_sparse.schemas.declaration import DType, dtype_name, numpy_dtype

#: The most keys of a LabelEncoder, which has them as attributes and builds its dictionary in each session.
MOST_ENCODED = 500

#: LabelEncoder's names for its list of each type and for the default of that type.
_LISTS: dict[DType, tuple[str, str]] = {
    TensorProto.STRING: ("strings", "default_string"),
    TensorProto.INT64: ("int64s", "default_int64"),
    TensorProto.FLOAT: ("floats", "default_float"),
}


class KeyedTable:
    """Keys and their values, which are constants of a model once, however many nodes look keys up.

    Args:
        home: Where constants of the whole model are added.
        keys: The keys, `[n]`: int32, int64, uint64, or bytes in an array of objects.
        values: Their values, `[n, ...]`, in one or several parts.
        name: What the names of large constants begin with.
    """

    def __init__(self, home: Emitter, keys: Array, *values: Array, name: str = "") -> None:
        self.keys, self.parts = keys, values
        self._home, self.name = home, name
        self._written: dict[Any, Tensor] = {}

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a value."""
        shape: tuple[int, ...] = self.parts[0].shape[1:]
        return shape

    def looked_up(self, emit: Emitter, queries: Tensor, default: Tensor) -> Tensor:
        """The value of each query, or the default, which has the shape and type of a value.

        Raises:
            Unsupported: There is no dictionary with such keys.
        """
        if not len(self):
            return emit.op("Expand", default, emit.op("Concat", emit.shape_of(queries), emit.shape_of(default), axis=0))
        is_encoded = len(self) <= MOST_ENCODED and default.dtype in _LISTS and not self.shape
        if is_encoded and default.value is not None:
            return self._encoded(emit, queries, np.concatenate(self.parts), default.value.item(), default.dtype)
        places = self.positions(emit, queries)
        first = self._counted_from()
        if first is None:
            return self.rows_at(emit, places, default)
        counted = emit.op("Add", places, emit.constant(first), shape=places.shape) if first else places
        if default.value is None or int(default.value) != first - 1:
            is_absent = emit.op("Less", places, emit.constant(0), shape=places.shape)
            counted = emit.op("Where", is_absent, emit.cast(default, TensorProto.INT64), counted, shape=places.shape)
        return emit.cast(counted, default.dtype)

    def positions(self, emit: Emitter, queries: Tensor) -> Tensor:
        """The position of each query among the keys, int64; -1 for what is no key.

        Raises:
            Unsupported: There is no dictionary with such keys.
        """
        return self._encoded(emit, queries, np.arange(len(self)), -1, TensorProto.INT64)

    def rows_at(self, emit: Emitter, places: Tensor, default: Tensor) -> Tensor:
        """The values at some positions, and the default where a position is -1."""
        # The default is the first row, so that a lookup and its reduction can become one node.
        place = emit.op("Add", places, emit.constant(1), shape=places.shape)
        shape = None if places.shape is None else (*places.shape, *self.shape)
        return emit.op("Gather", self._with_default(emit, default), place, axis=0, shape=shape)

    def _with_default(self, emit: Emitter, default: Tensor) -> Tensor:
        """A table whose first row is the default, and whose others are the values."""
        if default.value is None:
            values = self._constant("values", lambda: joined(self.parts), default.dtype)
            return emit.op("Concat", emit.op("Unsqueeze", default, emit.constant([0])), values, axis=0)
        row = default.value.reshape(1, *self.shape).astype(numpy_dtype(default.dtype))
        return self._constant(
            ("rows", tuple(row.reshape(-1).tolist())), lambda: joined([row, *self.parts]), default.dtype
        )

    def _constant(self, what: Any, made: Callable[[], Array], dtype: DType) -> Tensor:
        """A constant of the whole model, made when it is first asked for."""
        if what not in self._written:
            self._written[what] = self._home.constant(made(), dtype, self._home.names.fresh(self.name or "table"))
        return self._written[what]

    def _counted_from(self) -> int | None:
        """The first of values that are integers, each one more than the one before; None of others."""
        if self.shape or len(self.parts) > 1 or self.parts[0].dtype.kind not in "iu":
            return None
        (values,) = self.parts
        first, ranges = int(values[0]), row_ranges(values)
        return first if all((values[r] == np.arange(first + r.start, first + r.stop)).all() for r in ranges) else None

    def _encoded(self, emit: Emitter, queries: Tensor, values: Array, default: Any, dtype: DType) -> Tensor:
        """The values by a LabelEncoder."""
        if queries.dtype == TensorProto.INT32:
            queries = emit.cast(queries, TensorProto.INT64)
        if queries.dtype not in (TensorProto.INT64, TensorProto.STRING):
            raise Unsupported(f"ONNX Runtime has no dictionary with keys of type {dtype_name(queries.dtype)}")
        lists, default_name = _LISTS[dtype]
        attributes = {
            f"keys_{_LISTS[queries.dtype][0]}": self.keys.tolist(),
            f"values_{lists}": values.tolist(),
            default_name: default,
        }
        (found,) = emit.node("LabelEncoder", [queries], [dtype], [queries.shape], domain="ai.onnx.ml", **attributes)
        return found


def joined(parts: Sequence[Array]) -> Array:
    """Arrays one after the other, a large one in a temporary file; a single one as it is."""
    if len(parts) == 1:
        return parts[0]
    whole = empty_array((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    begin = 0
    for part in parts:
        for rows in row_ranges(part):
            whole[begin + rows.start : begin + rows.stop] = part[rows]
        begin += len(part)
    return whole
