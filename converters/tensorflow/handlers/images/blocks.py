"""tf.raw_ops.SpaceToDepth, DepthToSpace, SpaceToBatchND, BatchToSpaceND: blocks of pixels in another dimension."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter

_EVERY = ("every type",)


@handles("SpaceToDepth", "DepthToSpace", inputs=("input",), to="Transpose", dtypes=_EVERY)
def space_to_depth(node: Node, emit: Emitter) -> Tensor:
    """Blocks of pixels as channels, or channels as blocks of pixels."""
    x, block, form = node["input"], int(node.attributes["block_size"]), node.attributes["data_format"]
    if form not in (b"NHWC", b"NCHW"):
        raise Unsupported(f"its attribute data_format = {form.decode('utf-8', 'replace')!r} is not converted")
    if form == b"NCHW":
        x = emit.op("Transpose", x, perm=[0, 2, 3, 1])
    batch, height, width, channels = _sizes(x, 4, emit)
    if node.op_type == "SpaceToDepth":
        parts = [batch, _divided(height, block, emit), block, _divided(width, block, emit), block, channels]
        moved = emit.op("Transpose", _reshaped(x, parts, emit), perm=[0, 1, 3, 2, 4, 5])
        made = _reshaped(moved, [batch, parts[1], parts[3], _times(channels, block * block, emit)], emit)
    else:
        depth = _divided(channels, block * block, emit)
        parts = [batch, height, width, block, block, depth]
        moved = emit.op("Transpose", _reshaped(x, parts, emit), perm=[0, 1, 3, 2, 4, 5])
        made = _reshaped(moved, [batch, _times(height, block, emit), _times(width, block, emit), depth], emit)
    return emit.op("Transpose", made, perm=[0, 3, 1, 2]) if form == b"NCHW" else made


@handles("SpaceToBatchND", inputs=("input", "block_shape", "paddings"), to="Transpose", dtypes=("all numbers",))
@handles("SpaceToBatch", inputs=("input", "paddings"), to="Transpose", dtypes=("all numbers",))
def space_to_batch(node: Node, emit: Emitter) -> Tensor:
    """Blocks of pixels as rows of the batch, after a border of zeros is added."""
    x, blocks = node["input"], _blocks(node)
    count, rank = len(blocks), node["input"].rank
    if rank < count + 1:
        raise Unsupported(f"{x} has not {count} dimensions between batch and rest")
    paddings = emit.int64(node["paddings"])
    if paddings.value is None or paddings.value.any():
        border = emit.op("Reshape", emit.op("Transpose", paddings, perm=[1, 0]), emit.constant([-1]))
        x = emit.op("Pad", x, border, emit.like(0, x), emit.constant([*range(1, count + 1)]))
    batch, *rest = _sizes(x, rank, emit)
    parts: list[Tensor | int] = [batch]
    for size, block in zip(rest, blocks, strict=False):
        parts += [_divided(size, block, emit), block]
    parts += rest[count:]
    order = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count + 1, 2), *range(2 * count + 1, rank + count)]
    moved = emit.op("Transpose", _reshaped(x, parts, emit), perm=order)
    target = [_times(batch, int(np.prod(blocks)), emit), *parts[1 : 2 * count + 1 : 2], *rest[count:]]
    return _reshaped(moved, target, emit)


@handles("BatchToSpaceND", inputs=("input", "block_shape", "crops"), to="Transpose", dtypes=_EVERY)
@handles("BatchToSpace", inputs=("input", "crops"), to="Transpose", dtypes=_EVERY)
def batch_to_space(node: Node, emit: Emitter) -> Tensor:
    """Rows of the batch as blocks of pixels, of which a border is cut off."""
    x, blocks = node["input"], _blocks(node)
    count, rank = len(blocks), node["input"].rank
    if rank < count + 1:
        raise Unsupported(f"{x} has not {count} dimensions between batch and rest")
    crops = emit.int64(node["crops"])
    batch, *rest = _sizes(x, rank, emit)
    rows = _divided(batch, int(np.prod(blocks)), emit)
    split = _reshaped(x, [*blocks, rows, *rest], emit)
    order = [count]
    for k in range(count):
        order += [count + 1 + k, k]
    moved = emit.op("Transpose", split, perm=[*order, *range(2 * count + 1, rank + count)])
    whole = [_times(size, block, emit) for size, block in zip(rest, blocks, strict=False)]
    made = _reshaped(moved, [rows, *whole, *rest[count:]], emit)
    if crops.value is not None and not crops.value.any():
        return made
    sizes = emit.op("Concat", *(_vector(size, emit) for size in whole), axis=0)
    start, cut = (emit.op("Gather", crops, emit.constant(k), axis=1) for k in (0, 1))
    return emit.op("Slice", made, start, emit.op("Sub", sizes, cut), emit.constant([*range(1, count + 1)]))


def _blocks(node: Node) -> list[int]:
    """The sizes of blocks; those of images are squares whose size is an attribute."""
    if "block_shape" in node.inputs:
        return node["block_shape"].integers("block_shape")
    return [int(node.attributes["block_size"])] * 2


Size = Tensor | int


def _sizes(x: Tensor, rank: int, emit: Emitter) -> list[Size]:
    """The sizes of dimensions: numbers where they are known, else vectors of one element."""
    if x.rank != rank:
        raise Unsupported(f"{x} is not of rank {rank}")
    shape = emit.shape_of(x)
    known = x.shape or ()
    return [emit.op("Gather", shape, emit.constant([k])) if size is None else size for k, size in enumerate(known)]


def _vector(size: Size, emit: Emitter) -> Tensor:
    return emit.constant([size]) if isinstance(size, int) else size


def _divided(size: Size, by: int, emit: Emitter) -> Size:
    if isinstance(size, int):
        if by < 1 or size % by:
            raise Unsupported(f"a size of {size} is not divided by {by}")
        return size // by
    return emit.op("Div", size, emit.constant([by]))


def _times(size: Size, factor: int, emit: Emitter) -> Size:
    return size * factor if isinstance(size, int) else emit.op("Mul", size, emit.constant([factor]))


def _reshaped(x: Tensor, sizes: Sequence[Size], emit: Emitter) -> Tensor:
    if all(isinstance(size, int) for size in sizes):
        return emit.op("Reshape", x, emit.constant(list(sizes)), allowzero=1)
    target = emit.op("Concat", *(_vector(size, emit) for size in sizes), axis=0)
    shape = tuple(size if isinstance(size, int) else None for size in sizes)
    return emit.op("Reshape", x, target, allowzero=1, shape=shape)
