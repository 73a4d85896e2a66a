"""Fill and MaskedFill with Broadcast and Select."""

from __future__ import annotations

from onnx_sparse.converters.openvino.extensions.subgraph import Subgraph, Value, Write


def _fill(b: Subgraph) -> list[Value]:
    dims, value = b.input("dims"), b.input("value")
    if b.rank("dims") == 0 or b.known_size(dims, 0) == 0:  # the frontend turns an empty constant into the scalar 0
        return [b.ops.reshape(value, b.ints(), False)]
    return [b.ops.broadcast(value, b.int64(dims))]


def _masked_fill(b: Subgraph) -> list[Value]:
    return [b.where(b.ops.convert(b.input("mask"), "boolean"), b.input("value"), b.input("x"))]


WRITERS: dict[str, Write] = {"Fill": _fill, "MaskedFill": _masked_fill}
