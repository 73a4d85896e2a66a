"""tf.raw_ops.LookupTableFindV2: a lookup table whose keys and values become part of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.schemas.declaration import DType, dtype_name

#: LabelEncoder's names for its list of each type and for the default of that type.
_LISTS: dict[DType, tuple[str, str]] = {
    TensorProto.STRING: ("strings", "default_string"),
    TensorProto.INT64: ("int64s", "default_int64"),
    TensorProto.FLOAT: ("floats", "default_float"),
}


@handles(
    "LookupTableFindV2",
    to="LabelEncoder",
    dtypes=("every type",),
    notes="keys are int32, int64 or string; a mutable table is read when the model is converted",
    ignored=("table_handle",),  # the node has the table
)
def lookup_table_find(node: Node, emit: Emitter) -> Tensor:
    """The value of each key, or the default; values that LabelEncoder cannot hold are gathered by position."""
    if node.table is None:
        raise Unsupported(
            "the contents of the table are not in the graph; give its keys and values (--lookup-table NAME=FILE, or "
            "lookup_tables in Python), or convert the SavedModel that it comes from"
        )
    known, held = node.table
    if known.ndim != 1:
        raise Unsupported("a DenseHashTable is not supported; a StaticHashTable or MutableHashTable is")
    keys, default = node["keys"], node["default_value"]
    if keys.dtype == TensorProto.INT32:
        keys = emit.cast(keys, TensorProto.INT64)
    if keys.dtype not in (TensorProto.INT64, TensorProto.STRING):
        raise Unsupported(f"ONNX Runtime has no dictionary with keys of type {dtype_name(keys.dtype)}")
    if not len(known):
        shape = emit.op("Concat", emit.shape_of(keys), emit.shape_of(default), axis=0)
        return emit.op("Expand", default, shape)
    if default.dtype in _LISTS and default.value is not None and held.ndim == 1:
        return _encode(keys, known, held, default.value.item(), default.dtype, emit)
    # The default comes after the last value.
    places = _encode(keys, known, np.arange(len(known)), len(known), TensorProto.INT64, emit)
    values = emit.op("Concat", emit.constant(held), emit.op("Unsqueeze", default, emit.constant([0])), axis=0)
    return emit.op("Gather", values, places, axis=0)


def _encode(keys: Tensor, known: Any, values: Any, default: Any, dtype: DType, emit: Emitter) -> Tensor:
    lists, default_name = _LISTS[dtype]
    attributes = {
        f"keys_{_LISTS[keys.dtype][0]}": known.tolist(),
        f"values_{lists}": values.tolist(),
        default_name: default,
    }
    (found,) = emit.node("LabelEncoder", [keys], [dtype], domain="ai.onnx.ml", **attributes)
    return found
