"""Operators that move elements: shapes, axes, parts, paddings, indices."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from zoo.operators import F, Opset, declare, normal, spelled, variants, whole

X = normal(2, 3, 4)
I = np.int64  # noqa: E741

for special, target in ((True, [0, -1]), (True, [0, 0, 2, 2]), (False, [4, 6]), (False, [-1])):
    declare("reshape-1", f"{target} {special}", lambda x, t=target, s=special: Opset(1).reshape(x, np.array(t), s), X)
declare("reshape-1", "nothing", lambda x: Opset(1).reshape(x, np.array([0, 5]), False), np.zeros((2, 0), F))
for axes in ([0], [0, -1], []):
    declare("squeeze-1", axes, lambda x, a=axes: Opset(1).squeeze(x, np.array(a, I)), normal(1, 3, 1))
    declare("unsqueeze-1", axes, lambda x, a=axes: Opset(1).unsqueeze(x, np.array(a or [1], I)), normal(2, 3))
for axes, skip in (([0, 1], True), ([0, -1], False)):
    declare("squeeze-15", f"{axes} {skip}", lambda x, a=axes, s=skip: Opset(15).squeeze(x, np.array(a), s),
            normal(1, 3, 1))  # fmt: skip
for order in ([2, 0, 1], [], [0, 2, 1]):
    declare("transpose-1", order, lambda x, o=order: Opset(1).transpose(x, np.array(o, I)), X)
for axis in (0, -1, 1):
    declare("concat-1", axis, lambda x, y, a=axis: Opset(1).concat([x, y, x], a), X, X + 1)
    declare("split-1", axis, lambda x, a=axis: Opset(1).split(x, np.array(a), 2 if a != 1 else 3), X)
    for lengths in ([1, -1], [0, 2], [-1, 1]):
        given = [n if n >= 0 else X.shape[axis] - sum(m for m in lengths if m > 0) for n in lengths]
        told = lengths if -1 in lengths else [0, X.shape[axis]]
        declare("variadic_split-1", f"{axis} {lengths}", lambda x, a=axis, n=told: Opset(1).variadic_split(
            x, np.array(a), np.array(n)), X)  # fmt: skip
for repeats in ([2], [1, 2, 1], [2, 1, 1, 3], [0, 1, 1]):
    declare("tile-1", repeats, lambda x, r=repeats: Opset(1).tile(x, np.array(r)), X)
for mode, target, axes in (
    ("NUMPY", [2, 3, 4], None), ("EXPLICIT", [2, 3, 4], [1, 2]), ("EXPLICIT", [4, 3, 2, 4], [1, 3]),
    ("BIDIRECTIONAL", [2, 1, 4], None), ("BIDIRECTIONAL", [1], None),
):  # fmt: skip
    data = normal(3, 4)
    declare("broadcast-3", f"{mode} {target} {axes}", lambda x, m=mode, t=target, a=axes: Opset(3).broadcast(
        x, np.array(t), None if a is None else np.array(a), m), data)  # fmt: skip
    if mode != "BIDIRECTIONAL":
        declare("broadcast-1", f"{mode} {target} {axes}", lambda x, m=mode, t=target, a=axes: Opset(1).broadcast(
            x, np.array(t), None if a is None else np.array(a), m), data)  # fmt: skip
for mode in ("constant", "edge", "reflect", "symmetric"):
    for begin, end in (([1, 0, 2], [0, 1, 1]), ([0, 0, 0], [1, 2, 3])):
        declare("pad-1", f"{mode} {begin} {end}", lambda x, m=mode, b=begin, e=end: Opset(1).pad(
            x, np.array(b), np.array(e), m, np.array(1.5, F) if m == "constant" else None), X)  # fmt: skip
for mode in ("constant", "edge", "reflect", "symmetric"):
    declare("pad-12", f"{mode} cropped", lambda x, m=mode: Opset(12).pad(
        x, np.array([-1, 0, 1]), np.array([0, -1, -2]), m), X)  # fmt: skip
for start, stop, step, axes in (
    ([0, -3], [5, -1], [1, 1], None), ([-1], [-100], [-2], [2]), ([1, 3], [2, 0], [1, -1], [0, 2]),
    ([9], [1], [1], [1]),
):  # fmt: skip
    given = [np.array(v) for v in (start, stop, step)]
    declare("slice-8", f"{start} {stop} {step} {axes}", lambda x, g=given, a=axes: Opset(8).slice(
        x, *g, None if a is None else np.array(a)), X)  # fmt: skip
    declare("slice-8", f"{start} {stop} {step} {axes} fed", lambda x, b, e, s, a=axes: Opset(8).slice(
        x, b, e, s, None if a is None else np.array(a)), X, *given)  # fmt: skip
    hole = np.zeros_like(X)
    index = [slice(None)] * 3
    for k, axis in enumerate(axes or range(len(start))):
        index[axis] = slice(start[k], stop[k] if stop[k] > -100 else None, step[k])
    declare("slice_scatter-15", f"{start} {stop} {step} {axes}", lambda x, u, g=given, a=axes: Opset(15).slice_scatter(
        x, u, *g, None if a is None else np.array(a)), X, normal(*hole[tuple(index)].shape, seed=3))  # fmt: skip
RANDOM = np.random.default_rng(5)
for number in range(40):
    count = int(RANDOM.integers(1, 4))
    bounds = [RANDOM.integers(-3, 4, count) for _ in range(2)]
    strides = RANDOM.choice([1, 1, 2, -1], count)
    masks = [list(map(int, RANDOM.integers(0, 2, count) * (RANDOM.random() < chance)))
             for chance in (0.7, 0.7, 0.3, 0.3)]  # fmt: skip
    ellipsis = [0] * count
    if RANDOM.random() < 0.3:
        ellipsis[int(RANDOM.integers(count))] = 1
    shrunk = [int(s and not n) for s, n in zip(masks[3], masks[2], strict=True)]
    strides = np.where(np.array(shrunk) == 1, 1, strides)
    declare("strided_slice-1", f"random {number}", lambda x, b=bounds, s=strides, m=(*masks[:3], shrunk, ellipsis):
            Opset(1).strided_slice(x, *b, s, *m), X)  # fmt: skip
for axis, group in ((1, 2), (-1, 3), (0, 1)):
    shape = [2, 4, 6]
    declare("shuffle_channels-3", f"{axis} {group}", lambda x, a=axis, g=group: Opset(3).shuffle_channels(x, a, g),
            normal(*shape))  # fmt: skip
for mode in ("blocks_first", "depth_first"):
    declare("depth_to_space-1", mode, lambda x, m=mode: Opset(1).depth_to_space(x, m, 2), normal(2, 8, 3, 4))
    declare("space_to_depth-1", mode, lambda x, m=mode: Opset(1).space_to_depth(x, m, 2), normal(2, 3, 4, 6))
    declare("depth_to_space-1", f"{mode} 3d", lambda x, m=mode: Opset(1).depth_to_space(x, m, 2), normal(1, 8, 2, 3, 2))
    declare("space_to_depth-1", f"{mode} 1d", lambda x, m=mode: Opset(1).space_to_depth(x, m, 2), normal(2, 3, 4))
declare("space_to_batch-2", "", lambda x: Opset(2).space_to_batch(x, np.array([1, 2, 3]), np.array([0, 1, 0]),
                                                                  np.array([0, 0, 2])), normal(2, 3, 4))  # fmt: skip
declare("batch_to_space-2", "", lambda x: Opset(2).batch_to_space(x, np.array([1, 2, 3]), np.array([0, 1, 0]),
                                                                  np.array([0, 0, 2])), normal(12, 3, 4))  # fmt: skip
for batch, time in ((0, 1), (1, 0), (0, 2), (2, 1)):
    lengths = whole(1, X.shape[time] + 1, X.shape[batch])
    declare("reverse_sequence-1", f"{batch} {time}", lambda x, n, b=batch, t=time: Opset(1).reverse_sequence(
        x, n, b, t), X, lengths)  # fmt: skip
for shift, axes in (([1], [0]), ([-5, 2], [1, -1]), ([3, 7], [0, 1]), ([1, 1], [1, 1])):
    declare("roll-7", f"{shift} {axes}", lambda x, s=shift, a=axes: Opset(7).roll(x, np.array(s), np.array(a)), X)
    declare("roll-7", f"{shift} {axes} fed", lambda x, s, a=axes: Opset(7).roll(x, s, np.array(a)), X, np.array(shift))
declare("shape_of-1", "", Opset(1).shape_of, X)
for kind in ("i32", "i64"):
    declare("shape_of-3", kind, lambda x, k=kind: Opset(3).shape_of(x, k), X)
    declare("non_zero-3", kind, lambda x, k=kind: Opset(3).non_zero(x, k), (X > 0).astype(F))
for dtype in (np.int32, np.float32, bool, np.uint8):
    declare("non_zero-3", np.dtype(dtype).name, Opset(3).non_zero, np.array([[0, 1, 2], [3, 0, 0]]).astype(dtype))
for axis in (0, 1, -1):
    declare("gather-1", axis, lambda x, n, a=axis: Opset(1).gather(x, n, np.array(a)), X, np.array([[0, 1], [1, 1]]))
    declare("gather-8", axis, lambda x, n, a=axis: Opset(8).gather(x, n, np.array(a)), X, np.array([[0, -1], [1, -2]]))
    declare("gather-1", f"{axis} fed", lambda x, n, a: Opset(1).gather(x, n, a), X, np.array([0, 1]), np.array(axis))
    declare("gather_elements-6", axis, lambda x, n, a=axis: Opset(6).gather_elements(x, n, a), X,
            whole(0, 2, 2, 3, 4))  # fmt: skip
for batch, axis, shape in ((1, 1, (2, 2)), (1, 2, (2, 5)), (2, 2, (2, 3, 2)), (-1, 1, (2, 1)), (2, 2, (2, 3))):
    for version in (7, 8):
        declare(f"gather-{version}", f"{batch} {axis} {shape}", lambda x, n, v=version, b=batch, a=axis: Opset(
            v).gather(x, n, np.array(a), b), X, whole(0, 3, *shape))  # fmt: skip
for batch, shape in ((0, (2, 2)), (0, (2, 3, 1)), (1, (2, 2, 1)), (1, (2, 1)), (2, (2, 3, 1))):
    for version in (5, 8):
        declare(f"gather_nd-{version}", f"{batch} {shape}", lambda x, n, v=version, b=batch: Opset(v).gather_nd(
            x, n, b), X, whole(0, 2, *shape))  # fmt: skip
for axis, shape in ((0, (2,)), (1, (2, 2)), (-1, (3,))):
    updates = X.shape[: axis % 3] + shape + X.shape[axis % 3 + 1 :]
    places = np.arange(np.prod(shape)).reshape(shape) % X.shape[axis]
    if len(set(places.ravel().tolist())) < places.size:
        places, updates = places[:1, :1], (*X.shape[: axis % 3], 1, 1, *X.shape[axis % 3 + 1 :])
    declare("scatter_update-3", f"{axis} {shape}", lambda x, n, u, a=axis: Opset(3).scatter_update(
        x, n, u, np.array(a)), X, places, normal(*updates, seed=2))  # fmt: skip
    declare("scatter_elements_update-3", axis, lambda x, n, u, a=axis: Opset(3).scatter_elements_update(
        x, n, u, np.array(a)), X, np.zeros((1, 1, 1), I), normal(1, 1, 1, seed=2))  # fmt: skip
for v in variants(reduction=("sum", "prod", "min", "max", "mean", "none"), use_init_val=(True, False)):
    for dtype in (np.float32, np.int32):
        spread = whole(0, 2, 2, 3, 2) if v["reduction"] != "none" else np.zeros((2, 3, 1), I) - 1
        declare("scatter_elements_update-12", f"{np.dtype(dtype).name} {spelled(v)}", lambda x, n, u, v=v: Opset(
            12).scatter_elements_update(x, n, u, np.array(2), **v), (X * 5).astype(dtype), spread,
            (normal(*spread.shape, seed=2) * 5).astype(dtype))  # fmt: skip
for reduction in (None, "none", "sum", "sub", "prod", "min", "max"):
    many = np.array([[0, 1], [1, 2], [0, 1]]) if reduction not in (None, "none") else np.array([[0, 1], [-1, 2]])
    declare("scatter_nd_update-15", reduction, lambda x, n, u, r=reduction: Opset(15).scatter_nd_update(x, n, u, r), X,
            many, normal(len(many), 4, seed=2))  # fmt: skip
declare("scatter_nd_update-4", "", lambda x, n, u: Opset(4).scatter_nd_update(x, n, u), X, np.array([[1, 2, 3]]),
        np.array([9], F))  # fmt: skip
for v in variants(axis=(0, 1, -1), mode=("max", "min"), sort=("value", "index", "none")):
    for version in (1, 3, 11):
        distinct = np.random.default_rng(1).permutation(24).reshape(2, 3, 4).astype(F)
        declare(f"topk-{version}", spelled(v), lambda x, o=version, v=v: sorted_if_free(
            Opset(o).topk(x, np.array(2), v["axis"], v["mode"], v["sort"]), v["sort"]), distinct)  # fmt: skip


def sorted_if_free(node: Any, sort: str) -> Any:
    """Without an order, only the sum of what was taken is told."""
    return node if sort != "none" else Opset(1).reduce_sum(node.output(0), np.array([0, 1, 2]), False)


for v in variants(axis=(0, -1, 1), depth=(4, 1)):
    for version in (1, 16):
        declare(
            f"one_hot-{version}",
            spelled(v),
            lambda x, o=version, v=v: Opset(o).one_hot(
                x, np.array(v["depth"]), np.array(2.5, F), np.array(-1, F), v["axis"]
            ),
            np.array([[0, 3, 9], [1, -1, 2]]),
        )
for mode in ("ignore_negative", "normalize"):
    declare("one_hot-16", mode, lambda x, m=mode: Opset(16).one_hot(
        x, np.array(4), np.array(1), np.array(0), -1, m), np.array([[0, 3, -4], [1, -1, 2]]))  # fmt: skip
for low, high, step in ((0, 5, 1), (5, -4, -3), (0, 0, 1), (-2, 7, 4)):
    declare("range-4", f"{low} {high} {step}", lambda a, b, s: Opset(4).range(a, b, s, "i64"),
            *map(np.array, (low, high, step)))  # fmt: skip
    declare("range-4", f"{low} {high} {step} f32", lambda a, b, s: Opset(4).range(a, b, s, "f32"),
            *(np.array(v, F) for v in (low, high, step)))  # fmt: skip
    declare("range-1", f"{low} {high} {step}", lambda a, b, s: Opset(1).range(a, b, s),
            *map(np.array, (low, high, step)))  # fmt: skip
for rows, columns, shift in ((3, 4, 0), (4, 2, 1), (3, 3, -2), (2, 2, 9)):
    for kind in ("f32", "i32", "u8"):
        declare("eye-9", f"{rows} {columns} {shift} {kind}", lambda r, c, s=shift, k=kind: Opset(9).eye(
            r, c, np.array(s), k), np.array(rows), np.array(columns))  # fmt: skip
declare("eye-9", "batch", lambda r: Opset(9).eye(r, np.array(3), np.array(1), "f32", np.array([2, 2])), np.array(2))
declare("eye-9", "diagonal fed", lambda r, s: Opset(9).eye(r, np.array(3), s, "f32"), np.array(2), np.array(1))
for v in variants(axis=(None, 0, 1), sorted=(True, False)):
    for dtype in (np.float32, np.int32, np.int64, np.int8):
        declare("unique-10", f"{np.dtype(dtype).name} {spelled(v)}", lambda x, v=v: Opset(10).unique(
            x, None if v["axis"] is None else np.array(v["axis"]), v["sorted"]),
            np.array([[2, 1, 2], [0, 0, 0], [2, 1, 2]], dtype))  # fmt: skip
for right in (True, False):
    declare("bucketize-3", right, lambda x, r=right: Opset(3).bucketize(x, np.array([0, 1, 1.5], F), "i64", r),
            np.array([[-1, 0, 0.5], [1, 1.5, 9]], F))  # fmt: skip
    declare("search_sorted-15", right, lambda s, x, r=right: Opset(15).search_sorted(s, x, r),
            np.sort(normal(2, 5)), normal(2, 3, seed=1))  # fmt: skip
    declare("search_sorted-15", f"{right} one row", lambda s, x, r=right: Opset(15).search_sorted(s, x, r),
            np.array([0, 1, 1, 2], F), np.array([[1, 2.5], [-1, 0]], F))  # fmt: skip
for dtype, lengths, end in itertools.product((np.int32, F, np.int64), ([3, 4], [1, 9], [2, 2]), (10, 5)):
    declare("gather_tree-1", f"{dtype.__name__} {lengths} {end}", Opset(1).gather_tree,
            whole(0, 9, 4, 2, 3, dtype=dtype), whole(0, 3, 4, 2, 3, dtype=dtype), np.array(lengths, dtype),
            np.array(end, dtype))  # fmt: skip
TABLE = normal(5, 3)
NO_INDEX, FIRST, SECOND, THREE = (Opset(1).constant(np.array(n)) for n in (-1, 0, 1, 3))
for weighted in (False, True):
    extra = (normal(4, seed=3),) if weighted else ()
    pairs = (np.array([[0, 2], [1, 4], [3, 3]]), *((normal(3, 2, seed=3),) if weighted else ()))
    rows = np.array([0, 2, 3, 4])
    declare("embedding_bag_packed_sum-3", weighted, Opset(3).embedding_bag_packed_sum, TABLE, *pairs)
    declare("embedding_bag_offsets_sum-3", weighted, lambda t, n, o, *w: Opset(3).embedding_bag_offsets_sum(
        t, n, o, SECOND, *w), TABLE, rows, np.array([0, 2, 2]), *extra)  # fmt: skip
    declare("embedding_segments_sum-3", weighted, lambda t, n, s, *w: Opset(3).embedding_segments_sum(
        t, n, s, THREE, FIRST, *w), TABLE, rows, np.array([0, 0, 2, 2]), *extra)  # fmt: skip
for reduction in ("sum", "mean"):
    declare("embedding_bag_packed-15", reduction, lambda t, n, r=reduction: Opset(15).embedding_bag_packed(
        t, n, reduction=r), TABLE, np.array([[0, 2], [1, 4], [3, 3]]))  # fmt: skip
    declare("embedding_bag_offsets-15", reduction, lambda t, n, o, r=reduction: Opset(15).embedding_bag_offsets(
        t, n, o, NO_INDEX, reduction=r), TABLE, np.array([0, 2, 3, 4]), np.array([0, 1, 3]))  # fmt: skip
for fill in ("ZERO", "LOWEST"):
    declare("segment_max-16", fill, lambda x, s, f=fill: Opset(16).segment_max(x, s, np.array(5), f), normal(4, 2),
            np.array([0, 0, 2, 3]))  # fmt: skip
declare("sparse_fill_empty_rows-16", "", lambda v, i: Opset(16).sparse_fill_empty_rows(
    v, np.array([4, 3]), i, np.array(-1, F)), normal(3), np.array([[0, 1], [0, 2], [2, 0]]))  # fmt: skip
