"""ATB ElewiseOperation, one function for each of its types, and WhereOperation."""

from __future__ import annotations

from collections.abc import Callable

from onnx import TensorProto

from onnx_sparse.converters.ascend.atb.handlers.registry import Node, Results, handles, refuse
from onnx_sparse.converters.ascend.compositions import select
from onnx_sparse.converters.ascend.dtypes import ACL, dtype_of_name
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.quantization import dynamic_asymmetric, dynamic_symmetric, rounded_int8
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.schemas.declaration import DType

_TYPES = {
    "CAST": 1,
    "MULS": 2,
    "COS": 3,
    "SIN": 4,
    "NEG": 5,
    "QUANT": 6,
    "LOGICAL_NOT": 7,
    "ADD": 8,
    "MUL": 9,
    "REALDIV": 10,
    "LOGICAL_AND": 11,
    "LOGICAL_OR": 12,
    "LESS": 13,
    "GREATER": 14,
    "SUB": 15,
    "EQUAL": 16,
    "QUANT_PER_CHANNEL": 17,
    "DEQUANT_PER_CHANNEL": 18,
    "DYNAMIC_QUANT": 19,
    "TANH": 20,
}
_FLOAT16_MAX = 65504.0

#: The types whose results are decisions.
_DECISIONS = frozenset(
    _TYPES[name] for name in ("LOGICAL_NOT", "LOGICAL_AND", "LOGICAL_OR", "LESS", "GREATER", "EQUAL")
)

_Function = Callable[[Node, AscendEmitter], Results]


@handles(
    "Elewise",
    to="Cast, Mul, Cos, Sin, Neg, Tanh, Not, And, Or, Add, Sub, Div, Less, Greater, Equal, Round, Clip",
    notes="QUANT by the parameters' scale and offset, which no public test proves",
    exact=lambda params: params.enum("elewiseType", _TYPES, 0) in _DECISIONS,
    defaults={"quantParam.inputScale": 1.0},
)
def elewise(node: Node, emit: AscendEmitter) -> Results:
    """ElewiseOperation of type `elewiseType`."""
    number = node.params.enum("elewiseType", _TYPES, 0)
    function = _FUNCTIONS.get(number)
    if function is None:
        name = next((name for name, known in _TYPES.items() if known == number), None)
        if name is None:
            refuse("ERROR_INVALID_PARAM", f"elewiseType {number} is not one of ATB's")
        raise Unsupported(f"elewiseType {name} has no definition that is known")
    made = function(node, emit)
    node.disregard("mulsParam", "quantParam", "outTensorType")  # those of other types
    return made


@handles("Where", to="Where", exact=True)
def where(node: Node, emit: AscendEmitter) -> Tensor:
    """WhereOperation: x where the int8 condition is not 0, else y."""
    condition, x, y = node.take(3)
    return select(emit, emit.cast(condition, TensorProto.BOOL), x, y)


def _cast(node: Node, emit: AscendEmitter) -> Results:
    (x,) = node.take(1)
    return (emit.cast(x, _target(node, x)),)


def _target(node: Node, x: Tensor) -> DType:
    """`outTensorType`; without it, float32 becomes float16 and everything else float32."""
    name = node.params.text("outTensorType")
    number = -1 if name else node.params.integer("outTensorType", -1)
    if number == -1 and not name:
        return TensorProto.FLOAT16 if x.dtype == TensorProto.FLOAT else TensorProto.FLOAT
    target = dtype_of_name(name) if name else ACL.get(number)
    if target is None:
        refuse("ERROR_INVALID_PARAM", f"outTensorType {name or number} is not an element type")
    return target


def _scaled(node: Node, emit: AscendEmitter) -> Results:
    (x,) = node.take(1)
    factor = emit.constant(node.params.group("mulsParam").number("varAttr", 0.0), TensorProto.FLOAT)
    return (emit.in_float32(lambda wide: emit.op("Mul", wide, emit.cast(factor, wide.dtype)), x),)


def _unary(op_type: str) -> _Function:
    def convert(node: Node, emit: AscendEmitter) -> Results:
        (x,) = node.take(1)
        return (emit.in_float32(lambda wide: emit.op(op_type, wide), x),)

    return convert


def _binary(op_type: str) -> _Function:
    def convert(node: Node, emit: AscendEmitter) -> Results:
        return (emit.arithmetic(op_type, *node.take(2)),)

    return convert


def _comparison(op_type: str) -> _Function:
    def convert(node: Node, emit: AscendEmitter) -> Results:
        answer = emit.arithmetic(op_type, *node.take(2))
        return (emit.cast(answer, TensorProto.INT8),)  # ATB's booleans are int8

    return convert


def _logical(op_type: str, inputs: int) -> _Function:
    def convert(node: Node, emit: AscendEmitter) -> Results:
        flags = [emit.cast(tensor, TensorProto.BOOL) for tensor in node.take(inputs)]
        return (emit.cast(emit.op(op_type, *flags), TensorProto.INT8),)

    return convert


def _quant(node: Node, emit: AscendEmitter) -> Results:
    """round(x * inputScale + inputOffset), clamped to int8."""
    (x,) = node.take(1)
    params = node.params.group("quantParam")
    wide = emit.cast(x, TensorProto.FLOAT)
    scale, offset = params.number("inputScale", 1.0), params.number("inputOffset", 0.0)
    product = emit.op("Mul", wide, emit.like(scale, wide))
    return (rounded_int8(emit, emit.op("Add", product, emit.like(offset, wide))),)


def _quant_per_channel(node: Node, emit: AscendEmitter) -> Results:
    """Clamp(round(x / scale + offset), -128, 127), rounded to x's type after each step; the offset may be omitted."""
    x, scale, *offset = node.take(2, 3)

    def narrowed(tensor: Tensor) -> Tensor:
        return emit.cast(emit.cast(tensor, x.dtype), TensorProto.FLOAT)

    wide, divisor = (emit.cast(tensor, TensorProto.FLOAT) for tensor in (x, scale))
    y = narrowed(emit.op("Div", wide, divisor))
    for shift in offset:
        if 0 not in (shift.shape or ()):
            y = narrowed(emit.op("Add", y, emit.cast(shift, TensorProto.FLOAT)))
    return (rounded_int8(emit, y),)


def _dequant_per_channel(node: Node, emit: AscendEmitter) -> Results:
    """Clip((y - offset) * scale) to float16."""
    y, scale, *offset = (emit.cast(tensor, TensorProto.FLOAT) for tensor in node.take(2, 3))
    centered = emit.op("Sub", y, offset[0]) if offset and 0 not in (offset[0].shape or ()) else y
    product = emit.op("Mul", centered, scale)
    return (emit.cast(_clip(emit, product, -_FLOAT16_MAX, _FLOAT16_MAX), TensorProto.FLOAT16),)


def _dynamic_quant(node: Node, emit: AscendEmitter) -> Results:
    """The rows as int8, the scale of each and, if asymmetric, its offset."""
    (x,) = node.take(1)
    wide = emit.cast(x, TensorProto.FLOAT)
    if node.params.group("quantParam").flag("asymmetric", False):
        return dynamic_asymmetric(emit, wide)
    return dynamic_symmetric(emit, wide)


def _clip(emit: AscendEmitter, tensor: Tensor, low: float, high: float) -> Tensor:
    bounds = (emit.constant(bound, TensorProto.FLOAT) for bound in (low, high))
    return emit.op("Clip", tensor, *bounds, shape=tensor.shape)


_FUNCTIONS: dict[int, _Function] = {
    _TYPES[name]: function
    for name, function in {
        "CAST": _cast,
        "MULS": _scaled,
        "COS": _unary("Cos"),
        "SIN": _unary("Sin"),
        "NEG": _unary("Neg"),
        "TANH": _unary("Tanh"),
        "LOGICAL_NOT": _logical("Not", 1),
        "LOGICAL_AND": _logical("And", 2),
        "LOGICAL_OR": _logical("Or", 2),
        "ADD": _binary("Add"),
        "SUB": _binary("Sub"),
        "MUL": _binary("Mul"),
        "REALDIV": _binary("Div"),
        "LESS": _comparison("Less"),
        "GREATER": _comparison("Greater"),
        "EQUAL": _comparison("Equal"),
        "QUANT": _quant,
        "QUANT_PER_CHANNEL": _quant_per_channel,
        "DEQUANT_PER_CHANNEL": _dequant_per_channel,
        "DYNAMIC_QUANT": _dynamic_quant,
    }.items()
}
