"""Operators of random graphs that move, repeat and select elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from support.random_graph_composition import Composition, Made, Size, operator, tensorflow


@operator
def transpose(c: Composition, x: Made, _: list[Made]) -> Made | None:
    order = [int(k) for k in c.rng.permutation(x.rank)]
    return Made(tensorflow().transpose(x.tensor, order), tuple(x.shape[k] for k in order)) if x.rank > 1 else None


@operator
def merge(c: Composition, x: Made, _: list[Made]) -> Made | None:
    """Reshape: two dimensions become one, by a -1 or by sizes."""
    tf = tensorflow()
    if x.rank < 2 or 0 in x.shape:
        return None  # a constant -1 beside a constant 0
    at, sizes = int(c.rng.integers(x.rank - 1)), tf.shape(x.tensor)
    parts = [sizes[k] if isinstance(s, str) else s for k, s in enumerate(x.shape)]
    both = -1 if c.rng.integers(2) else sizes[at] * sizes[at + 1]
    known = [s for s in x.shape[at : at + 2] if isinstance(s, int)]
    size: Size = known[0] * known[1] if len(known) == 2 else c.fresh()
    target = [*parts[:at], both, *parts[at + 2 :]]
    return Made(tf.reshape(x.tensor, target), (*x.shape[:at], size, *x.shape[at + 2 :]))


@operator
def flatten(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = tensorflow()
    if 0 in x.shape:
        return None
    if x.rank > 1 and isinstance(x.shape[-1], int) and c.rng.integers(2):
        return Made(tf.reshape(x.tensor, [-1, x.shape[-1]]), (c.fresh(), x.shape[-1]))
    return Made(tf.reshape(x.tensor, [-1]), (c.fresh(),))


def _with_axis(c: Composition, x: Made, size: int, make: Callable[[Any, int], Any], given: Any) -> Made | None:
    """What an operation makes that adds an axis of a size, at a drawn place."""
    if x.rank > 4:
        return None
    axis = int(c.rng.integers(-x.rank - 1, x.rank + 1))
    at = axis % (x.rank + 1)
    return Made(make(given, axis), (*x.shape[:at], size, *x.shape[at:]))


@operator
def expand(c: Composition, x: Made, _: list[Made]) -> Made | None:
    return _with_axis(c, x, 1, tensorflow().expand_dims, x.tensor)


@operator
def squeeze(c: Composition, x: Made, _: list[Made]) -> Made | None:
    ones = [k for k, s in enumerate(x.shape) if s == 1]
    if not ones:
        return None
    at = int(c.rng.choice(ones))
    axis = at - x.rank if c.rng.integers(2) else at
    return Made(tensorflow().squeeze(x.tensor, [axis]), (*x.shape[:at], *x.shape[at + 1 :]))


@operator
def tile(c: Composition, x: Made, _: list[Made]) -> Made | None:
    times = [int(t) for t in c.rng.integers(0, 3, x.rank)]
    shape = tuple(
        s if t == 1 else 0 if t == 0 else s * t if isinstance(s, int) else c.fresh()
        for s, t in zip(x.shape, times, strict=True)
    )
    return Made(tensorflow().tile(x.tensor, times), shape) if x.rank else None


@operator
def concat(c: Composition, x: Made, _: list[Made]) -> Made | None:
    if not x.rank:
        return None
    axis = c.axis(x)
    at = axis % x.rank
    size = 2 * x.shape[at] if isinstance(x.shape[at], int) else c.fresh()  # type: ignore[operator]
    return Made(tensorflow().concat([x.tensor, x.tensor], axis), (*x.shape[:at], size, *x.shape[at + 1 :]))


@operator
def stack(c: Composition, x: Made, _: list[Made]) -> Made | None:
    return _with_axis(c, x, 2, tensorflow().stack, [x.tensor, x.tensor])


@operator
def unstack(c: Composition, x: Made, _: list[Made]) -> list[Made] | None:
    known = [k for k, s in enumerate(x.shape) if isinstance(s, int) and 0 < s < 5]
    if not known:
        return None
    at = int(c.rng.choice(known))
    shape = (*x.shape[:at], *x.shape[at + 1 :])
    return [Made(part, shape) for part in tensorflow().unstack(x.tensor, axis=at - x.rank if c.rng.integers(2) else at)]


@operator
def split(c: Composition, x: Made, _: list[Made]) -> list[Made] | None:
    if not x.rank:
        return None
    axis = c.axis(x)
    at = axis % x.rank
    size = x.shape[at]
    half: Size = size // 2 if isinstance(size, int) else c.fresh()
    if isinstance(size, int) and size % 2:
        return None
    shape = (*x.shape[:at], half, *x.shape[at + 1 :])
    return [Made(part, shape) for part in tensorflow().split(x.tensor, 2, axis)]


@operator
def slices(c: Composition, x: Made, _: list[Made]) -> Made | None:
    if not x.rank:
        return None
    key: list[Any] = []
    shape: list[Size] = []
    for size in x.shape:
        how = int(c.rng.integers(6))
        if how == 0 and isinstance(size, int) and size:
            key.append(int(c.rng.integers(-size, size)))
            continue
        cut = [slice(None), slice(1, None), slice(None, -1), slice(None, None, -1), slice(None, None, 2), slice(0, 2)][
            how
        ]
        key.append(cut)
        shape.append(len(range(*cut.indices(size))) if isinstance(size, int) else size if how == 3 else c.fresh())
        if how == 0:
            shape[-1] = size
    return Made(x.tensor[tuple(key)], tuple(shape))


@operator
def gather(c: Composition, x: Made, _: list[Made]) -> Made | None:
    if not x.rank:
        return None
    axis = c.axis(x)
    at = axis % x.rank
    if not isinstance(x.shape[at], int) or not x.shape[at]:
        return None  # TensorFlow does not check the indices if nothing else is there to be gathered
    places = [[0, 0, 0], [], [[0], [0]]][int(c.rng.integers(3))]
    indices = np.array(places, np.int32)
    return Made(tensorflow().gather(x.tensor, indices, axis=axis), (*x.shape[:at], *indices.shape, *x.shape[at + 1 :]))


@operator
def gather_rows(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = tensorflow()
    if not x.rank:
        return None
    count = tf.shape(x.tensor)[0]
    rows = tf.range(count - 1, -1, -1)
    if c.rng.integers(2):
        return Made(tf.gather(x.tensor, rows), x.shape)
    return Made(tf.gather_nd(x.tensor, rows[:, None]), x.shape)


@operator
def pad(c: Composition, x: Made, _: list[Made]) -> Made | None:
    if not x.rank or not x.is_number:
        return None
    pads = c.rng.integers(0, 2, (x.rank, 2))
    shape = tuple(s + int(p.sum()) if isinstance(s, int) else c.fresh() for s, p in zip(x.shape, pads, strict=True))
    return Made(tensorflow().pad(x.tensor, pads, constant_values=1), shape)


@operator
def mask(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = tensorflow()
    if not x.rank or not x.is_number:
        return None
    kept = tf.range(tf.shape(x.tensor)[0]) % 2 == 0
    return Made(tf.boolean_mask(x.tensor, kept), (c.fresh(), *x.shape[1:]))


@operator
def places(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = tensorflow()
    return Made(tf.where(tf.cast(x.tensor, tf.bool)), (c.fresh(), x.rank)) if x.rank else None


@operator
def spread(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = tensorflow()
    if x.rank > 3:
        return None
    shape = tf.concat([[2], tf.shape(x.tensor)], 0)
    return Made(tf.broadcast_to(x.tensor, shape), (2, *x.shape))


@operator
def scatter(c: Composition, x: Made, _: list[Made]) -> Made | None:
    tf = tensorflow()
    if not x.rank or not x.is_number:
        return None
    rows = tf.range(0, tf.shape(x.tensor)[0], 2)[:, None]
    updates = x.tensor[::2] * 2
    how = int(c.rng.integers(3))
    if how == 0:
        return Made(tf.scatter_nd(rows, updates, tf.shape(x.tensor)), x.shape)
    function = tf.tensor_scatter_nd_update if how == 1 else tf.tensor_scatter_nd_add
    return Made(function(x.tensor, rows, updates), x.shape)
