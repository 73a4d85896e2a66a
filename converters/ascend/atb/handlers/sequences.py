"""ATB's operations on sequences of different lengths: Unpad, Pad, DynamicNTK."""

from __future__ import annotations

import math

from onnx import TensorProto

from onnx_sparse.converters.ascend.atb.handlers.registry import Node, Results, dims_of, handles, refuse
from onnx_sparse.converters.ascend.attention import packed, taken_rows, vector
from onnx_sparse.converters.ascend.dtypes import ACL
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.tensor import Tensor


@handles("Unpad", to="CumSum, Gather, Where", exact=True)
def unpad(node: Node, emit: AscendEmitter) -> Results:
    """UnpadOperation: the tokens of all sequences one after the other, and how much padding was before each."""
    ids, offsets, _, lengths = node.take(4)
    batch, most = dims_of(ids, "sequences, most")
    total = batch * most
    tokens = packed(emit, lengths, total)
    inside = emit.op("Less", tokens.segment, emit.constant(batch))
    owner = emit.extreme("Min", tokens.segment, emit.constant(batch - 1))
    place = emit.op("Add", emit.op("Mul", owner, emit.constant(most)), tokens.position)
    flat = emit.reshape(emit.cast(ids, TensorProto.INT64), [total])
    place = emit.op("Where", inside, place, emit.constant(0))
    values = emit.op("Where", inside, taken_rows(emit, flat, place), emit.constant(0))
    sums = vector(emit, offsets)
    before = emit.constant([0])
    if batch > 1:
        before = emit.concat([before, emit.slice(sums, [0], [batch - 1], [0])], 0)
    padding = emit.op("Where", inside, taken_rows(emit, before, owner), emit.constant(0))
    return (
        emit.cast(emit.reshape(values, [1, total]), ids.dtype),
        emit.cast(emit.reshape(before, list(offsets.dims)), offsets.dtype),
        emit.cast(emit.reshape(padding, [1, total]), TensorProto.INT32),
    )


@handles("Pad", to="CumSum, Gather", exact=True)
def pad(node: Node, emit: AscendEmitter) -> Tensor:
    """PadOperation: the last token of each sequence."""
    x, _, lengths, _ = node.take(4)
    ends = emit.op("CumSum", vector(emit, lengths), emit.constant(0), shape=(math.prod(lengths.dims),))
    return taken_rows(emit, x, emit.op("Sub", ends, emit.constant(1)))


@handles("DynamicNTK", to="CumSum, Gather, Mul, Sin, Cos")
def dynamic_ntk(node: Node, emit: AscendEmitter) -> Results:
    """DynamicNTKOperation: sine and cosine of position times the inverse frequencies of the token's sequence."""
    positions, frequencies, lengths = node.take(3)
    number = node.params.integer("outputType", node.params.integer("outDataType", 1))
    if number not in ACL:
        refuse("ERROR_INVALID_PARAM", f"outputType {number} is not an element type")
    count = math.prod(positions.dims)
    batch, half = dims_of(frequencies, "sequences, half of the head size")
    owner = packed(emit, lengths, count).segment
    rows = taken_rows(emit, frequencies, emit.extreme("Min", owner, emit.constant(batch - 1)))
    place = emit.reshape(emit.cast(positions, TensorProto.FLOAT), [count, 1])
    angles = emit.op("Mul", place, emit.cast(rows, TensorProto.FLOAT))
    both = emit.concat([angles, angles], 1)
    return tuple(emit.cast(emit.op(name, both, shape=(count, 2 * half)), ACL[number]) for name in ("Sin", "Cos"))
