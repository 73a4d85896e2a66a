"""Verbs that pick and move elements: by index, by slices, along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from verbs.declaration import BFLOAT16, BOOL, FLOATS, INTEGERS, NUMBERS, Case, OutOfRangeError, declare, written
from verbs.operands import axis, numbers, shape, small
from verbs.roads import Array, Fixed

_EVERY = (*NUMBERS, *BOOL)
_ATB = (np.dtype("float16"), BFLOAT16)
_ATB_ROWS = (*_ATB, np.dtype("float32"), np.dtype("int32"), np.dtype("int64"), np.dtype("int8"))
Rng = np.random.Generator
DType = np.dtype[Any]


def fixed(value: Any, dtype: str = "int64") -> Fixed:
    return Fixed(np.asarray(value, dtype))


def _indices(rng: Rng, size: int, dims: list[int]) -> Array:
    """Indices, now and then one that counts from the end, or is out of range."""
    made = rng.integers(0, max(size, 1), dims).astype(rng.choice(["int32", "int64"]))
    kind = rng.random()
    if made.size and kind < 0.3:
        at = tuple(int(rng.integers(0, n)) for n in dims)
        made[at] = -int(rng.integers(1, max(size, 1) + 1)) if kind < 0.15 else rng.choice([size, size + 3, -size - 1])
    return made


def _checked(indices: Array, size: int, made: Any, *, negative: bool) -> None:
    """Refuse what is out of range. A single negative index may be one that the converter counts from the end."""
    low = -size if negative or not indices.ndim else 0
    if ((indices < low) | (indices >= size)).any():
        raise OutOfRangeError([made])


# --- Gather


def _gather_draw(rng: Rng, dtype: DType) -> Case:
    dims = shape(rng, 1, 4, empty=False)
    at = axis(rng, len(dims))
    return Case([numbers(rng, dtype, dims), _indices(rng, dims[at], shape(rng, 0, 2))], {"axis": at, "batch": 0})


def _batched_gather_draw(rng: Rng, dtype: DType) -> Case:
    dims = shape(rng, 2, 4, empty=False)
    batch = int(rng.integers(1, len(dims)))
    at = int(rng.integers(batch, len(dims)))
    own = [int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3)))]
    indices = _indices(rng, dims[at], [*dims[:batch], *own])
    return Case([numbers(rng, dtype, dims), indices], {"axis": at - (len(dims) if rng.random() < 0.3 else 0),
                                                       "batch": batch})  # fmt: skip


def _gather(*, negative: bool) -> Callable[[Case], Array]:
    def meaning(case: Case) -> Array:
        x, indices = case.operands
        at, batch = case["axis"] % x.ndim, case["batch"]
        safe = np.mod(indices, x.shape[at])
        made = np.empty((*x.shape[:at], *indices.shape[batch:], *x.shape[at + 1 :]), x.dtype)
        for place in np.ndindex(*x.shape[:batch]):
            made[place] = np.take(x[place], safe[place], axis=at - batch)
        _checked(indices, x.shape[at], made, negative=negative)
        return made

    return meaning


def _batch_axis(case: Case) -> list[Any]:
    return [*case.operands, fixed(case["axis"])]


for _name, _draw in (("gather", _gather_draw), ("batched_gather", _batched_gather_draw)):
    declare(
        _name, _draw, _gather(negative=True), _EVERY,
        tensorflow=written("GatherV2", _batch_axis, lambda case: {"batch_dims": case["batch"]},
                           meaning=_gather(negative=False)),
        openvino=written("Gather-8", _batch_axis, lambda case: {"batch_dims": case["batch"]}),
        ge=written("GatherV2", _batch_axis, lambda case: {"batch_dims": case["batch"]}),
        atb=written("Gather", attributes=lambda case: {"axis": case["axis"] % case.operands[0].ndim,
                                                      "batchDims": case["batch"]}, dtypes=_ATB_ROWS),
    )  # fmt: skip


def _gather_nd_draw(rng: Rng, dtype: DType) -> Case:
    dims = shape(rng, 1, 4, empty=False)
    depth = int(rng.integers(1, len(dims) + 1))
    front = shape(rng, 0, 2)
    places = np.stack([_indices(rng, size, front).astype(np.int64) for size in dims[:depth]], -1)
    return Case([numbers(rng, dtype, dims), places])


def _gather_nd(*, negative: bool) -> Callable[[Case], Array]:
    def meaning(case: Case) -> Array:
        x, places = case.operands
        depth = places.shape[-1]
        sizes = np.array(x.shape[:depth])
        made = x[tuple(np.moveaxis(np.mod(places, sizes), -1, 0))]
        if ((places < (-sizes if negative else 0)) | (places >= sizes)).any():
            raise OutOfRangeError([made])
        return made

    return meaning


declare("gather_nd", _gather_nd_draw, _gather_nd(negative=True), _EVERY,
        tensorflow=written("GatherNd", meaning=_gather_nd(negative=False)), openvino="GatherND-8",
        ge="GatherNd")  # fmt: skip


def _along_draw(rng: Rng, dtype: DType) -> Case:
    dims = shape(rng, 1, 3, empty=False)
    at = axis(rng, len(dims))
    own = list(dims)
    own[at] = int(rng.integers(1, 5))
    return Case([numbers(rng, dtype, dims), _indices(rng, dims[at], own)], {"axis": at})


def _take_along(case: Case) -> Array:
    x, indices = case.operands
    at = case["axis"]
    made = np.take_along_axis(x, np.mod(indices, x.shape[at]).astype(np.int64), at)
    _checked(indices, x.shape[at], made, negative=True)
    return made


declare("gather_elements", _along_draw, _take_along, _EVERY,
        openvino=written("GatherElements-6", attributes=lambda case: {"axis": case["axis"]}),
        ge=written("GatherElements", attributes=lambda case: {"dim": case["axis"]}))  # fmt: skip

# --- OneHot


def _one_hot_draw(rng: Rng, dtype: DType) -> Case:
    dims, depth = shape(rng, 1, 3), int(rng.integers(1, 6))
    indices = rng.integers(-depth - 2, depth + 3, dims).astype(rng.choice(["int32", "int64"]))
    on, off = numbers(rng, dtype, ()), numbers(rng, dtype, ())
    return Case([indices, np.asarray(on, dtype), np.asarray(off, dtype)],
                {"depth": depth, "axis": int(rng.integers(-1, len(dims) + 1))})  # fmt: skip


def _one_hot(case: Case) -> Array:
    indices, on, off = case.operands
    hit = indices[..., None] == np.arange(case["depth"])
    place = case["axis"] if case["axis"] >= 0 else indices.ndim
    return np.moveaxis(np.where(hit, on, off), -1, place).astype(on.dtype)


def _with_depth(case: Case) -> list[Any]:
    indices, on, off = case.operands
    return [indices, fixed(case["depth"], "int32"), on, off]


declare("one_hot", _one_hot_draw, _one_hot, _EVERY,
        tensorflow=written("OneHot", _with_depth, lambda case: {"axis": case["axis"]},
                           types=lambda case: {"TI": case.operands[0].dtype}),
        openvino=written("OneHot-1", _with_depth, lambda case: {"axis": case["axis"]}),
        ge=written("OneHot", _with_depth, lambda case: {"axis": case["axis"]}),
        atb=written("Onehot", lambda case: [case.operands[0], *(v.reshape(1) for v in case.operands[1:])],
                    lambda case: {"axis": case["axis"], "depth": case["depth"]},
                    dtypes=tuple(map(np.dtype, ("int32", "int64")))))  # fmt: skip

# --- Scatters


def _scatter_draw(rng: Rng, dtype: DType) -> Case:
    """Updates of places that differ, so that their order does not matter."""
    dims = shape(rng, 1, 3, empty=False)
    at = axis(rng, len(dims))
    count = int(rng.integers(1, dims[at] + 1))
    own = list(dims)
    own[at] = count
    order = np.argsort(rng.random(dims), axis=at)
    indices = np.take(order, np.arange(count), axis=at)
    negative = rng.random() < 0.3
    return Case([numbers(rng, dtype, dims), (indices - dims[at] * negative).astype(np.int64), numbers(rng, dtype, own)],
                {"axis": at})  # fmt: skip


def _scattered(reduce: Callable[[Array, Array], Array] | None) -> Callable[[Case], Array]:
    def meaning(case: Case) -> Array:
        x, indices, updates = case.operands
        made = x.copy()
        if reduce is not None:
            wide = np.float32 if x.dtype in _ATB else x.dtype
            before = np.take_along_axis(x, indices, case["axis"])
            updates = np.asarray(reduce(before.astype(wide), updates.astype(wide))).astype(x.dtype)
        np.put_along_axis(made, indices, updates, case["axis"])
        return made

    return meaning


def _with_axis(case: Case) -> list[Any]:
    return [*case.operands, fixed(case["axis"])]


for _name, _reduce, _ov, _ge, _atb in (
    ("scatter_elements", None, "none", "none", 0),
    ("scatter_elements_add", np.add, "sum", "add", 1),
    ("scatter_elements_multiply", np.multiply, "prod", "mul", None),
):
    declare(
        _name, _scatter_draw, _scattered(_reduce), _EVERY if _reduce is None else NUMBERS,
        openvino=written("ScatterElementsUpdate-12", _with_axis, lambda case, r=_ov: {"reduction": r}),
        ge=written("ScatterElements", attributes=lambda case, r=_ge: {"axis": case["axis"], "reduction": r}),
        atb=None if _atb is None else written(
            "ScatterElementsV2", attributes=lambda case, r=_atb: {"axis": case["axis"], "reduction": r}, dtypes=_ATB),
    )  # fmt: skip


def _scatter_nd_draw(rng: Rng, dtype: DType) -> Case:
    dims = shape(rng, 1, 3, empty=False)
    depth = int(rng.integers(1, len(dims) + 1))
    total = int(np.prod(dims[:depth]))
    chosen = rng.permutation(total)[: int(rng.integers(0, total + 1))]
    places = np.stack(np.unravel_index(chosen, dims[:depth]), -1).astype(np.int64)
    if places.size and rng.random() < 0.25:
        places[0, 0] = dims[0] + int(rng.integers(0, 2)) if rng.random() < 0.5 else places[0, 0] - dims[0]
    return Case([numbers(rng, dtype, dims), places, numbers(rng, dtype, [len(places), *dims[depth:]])])


def _scatter_nd(*, negative: bool) -> Callable[[Case], Array]:
    def meaning(case: Case) -> Array:
        x, places, updates = case.operands
        sizes = np.array(x.shape[: places.shape[-1]])
        made = x.copy()
        made[tuple(np.mod(places, sizes).T)] = updates
        if ((places < (-sizes if negative else 0)) | (places >= sizes)).any():
            raise OutOfRangeError([made])
        return made

    return meaning


declare("scatter_nd", _scatter_nd_draw, _scatter_nd(negative=True), _EVERY,
        tensorflow=written("TensorScatterUpdate", meaning=_scatter_nd(negative=False)),
        openvino="ScatterNDUpdate-3", ge="TensorScatterUpdate")  # fmt: skip

# --- Orders


def _ordered_draw(rng: Rng, dtype: DType) -> Case:
    dims = shape(rng, 1, 3, empty=False)
    at = axis(rng, len(dims))
    x = numbers(rng, dtype, dims) if rng.random() < 0.5 else small(rng, dtype, dims)
    return Case([x], {"axis": at, "k": int(rng.integers(1, dims[at] + 1)), "largest": bool(rng.integers(0, 2))})


def _last_axis_draw(rng: Rng, dtype: DType) -> Case:
    case = _ordered_draw(rng, dtype)
    x = case.operands[0]
    return Case([x], {"axis": -1, "k": min(case["k"], x.shape[-1]), "largest": True})


def _top_k(places: str) -> Callable[[Case], list[Array]]:
    def meaning(case: Case) -> list[Array]:
        """Equal elements in the order of their places."""
        x, at = case.operands[0], case["axis"]
        keys = x.astype(np.float64) if x.dtype.kind not in "iu" else x.astype(object)
        order = np.argsort(-keys if case["largest"] else keys, axis=at, kind="stable")
        order = np.take(order, np.arange(case["k"]), axis=at)
        return [np.take_along_axis(x, order, at), order.astype(places)]

    return meaning


declare("top_k", _ordered_draw, _top_k("int32"), NUMBERS,
        openvino=written("TopK-11", lambda case: [*case.operands, fixed(case["k"])], lambda case: {
            "axis": case["axis"], "mode": "max" if case["largest"] else "min", "sort": "value", "stable": True,
            "index_element_type": "i32"}),
        ge=written("TopKV2", lambda case: [*case.operands, fixed(case["k"], "int32")], lambda case: {
            "dim": case["axis"], "largest": case["largest"]}))  # fmt: skip
declare("top_k_of_rows", _last_axis_draw, _top_k("int32"), NUMBERS,
        tensorflow=written("TopKV2", lambda case: [*case.operands, fixed(case["k"], "int32")]),
        atb=written("Sort", attributes=lambda case: {"num": [case["k"]]}, dtypes=_ATB))  # fmt: skip

for _name, _compute in (("arg_max", np.argmax), ("arg_min", np.argmin)):
    declare(
        _name, _ordered_draw,
        lambda case, f=_compute: np.asarray(f(case.operands[0].astype(object) if case.operands[0].dtype == BFLOAT16
                                              else case.operands[0], axis=case["axis"])).astype(np.int64),
        NUMBERS,
        tensorflow=written("ArgMax" if _name == "arg_max" else "ArgMin",
                           lambda case: [*case.operands, fixed(case["axis"], "int32")]),
        ge=written("ArgMaxV2" if _name == "arg_max" else "ArgMin",
                   lambda case: [*case.operands, fixed(case["axis"], "int32")], lambda case: {"dtype": 9}),
    )  # fmt: skip


def _bucketize_draw(rng: Rng, dtype: DType) -> Case:
    limits = sorted(float(n) for n in rng.integers(-9 if dtype.kind != "u" else 0, 20, int(rng.integers(0, 5))))
    x = np.concatenate([numbers(rng, dtype, (9,)), small(rng, dtype, (9,)),
                        np.array(limits).astype(dtype)])  # fmt: skip
    return Case([x], {"limits": limits})


def _bucketize(case: Case) -> Array:
    return np.searchsorted(case["limits"], case.operands[0].astype(np.float64), "right").astype(np.int32)


declare("bucketize", _bucketize_draw, _bucketize, (*FLOATS, *INTEGERS[:2]),
        tensorflow=written("Bucketize", attributes=lambda case: {"boundaries": case["limits"]}),
        openvino=written("Bucketize-3", lambda case: [*case.operands, fixed(case["limits"], "float32")],
                         lambda case: {"with_right_bound": False, "output_type": "i32"}),
        ge=written("Bucketize", attributes=lambda case: {"boundaries": case["limits"], "dtype": 3}))  # fmt: skip

# --- Slices


def _slice_draw(rng: Rng, dtype: DType) -> Case:
    """What Python writes as x[..., 2:-1, 0, newaxis, ::-2], as entries of begin, end, stride and five masks."""
    dims = shape(rng, 1, 4)
    taken = int(rng.integers(1, len(dims) + 1))
    kinds = ["shrink_axis" if rng.random() < 0.2 else "" for _ in range(taken)]
    for kind, chance in (("new_axis", 0.3), ("ellipsis", 0.3)):
        if rng.random() < chance:
            kinds.insert(int(rng.integers(0, len(kinds) + 1)), kind)
    masks = {name: [kind == name for kind in kinds] for name in ("new_axis", "shrink_axis", "ellipsis")}
    sizes = iter(dims)
    begin, end, stride = ([0] * len(kinds), [0] * len(kinds), [1] * len(kinds))
    for k, kind in enumerate(kinds):
        if kind == "ellipsis":
            for _ in range(len(dims) - taken):
                next(sizes)
        elif kind != "new_axis":
            size = next(sizes)
            if kind and not size:
                masks["shrink_axis"][k] = False
            begin[k], end[k] = (int(n) for n in rng.integers(-size - 1, size + 2, 2))
            stride[k] = int(rng.choice([1, 1, 2, -1, -2]))
            if masks["shrink_axis"][k]:
                begin[k], stride[k] = int(rng.integers(-size, size)), 1
    for name in ("begin", "end"):
        masks[name] = [bool(rng.random() < 0.2) for _ in kinds]
    return Case([numbers(rng, dtype, dims)], {"begin": begin, "end": end, "stride": stride, "masks": masks})


def _strided_slice(*, clamped: bool = False) -> Callable[[Case], Array]:
    """Python's slice; OpenVINO's has the first element if a negative step begins before it."""

    def meaning(case: Case) -> Array:
        x, masks = case.operands[0], case["masks"]
        taken = sum(not a and not b for a, b in zip(masks["ellipsis"], masks["new_axis"], strict=True))
        index: list[Any] = []
        at = 0
        for k, (begin, end, stride) in enumerate(zip(case["begin"], case["end"], case["stride"], strict=True)):
            if masks["ellipsis"][k]:
                index.append(Ellipsis)
                at += x.ndim - taken
            elif masks["new_axis"][k]:
                index.append(None)
            elif masks["shrink_axis"][k]:
                index.append(begin)
                at += 1
            else:
                first = 0 if clamped and stride < 0 and begin < -x.shape[at] and x.shape[at] else begin
                index.append(slice(None if masks["begin"][k] else first, None if masks["end"][k] else end, stride))
                at += 1
        return np.asarray(x[tuple(index)])

    return meaning


def _spans(case: Case) -> list[Any]:
    return [*case.operands, *(fixed(case[name], "int32") for name in ("begin", "end", "stride"))]


def _bits(case: Case) -> dict[str, int]:
    return {f"{name}_mask": sum(bit << k for k, bit in enumerate(mask)) for name, mask in case["masks"].items()}


declare("strided_slice", _slice_draw, _strided_slice(), _EVERY,
        tensorflow=written("StridedSlice", _spans, _bits),
        openvino=written("StridedSlice-1", _spans, lambda case: {
            f"{name}_mask": [int(bit) for bit in mask] for name, mask in case["masks"].items()},
            meaning=_strided_slice(clamped=True)),
        ge=written("StridedSlice", _spans, _bits))  # fmt: skip


def _part_draw(rng: Rng, dtype: DType) -> Case:
    dims = shape(rng, 1, 4, empty=False)
    begin = [int(rng.integers(0, size)) for size in dims]
    size = [int(rng.integers(1, n - b + 1)) if rng.random() < 0.8 else -1 for n, b in zip(dims, begin, strict=True)]
    return Case([numbers(rng, dtype, dims)], {"begin": begin, "size": size})


def _part(case: Case) -> Array:
    x = case.operands[0]
    return x[tuple(slice(b, None if n < 0 else b + n) for b, n in zip(case["begin"], case["size"], strict=True))]


def _begin_and_size(case: Case) -> list[Any]:
    return [*case.operands, *(fixed(case[name], "int32") for name in ("begin", "size"))]


declare("slice", _part_draw, _part, _EVERY, tensorflow=written("Slice", _begin_and_size),
        openvino=written("Slice-8", lambda case: [*case.operands, fixed(case["begin"]), fixed(
            [2**31 if n < 0 else b + n for b, n in zip(case["begin"], case["size"], strict=True)]),
            fixed([1] * len(case["begin"]))]),
        ge=written("Slice", _begin_and_size),
        atb=written("Slice", attributes=lambda case: {"offsets": case["begin"], "size": case["size"]},
                    dtypes=_ATB_ROWS))  # fmt: skip


def _reverse_draw(rng: Rng, dtype: DType) -> Case:
    dims = shape(rng, 1, 4)
    axes = sorted({int(a) for a in rng.integers(0, len(dims), 2)})
    if rng.random() < 0.3:
        axes = [a - len(dims) for a in axes]
    return Case([numbers(rng, dtype, dims)], {"axes": axes})


declare("reverse", _reverse_draw, lambda case: np.flip(case.operands[0], case["axes"]), _EVERY,
        tensorflow=written("ReverseV2", lambda case: [*case.operands, fixed(case["axes"], "int32")]),
        openvino=written("Reverse-1", lambda case: [*case.operands, fixed(case["axes"])],
                         lambda case: {"mode": "index"}),
        ge=written("ReverseV2", lambda case: [*case.operands, fixed(case["axes"], "int32")]))  # fmt: skip


def _reverse_sequence_draw(rng: Rng, dtype: DType) -> Case:
    dims = [int(n) for n in rng.integers(1, 5, int(rng.integers(2, 5)))]
    batch, time = (int(a) for a in rng.permutation(len(dims))[:2])
    lengths = rng.integers(0, dims[time] + 1, dims[batch]).astype(rng.choice(["int32", "int64"]))
    return Case([numbers(rng, dtype, dims), lengths], {"batch": batch, "time": time})


def _reverse_sequence(case: Case) -> Array:
    x, lengths = case.operands
    moved = np.moveaxis(x, (case["batch"], case["time"]), (0, 1)).copy()
    for row, length in zip(moved, lengths, strict=True):
        row[:length] = row[:length][::-1].copy()
    return np.moveaxis(moved, (0, 1), (case["batch"], case["time"]))


declare("reverse_sequence", _reverse_sequence_draw, _reverse_sequence, _EVERY,
        tensorflow=written("ReverseSequence", attributes=lambda case: {
            "batch_dim": case["batch"], "seq_dim": case["time"]}),
        openvino=written("ReverseSequence-1", attributes=lambda case: {
            "batch_axis": case["batch"], "seq_axis": case["time"]}),
        ge=written("ReverseSequence", attributes=lambda case: {
            "batch_dim": case["batch"], "seq_dim": case["time"]}))  # fmt: skip


def _pad_draw(rng: Rng, dtype: DType) -> Case:
    dims = shape(rng, 1, 4)
    pairs = rng.integers(0, 4, (len(dims), 2))
    return Case([numbers(rng, dtype, dims), numbers(rng, dtype, ())], {"pairs": pairs})


def _pad(case: Case) -> Array:
    return np.pad(case.operands[0], case["pairs"], constant_values=case.operands[1])


declare("pad", _pad_draw, _pad, _EVERY,
        tensorflow=written("PadV2", lambda case: [case.operands[0], fixed(case["pairs"]), case.operands[1]]),
        openvino=written("Pad-12", lambda case: [case.operands[0], fixed(case["pairs"][:, 0]),
                                                 fixed(case["pairs"][:, 1]), case.operands[1]],
                         lambda case: {"pad_mode": "constant"}),
        ge=written("PadV3", lambda case: [case.operands[0], fixed(case["pairs"]), case.operands[1]],
                   lambda case: {"mode": "constant", "paddings_contiguous": True}))  # fmt: skip


def _mirror_draw(rng: Rng, dtype: DType) -> Case:
    dims, symmetric = shape(rng, 1, 3, empty=False), bool(rng.integers(0, 2))
    most = [size if symmetric else size - 1 for size in dims]
    pairs = np.array([rng.integers(0, n + 1, 2) for n in most])
    return Case([numbers(rng, dtype, dims)], {"pairs": pairs, "mode": "symmetric" if symmetric else "reflect"})


declare("mirror_pad", _mirror_draw, lambda case: np.pad(case.operands[0], case["pairs"], mode=case["mode"]), NUMBERS,
        tensorflow=written("MirrorPad", lambda case: [*case.operands, fixed(case["pairs"])],
                           lambda case: {"mode": case["mode"].upper()}),
        openvino=written("Pad-1", lambda case: [*case.operands, fixed(case["pairs"][:, 0]),
                                                fixed(case["pairs"][:, 1])],
                         lambda case: {"pad_mode": case["mode"]}),
        ge=written("MirrorPad", lambda case: [*case.operands, fixed(case["pairs"])],
                   lambda case: {"mode": case["mode"].upper()}))  # fmt: skip


def _roll_draw(rng: Rng, dtype: DType) -> Case:
    dims = shape(rng, 1, 3)
    axes = [int(a) for a in rng.permutation(len(dims))[: int(rng.integers(1, len(dims) + 1))]]
    return Case([numbers(rng, dtype, dims), rng.integers(-9, 10, len(axes))], {"axes": axes})


declare("roll", _roll_draw, lambda case: np.roll(case.operands[0], case.operands[1].tolist(), case["axes"]), _EVERY,
        tensorflow=written("Roll", lambda case: [*case.operands, fixed(case["axes"], "int32")]),
        openvino=written("Roll-7", lambda case: [*case.operands, fixed(case["axes"])]),
        ge=written("Roll", lambda case: case.operands[:1], lambda case: {
            "shifts": case.operands[1].tolist(), "dims": case["axes"]}))  # fmt: skip

# --- Shapes


def _tile_draw(rng: Rng, dtype: DType) -> Case:
    dims = shape(rng, 1, 3)
    return Case([numbers(rng, dtype, dims)], {"times": [int(n) for n in rng.integers(1, 4, len(dims))]})


declare("tile", _tile_draw, lambda case: np.tile(case.operands[0], case["times"]), _EVERY,
        tensorflow=written("Tile", lambda case: [*case.operands, fixed(case["times"], "int32")]),
        openvino=written("Tile-1", lambda case: [*case.operands, fixed(case["times"])]),
        ge=written("Tile", lambda case: [*case.operands, fixed(case["times"], "int32")]),
        atb=written("Repeat", attributes=lambda case: {"multiples": case["times"]}, dtypes=_ATB_ROWS))  # fmt: skip


def _transpose_draw(rng: Rng, dtype: DType) -> Case:
    dims = shape(rng, 1, 4)
    return Case([numbers(rng, dtype, dims)], {"order": [int(a) for a in rng.permutation(len(dims))]})


declare("transpose", _transpose_draw, lambda case: np.transpose(case.operands[0], case["order"]), _EVERY,
        tensorflow=written("Transpose", lambda case: [*case.operands, fixed(case["order"], "int32")]),
        openvino=written("Transpose-1", lambda case: [*case.operands, fixed(case["order"])]),
        ge=written("Transpose", lambda case: [*case.operands, fixed(case["order"], "int32")]),
        atb=written("Transpose", attributes=lambda case: {"perm": case["order"]}, dtypes=_ATB_ROWS))  # fmt: skip


def _concat_draw(rng: Rng, dtype: DType) -> Case:
    dims = shape(rng, 1, 3)
    at = axis(rng, len(dims))
    other = list(dims)
    other[at] = int(rng.integers(0, 4))
    return Case([numbers(rng, dtype, dims), numbers(rng, dtype, other)], {"axis": at})


declare("concat", _concat_draw, lambda case: np.concatenate(case.operands, case["axis"]), _EVERY,
        tensorflow=written("ConcatV2", lambda case: [*case.operands, fixed(case["axis"], "int32")],
                           lambda case: {"N": 2}),
        openvino=written("Concat-1", attributes=lambda case: {"axis": case["axis"]}),
        ge=written("ConcatV2", lambda case: [*case.operands, fixed(case["axis"], "int32")], lambda case: {"N": 2}),
        atb=written("Concat", attributes=lambda case: {"concatDim": case["axis"]}, dtypes=_ATB_ROWS))  # fmt: skip


def _split_draw(rng: Rng, dtype: DType) -> Case:
    dims = shape(rng, 1, 3, empty=False)
    at, count = axis(rng, len(dims)), int(rng.integers(2, 4))
    dims[at] = count * int(rng.integers(1, 3))
    return Case([numbers(rng, dtype, dims)], {"axis": at, "count": count})


declare("split", _split_draw, lambda case: np.split(case.operands[0], case["count"], case["axis"]), _EVERY,
        tensorflow=written("Split", lambda case: [fixed(case["axis"], "int32"), *case.operands],
                           lambda case: {"num_split": case["count"]}),
        openvino=written("Split-1", lambda case: [*case.operands, fixed(case["axis"])],
                         lambda case: {"num_splits": case["count"]}),
        ge=written("Split", lambda case: [fixed(case["axis"], "int32"), *case.operands],
                   lambda case: {"num_split": case["count"]}),
        atb=written("Split", attributes=lambda case: {"splitDim": case["axis"], "splitNum": case["count"]},
                    dtypes=_ATB_ROWS))  # fmt: skip


def _broadcast_draw(rng: Rng, dtype: DType) -> Case:
    target = shape(rng, 1, 4)
    own = [1 if rng.random() < 0.4 else size for size in target[int(rng.integers(0, len(target))) :]]
    return Case([numbers(rng, dtype, own)], {"shape": target})


declare("broadcast_to", _broadcast_draw, lambda case: np.broadcast_to(case.operands[0], case["shape"]), _EVERY,
        tensorflow=written("BroadcastTo", lambda case: [*case.operands, fixed(case["shape"], "int32")]),
        openvino=written("Broadcast-3", lambda case: [*case.operands, fixed(case["shape"])],
                         lambda case: {"mode": "numpy"}),
        ge=written("BroadcastTo", lambda case: [*case.operands, fixed(case["shape"])]))  # fmt: skip


def _range_draw(rng: Rng, dtype: DType) -> Case:
    start, step = int(rng.integers(0, 9)), int(rng.integers(1, 4))
    limit = start + int(rng.integers(-2, 12))
    if dtype.kind != "u" and rng.random() < 0.3:
        step, limit = -step, start - (limit - start)
    return Case([np.array(n).astype(dtype) for n in (start, max(limit, 0) if dtype.kind == "u" else limit, step)])


declare("range", _range_draw, lambda case: np.arange(*(float(n) for n in case.operands)).astype(case.operands[0].dtype),
        (*FLOATS, *INTEGERS[:2]), tensorflow=written("Range", types=lambda case: {"Tidx": case.operands[0].dtype}),
        openvino=written("Range-4", attributes=lambda case: {
            "output_type": {"f": "f32", "i": "i32"}.get(case.operands[0].dtype.kind) if case.operands[0].dtype.itemsize
            == 4 else {"float16": "f16", "float64": "f64", "int64": "i64"}.get(case.operands[0].dtype.name, "bf16")}),
        ge="Range")  # fmt: skip


def _nonzero_draw(rng: Rng, dtype: DType) -> Case:
    return Case([small(rng, dtype, shape(rng, 1, 3))])


declare("nonzero", _nonzero_draw, lambda case: np.argwhere(case.operands[0]).astype(np.int64), _EVERY,
        tensorflow="Where", ge="Where",
        openvino=written("NonZero-3", attributes=lambda case: {"output_type": "i64"},
                         meaning=lambda case: np.argwhere(case.operands[0]).astype(np.int64).T))  # fmt: skip
