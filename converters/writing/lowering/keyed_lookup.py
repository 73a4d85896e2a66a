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
from onnx_sparse.models.data.arrays_on_disk import empty_array, row_ranges
from onnx_sparse.schemas.declaration import DType, dtype_name, element_type, numpy_dtype
from onnx_sparse.schemas.validation import KernelError

#: The most keys of a LabelEncoder. Its call takes a microsecond less than that of FindKeys, and it runs anywhere. But
#: its keys are attributes, and each session takes 0.5 us and 120 bytes to add one to its dictionary, 1.8 us and 420
#: bytes if it is text.
MOST_ENCODED = 1000
#: The most keys of which those that are there several times are compared one by one.
_MOST_COMPARED = 1 << 24

#: FindKeys' types of keys, and the inputs of FindStrings that are its keys.
_KEY_TYPES = (TensorProto.INT32, TensorProto.INT64, TensorProto.UINT64)
_TEXT = ("key_bytes", "key_offsets")

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
        name: What the names of its constants begin with.
        grows: Whether no number of keys is too few for an index: the next model has others. Tables of rows grow.

    Raises:
        Unsupported: A key is there with two values; of many keys, where they are looked up.
    """

    def __init__(self, home: Emitter, keys: Array, *values: Array, name: str = "", grows: bool = False) -> None:
        self.keys, self.parts = keys, values
        self._home, self.name, self._grows = home, name, grows or values[0].ndim > 1
        self._written: dict[Any, Tensor] = {}
        self._first: int | None = None
        if keys.ndim == 1 and len(keys) <= MOST_ENCODED and len(set(keys.tolist())) < len(keys):
            self._drop_repeated()

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
        if self._is_encoded() and default.dtype in _LISTS and default.value is not None:
            return self._encoded(emit, queries, np.concatenate(self.parts), default.value.item(), default.dtype)
        first = self._counted_from()
        places = self.positions(emit, queries)
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
        if queries.dtype not in (*_KEY_TYPES, TensorProto.STRING):
            raise Unsupported(f"there is no dictionary with keys of type {dtype_name(queries.dtype)}")
        if self._is_encoded() and queries.dtype != TensorProto.UINT64:
            return self._encoded(emit, queries, np.arange(len(self)), -1, TensorProto.INT64)
        if "index" not in self._written:
            self._write_keys(queries.dtype)
        given = {name: self._written[name] for name in (*_TEXT, "keys", "index") if name in self._written}
        op_type = "FindStrings" if queries.dtype == TensorProto.STRING else "FindKeys"
        return emit.domain_op(op_type, {**given, "queries": queries})[0]

    def _write_keys(self, dtype: DType) -> None:
        """Add the keys and their index.

        Raises:
            Unsupported: A key is there twice.
        """
        from onnx_sparse.keyed_tables import join_text, key_index, text_index

        is_text = dtype == TensorProto.STRING
        held = join_text(self.keys) if is_text else (self.keys.astype(numpy_dtype(dtype), copy=False),)
        try:
            index = (text_index if is_text else key_index)(*held)
        except KernelError as error:
            if len(self) > _MOST_COMPARED or not self._drop_repeated():
                raise Unsupported(str(error)) from error
            self._write_keys(dtype)
            return
        for name, array in zip((*(_TEXT if is_text else ("keys",)), "index"), (*held, index), strict=True):
            self._add(name, array, element_type(array.dtype))

    def _drop_repeated(self) -> bool:
        """Keep one of each key that is there several times with the same value; whether there is one.

        Raises:
            Unsupported: One has several values.
        """
        first: dict[Any, int] = {}
        kept = [place for place, key in enumerate(self.keys.tolist()) if first.setdefault(key, place) == place]
        values = joined(self.parts)
        for place, key in enumerate(self.keys.tolist()):
            if not np.array_equal(values[place], values[first[key]]):
                raise Unsupported(f"the table has the key {key!r} at {first[key]} and, with another value, at {place}")
        count = len(self)
        self.keys, self.parts = self.keys[kept], (values[kept],)
        return len(self) < count

    def _is_encoded(self) -> bool:
        """Whether a LabelEncoder looks keys up."""
        return len(self) <= MOST_ENCODED and not self._grows

    def rows_at(self, emit: Emitter, places: Tensor, default: Tensor) -> Tensor:
        """The values at some positions, and the default where a position is -1."""
        place = emit.op("Add", places, emit.constant(1), shape=places.shape)
        shape = None if places.shape is None else (*places.shape, *self.shape)
        found = emit.op("Gather", self._with_default(default), place, axis=0, shape=shape)
        if default.value is not None:
            return found
        is_there = emit.op("GreaterOrEqual", places, emit.constant(0), shape=places.shape)
        if self.shape:
            is_there = emit.op("Unsqueeze", is_there, emit.constant([-1 - k for k in range(len(self.shape))]))
        return emit.op("Where", is_there, found, default, shape=shape)

    def _with_default(self, default: Tensor) -> Tensor:
        """A table whose first row is the default, and whose others are the values.

        So a lookup and its reduction can become one node. In place of a default that is computed are zeros.
        """
        dtype = numpy_dtype(default.dtype)
        row = np.full((1, *self.shape), "" if default.dtype == TensorProto.STRING else 0, dtype)
        if default.value is not None:
            row = default.value.reshape(row.shape).astype(dtype)
        key = ("rows", tuple(row.reshape(-1).tolist()))
        return self._constant(key, lambda: joined([row, *self.parts]), default.dtype)

    def _constant(self, what: Any, made: Callable[[], Array], dtype: DType) -> Tensor:
        """A constant of the whole model, made when it is first asked for."""
        if what not in self._written:
            self._add(what, made(), dtype)
        return self._written[what]

    def _add(self, what: Any, array: Array, dtype: DType) -> None:
        name = f"{self.name or 'table'}{f'.{what}' if isinstance(what, str) else ''}"
        self._written[what] = self._home.constant(array, dtype, self._home.names.fresh(name))

    def _counted_from(self) -> int | None:
        """The least of values that are as many integers, one after the other; None of others. Orders the keys by them.

        A hash table that TensorFlow exports is in the order of the hashes.
        """
        if "index" in self._written or self.shape or len(self.parts) > 1 or self.parts[0].dtype.kind not in "iu":
            return self._first
        (values,) = self.parts
        first = int(values.min())
        if int(values.max()) - first != len(self) - 1:
            return None
        order = np.argsort(values, kind="stable")
        for rows in row_ranges(values):
            if (values[order[rows]] != np.arange(first + rows.start, first + rows.stop)).any():
                return None
        if (values[:-1] > values[1:]).any():
            self.keys, self.parts = self.keys[order], (values[order],)
        self._first = first
        return first

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
