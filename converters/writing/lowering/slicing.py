"""Slices as Python writes them, elements in reverse, borders that mirror, and elements that are rolled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter

_LAST, _FIRST = np.iinfo(np.int64).max, np.iinfo(np.int64).min
#: The masks of a slice.
MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


def bits(mask: int, count: int) -> list[bool]:
    """The entries of a mask that is a number."""
    return [bool(mask >> k & 1) for k in range(count)]


def strided_slice(
    emit: Emitter, x: Tensor, begin: Tensor, end: Tensor, strides: Tensor, masks: Mapping[str, Sequence[bool]]
) -> Tensor:
    """What Python writes as `x[1:-1, ..., newaxis, 0, ::-2]`; strides may be known at run time only.

    Bounds beyond an axis are at its ends. A slice of a negative step that begins before the first element is as ONNX
    Runtime's, which a guard makes Python's.

    Args:
        emit: Receives the nodes.
        x: The tensor.
        begin: Where each entry begins.
        end: Where it ends.
        strides: Its steps.
        masks: For each of `MASKS` the entries that it is set for: of which the beginning or end is left out, which is
            an ellipsis, a new axis, or a single index whose axis is removed.

    Raises:
        Unsupported: The entries do not fit the tensor, or a single index is out of range.
    """
    steps = _steps(strides)
    count = len(steps)
    if sum(masks["ellipsis"]) > 1:
        raise Unsupported("it has several ellipses")
    entries, added, removed = [], [], []
    axis, place = 0, 0  # of the input, and of the result before axes are removed
    for k in range(count):
        if masks["ellipsis"][k]:
            skipped = x.rank - axis - sum(not masks["new_axis"][j] for j in range(k + 1, count))
            axis, place = axis + skipped, place + skipped
        elif masks["new_axis"][k]:
            added.append(place)
            place += 1
        else:
            entries.append((k, axis))
            if masks["shrink_axis"][k]:
                removed.append(place)
            axis, place = axis + 1, place + 1
    if x.shape is not None and axis > len(x.shape):
        raise Unsupported(f"{x} has fewer dimensions than it is sliced in")
    made = _sliced(emit, x, entries, begin, end, strides, masks)
    if added:
        made = emit.op("Unsqueeze", made, emit.constant(added))
    return emit.op("Squeeze", made, emit.constant(removed)) if removed else made


def _steps(strides: Tensor) -> Sequence[int | None]:
    """The steps, None for each that is known only when the model runs."""
    if strides.value is None and strides.shape is not None and strides.shape[0] is not None:
        return [None] * strides.shape[0]
    return strides.integers("strides")


def _sliced(
    emit: Emitter,
    x: Tensor,
    entries: list[tuple[int, int]],
    begin: Tensor,
    end: Tensor,
    strides: Tensor,
    masks: Mapping[str, Sequence[bool]],
) -> Tensor:
    """The slice of the entries' bounds along their axes."""
    steps = _steps(strides)
    if all(steps[k] == 1 and masks["begin"][k] and masks["end"][k] and not masks["shrink_axis"][k] for k, _ in entries):
        return x
    begin, end, strides = (emit.cast(tensor, TensorProto.INT64) for tensor in (begin, end, strides))
    starts, ends, sizes = [], [], []
    for k, axis in entries:
        start, stop, step = _entry(emit, begin, k), _entry(emit, end, k), steps[k]
        if masks["shrink_axis"][k]:
            step, stop = 1, _after(emit, start, x, axis)
        else:
            if masks["begin"][k]:
                start = _bound(emit, strides, k, step, 0, _LAST)
            if masks["end"][k]:
                stop = _bound(emit, strides, k, step, _LAST, _FIRST)
        if step == 0:
            raise Unsupported("it has a step of 0")
        starts.append(start)
        ends.append(stop)
        sizes.append(emit.constant([step]) if step is not None else _entry(emit, strides, k))
    *bounds, step_sizes = (
        emit.op("Concat", *each, axis=0) if len(each) > 1 else each[0] for each in (starts, ends, sizes)
    )
    given = [*bounds, emit.constant([axis for _, axis in entries])]
    is_plain = step_sizes.value is not None and (step_sizes.value == 1).all()
    return emit.op("Slice", x, *given, *([] if is_plain else [step_sizes]))


def _after(emit: Emitter, start: Tensor, x: Tensor, axis: int) -> Tensor:
    """The end of a slice of one element: after -1 comes the end of the axis, and not its start."""
    if start.value is None:
        last = emit.op("Equal", start, emit.constant([-1]))
        return emit.op("Where", last, emit.constant([_LAST]), emit.op("Add", start, emit.constant([1])))
    number = int(start.value[0])
    size = None if x.shape is None else x.shape[axis]
    if size is not None and not -size <= number < size:
        raise Unsupported(f"index {number} is out of range for axis {axis} of {x}")
    return emit.constant([_LAST if number == -1 else number + 1])


def _bound(emit: Emitter, strides: Tensor, k: int, step: int | None, upward: int, downward: int) -> Tensor:
    """An omitted bound, which depends on the direction of the step."""
    if step is not None:
        return emit.constant([upward if step > 0 else downward])
    is_up = emit.op("Greater", _entry(emit, strides, k), emit.constant([0]))
    return emit.op("Where", is_up, emit.constant([upward]), emit.constant([downward]))


def _entry(emit: Emitter, bounds: Tensor, k: int) -> Tensor:
    if bounds.value is not None:
        return emit.constant([int(np.ravel(bounds.value)[k])])
    if bounds.shape == (1,):
        return bounds
    return emit.op("Slice", bounds, emit.constant([k]), emit.constant([k + 1]), emit.constant([0]))


def reversed_along(emit: Emitter, x: Tensor, axes: Sequence[int], start: int = -1, end: int = _FIRST) -> Tensor:
    """The elements from last to first along axes, or from a start to before an end; no axes leave it as it is."""
    if not axes:
        return x
    bounds = [emit.constant([each] * len(axes)) for each in (start, end)]
    return emit.op("Slice", x, *bounds, emit.constant(list(axes)), emit.constant([-1] * len(axes)))


def mirrored(emit: Emitter, x: Tensor, pairs: Sequence[Sequence[int]], *, symmetric: bool) -> Tensor:
    """A tensor with borders that mirror it, with its outermost elements if `symmetric`, else without.

    Args:
        emit: Receives the nodes.
        x: The tensor.
        pairs: How wide the border is before and after, for each axis.
        symmetric: Whether the outermost elements come twice.

    Raises:
        Unsupported: There is not a pair for each axis, or one is negative.
    """
    if (x.shape is not None and len(pairs) != len(x.shape)) or min((min(pair) for pair in pairs), default=0) < 0:
        raise Unsupported(f"paddings {[*pairs]} do not fit {x}")
    inner = 0 if symmetric else 1
    for axis, (before, after) in enumerate(pairs):
        parts = [x]
        if before:
            parts.insert(0, reversed_along(emit, x, [axis], before - 1 + inner, 0 if inner else _FIRST))
        if after:
            parts.append(reversed_along(emit, x, [axis], -1 - inner, -1 - inner - after))
        if len(parts) > 1:
            x = emit.op("Concat", *parts, axis=axis)
    return x


def rolled(emit: Emitter, x: Tensor, shifts: Sequence[Tensor], axes: Sequence[int]) -> Tensor:
    """Elements moved along axes by numbers of any size; those that leave at one end enter at the other.

    Args:
        emit: Receives the nodes.
        x: The tensor.
        shifts: How far, int64 [1] for each axis; negative ones move toward the front.
        axes: The axes, of which one may come twice.
    """
    for shift, axis in zip(shifts, axes, strict=True):
        shape = x.shape
        # The remainder by a size of 0 would be an error.
        size = emit.op("Max", emit.count(x, axis), emit.constant([1]), shape=(1,))
        left = emit.op("Mod", emit.op("Neg", shift, shape=(1,)), size, shape=(1,))
        along, zero, far = emit.constant([axis]), emit.constant([0]), emit.constant([2**62])
        parts = (emit.op("Slice", x, start, end, along) for start, end in ((left, far), (zero, left)))
        x = emit.op("Concat", *parts, axis=axis, shape=shape)
    return x


def reverse_sequence(emit: Emitter, x: Tensor, lengths: Tensor, *, batch: int, time: int) -> Tensor:
    """The first elements of each row from last to first, as many as its length says; the others stay.

    Args:
        emit: Receives the nodes.
        x: The rows.
        lengths: The length of each row, integers; one beyond the axis is an error.
        batch: The axis of the rows.
        time: The axis along which they are reversed. ONNX has both before all others.
    """
    lengths = emit.cast(lengths, TensorProto.INT64)
    if {batch, time} == {0, 1}:
        return emit.op("ReverseSequence", x, lengths, batch_axis=batch, time_axis=time)
    front = [x.axis(batch), x.axis(time)]
    order = front + [axis for axis in range(x.rank) if axis not in front]
    moved = emit.op("ReverseSequence", emit.op("Transpose", x, perm=order), lengths, batch_axis=0, time_axis=1)
    return emit.op("Transpose", moved, perm=[order.index(axis) for axis in range(x.rank)])
