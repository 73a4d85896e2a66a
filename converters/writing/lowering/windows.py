"""Windows that slide along axes."""

from __future__ import annotations

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter


def windows_along(
    emit: Emitter, x: Tensor, axis: int, *, size: int, stride: int, rate: int, padding: str
) -> tuple[Tensor, Tensor]:
    """The windows along an axis, which becomes two: the windows, and the elements of each. They are moved only.

    Args:
        emit: Receives the nodes.
        x: The elements.
        axis: The axis, from the front.
        size: How many elements a window has.
        stride: How far each window is from the one before.
        rate: How far the elements of a window are from each other.
        padding: `valid`: no window reaches beyond the axis. `same_upper`, `same_lower`: there are as many windows as
            steps in the axis; zeros are before and after it, one more after it, or before.

    Returns:
        The elements of the windows, and how many windows there are, an int64 [1]; there may be none.
    """
    zero, one = emit.constant(0), emit.constant(1)
    length, reach = emit.scalar(emit.size(x, axis)), (size - 1) * rate + 1
    if padding == "valid":
        room = emit.op("Max", emit.op("Sub", length, emit.constant(reach - stride)), zero)
        count, border = emit.op("Div", room, emit.constant(stride)), zero
    else:
        count = emit.op("Div", emit.op("Add", length, emit.constant(stride - 1)), emit.constant(stride))
        covered = emit.op("Mul", emit.op("Sub", count, one), emit.constant(stride))
        missing = emit.op("Sub", emit.op("Add", covered, emit.constant(reach)), length)
        border = emit.op("Max", missing, zero)
    before = emit.op("Div", border, emit.constant(2))
    sides = [before, emit.op("Sub", border, before)]
    ends = [emit.op("Unsqueeze", each, emit.constant([0])) for each in sides[:: -1 if padding == "same_lower" else 1]]
    x = emit.op("Pad", x, emit.op("Concat", *ends, axis=0), emit.like(0, x), emit.constant([axis]))
    starts = emit.op("Mul", emit.op("Range", zero, count, one), emit.constant(stride))
    inside = emit.constant([k * rate for k in range(size)])
    places = emit.op("Add", emit.op("Unsqueeze", starts, emit.constant([1])), inside)
    return emit.op("Gather", x, places, axis=axis), emit.op("Unsqueeze", count, emit.constant([0]))
