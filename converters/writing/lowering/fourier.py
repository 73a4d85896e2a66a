"""Fourier transforms that ONNX's DFT does not have: real numbers of the first half of their frequencies."""

from __future__ import annotations

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter


def real_of_half(emit: Emitter, parts: Tensor, axis: int, length: Tensor) -> Tensor:
    """The inverse DFT to real numbers of the first half of their frequencies, `[..., half, ..., 2]`.

    Args:
        emit: The graph under construction.
        parts: The real and imaginary parts of the frequencies, which are cut to the half of the length, or extended by
            zeros.
        axis: The axis of the frequencies, counted from the front.
        length: How many numbers there are, an int64 scalar.
    """
    rank = parts.rank - 1
    first, one, two, along = emit.constant([0]), emit.constant(1), emit.constant(2), emit.constant([axis])
    needed = emit.op("Unsqueeze", emit.op("Add", emit.op("Div", length, two), one), first)
    missing = emit.op("Sub", needed, emit.size(parts, axis))
    pads = [emit.constant([0] * (rank + 1 + axis)), missing, emit.constant([0] * (rank - axis))]
    half = emit.op("Pad", parts, emit.op("Concat", *pads, axis=0))
    # The other half is the first one backwards, conjugated, without what has no counterpart.
    last = emit.op("Unsqueeze", emit.op("Div", emit.op("Sub", length, one), two), first)
    mirrored = emit.op("Slice", half, last, first, along, emit.constant([-1]))
    whole = emit.op("Concat", half, emit.op("Mul", mirrored, emit.constant([1, -1], half.dtype)), axis=axis)
    made = emit.op("DFT", whole, axis=axis, inverse=1)
    return emit.op("Gather", made, emit.constant(0), axis=rank)
