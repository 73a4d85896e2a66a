"""Slice and StridedSlice."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import OpenVINOEmitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor

#: Beyond every dimension, yet small enough not to overflow in ONNX Runtime.
_END = 2**62


@handles("Slice-8", to="Slice")
def slice_(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Slice-8: (data, start, stop, step, axes); ONNX has axes before steps."""
    return _slice(node, emit, node[0], 1)


def _slice(node: Node, emit: OpenVINOEmitter, data: Tensor, first: int) -> Tensor:
    """A slice of a tensor; the bounds are the node's inputs from position `first` on."""
    axes = node.optional(first + 3)
    start, stop, step = (emit.vector(node[first + k]) for k in range(3))
    if axes is None:
        count = (node[first].shape or (None,))[0]
        if count is None:
            raise Unsupported("the number of axes is not known")
        axes = emit.constant(range(count))
    return emit.op("Slice", data, start, stop, emit.vector(axes), step)


@handles("SliceScatter-15", to="Slice, ScatterND")
def slice_scatter(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """SliceScatter-15: (data, updates, start, stop, step, axes). A Slice of positions finds where the updates go."""
    data, updates = node[0], node[1]
    column, flat = emit.constant([-1, 1]), emit.constant([-1])
    numbers = emit.op("Range", emit.constant(0), emit.op("Size", data), emit.constant(1))
    places = _slice(node, emit, emit.op("Reshape", numbers, emit.shape_of(data), allowzero=1), 2)
    made = emit.op(
        "ScatterND",
        emit.op("Reshape", data, flat),
        emit.op("Reshape", places, column),
        emit.op("Reshape", emit.op("Expand", updates, emit.shape_of(places)), flat),
    )
    return emit.op("Reshape", made, emit.shape_of(data), allowzero=1)


@handles("StridedSlice-1", to="Slice, Squeeze, Unsqueeze", notes="With begin or end masks, steps must be constants.")
def strided_slice(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """StridedSlice-1 with its five masks, whose position k belongs to entry k of begin, not to axis k."""
    x, count = node[0], _entries(node)
    masks = {key: _mask(node, key, count) for key in ("begin", "end", "new_axis", "shrink_axis", "ellipsis")}
    steps = emit.vector(node[3]) if node.optional(3) is not None else emit.constant([1] * count)
    begins, ends = emit.vector(node[1]), emit.vector(node[2])
    # 1. The input axis of each entry. A new axis has none, an ellipsis takes all that the others leave.
    new = [k for k in range(count) if masks["new_axis"][k] and not masks["ellipsis"][k]]
    ellipses = [k for k in range(count) if masks["ellipsis"][k]]
    if len(ellipses) > 1:
        raise Unsupported("more than one ellipsis")
    taken = [k for k in range(count) if k not in new and k not in ellipses]
    skipped = x.rank - len(taken) if ellipses else 0
    axes: dict[int, int] = {}
    results: dict[int, int] = {}  # the result axis of each entry, before shrinking
    axis = result = 0
    for k in range(count):
        results[k] = result
        if k in ellipses:
            axis, result = axis + skipped, result + skipped
            continue
        if k not in new:
            axes[k], axis = axis, axis + 1
        result += 1
    # 2. The slice itself, along the axes of the entries.
    made = x
    if taken:
        picked = [_picked(emit, part, taken, count) for part in (begins, ends, steps)]
        starts, stops, strides = _masked(emit, picked, [{key: m[k] for key, m in masks.items()} for k in taken])
        made = emit.op("Slice", made, starts, stops, emit.constant([axes[k] for k in taken]), strides)
    # 3. New axes are added and shrunk axes removed.
    if new:
        made = emit.op("Unsqueeze", made, emit.constant([results[k] for k in new]))
    shrunk = [results[k] for k in taken if masks["shrink_axis"][k]]
    return emit.op("Squeeze", made, emit.constant(shrunk)) if shrunk else made


def _mask(node: Node, key: str, count: int) -> list[bool]:
    """One of the masks; entries that the file omits at its end are not set."""
    given = [bool(bit) for bit in node.integers(f"{key}_mask", [])]
    return given + [False] * (count - len(given))


def _entries(node: Node) -> int:
    for part in node.inputs[1:]:
        if part.value is not None:
            return int(part.value.size)
        if part.shape and part.shape[0] is not None:
            return part.shape[0]
    raise Unsupported("the number of entries in begin is not known")


def _picked(emit: OpenVINOEmitter, part: Tensor, taken: list[int], count: int) -> Tensor:
    if part.value is not None:
        if part.value.shape != (count,):
            raise Unsupported(f"{part}, where {count} entries are needed")
        return emit.constant(part.value[taken])
    return part if len(taken) == count else emit.op("Gather", part, emit.constant(taken))


def _masked(emit: OpenVINOEmitter, parts: list[Tensor], masks: list[dict[str, bool]]) -> tuple[Tensor, Tensor, Tensor]:
    """Begin, end and step with the masks in effect: all of an axis, or one element of it."""
    begins, ends, steps = parts
    shrink = np.array([mask["shrink_axis"] for mask in masks])
    open_begin = np.array([mask["begin"] for mask in masks]) & ~shrink
    # A mask of 1 in an IR's begin_mask means: ignore begin.
    open_end = np.array([mask["end"] for mask in masks]) & ~shrink
    if (open_begin.any() or open_end.any()) and steps.value is None:
        raise Unsupported("steps that are not constant, with masks")
    signs = np.sign(steps.value) if steps.value is not None else np.ones(len(masks), np.int64)
    begins = _where(emit, open_begin, emit.constant(np.where(signs < 0, _END, 0)), begins)
    ends = _where(emit, open_end, emit.constant(np.where(signs < 0, -_END, _END)), ends)
    if shrink.any():
        # One element: from begin to begin + 1, where -1 + 1 is the end of the axis and not its start.
        if begins.value is not None:
            after = emit.constant(np.where(begins.value == -1, _END, begins.value + 1))
        else:
            last = emit.op("Equal", begins, emit.constant(-1))
            following = emit.op("Add", begins, emit.constant(1))
            after = emit.op("Where", last, emit.constant(_END), following)
        ends = _where(emit, shrink, after, ends)
        steps = _where(emit, shrink, emit.constant([1] * len(masks)), steps)
    return begins, ends, steps


def _where(
    emit: OpenVINOEmitter, mask: np.ndarray[tuple[int], np.dtype[np.bool_]], chosen: Tensor, other: Tensor
) -> Tensor:
    if not mask.any():
        return other
    if mask.all():
        return chosen
    if chosen.value is not None and other.value is not None:
        return emit.constant(np.where(mask, chosen.value, other.value))
    made = emit.op("Where", emit.constant(mask, TensorProto.BOOL), chosen, other)
    return made
