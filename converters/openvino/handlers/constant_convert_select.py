"""Constants, type conversions, ShapeOf and Select."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.errors import ConversionError, Unsupported
from onnx_sparse.converters.openvino.element_types import ONNX_TYPES
from onnx_sparse.converters.openvino.emitter import Emitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.model_ports import element_type, parse_shape
from onnx_sparse.converters.tensor import Tensor


@handles(
    "Const-1",
    to="initializer",
    notes="i4, u4, u2 and u1 are carried as int8 and uint8, f4 and f8 as float16, nf4 and f8e8m0 as float.",
)
def constant(node: Node, emit: Emitter) -> Tensor:
    """Constant-1."""
    name = node.text("element_type")
    shape = parse_shape(node.text("shape", ""))
    if shape is None or None in shape:
        raise Unsupported(f"shape {node.text('shape')[:80]!r} is not a valid shape of a constant")
    try:
        dims = [d for d in shape if d is not None]
        array = node.weights.constant(name, dims, node.integer("offset"), node.integer("size"))
    except ConversionError as error:
        raise Unsupported(str(error)) from error
    return emit.constant(array, ONNX_TYPES[name], emit.names.fresh(node.layer.name))


@handles("Identity-16", to="-")
def identity(node: Node, emit: Emitter) -> Tensor:
    """Identity-16."""
    return node[0]


@handles("Convert-1", to="Cast")
def convert(node: Node, emit: Emitter) -> Tensor:
    """Convert-1. To boolean: any number but 0 is true."""
    to = element_type(node.text("destination_type"), "destination_type")
    return emit.cast(node[0], to)


@handles("ConvertLike-1", to="Cast")
def convert_like(node: Node, emit: Emitter) -> Tensor:
    """ConvertLike-1."""
    return emit.cast(node[0], node[1].dtype)


@handles("ShapeOf-1", "ShapeOf-3", to="Shape")
def shape_of(node: Node, emit: Emitter) -> Tensor:
    """ShapeOf-1 and ShapeOf-3, whose output_type is the port's type."""
    output_type = element_type(node.text("output_type", "i64"), "output_type")
    return emit.cast(emit.shape_of(node[0]), output_type)


@handles("Select-1", to="Where", notes="auto_broadcast pdpd is not supported.")
def select(node: Node, emit: Emitter) -> Tensor:
    """Select-1."""
    node.choice("auto_broadcast", ("numpy", "none"), "numpy")
    chosen, other = node[1], node[2]
    condition = emit.cast(node[0], TensorProto.BOOL)
    return emit.op("Where", condition, chosen, other)
