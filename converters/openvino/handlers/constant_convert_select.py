"""Constants, type conversions, ShapeOf and Select."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import TensorProto

from onnx_sparse.converters.errors import ConversionError, Unsupported
from onnx_sparse.converters.openvino.element_types import CARRIED, ONNX_TYPES
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.model_ports import element_type, parse_shape
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter
from onnx_sparse.schemas.declaration import DType, dtype_name


@handles(
    "Const-1",
    to="initializer",
    notes="i4, u6, u4, u3, u2 and u1 are carried as int8 and uint8, f4 and f8 as float16, nf4 and f8e8m0 as float.",
)
def constant(node: Node, emit: InferringEmitter) -> Tensor:
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
def identity(node: Node, emit: InferringEmitter) -> Tensor:
    """Identity-16."""
    return node[0]


@handles("Convert-1", to="Cast")
def convert(node: Node, emit: InferringEmitter) -> Tensor:
    """Convert-1. To boolean: any number but 0 is true."""
    to = element_type(node.text("destination_type"), "destination_type")
    return emit.cast(node[0], to)


@handles("ConvertLike-1", to="Cast")
def convert_like(node: Node, emit: InferringEmitter) -> Tensor:
    """ConvertLike-1."""
    return emit.cast(node[0], node[1].dtype)


@dataclass(frozen=True)
class _Kind:
    """What the promotion of types asks of a type."""

    is_real: bool
    bits: int
    is_signed: bool


_KINDS: dict[DType, _Kind] = {
    **{dtype: _Kind(True, bits, True) for dtype, bits in (
        (TensorProto.BFLOAT16, 16), (TensorProto.FLOAT16, 16), (TensorProto.FLOAT, 32), (TensorProto.DOUBLE, 64))},
    **{dtype: _Kind(False, bits, True) for dtype, bits in (
        (TensorProto.INT8, 8), (TensorProto.INT16, 16), (TensorProto.INT32, 32), (TensorProto.INT64, 64))},
    **{dtype: _Kind(False, bits, False) for dtype, bits in (
        (TensorProto.UINT8, 8), (TensorProto.UINT16, 16), (TensorProto.UINT32, 32), (TensorProto.UINT64, 64))},
}  # fmt: skip
_SIGNED_OF: dict[int, DType] = {
    kind.bits: dtype for dtype, kind in _KINDS.items() if not kind.is_real and kind.is_signed
}


@handles("ConvertPromoteTypes-14", to="Cast", notes="Without the types that only constants have.")
def convert_promote_types(node: Node, emit: InferringEmitter) -> tuple[Tensor, ...]:
    """ConvertPromoteTypes-14: both inputs in their common type."""
    # Each decides for some pairs of types only.
    node.disregard("promote_unsafe", "pytorch_scalar_promotion", "u64_integer_promotion_target")
    tensors = node[0], node[1]
    carried = [port.precision for port in node.layer.inputs if port.precision in CARRIED]
    if carried:
        raise Unsupported(f"it promotes {carried[0]}, a type that only constants may have")
    common = _promoted(node, *tensors)
    return tuple(emit.cast(tensor, common) for tensor in tensors)


def _promoted(node: Node, one: Tensor, other: Tensor) -> DType:
    """The common type of two tensors: of a number and a boolean, the number's; of a real number and an integer, the
    former's; else the wider one's. Without `promote_unsafe`, it must hold all that both can.
    """
    if one.dtype == other.dtype:
        return one.dtype
    if TensorProto.BOOL in (one.dtype, other.dtype):
        return other.dtype if one.dtype == TensorProto.BOOL else one.dtype
    refused = Unsupported(f"no promotion of {dtype_name(one.dtype)} and {dtype_name(other.dtype)}, which OpenVINO has")
    if one.dtype not in _KINDS or other.dtype not in _KINDS:
        raise refused
    is_unsafe = node.flag("promote_unsafe", False)
    a, b = _KINDS[one.dtype], _KINDS[other.dtype]
    if a.is_real != b.is_real:
        (real, dtype), integer = ((a, one.dtype), b) if a.is_real else ((b, other.dtype), a)
        if not is_unsafe and real.bits < 2 * integer.bits:
            raise refused
        return dtype
    if node.flag("pytorch_scalar_promotion", False) and (one.rank == 0) != (other.rank == 0):
        target, kind, scalar = (other.dtype, b, a) if one.rank == 0 else (one.dtype, a, b)
        is_same_sign = kind.is_signed == scalar.is_signed
        if is_unsafe or (is_same_sign and kind.bits >= scalar.bits) or (
            kind.is_signed and not scalar.is_signed and 2 * kind.bits >= scalar.bits
        ):  # fmt: skip
            return target
        raise refused
    if a.is_signed != b.is_signed:
        signed, unsigned = (a, b) if a.is_signed else (b, a)
        if unsigned.bits <= 32 and (is_unsafe or 2 * unsigned.bits <= signed.bits):
            return _SIGNED_OF[max(2 * unsigned.bits, signed.bits)]
        if not is_unsafe:
            raise refused
        return element_type(node.text("u64_integer_promotion_target", "f32"), "u64_integer_promotion_target")
    if a.bits != b.bits:
        return one.dtype if a.bits > b.bits else other.dtype
    if not is_unsafe:
        raise refused
    return TensorProto.FLOAT  # of the two reals of 16 bits


@handles("ShapeOf-1", "ShapeOf-3", to="Shape")
def shape_of(node: Node, emit: InferringEmitter) -> Tensor:
    """ShapeOf-1 and ShapeOf-3, whose output_type is the port's type."""
    output_type = element_type(node.text("output_type", "i64"), "output_type")
    return emit.cast(emit.shape_of(node[0]), output_type)


@handles("Select-1", to="Where", notes="auto_broadcast pdpd is not supported.")
def select(node: Node, emit: InferringEmitter) -> Tensor:
    """Select-1."""
    node.choice("auto_broadcast", ("numpy", "none"), "numpy")
    chosen, other = node[1], node[2]
    condition = emit.cast(node[0], TensorProto.BOOL)
    return emit.op("Where", condition, chosen, other)
