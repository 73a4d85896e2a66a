"""TensorFlow's graph while rules are applied to it: which node makes each tensor, and parts of it as functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, MutableMapping, Sequence
from typing import Any

import numpy as np

from onnx_sparse.converters.tensorflow.explanation import computes
from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.converters.writing.tensor import Array
from onnx_sparse.models.arrays_on_disk import row_ranges
from onnx_sparse.models.graphs import Names


class EditableGraph:
    """A GraphDef without variables, changed in place. Tensors are named as in a node's inputs: `a`, `a:1`.

    Attributes:
        values: The values, by node name, of constants whose contents are not in the graph.
    """

    def __init__(self, graph_def: Any, values: MutableMapping[str, Array]) -> None:
        self.values = values
        self._graph_def = graph_def
        self._nodes = {node.name: node for node in graph_def.node}
        self._derived: dict[tuple[str, ...], list[str]] = {}
        self._abandoned: list[str] = []

    def of_types(self, *ops: str) -> list[Any]:
        """The nodes of the given types."""
        return [node for node in self._graph_def.node if node.op in ops]

    def resolve(self, tensor: str) -> str:
        """The tensor that a tensor is a copy of."""
        node = self._nodes[_node(tensor)]
        return self.resolve(node.input[0]) if node.op == "Identity" else tensor.removesuffix(":0")

    def producer(self, tensor: str, *ops: str) -> Any:
        """The node that makes a tensor; None if it has none of the given types."""
        node = self._nodes[_node(self.resolve(tensor))]
        return node if node.op in ops else None

    def constant(self, tensor: str) -> Array | None:
        """The value of a constant; None for anything else."""
        node = self.producer(tensor, "Const")
        if node is None:
            return None
        if node.name in self.values:
            return self.values[node.name]
        array: Array = require("tensorflow").make_ndarray(node.attr["value"].tensor)
        return array

    def number(self, tensor: str) -> Any:
        """The value of a constant scalar; None for anything else."""
        node = self.producer(tensor, "Const")
        if node is None or node.attr["value"].tensor.tensor_shape.dim or node.name in self.values:
            return None
        return require("tensorflow").make_ndarray(node.attr["value"].tensor).item()

    def users(self, tensor: str) -> list[Any]:
        """The nodes that take a tensor."""
        return [node for node in self._graph_def.node if tensor in _taken(node)]

    def looked_up(self, node: Any) -> str | None:
        """The table whose rows a node gathers; None if it gathers something else."""
        is_lookup = node.op == "Gather" or (
            node.op == "GatherV2" and self.number(node.input[2]) == 0 and node.attr["batch_dims"].i == 0
        )
        return self.resolve(node.input[0]) if is_lookup else None

    def between(self, tensor: str, stops: Callable[[Any], bool]) -> tuple[list[Any], set[str]]:
        """The nodes that compute a tensor, back to nodes that `stops` accepts, and the outputs of the latter."""
        nodes: dict[str, Any] = {}
        entries: set[str] = set()
        todo = [tensor]
        while todo:
            name = todo.pop()
            node = self._nodes[_node(name)]
            if stops(node):
                entries.add(name.removesuffix(":0"))
            elif node.name not in nodes:
                nodes[node.name] = node
                todo += _taken(node)
        return list(nodes.values()), entries

    def function(self, argument: str, results: Sequence[str], nodes: Collection[Any]) -> Callable[[Array], list[Array]]:
        """A function that computes the results from one tensor with the given nodes, in TensorFlow."""
        tf = require("tensorflow")
        part = type(self._graph_def)()
        part.versions.CopyFrom(self._graph_def.versions)
        for node in {node.name: node for node in nodes}.values():
            copy = part.node.add()
            copy.CopyFrom(node)
            copy.input[:] = _taken(node)

        def call(value: Array) -> list[Array]:
            with tf.Graph().as_default(), tf.compat.v1.Session() as session:
                given = tf.constant(value)
                fetched = [name if ":" in name else f"{name}:0" for name in results]
                return list(session.run(tf.import_graph_def(part, {argument: given}, fetched, name="")))

        return call

    def become_lookup(self, node: Any, table: Array, sources: Sequence[str], ids: str, ids_dtype: int) -> None:
        """Replace a node by a lookup in a new table.

        Args:
            node: The node.
            table: The table.
            sources: The constants that it was made from; an equal table made from the same ones is reused.
            ids: The rows to look up.
            ids_dtype: TensorFlow's number of their type.
        """
        tf = require("tensorflow")
        known = self._derived.setdefault(tuple(map(self.resolve, sources)), [])
        name = next((other for other in known if _are_equal(self.values[other], table)), None)
        dtype = tf.dtypes.as_dtype(table.dtype).as_datatype_enum
        if name is None:
            name = Names(self._nodes).fresh(f"{node.name}/table")
            known.append(name)
            self.values[name] = table
            constant = self._add(name, "Const")
            constant.attr["dtype"].type = dtype
            constant.attr["value"].tensor.dtype = dtype
            for size in table.shape:
                constant.attr["value"].tensor.tensor_shape.dim.add(size=size)
        axis = self._add(Names(self._nodes).fresh(f"{node.name}/axis"), "Const")
        axis.attr["dtype"].type = tf.int32.as_datatype_enum
        axis.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(0, tf.int32))
        self._abandoned += map(_node, _taken(node))
        node.op = "GatherV2"
        node.input[:] = [name, ids, axis.name]
        node.attr.clear()
        for key, value in (("Tparams", dtype), ("Tindices", ids_dtype), ("Taxis", tf.int32.as_datatype_enum)):
            node.attr[key].type = value
        node.attr["batch_dims"].i = 0

    def drop_abandoned(self, fetched: Collection[str]) -> int:
        """Remove nodes that only replaced nodes used; returns how many of those removed compute something."""
        users = Counter(_node(name) for node in self._graph_def.node for name in _taken(node))
        kept = set(map(_node, fetched))
        dropped: dict[str, Any] = {}
        todo = list(self._abandoned)
        while todo:
            node = self._nodes[todo.pop()]
            if users[node.name] or node.name in kept or node.name in dropped or node.op.startswith("Placeholder"):
                continue
            dropped[node.name] = node
            taken = list(map(_node, _taken(node)))
            users.subtract(taken)
            todo += taken
        count = sum(map(computes, dropped.values()))
        for k in reversed(range(len(self._graph_def.node))):
            node = self._graph_def.node[k]
            if node.name in dropped:
                del self._graph_def.node[k]
            elif any(name.startswith("^") and _node(name) in dropped for name in node.input):
                node.input[:] = [name for name in node.input if _node(name) not in dropped]
        for name in dropped:
            self.values.pop(name, None)
        return count

    def _add(self, name: str, op: str) -> Any:
        node = self._graph_def.node.add(name=name, op=op)
        self._nodes[name] = node
        return node


def _node(tensor: str) -> str:
    """The name of the node that makes a tensor or that a control dependency names."""
    return tensor.removeprefix("^").partition(":")[0]


def _taken(node: Any) -> list[str]:
    """The inputs of a node, without control dependencies."""
    return [name for name in node.input if not name.startswith("^")]


def _are_equal(a: Array, b: Array) -> bool:
    """Whether two tables are equal: compared in parts, as they may be larger than memory."""
    return a.shape == b.shape and all(np.array_equal(a[rows], b[rows]) for rows in row_ranges(len(a)))
