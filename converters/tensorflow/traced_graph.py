"""The graph of a traced function as a model: what it captures becomes variables and tables with known contents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.converters.tensorflow.reading.messages import GraphDef
from onnx_sparse.converters.tensorflow.reading.model import Model, graph_of
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.ports import Port
from onnx_sparse.converters.tensorflow.reading.variables import Variables

#: The operators that look up keys in a table, whose attributes say the table's types.
_TYPES = {
    **dict.fromkeys(("LookupTableFind", "LookupTableFindV2"), ("Tin", "Tout")),
    "LookupTableExportV2": ("Tkeys", "Tvalues"),
}


def model_of(concrete: Any, name: str, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Model:
    """A ConcreteFunction as a model.

    Args:
        concrete: The function; it is left as it was.
        name: A name for the model.
        inputs, outputs: Its inputs and outputs.
    """
    graph_def = GraphDef.FromString(concrete.graph.as_graph_def(add_shapes=True).SerializeToString())
    nodes = {node.name: node for node in graph_def.node}
    names = {id(variable.handle): variable.name.partition(":")[0] for variable in concrete.graph.variables}
    values: dict[str, Array] = {}
    tables: dict[str, tuple[Array, Array]] = {}
    captured = concrete.captured_inputs
    for inner, outer in zip(concrete.inputs[len(concrete.inputs) - len(captured) :], captured, strict=True):
        node = nodes[inner.op.name]
        if outer.dtype == require("tensorflow").resource:
            _hold_resource(node, outer, names.get(id(outer), ""), graph_def, values, tables)
        else:
            _hold_constant(node, outer, values)
    graph = graph_of(graph_def)
    return Model(
        name=name,
        graph=graph,
        inputs=inputs,
        outputs=outputs,
        variables=Variables(graph, None, values=values),
        lookup_tables=tables,
        effects=tuple(operation.name for operation in concrete.graph.control_outputs),
    )


def _hold_constant(node: NodeDef, tensor: Any, values: dict[str, Array]) -> None:
    """Let a node be the tensor that a function captured."""
    _become(node, "VariableV2", dtype=node.attr["dtype"].type)
    if tensor.dtype != require("tensorflow").variant:
        values[node.name] = np.asarray(tensor)


def _hold_resource(
    node: NodeDef,
    handle: Any,
    name: str,
    graph_def: Any,
    values: dict[str, Array],
    tables: dict[str, tuple[Array, Array]],
) -> None:
    """Let a node be the variable or table that a function captured."""
    tf = require("tensorflow")
    held = getattr(handle, "_handle_data", None)
    if held is not None and held.is_set and held.shape_and_type:
        dtype = held.shape_and_type[0].dtype
        # This shares TensorFlow's memory; numpy() would copy.
        values[node.name] = np.asarray(tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype))
        _become(node, "VarHandleOp", dtype=dtype, shared_name=name)
        node.attr["shape"].shape.ParseFromString(held.shape_and_type[0].shape.SerializeToString())
        return
    for keys, contents in _table_types(graph_def):
        try:
            held_keys, held_values = tf.raw_ops.LookupTableExportV2(table_handle=handle, Tkeys=keys, Tvalues=contents)
        except (tf.errors.OpError, ValueError, TypeError):  # it has other types, or is no table
            continue
        if len(held_keys) == int(tf.raw_ops.LookupTableSizeV2(table_handle=handle)):  # a dense one exports its buckets
            tables[node.name] = np.asarray(held_keys), np.asarray(held_values)
        _become(node, "HashTableV2", key_dtype=keys, value_dtype=contents)
        return
    _become(node, "HashTableV2")  # of unknown contents, or something else, which whatever reads it refuses


def _table_types(graph_def: Any) -> Iterator[tuple[int, int]]:
    """The types of keys and values with which tables are read."""
    found: dict[tuple[int, int], None] = {}
    for nodes in (graph_def.node, *(function.node_def for function in graph_def.library.function)):
        for node in nodes:
            if node.op in _TYPES:
                key, value = _TYPES[node.op]
                found[node.attr[key].type, node.attr[value].type] = None
    yield from found


def _become(node: Any, op: str, shared_name: str = "", **types: int) -> None:
    node.op = op
    node.attr.clear()
    for key, number in types.items():
        node.attr[key].type = number
    if shared_name:
        node.attr["shared_name"].s = shared_name.encode()
