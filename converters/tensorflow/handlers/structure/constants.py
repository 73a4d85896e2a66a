"""tf.raw_ops.Const, Placeholder, and variables: VarHandleOp, ReadVariableOp, ResourceGather, VariableV2."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import GraphNode, structure
from onnx_sparse.converters.tensorflow.importing.values import COMPLEX, ComplexTensor, Resource, Value
from onnx_sparse.converters.tensorflow.reading.element_types import onnx_type, type_name
from onnx_sparse.converters.tensorflow.reading.scopes import Origin
from onnx_sparse.converters.tensorflow.reading.tensor_values import array_of
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter
from onnx_sparse.converters.writing.lowering.gathering import gathered

#: The most elements of a constant that is called by no name of its own.
_UNNAMED = 64


@structure("Const")
def const(node: GraphNode, emit: InferringEmitter) -> Value:
    """A constant of the model."""
    proto = node.attr["value"].tensor
    if node.attr["dtype"].type != proto.dtype:
        said = type_name(node.attr["dtype"].type)
        raise Unsupported(f"it holds {type_name(proto.dtype)}, not the {said} that it says")
    array = array_of(proto)
    if proto.dtype in COMPLEX:
        return ComplexTensor(emit.constant(np.stack([array.real, array.imag], -1), COMPLEX[proto.dtype]))
    name = "" if array.size <= _UNNAMED else emit.names.fresh(f"{node.scope.name}{node.name}")
    return emit.constant(array, onnx_type(proto.dtype), name)


@structure("Placeholder", "PlaceholderV2", ignored=("shape",))
def placeholder(node: GraphNode, emit: InferringEmitter) -> Value:
    """What must be fed, and is not."""
    raise Unsupported("the model needs every input; this one was omitted")


@structure(
    *("VarHandleOp", "HashTableV2", "HashTable", "MutableHashTableV2", "MutableHashTableOfTensorsV2"),
    *("MutableDenseHashTable", "MutableDenseHashTableV2", "AnonymousMutableDenseHashTable"),
    *("AnonymousHashTable", "AnonymousMutableHashTable"),
    ignored=("shape", "value_shape", "initial_num_buckets", "max_load_factor"),  # the values say their shapes
)
def resource(node: GraphNode, emit: InferringEmitter) -> Value:
    """A variable or a lookup table, by the node that makes it."""
    return Resource(node.scope, node)


@structure("VariableV2", "Variable", ignored=("shape",))
def variable(node: GraphNode, emit: InferringEmitter) -> Value:
    """The value of a variable of TensorFlow 1."""
    context, scope = node.context, node.scope
    change = context.variables.changed_by(Origin(scope, node.name, 0))
    if change is not None:
        raise Unsupported(f"{change} changes it; of such states only resource variables are converted")
    return context.variables.constant(Resource(scope, node))


@structure("ReadVariableOp")
def read_variable(node: GraphNode, emit: InferringEmitter) -> Value:
    """The value of a variable."""
    (handle,) = node.values()
    value = node.context.variables.at(node.scope, node, handle)
    if value.dtype != onnx_type(node.attr["dtype"].type):
        raise Unsupported(f"it reads {value} as {type_name(node.attr['dtype'].type)}")
    return value


@structure("VariableShape")
def variable_shape(node: GraphNode, emit: InferringEmitter) -> Value:
    """The shape of a variable."""
    (handle,) = node.values()
    dtype = node.attributes["out_type"]
    return emit.cast(emit.shape_of(node.context.variables.at(node.scope, node, handle)), dtype)


@structure("ResourceGather", ignored=("validate_indices",))
def resource_gather(node: GraphNode, emit: InferringEmitter) -> Value:
    """Rows of a variable."""
    handle, indices = node.values()
    batch = int(node.attributes["batch_dims"])
    if not isinstance(indices, Tensor):
        raise Unsupported("its indices are not a tensor")
    return gathered(emit, node.context.variables.at(node.scope, node, handle), indices, batch, batch)


@structure("ResourceGatherNd")
def resource_gather_nd(node: GraphNode, emit: InferringEmitter) -> Value:
    """Elements or slices of a variable, by their coordinates."""
    handle, indices = node.values()
    if not isinstance(indices, Tensor):
        raise Unsupported("its indices are not a tensor")
    value = node.context.variables.at(node.scope, node, handle)
    return emit.op("GatherND", value, emit.cast(indices, TensorProto.INT64))
