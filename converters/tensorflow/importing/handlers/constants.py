"""tf.raw_ops.Const, Placeholder, and variables: VarHandleOp, ReadVariableOp, ResourceGather, VariableV2."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.importing.attributes import Attributes
from onnx_sparse.converters.tensorflow.importing.context import Context
from onnx_sparse.converters.tensorflow.importing.handlers.indexing import gathered
from onnx_sparse.converters.tensorflow.importing.handlers.registry import structure
from onnx_sparse.converters.tensorflow.importing.values import COMPLEX, ComplexTensor, Resource, Value
from onnx_sparse.converters.tensorflow.reading.effects import refuse_after_change
from onnx_sparse.converters.tensorflow.reading.element_types import onnx_type, type_name
from onnx_sparse.converters.tensorflow.reading.operators import operators
from onnx_sparse.converters.tensorflow.reading.scopes import Scope
from onnx_sparse.converters.tensorflow.reading.tensor_values import array_of
from onnx_sparse.converters.tensorflow.reading.variables import VARIABLES
from onnx_sparse.schemas.declaration import numpy_dtype

#: The most elements of a constant that is called by no name of its own.
_UNNAMED = 64


@structure("Const")
def const(context: Context, scope: Scope, node: Any) -> tuple[Value, ...]:
    """A constant of the model."""
    proto = node.attr["value"].tensor
    if node.attr["dtype"].type != proto.dtype:
        said = type_name(node.attr["dtype"].type)
        raise Unsupported(f"it holds {type_name(proto.dtype)}, not the {said} that it says")
    array = array_of(proto)
    emit = scope.frame.emit
    if proto.dtype in COMPLEX:
        return (ComplexTensor(emit.constant(np.stack([array.real, array.imag], -1), COMPLEX[proto.dtype])),)
    name = "" if array.size <= _UNNAMED else emit.names.fresh(f"{scope.name}{node.name}")
    return (emit.constant(array, onnx_type(proto.dtype), name),)


@structure("Placeholder", "PlaceholderV2")
def placeholder(context: Context, scope: Scope, node: Any) -> tuple[Value, ...]:
    """What must be fed, and is not."""
    raise Unsupported("the model needs every input; this one was omitted")


@structure(
    *("VarHandleOp", "HashTableV2", "HashTable", "MutableHashTableV2", "MutableHashTableOfTensorsV2"),
    *("MutableDenseHashTableV2", "AnonymousHashTable", "AnonymousMutableHashTable"),
)
def resource(context: Context, scope: Scope, node: Any) -> tuple[Value, ...]:
    """A variable or a lookup table, by the node that makes it."""
    return (Resource(scope, node),)


@structure("VariableV2", "Variable")
def variable(context: Context, scope: Scope, node: Any) -> tuple[Value, ...]:
    """The value of a variable of TensorFlow 1."""
    return (variable_value(context, Resource(scope, node)),)


@structure("ReadVariableOp")
def read_variable(context: Context, scope: Scope, node: Any) -> tuple[Value, ...]:
    """The value of a variable."""
    (handle,) = context.values(scope.origins(node))
    refuse_after_change(scope, node, node.input[0])
    value = variable_value(context, handle)
    if value.dtype != onnx_type(node.attr["dtype"].type):
        raise Unsupported(f"it reads {value} as {type_name(node.attr['dtype'].type)}")
    return (value,)


@structure("VariableShape")
def variable_shape(context: Context, scope: Scope, node: Any) -> tuple[Value, ...]:
    """The shape of a variable."""
    (handle,) = context.values(scope.origins(node))
    dtype = Attributes(operators()[node.op], node.attr)["out_type"]
    return (scope.frame.emit.constant(np.array(variable_value(context, handle).dims), dtype),)


@structure("ResourceGather")
def resource_gather(context: Context, scope: Scope, node: Any) -> tuple[Value, ...]:
    """Rows of a variable."""
    handle, indices = context.values(scope.origins(node))
    refuse_after_change(scope, node, node.input[0])
    attributes = Attributes(operators()[node.op], node.attr)
    batch = int(attributes["batch_dims"])
    attributes.refuse_unread(frozenset({"validate_indices"}))
    if not isinstance(indices, Tensor):
        raise Unsupported("its indices are no tensor")
    return (gathered(variable_value(context, handle), indices, batch, batch, scope.frame.emit),)


@structure("ResourceGatherNd")
def resource_gather_nd(context: Context, scope: Scope, node: Any) -> tuple[Value, ...]:
    """Elements or slices of a variable, by their coordinates."""
    handle, indices = context.values(scope.origins(node))
    refuse_after_change(scope, node, node.input[0])
    if not isinstance(indices, Tensor):
        raise Unsupported("its indices are no tensor")
    emit = scope.frame.emit
    return (emit.op("GatherND", variable_value(context, handle), emit.cast(indices, TensorProto.INT64)),)


def variable_value(context: Context, handle: Value) -> Tensor:
    """The value of a variable, which is a constant of the whole model.

    Raises:
        Unsupported: It is no variable, or its value is not known.
    """
    if not isinstance(handle, Resource) or handle.node.op not in VARIABLES:
        raise Unsupported("it reads a resource that is no variable")
    if handle.node.name not in context.variables or handle.scope.whole is not context.model.graph:
        dtype = onnx_type(handle.node.attr["dtype"].type)
        array = context.model.variables.value(handle.node)
        if numpy_dtype(dtype) != array.dtype:
            raise Unsupported(f"the variable {handle.node.name} has another type in the checkpoint")
        name = context.frame.emit.names.fresh(context.model.variables.name(handle.node))
        context.variables[handle.node.name] = context.frame.emit.constant(array, dtype, name)
    return context.variables[handle.node.name]
