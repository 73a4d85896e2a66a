"""Verbs of images: blocks of pixels, windows, poolings. Operands have channels first, as OpenVINO's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from verbs.declaration import BOOL, FLOATS, NUMBERS, Case, declare, written
from verbs.operands import numbers, small
from verbs.roads import Array, Fixed

_EVERY = (*NUMBERS, *BOOL)
Rng = np.random.Generator
DType = np.dtype[Any]


def _last(x: Array) -> Array:
    """Channels behind space, as TensorFlow has them by default."""
    return np.moveaxis(x, 1, -1)


def _blocks_draw(rng: Rng, dtype: DType) -> Case:
    """An image of which each side and the channels are divided by a block."""
    block = int(rng.integers(1, 4))
    n, c, h, w = (int(k) for k in rng.integers(1, 3, 4))
    n = 0 if rng.random() < 0.1 else n
    return Case([numbers(rng, dtype, (n, c * block * block, h * block, w * block))], {"block": block})


def _to_depth(x: Array, block: int) -> Array:
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // block, block, w // block, block)
    return parts.transpose(0, 3, 5, 1, 2, 4).reshape(n, c * block * block, h // block, w // block)


def _to_space(x: Array, block: int) -> Array:
    n, c, h, w = x.shape
    parts = x.reshape(n, block, block, c // block**2, h, w)
    return parts.transpose(0, 3, 4, 1, 5, 2).reshape(n, c // block**2, h * block, w * block)


for _name, _compute, _op in (
    ("space_to_depth", _to_depth, "SpaceToDepth"),
    ("depth_to_space", _to_space, "DepthToSpace"),
):
    declare(
        _name, _blocks_draw, lambda case, f=_compute: f(case.operands[0], case["block"]), _EVERY,
        tensorflow=written(_op, lambda case: [_last(case.operands[0])], lambda case: {
            "block_size": case["block"], "data_format": "NHWC"},
            meaning=lambda case, f=_compute: _last(f(case.operands[0], case["block"]))),
        openvino=written(f"{_op}-1", attributes=lambda case: {"mode": "blocks_first", "block_size": case["block"]}),
        ge=written(_op, attributes=lambda case: {"block_size": case["block"], "data_format": "NCHW"}),
    )  # fmt: skip
    declare(
        f"{_name}_channels_first", _blocks_draw, lambda case, f=_compute: f(case.operands[0], case["block"]), _EVERY,
        tensorflow=written(_op, attributes=lambda case: {"block_size": case["block"], "data_format": "NCHW"}),
    )  # fmt: skip


def _batch_draw(rng: Rng, dtype: DType) -> Case:
    """Two blocked dimensions between the batch and a rest of one, in OpenVINO's words."""
    blocks = [int(k) for k in rng.integers(1, 4, 2)]
    before = [int(k) for k in rng.integers(0, 3, 2)]
    sizes = [int(k) for k in rng.integers(1, 4, 2)]
    after = [(-(size + b)) % block for size, b, block in zip(sizes, before, blocks, strict=True)]
    batch, rest = int(rng.integers(0, 3)), int(rng.integers(1, 3))
    return Case([numbers(rng, dtype, (batch, *sizes, rest))], {"blocks": blocks, "before": before, "after": after})


def _to_batch(case: Case) -> Array:
    pads = [(0, 0), *zip(case["before"], case["after"], strict=True), (0, 0)]
    x = np.pad(case.operands[0], pads)
    (n, h, w, c), (a, b) = x.shape, case["blocks"]
    parts = x.reshape(n, h // a, a, w // b, b, c)
    return parts.transpose(2, 4, 0, 1, 3, 5).reshape(n * a * b, h // a, w // b, c)


def _from_batch_draw(rng: Rng, dtype: DType) -> Case:
    blocks = [int(k) for k in rng.integers(1, 4, 2)]
    n, h, w, c = (int(k) for k in rng.integers(1, 4, 4))
    before = [int(rng.integers(0, h * blocks[0])), int(rng.integers(0, w * blocks[1]))]
    after = [int(rng.integers(0, size * block - b)) for size, block, b in zip((h, w), blocks, before, strict=True)]
    x = numbers(rng, dtype, (n * blocks[0] * blocks[1], h, w, c))
    return Case([x], {"blocks": blocks, "before": before, "after": after})


def _from_batch(case: Case) -> Array:
    x, (a, b) = case.operands[0], case["blocks"]
    n, h, w, c = x.shape
    n //= a * b
    made = x.reshape(a, b, n, h, w, c).transpose(2, 3, 0, 4, 1, 5).reshape(n, h * a, w * b, c)
    (top, left), (bottom, right) = case["before"], case["after"]
    return made[:, top : h * a - bottom, left : w * b - right]


def _with_pairs(case: Case) -> list[Any]:
    pairs = np.array([case["before"], case["after"]]).T
    return [*case.operands, Fixed(np.array(case["blocks"], np.int32)), Fixed(pairs.astype(np.int32))]


def _with_borders(case: Case) -> list[Any]:
    borders = [[1, *case["blocks"], 1], [0, *case["before"], 0], [0, *case["after"], 0]]
    return [*case.operands, *(Fixed(np.array(border, np.int64)) for border in borders)]


declare("space_to_batch", _batch_draw, _to_batch, NUMBERS, tensorflow=written("SpaceToBatchND", _with_pairs),
        openvino=written("SpaceToBatch-2", _with_borders), ge=written("SpaceToBatchND", _with_pairs))  # fmt: skip
declare("batch_to_space", _from_batch_draw, _from_batch, _EVERY, tensorflow=written("BatchToSpaceND", _with_pairs),
        openvino=written("BatchToSpace-2", _with_borders), ge=written("BatchToSpaceND", _with_pairs))  # fmt: skip


def _windows_draw(rng: Rng, dtype: DType) -> Case:
    size = [int(k) for k in rng.integers(1, 4, 2)]
    stride = [int(k) for k in rng.integers(1, 4, 2)]
    sides = [int(k) for k in rng.integers(3, 7, 2)]
    n, c = int(rng.integers(0, 3)), int(rng.integers(1, 3))
    draw = numbers if dtype.kind in "iu" else small
    return Case([draw(rng, dtype, (n, c, *sides))],
                {"size": size, "stride": stride, "padding": str(rng.choice(["SAME", "VALID"]))})  # fmt: skip


def _windows(x: Array, case: Case, fill: Any) -> tuple[Array, Array]:
    """The elements of each window, [batch, channels, rows, columns, elements], and whether they are in the image."""
    pads, counts = [], []
    for size, width, stride in zip(x.shape[2:], case["size"], case["stride"], strict=True):
        count = -(-size // stride) if case["padding"] == "SAME" else (size - width) // stride + 1
        missing = max((count - 1) * stride + width - size, 0)
        pads.append((missing // 2, missing - missing // 2))
        counts.append(count)
    wide = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    inside = np.pad(np.ones(x.shape, bool), [(0, 0), (0, 0), *pads])
    rows, columns = (np.arange(n) * s for n, s in zip(counts, case["stride"], strict=True))
    found = [
        (part[:, :, rows + a][:, :, :, columns + b])
        for part in (wide, inside)
        for a in range(case["size"][0])
        for b in range(case["size"][1])
    ]
    half = len(found) // 2
    return np.stack(found[:half], -1), np.stack(found[half:], -1)


def _max_pool(case: Case) -> Array:
    x = case.operands[0]
    least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    return _windows(x, case, least)[0].max(-1)


def _mean_pool(case: Case) -> Array:
    x = case.operands[0]
    found, inside = _windows(x.astype(np.float64), case, 0)
    return (found.sum(-1) / inside.sum(-1)).astype(x.dtype)


def _tf_pool(op: str, meaning: Callable[[Case], Array], dtypes: Any = None) -> Any:
    return written(
        op, lambda case: [_last(case.operands[0])],
        lambda case: {"ksize": [1, *case["size"], 1], "strides": [1, *case["stride"], 1], "padding": case["padding"],
                      "data_format": "NHWC"},
        meaning=lambda case: _last(meaning(case)), dtypes=dtypes)  # fmt: skip


def _ov_windows(case: Case) -> dict[str, Any]:
    zero = [0, 0]
    return {"kernel": case["size"], "strides": case["stride"], "pads_begin": zero, "pads_end": zero,
            "rounding_type": "floor", "auto_pad": "same_upper" if case["padding"] == "SAME" else "valid"}  # fmt: skip


_NARROW = tuple(dtype for dtype in NUMBERS if dtype.name not in ("int64", "uint64"))
declare("max_pool", _windows_draw, _max_pool, _NARROW, tensorflow=_tf_pool("MaxPool", _max_pool),
        openvino=written("MaxPool-1", attributes=_ov_windows))  # fmt: skip
declare("mean_pool", _windows_draw, _mean_pool, tuple(d for d in FLOATS if d != np.float64),
        tensorflow=_tf_pool("AvgPool", _mean_pool),
        openvino=written("AvgPool-1", attributes=lambda case: {**_ov_windows(case), "exclude-pad": True}))  # fmt: skip


def _patches_draw(rng: Rng, dtype: DType) -> Case:
    case = _windows_draw(rng, dtype)
    return Case([numbers(rng, dtype, case.operands[0].shape)], case.attributes)


def _patches(case: Case) -> Array:
    """The elements of each window behind each other, and of each element the channels; 0 outside."""
    found, _ = _windows(case.operands[0], case, 0)
    n, c, h, w, count = found.shape
    return found.transpose(0, 4, 1, 2, 3).reshape(n, count * c, h, w)


declare("image_patches", _patches_draw, _patches, NUMBERS,
        tensorflow=written("ExtractImagePatches", lambda case: [_last(case.operands[0])], lambda case: {
            "ksizes": [1, *case["size"], 1], "strides": [1, *case["stride"], 1], "rates": [1, 1, 1, 1],
            "padding": case["padding"]}, meaning=lambda case: _last(_patches(case))),
        openvino=written("ExtractImagePatches-3", attributes=lambda case: {
            "sizes": case["size"], "strides": case["stride"], "rates": [1, 1],
            "auto_pad": "same_upper" if case["padding"] == "SAME" else "valid"}))  # fmt: skip
