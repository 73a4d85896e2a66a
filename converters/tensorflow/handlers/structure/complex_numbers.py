"""Operators of complex numbers, which ONNX Runtime does not have: computed with their real and imaginary parts.

What only moves numbers is done with both parts by the operator's own handler; sums and products are written out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.importing.values import COMPLEX, ComplexTensor, Value
from onnx_sparse.converters.tensorflow.reading.element_types import NUMBERS
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.writing.emitter import Emitter

#: The types of the parts, as TensorFlow counts types.
_REAL = {NUMBERS["complex64"]: NUMBERS["float32"], NUMBERS["complex128"]: NUMBERS["float64"]}
#: Operators that move numbers or add them: what they do with complex ones they do with each part.
_OF_EACH_PART = frozenset(
    {"Add", "AddV2", "AddN", "Sub", "Neg", "Sum", "Mean", "Cumsum", "ZerosLike"}
    | {"Reshape", "Transpose", "ExpandDims", "Squeeze", "StridedSlice", "Slice", "Concat", "ConcatV2", "Pack", "Unpack"}
    | {"Split", "SplitV", "GatherV2", "GatherNd", "Tile", "BroadcastTo", "Pad", "PadV2", "MirrorPad", "ReverseV2"}
    | {"Roll", "Select", "SelectV2", "Shape", "Size", "Rank", "Fill", "EnsureShape", "BatchToSpaceND", "SpaceToBatchND"}
)

#: Real and imaginary parts of each.
Pair = tuple[Tensor, Tensor]
Convert = Callable[[Any, Sequence[Tensor]], tuple[Tensor, ...]]


def is_complex(node: NodeDef) -> bool:
    """Whether a node has complex numbers."""
    return any(number in COMPLEX for attribute in node.attr.values() for number in _types(attribute))


def complex_results(node: NodeDef, values: Sequence[Value], convert: Convert, emit: Emitter) -> tuple[Value, ...]:
    """The results of a node of complex numbers.

    Args:
        node: The node.
        values: Its inputs.
        convert: Converts a node of real numbers with its handler.
        emit: Receives the nodes.

    Raises:
        Unsupported: The operator is not converted for complex numbers.
    """
    if node.op in _ARITHMETIC:
        return (_joined(_ARITHMETIC[node.op](node, [_split(value, emit) for value in values], emit), emit),)
    if node.op not in _OF_EACH_PART:
        raise Unsupported("it is not converted for complex numbers")
    real: Any = type(node)()
    real.CopyFrom(node)
    for attribute in real.attr.values():
        if attribute.type in _REAL:
            attribute.type = _REAL[attribute.type]
    real.attr.pop("_output_shapes", None)
    parts = []
    for k in range(2):
        given = [_split(value, emit)[k] if isinstance(value, ComplexTensor) else _tensor(value) for value in values]
        parts.append(convert(real, given))
    if node.op in ("Shape", "Size", "Rank"):
        return parts[0]
    return tuple(_joined(pair, emit) for pair in zip(*parts, strict=True))


def _types(attribute: Any) -> list[int]:
    return [attribute.type, *attribute.list.type]


def _split(value: Value, emit: Emitter) -> Pair:
    if not isinstance(value, ComplexTensor):
        raise Unsupported("its input is not a tensor of complex numbers")
    real, imaginary = (emit.op("Gather", value.parts, emit.constant(k), axis=-1) for k in range(2))
    return real, imaginary


def _joined(pair: Sequence[Tensor], emit: Emitter) -> ComplexTensor:
    last = emit.constant([-1])
    return ComplexTensor(emit.op("Concat", *(emit.op("Unsqueeze", part, last) for part in pair), axis=-1))


def _tensor(value: Value) -> Tensor:
    if not isinstance(value, Tensor):
        raise Unsupported("its input is not a tensor of numbers")
    return value


def _multiplied(op_type: str, one: Pair, other: Pair, emit: Emitter) -> Pair:
    (a, b), (c, d) = one, other
    real = emit.op("Sub", emit.op(op_type, a, c), emit.op(op_type, b, d))
    return real, emit.op("Add", emit.op(op_type, a, d), emit.op(op_type, b, c))


def _product(node: NodeDef, given: Sequence[Pair], emit: Emitter) -> Pair:
    return _multiplied("Mul", given[0], given[-1], emit)


def _exponential(node: NodeDef, given: Sequence[Pair], emit: Emitter) -> Pair:
    real, angle = given[0]
    size = emit.op("Exp", real)
    one, other = (emit.op("Mul", size, emit.op(op_type, angle)) for op_type in ("Cos", "Sin"))
    return one, other


def _quotient(node: NodeDef, given: Sequence[Pair], emit: Emitter) -> Pair:
    (c, d) = given[1]
    real, imaginary = _multiplied("Mul", given[0], (c, emit.op("Neg", d)), emit)
    size = emit.op("Add", emit.op("Mul", c, c), emit.op("Mul", d, d))
    return emit.op("Div", real, size), emit.op("Div", imaginary, size)


def _matrix_product(node: NodeDef, given: Sequence[Pair], emit: Emitter) -> Pair:
    turned = []
    for pair, names in zip(given, (("transpose_a", "adj_x"), ("transpose_b", "adj_y")), strict=True):
        transposed, adjoint = (name in node.attr and node.attr[name].b for name in names)
        real, imaginary = (_turned(part, emit) if transposed or adjoint else part for part in pair)
        turned.append((real, emit.op("Neg", imaginary) if adjoint else imaginary))
    return _multiplied("MatMul", turned[0], turned[1], emit)


def _turned(x: Tensor, emit: Emitter) -> Tensor:
    axes = [*range(x.rank)]
    return emit.op("Transpose", x, perm=[*axes[:-2], axes[-1], axes[-2]])


#: What becomes of the parts where it is no operator of each part.
_ARITHMETIC: dict[str, Callable[[Any, Sequence[Pair], Emitter], Pair]] = {
    "Mul": _product,
    "Square": _product,
    "Exp": _exponential,
    "RealDiv": _quotient,
    "Div": _quotient,
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2"), _matrix_product),
}
