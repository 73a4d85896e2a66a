"""The lookup tables of a frozen graph: their contents are given, or stand in what is left of their initializers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.converters.tensorflow.source import refuse_unknown
from onnx_sparse.converters.writing.tensor import Array

#: Keys and values of a table, two vectors of one length.
Contents = tuple[Any, Any]

#: How each kind of table is filled; both operators take a handle, keys and values.
_FILLED_BY = {"HashTableV2": "InitializeTableV2", "MutableHashTableV2": "LookupTableImportV2"}


class GraphTables:
    """The lookup tables of a graph whose contents are known.

    Args:
        graph: The tf.Graph; operations that fill its tables are added to it.
        given: Keys and values, by the name of the node that makes the table, or by its shared name.

    Attributes:
        contents: Keys and values of the tables that are known, by node.

    Raises:
        ConversionError: If there is no such table, or it cannot hold these keys and values.
    """

    def __init__(self, graph: Any, given: Mapping[str, Contents] | None = None) -> None:
        tables = {op.name: op for op in graph.get_operations() if op.type in _FILLED_BY}
        by_name = {_shared_name(op) or name: op for name, op in tables.items()} | tables
        given = given or {}
        refuse_unknown([name for name in given if name not in by_name], by_name, "lookup table")
        known = dict(_initialized(graph, tables))
        self.contents = known | {by_name[name].name: _checked(name, by_name[name], *v) for name, v in given.items()}
        self._filling = [_fill(graph, tables[name], *contents) for name, contents in self.contents.items()]

    def fill(self, session: Any) -> None:
        """Fill the tables in a session."""
        session.run(self._filling)

    def name(self, graph_def: Any) -> dict[bytes, tuple[Array, Array]]:
        """Give every table of a GraphDef a shared name; returns the contents by these names."""
        found = {}
        for node in graph_def.node:
            if node.op in _FILLED_BY:
                node.attr["shared_name"].s = node.attr["shared_name"].s or node.name.encode()
                node.op = "HashTableV2"  # nothing is put into any of them any more, and tf2onnx knows no other kind
                if node.name in self.contents:
                    found[node.attr["shared_name"].s] = self.contents[node.name]
        return found


def _initialized(graph: Any, tables: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Array, Array]]]:
    """The tables that the graph itself fills with constants."""
    constant_value = require("tensorflow").get_static_value
    for op in graph.get_operations():
        if op.type not in _FILLED_BY.values():
            continue
        table = op.inputs[0].op
        while table.type == "Identity":
            table = table.inputs[0].op
        keys, values = (constant_value(tensor) for tensor in op.inputs[1:])
        if table.name in tables and keys is not None and values is not None:
            yield table.name, (keys, values)


def _checked(name: str, table: Any, keys: Any, values: Any) -> tuple[Array, Array]:
    """Keys and values in the table's types."""
    arrays = []
    for kind, given in (("key", keys), ("value", values)):
        dtype = table.get_attr(f"{kind}_dtype")
        array = np.asarray(given)
        if array.ndim != 1:
            raise ConversionError(f"lookup table {name}: the {kind}s must be a vector, not of shape {array.shape}")
        try:
            arrays.append(_in_type(array, dtype.as_numpy_dtype))
        except (ValueError, OverflowError) as error:
            raise ConversionError(f"lookup table {name}: its {kind}s are {dtype.name}: {error}") from error
    if len(arrays[0]) != len(arrays[1]):
        raise ConversionError(f"lookup table {name}: {len(arrays[0])} keys and {len(arrays[1])} values")
    return arrays[0], arrays[1]


def _in_type(array: Array, dtype: Any) -> Array:
    """The elements in a type that holds them; text is read as numbers, and strings become bytes."""
    if np.dtype(dtype) == object:
        texts = np.empty(len(array), object)
        texts[:] = [item if isinstance(item, bytes) else str(item).encode() for item in array.tolist()]
        return texts
    if array.dtype.kind in "SUO":
        if np.dtype(dtype) == np.bool_:
            raise ValueError("text is not read as truth values")
        return np.array([dtype(item) for item in array.tolist()], dtype)
    cast = array.astype(dtype)
    if np.dtype(dtype).kind in "iu" and not np.array_equal(cast, array):
        raise ValueError("some do not fit")
    return cast


def _shared_name(table: Any) -> str:
    return str(table.get_attr("shared_name").decode())


def _fill(graph: Any, table: Any, keys: Array, values: Array) -> Any:
    """An operation that fills a table."""
    tf = require("tensorflow")
    with graph.as_default():
        types = table.get_attr("key_dtype"), table.get_attr("value_dtype")
        arguments = [tf.constant(array, dtype) for array, dtype in zip((keys, values), types, strict=True)]
        return getattr(tf.raw_ops, _FILLED_BY[table.type])(
            table_handle=table.outputs[0], keys=arguments[0], values=arguments[1]
        )
