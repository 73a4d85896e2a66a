"""Strings and their bytes, in UTF-8."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter

_STRING, _BOOL, _U8 = TensorProto.STRING, TensorProto.BOOL, TensorProto.UINT8
#: The strings of one byte each; those from 128 on are characters only together with others.
_BYTES = np.array([bytes([number]) for number in range(256)], object)
#: The first characters that take 2, 3 and 4 bytes, and what is added to the first byte of one of 1 to 4.
_LONGER, _LEADING = [0x80, 0x800, 0x10000], [0, 0xC0, 0xE0, 0xF0]


@handles("StringTensorPack-15", to="Gather, StringConcat, Loop")
def string_tensor_pack(node: Node, emit: InferringEmitter) -> Tensor:
    """StringTensorPack-15: (where each string begins, where it ends, all bytes [bytes]). All strings grow at once."""
    begins, ends = (emit.int64(node[k]) for k in (0, 1))
    symbols = emit.op("Gather", emit.constant(_BYTES, _STRING), emit.int64(node.ranked(2, 1, 1)), axis=0)
    symbols = emit.op("Concat", symbols, emit.constant(np.array([b""], object), _STRING), axis=0)
    behind = emit.op("Squeeze", emit.shape_of(node[2]), emit.constant([0]))
    lengths = emit.op("Reshape", emit.op("Sub", ends, begins), emit.constant([-1]))
    longest = emit.op("ReduceMax", emit.op("Concat", lengths, emit.constant([0]), axis=0), keepdims=0)
    empty = emit.op("Expand", emit.constant(np.array(b"", object), _STRING), emit.shape_of(begins))

    emit.require_opset(20)
    inner = emit.body()
    inner.begin("byte")
    number = Tensor(inner.names.fresh("byte/number"), TensorProto.INT64, ())
    again = Tensor(inner.names.fresh("byte/again"), _BOOL, ())
    text = Tensor(inner.names.fresh("byte/text"), _STRING, begins.shape)
    place = inner.op("Add", begins, number)
    place = inner.op("Where", inner.op("Less", place, ends), place, behind)
    following = inner.op("Gather", symbols, place, axis=0)
    (more,) = inner.node("StringConcat", [text, following], [_STRING], [begins.shape])
    results = [inner.op("Identity", again), more]
    graph = inner.graph("byte", [value_info(t) for t in (number, again, text)], [value_info(t) for t in results])
    (made,) = emit.node("Loop", [longest, emit.constant(True, _BOOL), empty], [_STRING], [begins.shape], body=graph)
    return made


@handles("StringTensorUnpack-15", to="StringLength, UnicodeDecode", notes="The strings must be UTF-8.")
def string_tensor_unpack(node: Node, emit: InferringEmitter) -> tuple[Tensor, ...]:
    """StringTensorUnpack-15: where each string begins, where it ends, and all bytes."""
    if node[0].dtype != _STRING:
        raise Unsupported(f"its input {node[0]} is not of strings")
    flat, first = emit.op("Reshape", node[0], emit.constant([-1])), emit.constant([0])
    lengths = emit.int64(emit.domain_op("StringLength", {"input": flat}, {"unit": "BYTE"})[0])
    ends = emit.op("CumSum", lengths, emit.constant(0))
    inputs = {"input": flat, "replacement_char": emit.constant(0, TensorProto.INT32)}
    characters = emit.int64(emit.domain_op("UnicodeDecode", inputs, {"errors": "ignore"})[1])
    # Without those that are not UTF-8 there are fewer bytes, which is an error.
    total = emit.op("ReduceSum", lengths, first)
    symbols = emit.op("Reshape", _encoded(emit, characters), total, allowzero=1)
    shape = emit.shape_of(node[0])
    places = (emit.op("Reshape", t, shape, allowzero=1) for t in (emit.op("Sub", ends, lengths), ends))
    return *places, symbols


def _encoded(emit: InferringEmitter, characters: Tensor) -> Tensor:
    """The bytes of characters [characters]."""
    column = emit.op("Unsqueeze", characters, emit.constant([1]))
    is_longer = emit.int64(emit.op("GreaterOrEqual", column, emit.constant(_LONGER)))
    following = emit.op("ReduceSum", is_longer, emit.constant([1]))  # [characters, 1]
    leading = emit.op("Gather", emit.constant(_LEADING), following, axis=0)
    parts = []
    for place in range(4):
        shift = emit.op("Max", emit.op("Sub", following, emit.constant(place)), emit.constant(0))
        bits = emit.op("Div", column, emit.op("Gather", emit.constant([1, 64, 64**2, 64**3]), shift, axis=0))
        if place:
            bits = emit.op("Add", emit.op("Mod", bits, emit.constant(64)), emit.constant(0x80))
        else:
            bits = emit.op("Add", bits, leading)
        parts.append(bits)
    is_there = emit.op("LessOrEqual", emit.constant(range(4)), following)
    flat = emit.constant([-1])
    every = emit.op("Reshape", emit.op("Concat", *parts, axis=1), flat)
    return emit.cast(emit.op("Compress", every, emit.op("Reshape", is_there, flat), axis=0), _U8)
