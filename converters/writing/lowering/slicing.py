"""Slices and parts of tensors, whose sizes need not be known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Shape, Tensor
from onnx_sparse.converters.writing.emitter import Emitter

_LAST, _FIRST = np.iinfo(np.int64).max, np.iinfo(np.int64).min
#: Beyond every dimension, and to ONNX Runtime a number like others.
_BEYOND = 2**62


def strided_slice(
    emit: Emitter,
    x: Tensor,
    begin: Tensor,
    end: Tensor,
    strides: Tensor,
    masks: Mapping[str, int],
    *,
    clamped: bool = False,
) -> Tensor:
    """A slice as Python writes it: `x[1:-1, ..., np.newaxis, 0]`.

    Args:
        emit: Receives the nodes.
        x: What is sliced.
        begin: Where the slice of each entry begins.
        end: Where it ends.
        strides: The steps.
        masks: Bits for each entry: `begin` and `end` omit a bound, `ellipsis` skips axes, `new_axis` adds one,
            `shrink_axis` takes one place and removes the axis.
        clamped: Whether a negative step from before the first element begins with it, as in OpenVINO; in Python, there
            is none. ONNX clamps; where sizes or bounds are not known, a guard of the roads makes that Python's.

    Raises:
        Unsupported: The entries do not fit the tensor.
    """
    steps = _steps(strides)
    if 0 in steps:
        raise Unsupported(f"strides {list(steps)} have a 0")
    if masks["ellipsis"] & (masks["ellipsis"] - 1):
        raise Unsupported("it has several ellipses")
    axes: list[tuple[int, int]] = []
    added, removed = [], []
    axis, place = 0, 0  # of the input, and of the result before dimensions are removed
    for k in range(len(steps)):
        bit = 1 << k
        if masks["ellipsis"] & bit:
            after = [j for j in range(k + 1, len(steps)) if not masks["new_axis"] >> j & 1]
            skipped = x.rank - axis - len(after)
            axis, place = axis + skipped, place + skipped
        elif masks["new_axis"] & bit:
            added.append(place)
            place += 1
        else:
            axes.append((k, axis))
            if masks["shrink_axis"] & bit:
                removed.append(place)
            axis, place = axis + 1, place + 1
    if x.shape is not None and axis > len(x.shape):
        raise Unsupported(f"{x} has fewer dimensions than it is sliced in")
    sliced = _sliced(emit, x, (begin, end, strides), axes, steps, masks, clamped)
    if added:
        sliced = emit.op("Unsqueeze", sliced, emit.constant(added))
    return emit.op("Squeeze", sliced, emit.constant(removed)) if removed else sliced


def _steps(strides: Tensor) -> Sequence[int | None]:
    """The steps, None for each that is known only when the model runs."""
    if strides.value is None and strides.shape is not None and strides.shape[0] is not None:
        return [None] * strides.shape[0]
    return strides.integers("strides")


def _sliced(
    emit: Emitter,
    x: Tensor,
    given: tuple[Tensor, Tensor, Tensor],
    axes: list[tuple[int, int]],
    strides: Sequence[int | None],
    masks: Mapping[str, int],
    clamped: bool,
) -> Tensor:
    """The slice of the entries' bounds along their axes."""
    shrinks, whole = masks["shrink_axis"], masks["begin"] & masks["end"]
    if all(strides[k] == 1 and whole >> k & 1 and not shrinks >> k & 1 for k, _ in axes):
        return x
    begin, end, all_strides = (emit.cast(each, TensorProto.INT64) for each in given)
    starts, ends, steps = [], [], []
    for k, axis in axes:
        start, stop = _entry(begin, k, emit), _entry(end, k, emit)
        step = strides[k]
        if masks["shrink_axis"] >> k & 1:
            step = 1
            if start.value is not None:
                number, size = int(start.value[0]), x.dim(axis)
                if size is not None and not -size <= number < size:
                    raise Unsupported(f"index {number} is out of range for axis {axis} of {x}")
                stop = emit.constant([_LAST if number == -1 else number + 1])
            else:
                last = emit.op("Equal", start, emit.constant([-1]))
                stop = emit.op("Where", last, emit.constant([_LAST]), emit.op("Add", start, emit.constant([1])))
        else:
            if masks["begin"] >> k & 1:
                start = _bound(all_strides, k, step, 0, _LAST, emit)
            if masks["end"] >> k & 1:
                stop = _bound(all_strides, k, step, _LAST, _FIRST, emit)
            if not clamped and step is not None and step < 0 and _is_before(start, x.dim(axis)):
                # Nothing, which no inference takes for the first element.
                start, stop = emit.constant([0]), emit.constant([_BEYOND])
        starts.append(start)
        ends.append(stop)
        steps.append(emit.constant([step]) if step is not None else _entry(all_strides, k, emit))
    *bounds, step_sizes = (
        emit.op("Concat", *each, axis=0) if len(each) > 1 else each[0] for each in (starts, ends, steps)
    )
    places = emit.constant([axis for _, axis in axes])
    is_plain = step_sizes.value is not None and (step_sizes.value == 1).all()
    return emit.op("Slice", x, *bounds, places, *([] if is_plain else [step_sizes]))


def _is_before(start: Tensor, size: int | None) -> bool:
    """Whether a slice is known to start before the first element."""
    return size is not None and start.value is not None and int(start.value[0]) < -size


def _bound(strides: Tensor, k: int, step: int | None, upward: int, downward: int, emit: Emitter) -> Tensor:
    """An omitted bound, which depends on the direction of the step."""
    if step is not None:
        return emit.constant([upward if step > 0 else downward])
    is_up = emit.op("Greater", _entry(strides, k, emit), emit.constant([0]))
    return emit.op("Where", is_up, emit.constant([upward]), emit.constant([downward]))


def _entry(bounds: Tensor, k: int, emit: Emitter) -> Tensor:
    if bounds.value is not None:
        return emit.constant([int(np.ravel(bounds.value)[k])])
    if bounds.shape == (1,):
        return bounds
    return emit.op("Slice", bounds, emit.constant([k]), emit.constant([k + 1]), emit.constant([0]))


def slice_of_sizes(emit: Emitter, x: Tensor, begin: Tensor, size: Tensor) -> Tensor:
    """Elements from a position on, so many along each axis; -1 stands for all that are left."""
    if x.shape == ():  # of which ONNX Runtime slices nothing, and there is one part
        return emit.op("Identity", x)
    begin, size = (emit.cast(given, TensorProto.INT64) for given in (begin, size))
    if begin.value is not None and size.value is not None:
        end = emit.constant(np.where(size.value == -1, _LAST, begin.value + size.value))
    else:
        to_the_end = emit.op("Equal", size, emit.constant([-1]))
        end = emit.op("Where", to_the_end, emit.constant([_LAST]), emit.op("Add", begin, size))
    return emit.op("Slice", x, begin, end)


def split_equally(emit: Emitter, x: Tensor, axis: int, count: int) -> tuple[Tensor, ...]:
    """Parts of equal size along an axis.

    Raises:
        Unsupported: The size of the axis is known, and no multiple of their number.
    """
    if count < 2:
        return (x,) * count
    size = x.dim(axis) if x.shape is not None and -len(x.shape) <= axis < len(x.shape) else None
    if size is None:
        each = emit.op("Div", emit.size(x, axis), emit.constant([count]))
        return _parts(emit, x, emit.op("Expand", each, emit.constant([count])), axis, count)
    if size % count:
        raise Unsupported(f"{x} is not split into {count} equal parts")
    return _parts(emit, x, emit.constant([size // count] * count), axis, count)


def split_by_sizes(emit: Emitter, x: Tensor, axis: int, sizes: Tensor, count: int) -> tuple[Tensor, ...]:
    """Parts of given sizes along an axis, of which one may be -1: what is left."""
    sizes = emit.cast(sizes, TensorProto.INT64)
    known = sizes.value
    if known is None or (known < 0).any():
        zero = emit.constant(0)
        open_ones = emit.op("Less", sizes, zero)
        rest = emit.op("ReduceSum", emit.op("Where", open_ones, zero, sizes), keepdims=1)
        sizes = emit.op("Where", open_ones, emit.op("Sub", emit.size(x, axis), rest), sizes)
    return _parts(emit, x, sizes, axis, count)


def _parts(emit: Emitter, x: Tensor, sizes: Tensor, axis: int, count: int) -> tuple[Tensor, ...]:
    shapes: list[Shape | None] = [None] * count
    if x.shape is not None:
        place = x.axis(axis)
        for k in range(count):
            size = None if sizes.value is None else int(sizes.value[k])
            shapes[k] = (*x.shape[:place], size, *x.shape[place + 1 :])
    return emit.node("Split", [x, sizes], [x.dtype] * count, shapes, axis=axis)
