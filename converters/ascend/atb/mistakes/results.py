"""Mistakes with a result of any operation, for which nothing is run again: zeros, lost rows, nothing computed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from onnx_sparse.converters.ascend.atb.mistakes.trial import Array, is_float, wide

#: Results of an operation with more of them are not exchanged.
_MOST_EXCHANGED = 3


def resemblances(
    results: Sequence[Array], npu: Sequence[Array], inputs: Sequence[Array]
) -> Iterator[tuple[str, list[Array]]]:
    """Tensors that the NPU may have in place of the right ones: in words, and the tensors.

    Args:
        results: The right results.
        npu: The NPU's, of the same sizes.
        inputs: What the operation has read.
    """
    here = [array.reshape(there.shape) for array, there in zip(results, npu, strict=True)]
    each = [dict(_resembling(one, there, inputs)) for one, there in zip(here, npu, strict=True)]
    for words in each[0]:
        if all(words in others for others in each):
            yield words, [others[words] for others in each]
    if len(here) == 1:
        return
    there = [_place_of(one, inputs) for one in npu]
    if None not in there:
        words = " and ".join(f"input {place}" for place in there)
        yield f"{words}: nothing was computed", [array.copy() for array in npu]
    for place, others in enumerate(each):
        for words, array in others.items():
            yield f"in result {place}, {words}", [*here[:place], array, *here[place + 1 :]]
    for order in itertools.permutations(range(len(here))) if len(here) <= _MOST_EXCHANGED else ():
        if list(order) != sorted(order):
            yield f"the results in the order {', '.join(map(str, order))}", [here[place] for place in order]


def _place_of(npu: Array, inputs: Sequence[Array]) -> int | None:
    """The first input that has all elements of a result."""
    for place, array in enumerate(inputs):
        if array.dtype == npu.dtype and array.size == npu.size and array.tobytes() == npu.tobytes():
            return place
    return None


def _resembling(here: Array, npu: Array, inputs: Sequence[Array]) -> Iterator[tuple[str, Array]]:
    if here.size < 2:
        return
    yield "zeros: nothing was written", np.zeros_like(here)
    for place, array in enumerate(inputs):
        if array.dtype == here.dtype and array.size == here.size:
            yield f"input {place}: nothing was computed", array.reshape(here.shape)
        elif array.dtype == here.dtype and array.ndim <= here.ndim and _fits(array.shape, here.shape):
            yield f"input {place} for all: nothing was computed", np.broadcast_to(array, here.shape)
    if is_float(here):
        yield from _scaled(here, npu)
    flat = npu.reshape(-1)
    zeros = flat.size - int(np.flatnonzero(flat != 0).max(initial=-1)) - 1
    if 0 < zeros < flat.size:
        cut = here.reshape(-1).copy()
        cut[flat.size - zeros :] = 0
        yield f"the result up to element {flat.size - zeros}, then zeros", cut.reshape(here.shape)
    if here.ndim > 1:
        yield from _without_rows(here, npu)
    for axis in {0, here.ndim - 2, here.ndim - 1} & set(range(here.ndim)):
        for by, words in ((1, "after"), (-1, "before")):
            if here.shape[axis] > 1:
                yield f"the result moved along axis {axis} to the place {words}", np.roll(here, by, axis)


def _fits(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether a tensor can be broadcast to a shape."""
    return all(size in (1, other) for size, other in zip(reversed(shape), reversed(whole), strict=False))


def _without_rows(here: Array, npu: Array) -> Iterator[tuple[str, Array]]:
    lost = ~np.any(npu.reshape(len(npu), -1) != 0, axis=1)
    if 0 < lost.sum() < len(lost):
        rows = here.copy()
        rows[lost] = 0
        first = int(np.argmax(lost))
        yield f"the result with {int(lost.sum())} of {len(lost)} rows lost, from row {first} on", rows


def _scaled(here: Array, npu: Array) -> Iterator[tuple[str, Array]]:
    a, b = wide(here).reshape(-1), wide(npu).reshape(-1)
    finite = np.isfinite(a) & np.isfinite(b)
    norm = float(np.vdot(a[finite], a[finite]))
    factor = float(np.vdot(a[finite], b[finite])) / norm if norm else 0.0
    if factor and np.isfinite(factor):
        with np.errstate(over="ignore", invalid="ignore"):
            yield f"{factor:.4g} times the result", (a * factor).astype(here.dtype).reshape(here.shape)
