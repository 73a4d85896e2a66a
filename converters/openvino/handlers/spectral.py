"""Fourier transforms. OpenVINO's are over several axes, ONNX's over one at a time."""

from __future__ import annotations

from onnx_sparse.converters.openvino.emitter import Emitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor

_NOTES = "The axes must be constants."


@handles("DFT-7", to="DFT", notes=_NOTES)
def dft(node: Node, emit: Emitter) -> Tensor:
    """DFT-7: of complex numbers, which are the last axis."""
    return _complex(node, emit, inverse=False)


@handles("IDFT-7", to="DFT", notes=_NOTES)
def idft(node: Node, emit: Emitter) -> Tensor:
    """IDFT-7."""
    return _complex(node, emit, inverse=True)


def _complex(node: Node, emit: Emitter, *, inverse: bool) -> Tensor:
    made = node[0]
    for axis, length in _axes(node, emit, node[0].rank - 1):
        made = emit.op("DFT", made, length, axis=axis, inverse=int(inverse))
    return made


@handles("RDFT-9", to="DFT", notes=_NOTES)
def rdft(node: Node, emit: Emitter) -> Tensor:
    """RDFT-9: of real numbers; the result has the first half of the last transformed axis."""
    *others, (axis, length) = _axes(node, emit, node[0].rank)
    real = emit.op("Unsqueeze", node[0], emit.constant([-1]))
    made = emit.op("DFT", real, length, axis=axis, onesided=1)
    for other, size in others:
        made = emit.op("DFT", made, size, axis=other)
    return made


@handles("IRDFT-9", to="DFT", notes=_NOTES)
def irdft(node: Node, emit: Emitter) -> Tensor:
    """IRDFT-9: of the first half of the last transformed axis to real numbers."""
    rank = node[0].rank
    *others, (axis, length) = _axes(node, emit, rank - 1)
    made = node[0]
    for other, size in others:
        made = emit.op("DFT", made, size, axis=other, inverse=1)
    first, one, two, along = emit.constant([0]), emit.constant(1), emit.constant(2), emit.constant([axis])
    if length is None:  # the half is of an even number
        half = emit.op("Squeeze", emit.shape_of(made, axis, axis + 1), first)
        length = emit.op("Mul", emit.op("Sub", half, one), two)
    # The half is cut to what the length needs, or extended by zeros.
    needed = emit.op("Unsqueeze", emit.op("Add", emit.op("Div", length, two), one), first)
    missing = emit.op("Sub", needed, emit.shape_of(made, axis, axis + 1))
    pads = [emit.constant([0] * (rank + axis)), missing, emit.constant([0] * (rank - axis - 1))]
    made = emit.op("Pad", made, emit.op("Concat", *pads, axis=0))
    # The other half is the first one backwards, conjugated, without what has no counterpart.
    last = emit.op("Unsqueeze", emit.op("Div", emit.op("Sub", length, one), two), first)
    mirrored = emit.op("Slice", made, last, first, along, emit.constant([-1]))
    whole = emit.op("Concat", made, emit.op("Mul", mirrored, emit.constant([1, -1], made.dtype)), axis=axis)
    return emit.op("Gather", emit.op("DFT", whole, axis=axis, inverse=1), emit.constant(0), axis=rank - 1)


def _axes(node: Node, emit: Emitter, rank: int) -> list[tuple[int, Tensor | None]]:
    """Each transformed axis with the length to which it is cut or extended; None keeps its own."""
    axes = [axis % rank for axis in node[1].integers("the axes")]
    lengths = node.optional(2)
    if lengths is None:
        return [(axis, None) for axis in axes]
    found: list[tuple[int, Tensor | None]] = []
    for k, axis in enumerate(axes):
        if lengths.value is not None:
            size = int(lengths.value.ravel()[k])
            found.append((axis, None if size == -1 else emit.constant(size)))
        else:
            given = emit.op("Gather", emit.int64(lengths), emit.constant(k))
            own = emit.op("Squeeze", emit.shape_of(node[0], axis, axis + 1), emit.constant([0]))
            found.append((axis, emit.op("Where", emit.op("Less", given, emit.constant(0)), own, given)))
    return found
