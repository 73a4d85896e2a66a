"""Compressed weights: constants of 4 or 8 bits that the layers after them turn into floats.

NNCF and OpenVINO write the steps: Convert, Subtract of a zero point, Multiply by a scale, Reshape of blocks, Convert.
As nodes in float16, ONNX Runtime would compute them in every run. In float32 it does so once, when it loads the model;
and it multiplies a matrix by the integers themselves if a DequantizeLinear makes the other one of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import ConversionError, Unsupported
from onnx_sparse.converters.openvino.compressed_weight import Weight
from onnx_sparse.converters.openvino.element_types import NF4
from onnx_sparse.converters.openvino.emitter import OpenVINOEmitter
from onnx_sparse.converters.openvino.ir import Layer, Network
from onnx_sparse.converters.openvino.ir.weights import Weights
from onnx_sparse.converters.openvino.model_ports import parse_shape
from onnx_sparse.converters.tensor import Array, Tensor
from onnx_sparse.schemas.declaration import DType, numpy_dtype

#: The operator set whose DequantizeLinear takes 4 bits and blocks.
OPSET = 21

#: The element types of the integers: that of ONNX, the least and the greatest number.
_INTEGERS: dict[str, tuple[DType, int, int]] = {
    "i8": (TensorProto.INT8, -128, 127),
    "u8": (TensorProto.UINT8, 0, 255),
    "i4": (TensorProto.INT4, -8, 7),
    "u4": (TensorProto.UINT4, 0, 15),
}
#: Small floats, which are expanded.
_SMALL_FLOATS = ("nf4", "f8e4m3", "f8e5m2", "f4e2m1")
_FLOAT8 = {"f8e4m3": TensorProto.FLOAT8E4M3FN, "f8e5m2": TensorProto.FLOAT8E5M2}
#: The numbers of 4 bits. ONNX Runtime converts its own integers of 4 bits in every run.
_NUMBERS_OF_4_BITS: dict[str, Array] = {
    "i4": np.arange(-8, 8, dtype=np.float32),
    "u4": np.arange(16, dtype=np.float32),
    "nf4": np.array(NF4, np.float32),
    "f4e2m1": np.outer([1, -1], [0, 0.5, 1, 1.5, 2, 3, 4, 6]).ravel().astype(np.float32),
}
#: ONNX Runtime multiplies in blocks of 32 if a whole column has one scale; by repeating that, of this size, which is
#: faster. It repeats the scale when it loads the model.
_BLOCK = 128
_EXPANDED = (TensorProto.FLOAT, TensorProto.INT8, TensorProto.UINT8)
_FLOATS = ("f32", "f16", "bf16")


@dataclass(frozen=True)
class Plan:
    """What becomes of the weights of a graph.

    Attributes:
        weights: The weights, by the layer that makes their floats for other layers.
        unread: The layers that nothing but weights reads.
        expanded: The layers whose floats are read by layers that cannot take the integers. MatMul can, and row lookups.
    """

    weights: dict[int, Weight]
    unread: set[int]
    expanded: set[int]


def plan(network: Network, order: Sequence[Layer], constants: Weights) -> Plan:
    """Find the weights of a network.

    Args:
        network: The network.
        order: Its layers, each after its sources.
        constants: The constants.
    """
    found: dict[int, Weight] = {}
    for layer in order:
        weight = _weight(network, layer, found)
        if weight is not None:
            found[layer.id] = weight
    readers: dict[int, list[tuple[Layer, int]]] = {layer.id: [] for layer in order}
    for (reader, port), (producer, _) in network.sources.items() if found else ():
        layer = network.layers[reader]
        position = next(k for k, given in enumerate(layer.inputs) if given.id == port)
        readers[producer].append((layer, position))
    unread: set[int] = set()
    for layer in reversed(order) if found else ():
        within = layer.id in found or layer.type in ("Const", "Convert", "Subtract")
        if within and readers[layer.id] and all(r.id in found or r.id in unread for r, _ in readers[layer.id]):
            unread.add(layer.id)
    weights = {number: weight for number, weight in found.items() if number not in unread}
    expanded = {
        number
        for number, weight in weights.items()
        if not _is_gathered(network, weight, readers[number], constants)
        and (
            not _is_dequantized(weight, constants)
            or any(reader.type != "MatMul" or position != 1 for reader, position in readers[number])
        )
    }
    return Plan(weights, unread, expanded)


def _weight(network: Network, layer: Layer, found: Mapping[int, Weight]) -> Weight | None:
    """The weight whose floats a layer makes; `found` are those of the layers before it."""
    sources, shape = _sources(network, layer), _shape(layer)
    if shape is None or not sources or layer.outputs[0].precision not in _FLOATS:
        return None
    if layer.type in ("Convert", "Reshape"):
        made = found.get(sources[0].id)
        return None if made is None else replace(made, shape=shape)
    if layer.type != "Multiply" or len(sources) != 2:
        return None
    return _scaled(network, shape, *sources) or _scaled(network, shape, *reversed(sources))


def _scaled(network: Network, shape: tuple[int, ...], shifted: Layer, scale: Layer) -> Weight | None:
    zero_point = None
    if shifted.type == "Subtract":
        shifted, *subtracted = _sources(network, shifted)
        zero_point = _constant(network, subtracted[0]) if subtracted else None
        if zero_point is None:
            return None
    integers, factor = _constant(network, shifted), _constant(network, scale)
    if shifted.type != "Convert" or integers is None or factor is None or _shape(integers) != shape:
        return None
    if _element_type(integers) not in (*_INTEGERS, *_SMALL_FLOATS) or _element_type(factor) not in (*_FLOATS, "f8e8m0"):
        return None
    return Weight(integers, factor, zero_point, shape, shape)


def _constant(network: Network, layer: Layer) -> Layer | None:
    """The constant that a layer is, or converts to another type."""
    if layer.type == "Convert":
        layer = next(iter(_sources(network, layer)), layer)
    return layer if layer.type == "Const" else None


def _sources(network: Network, layer: Layer) -> list[Layer]:
    return [network.layers[network.sources[layer.id, port.id][0]] for port in layer.inputs]


def _shape(layer: Layer) -> tuple[int, ...] | None:
    """The shape of a layer's output if it is known; on a port, that of a scalar is not."""
    dims = layer.outputs[0].dims if layer.outputs else None
    return None if dims is None or min(dims) < 0 else dims


def _element_type(layer: Layer) -> str:
    return layer.data.get("element_type", "")


def expand(weight: Weight, constants: Weights, emit: OpenVINOEmitter) -> Tensor:
    """The floats of a weight, as float32. ONNX Runtime computes them when it loads the model."""
    made = _stored(_array(weight.integers, constants), _element_type(weight.integers), emit)
    if weight.zero_point is not None:
        made = emit.op("Sub", made, emit.constant(_array(weight.zero_point, constants), TensorProto.FLOAT))
    made = emit.op("Mul", made, _scale(_array(weight.scale, constants), emit))
    if weight.shape == weight.stored_shape:
        return replace(made, shape=weight.shape)
    return emit.op("Reshape", made, emit.constant(weight.shape), shape=weight.shape)


def _stored(numbers: Array, kind: str, emit: OpenVINOEmitter) -> Tensor:
    """Small numbers as float32, stored in as many bits as they have: two of 4 bits are a byte."""
    table = _NUMBERS_OF_4_BITS.get(kind)
    if table is not None and numbers.size > 1:
        codes = _codes(numbers, table).ravel()
        places = _unpacked(emit.constant(_packed(np.resize(codes, codes.size + codes.size % 2))), emit)
        places = emit.op("Reshape", places, emit.constant([-1]))
        places = emit.op("Slice", places, *(emit.constant([k]) for k in (0, numbers.size)))
        places = emit.op("Reshape", places, emit.constant(numbers.shape), shape=numbers.shape)
        return emit.op("Gather", emit.constant(table), emit.cast(places, TensorProto.INT32), shape=numbers.shape)
    if kind in _FLOAT8:
        emit.require_opset(19)
        stored = emit.constant(numbers.astype(numpy_dtype(_FLOAT8[kind])), _FLOAT8[kind])
    else:
        stored = emit.constant(numbers)
    return emit.node("Cast", [stored], [TensorProto.FLOAT], [numbers.shape], to=TensorProto.FLOAT)[0]


def _codes(numbers: Array, table: Array) -> Array:
    """Where numbers are in a table of 16, uint8."""
    places = np.searchsorted(np.sort(table), numbers.astype(np.float32))
    return np.argsort(table, kind="stable")[places].astype(np.uint8)


def _packed(codes: Array) -> Array:
    """Codes of 4 bits in bytes, the first of two in the lower bits; the last axis is even."""
    packed: Array = codes[..., ::2] | codes[..., 1::2] << 4
    return packed


def _unpacked(packed: Tensor, emit: OpenVINOEmitter) -> Tensor:
    """The codes of packed bytes [..., n], uint8[..., n, 2]."""
    lower = emit.op("BitwiseAnd", packed, emit.like(15, packed))
    upper = emit.op("BitShift", packed, emit.like(4, packed), direction="RIGHT")
    parts = (emit.op("Unsqueeze", part, emit.constant([-1])) for part in (lower, upper))
    return emit.op("Concat", *parts, axis=-1)


def gathered_rows(weight: Weight, ids: Tensor, constants: Weights, emit: OpenVINOEmitter) -> Tensor:
    """Rows of a weight, as float32. Integers and scales are gathered and become floats afterwards, a few rows."""
    kind, stored = _element_type(weight.integers), weight.stored_shape
    numbers = _array(weight.integers, constants)
    table = _NUMBERS_OF_4_BITS.get(kind)

    def rows(array: Array) -> Tensor:
        if array.ndim < len(stored):
            return emit.constant(array)
        return (
            emit.constant(array[0]) if len(array) == 1 < len(numbers) else emit.op("Gather", emit.constant(array), ids)
        )

    def shaped(tensor: Tensor, row: tuple[int, ...]) -> Tensor:
        sizes = emit.op("Concat", emit.shape_of(ids), emit.constant(row), axis=0)
        return emit.op("Reshape", tensor, sizes, shape=None if ids.shape is None else (*ids.shape, *row))

    if table is None:
        made = emit.cast(emit.op("Gather", emit.constant(numbers), ids), TensorProto.FLOAT)
    else:
        packed = emit.constant(_packed(_codes(numbers, table).reshape(len(numbers), -1)))
        codes = shaped(_unpacked(emit.op("Gather", packed, ids), emit), stored[1:])
        made = emit.op("Gather", emit.constant(table), emit.cast(codes, TensorProto.INT32))
    if weight.zero_point is not None:
        made = emit.op("Sub", made, emit.cast(rows(_array(weight.zero_point, constants)), TensorProto.FLOAT))
    made = emit.op("Mul", made, emit.cast(rows(_array(weight.scale, constants)), TensorProto.FLOAT))
    return shaped(made, weight.shape[1:])


def _is_gathered(network: Network, weight: Weight, readers: Sequence[tuple[Layer, int]], constants: Weights) -> bool:
    """Whether nothing but whole rows is read, each of which is made of numbers and scales of its own."""
    rows, kind, given = weight.stored_shape[:1], _element_type(weight.integers), (weight.scale, weight.zero_point)
    if kind not in _INTEGERS and kind not in _NUMBERS_OF_4_BITS:
        return False
    if weight.shape[:1] != rows or (kind in _NUMBERS_OF_4_BITS and math.prod(weight.shape[1:]) % 2):
        return False
    shapes = [_constant_shape(layer) for layer in given if layer is not None]
    try:
        fits = all(np.broadcast_shapes(shape, weight.stored_shape) == weight.stored_shape for shape in shapes)
    except ValueError:  # the IR is not valid; is reported where the weight is expanded
        return False
    return fits and all(_reads_rows(network, reader, position, weight, constants) for reader, position in readers)


def _reads_rows(network: Network, reader: Layer, position: int, weight: Weight, constants: Weights) -> bool:
    """Whether a layer gathers along the first axis."""
    sources = _sources(network, reader)
    if reader.type != "Gather" or position != 0 or len(sources) != 3 or reader.data.get("batch_dims", "0") != "0":
        return False
    try:
        return sources[2].type == "Const" and bool(
            np.isin(_array(sources[2], constants), (0, -len(weight.shape))).all()
        )
    except Unsupported:  # is reported where it is read
        return False


def _scale(scale: Array, emit: OpenVINOEmitter) -> Tensor:
    """A scale as float32; in the file it keeps its type."""
    stored = emit.constant(scale)
    if stored.dtype == TensorProto.FLOAT:
        return stored
    return emit.node("Cast", [stored], [TensorProto.FLOAT], [stored.shape], to=TensorProto.FLOAT)[0]


def dequantize(weight: Weight, constants: Weights, emit: OpenVINOEmitter, *, transposed: bool) -> Tensor:
    """The floats of a matrix, or of its transpose, as float32 and by one DequantizeLinear."""
    counts, zero_point = _counts(weight), _zero_point(weight, constants)
    assert counts is not None
    dtype, _, _ = _INTEGERS[_element_type(weight.integers)]
    integers = _array(weight.integers, constants).reshape(weight.shape)
    scale = _array(weight.scale, constants)
    shape = np.broadcast_shapes(scale.shape, () if zero_point is None else zero_point.shape)
    scales: list[Array] = [np.broadcast_to(t, shape).reshape(counts) for t in (scale, zero_point) if t is not None]
    if transposed:
        integers, counts, scales = integers.T, counts[::-1], [t.T for t in scales]
    attributes: dict[str, Any] = {}
    if counts == (1, 1):
        scales = [t.reshape(()) for t in scales]
    elif 1 in counts and max(counts) == integers.shape[axis := counts.index(max(counts))]:
        scales, attributes = [t.reshape(-1) for t in scales], {"axis": axis}
    else:
        axis = next(k for k in (0, 1) if counts[k] not in (1, integers.shape[k]))
        full = (integers.shape[0], counts[1]) if axis else (counts[0], integers.shape[1])
        scales = [np.broadcast_to(t, full) for t in scales]
        attributes = {"axis": axis, "block_size": integers.shape[axis] // counts[axis]}
    emit.require_opset(OPSET)
    tensors = [_scale(scales[0], emit), *(emit.constant(t, dtype) for t in scales[1:])]
    groups, rest = divmod(integers.shape[0], _BLOCK)
    if attributes == {"axis": 1} and groups > 1 and not rest and all(t.dtype in _EXPANDED for t in tensors):
        repeated = emit.constant([groups, integers.shape[1]])
        tensors = [emit.op("Expand", t, repeated) for t in tensors]
        attributes = {"axis": 0, "block_size": _BLOCK}
    inputs = [emit.constant(integers, dtype), *tensors]
    return emit.node("DequantizeLinear", inputs, [TensorProto.FLOAT], [integers.shape], **attributes)[0]


def _is_dequantized(weight: Weight, constants: Weights) -> bool:
    """Whether one DequantizeLinear can say it."""
    if _element_type(weight.integers) not in _INTEGERS:
        return False
    try:
        representable = weight.zero_point is None or _zero_point(weight, constants) is not None
    except Unsupported:  # is reported where the weight is expanded
        return False
    return representable and _counts(weight) is not None


def _counts(weight: Weight) -> tuple[int, int] | None:
    """How many scales a matrix has along each axis; None if blocks are not parts of one axis."""
    rank, stored = len(weight.stored_shape), weight.stored_shape
    given = [_constant_shape(layer) for layer in (weight.scale, weight.zero_point) if layer is not None]
    if len(weight.shape) != 2 or math.prod(weight.shape) == 0:
        return None
    try:
        counts = np.broadcast_shapes((1,) * rank, *given)
    except ValueError:  # the IR is not valid; is reported where the weight is expanded
        return None
    if len(counts) != rank:
        return None
    rows, columns = weight.shape
    if stored == weight.shape:
        made = counts
    elif rank == 3 and stored[0] == rows and counts[2] == 1:
        made = counts[:2]
    elif rank == 3 and stored[2] == columns and counts[1] == 1:
        made = counts[::2]
    else:
        return None
    fits = any(count in (1, size) for count, size in zip(made, weight.shape, strict=True))
    return (made[0], made[1]) if fits and (made != weight.shape or 1 in made) else None


def _constant_shape(layer: Layer) -> tuple[int, ...]:
    return tuple(dim or 0 for dim in parse_shape(layer.data.get("shape", "")) or ())


def _zero_point(weight: Weight, constants: Weights) -> Array | None:
    """The zero point as integers of the weight's type; None without one, or if it is not representable."""
    if weight.zero_point is None:
        return None
    value = _array(weight.zero_point, constants)
    _, least, most = _INTEGERS[_element_type(weight.integers)]
    whole = np.rint(value.astype(np.float64))
    is_representable = (whole == value).all() and (whole >= least).all() and (whole <= most).all()
    return whole.astype(np.int64) if is_representable else None


def _array(layer: Layer, constants: Weights) -> Array:
    """The value of a constant.

    Raises:
        Unsupported: It is not in the file.
    """
    shape = parse_shape(layer.data.get("shape", ""))
    try:
        offset, size = (int(layer.data[key]) for key in ("offset", "size"))
        return constants.constant(_element_type(layer), [d or 0 for d in shape or ()], offset, size)
    except (KeyError, ValueError) as error:
        raise Unsupported(f"{layer} has no valid offset and size") from error
    except ConversionError as error:
        raise Unsupported(f"{layer}: {error}") from error
