"""A rule for dictionaries of many keys."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto

from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.writing.lowering.keyed_lookup import MOST_ENCODED, KeyedTable
from onnx_sparse.models.graphs import array_of, attributes
from onnx_sparse.schemas.declaration import dtype_name

#: The suffixes of LabelEncoder's lists, their element types, and the default where none is written.
_LISTS: dict[str, tuple[int, Any]] = {
    "strings": (TensorProto.STRING, "_Unused"),
    "int64s": (TensorProto.INT64, -1),
    "floats": (TensorProto.FLOAT, -0.0),
}
_KEYS = (TensorProto.STRING, TensorProto.INT64, TensorProto.INT32)


class LargeDictionary(Rule[Graph]):
    """A LabelEncoder of many keys becomes a FindKeys or FindStrings, with the values gathered by position. Equal.

    A session builds the dictionary of a LabelEncoder anew, and has it for itself; an index is ready in a file.
    """

    name = "large-dictionary"
    anchors = ("LabelEncoder",)

    def pattern(self, graph: Graph, node: NodeProto) -> Match | None:
        """A LabelEncoder of more keys than are good for one."""
        given = attributes(node)
        keys, values = _listed(given, "keys_"), _listed(given, "values_")
        if keys is None or values is None or len(keys[0]) <= MOST_ENCODED or len(keys[0]) != len(values[0]):
            return None
        return {"keys": keys, "values": values, "default": _default(given, values[1])}

    def check(
        self, graph: Graph, node: NodeProto, keys: tuple[Array, int], values: tuple[Array, int], default: Any
    ) -> str | None:
        """The keys must be text or integers, and differ: of equal ones, runtimes may take either."""
        if keys[1] not in _KEYS:
            return f"the keys are {dtype_name(keys[1])}"
        if default is None:
            return "the default is not of the type of the values"
        if len(set(keys[0].tolist())) < len(keys[0]):
            return "a key is there twice"
        return None

    def rewrite(
        self, graph: Graph, node: NodeProto, keys: tuple[Array, int], values: tuple[Array, int], default: Any
    ) -> None:
        """Look the keys up, and gather the values."""
        emit = graph.emitter(node)
        table = KeyedTable(emit, keys[0], values[0], name=node.name)
        found = table.looked_up(emit, graph.tensor(node.input[0]), emit.constant(np.array(default), values[1]))
        graph.replace_by(node, [found])


def _listed(given: dict[str, Any], prefix: str) -> tuple[Array, int] | None:
    """The keys or values of a LabelEncoder, and their element type; None if there are none."""
    tensor = given.get(f"{prefix}tensor")
    if tensor is not None:
        return array_of(tensor).reshape(-1), tensor.data_type
    for suffix, (dtype, _) in _LISTS.items():
        if found := given.get(f"{prefix}{suffix}"):
            array = np.array(found, {"strings": object, "int64s": np.int64, "floats": np.float32}[suffix])
            return array, dtype
    return None


def _default(given: dict[str, Any], dtype: int) -> Any:
    """The value of what is no key; None if it is not of the values' type."""
    tensor = given.get("default_tensor")
    if tensor is not None:
        return array_of(tensor).reshape(-1)[0] if tensor.data_type == dtype and array_of(tensor).size == 1 else None
    for suffix, (listed, usual) in _LISTS.items():
        if listed == dtype:
            return given.get(f"default_{suffix.removesuffix('s')}", usual)
    return None
