"""Keys and values that are given for a graph's lookup tables: a frozen graph has none itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnx_sparse.converters.errors import ConversionError, Unsupported
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.reading.element_types import onnx_type, type_name
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.ports import refuse_unknown
from onnx_sparse.converters.tensorflow.reading.scopes import Scope
from onnx_sparse.schemas.declaration import numpy_dtype

#: Keys and values of a table, two vectors of one length.
Contents = tuple[Any, Any]

#: The operators that make tables.
TABLES = frozenset({"HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2"})


def checked_tables(graph: Scope, given: Mapping[str, Contents] | None) -> dict[str, tuple[Array, Array]]:
    """The given contents in the types of the tables, by the nodes that make these.

    Args:
        graph: The graph.
        given: Keys and values, by the name of the node that makes the table, or by its shared name.

    Raises:
        ConversionError: If there is no such table, or it cannot hold these keys and values.
    """
    if not given:
        return {}
    tables = {node.name: node for node in graph.nodes.values() if node.op in TABLES}
    by_name = {shared_name(node) or name: node for name, node in tables.items()} | tables
    refuse_unknown([name for name in given if name not in by_name], by_name, "lookup table")
    return {by_name[name].name: _checked(name, by_name[name], *contents) for name, contents in given.items()}


def shared_name(node: NodeDef) -> str:
    """The name that a resource has apart from its node's; empty if it has none."""
    return node.attr["shared_name"].s.decode("utf-8", "replace") if "shared_name" in node.attr else ""


def _checked(name: str, table: Any, keys: Any, values: Any) -> tuple[Array, Array]:
    """Keys and values in the table's types."""
    arrays = []
    for kind, given in (("key", keys), ("value", values)):
        number = table.attr[f"{kind}_dtype"].type
        array = np.asarray(given)
        if array.ndim != 1:
            raise ConversionError(f"lookup table {name}: the {kind}s must be a vector, not of shape {array.shape}")
        try:
            arrays.append(_in_type(array, numpy_dtype(onnx_type(number))))
        except (ValueError, OverflowError, Unsupported) as error:
            raise ConversionError(f"lookup table {name}: its {kind}s are {type_name(number)}: {error}") from error
    if len(arrays[0]) != len(arrays[1]):
        raise ConversionError(f"lookup table {name}: {len(arrays[0])} keys and {len(arrays[1])} values")
    return arrays[0], arrays[1]


def _in_type(array: Array, dtype: np.dtype[Any]) -> Array:
    """The elements in a type that holds them; text is read as numbers, and strings become bytes."""
    if dtype.kind in "OSU":
        texts = np.empty(len(array), object)
        texts[:] = [item if isinstance(item, bytes) else str(item).encode() for item in array.tolist()]
        return texts
    if array.dtype.kind in "SUO":
        if dtype == np.bool_:
            raise ValueError("text is not read as truth values")
        return np.array([dtype.type(item) for item in array.tolist()], dtype)
    cast = array.astype(dtype)
    if dtype.kind in "iu" and not np.array_equal(cast, array):
        raise ValueError("some do not fit")
    return cast
