"""Embeddings that are keyed by hashes: the EmbeddingVariables of DeepRec."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.handlers.registry import GraphNode, structure
from onnx_sparse.converters.tensorflow.handlers.structure.constants import resource
from onnx_sparse.converters.tensorflow.handlers.structure.hash_tables import rows_or_defaults
from onnx_sparse.converters.tensorflow.handlers.structure.tables import looked_up_by
from onnx_sparse.converters.tensorflow.importing.emitter import TensorFlowEmitter
from onnx_sparse.converters.tensorflow.importing.values import Resource, Table, Value

_INITIALIZERS = ("InitializeKvVariableV2Op", "InitializeKvVariableOp")
#: The default of an initializer's attribute.
_DEFAULT_ROWS = 4096

structure("KvVarHandleOp", ignored=("shape",))(resource)


@structure("KvResourceGather", "KvResourceGatherV1", ignored=("validate_indices", "is_inference"))
def gather(node: GraphNode, emit: TensorFlowEmitter) -> Value:
    """The row of each key; of one that is not in the variable, the row that would begin it."""
    table, keys, default = looked_up_by(node)
    if len(table.shape) != 1:
        raise Unsupported(f"the variable has values of shape {list(table.shape)}, which are not rows")
    places = table.positions(emit, keys)
    if node.attributes["is_use_default_value_tensor"]:
        return rows_or_defaults(emit, table, places, default)
    rows = _first_rows(node, table)
    if len(rows) == 1 or (rows == rows[:1]).all():
        return table.rows_at(emit, places, emit.constant(rows[0]))
    if keys.dtype == TensorProto.STRING:
        raise Unsupported("the first rows of keys that are text are chosen by a hash that is not known")
    chosen = emit.op("Mod", emit.cast(keys, TensorProto.INT64), emit.constant(len(rows)), shape=keys.shape)
    each = emit.op("Gather", emit.constant(rows), chosen, axis=0)
    return rows_or_defaults(emit, table, places, each)


def _first_rows(node: GraphNode, table: Table) -> Array:
    """The rows with which keys begin, `[n, width]`: key k has the row `k % n`; a filter gives one row to all.

    Raises:
        Unsupported: They are not known, or random.
    """
    handle = node.values()[0]
    assert isinstance(handle, Resource)
    for scope, other in node.context.model.graph.every():
        if other.op not in _INITIALIZERS:
            continue
        target, _, value = scope.origins(other)[:3]
        if (getattr(target, "scope", None), getattr(target, "node", None)) != (handle.scope, handle.node.name):
            continue
        attributes = other.attr
        is_filtered = attributes["filter_freq"].i > 0 if "filter_freq" in attributes else False
        (width,) = table.shape
        if is_filtered:
            row = attributes["default_value_no_permission"].f if "default_value_no_permission" in attributes else 0.0
            return np.full((1, width), row, table.parts[0].dtype)
        count = int(attributes["default_value_dim"].i) if "default_value_dim" in attributes else _DEFAULT_ROWS
        rows = node.context.computed(value, "the first row of a key")
        if rows.size not in (width, count * width):
            raise Unsupported(f"the first rows of keys have the shape {list(rows.shape)}; rows have {width} numbers")
        return rows.reshape(-1, width)
    raise Unsupported("the model lacks the initializer of the variable, so the row of an absent key is not known")
