"""Blocks of pixels as channels or as rows of the batch, and back. Elements are moved, not computed with.

A size that is known is a number, another one a vector of one element. No elements stay none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.schemas.declaration import FLOATS

_Size = Tensor | int


def space_to_depth(
    emit: Emitter, x: Tensor, block: int, *, channels_last: bool = False, depth_first: bool = False
) -> Tensor:
    """Blocks of pixels as channels: in a pixel of the result, the block's pixels have their channels one by one.

    Args:
        emit: Receives the nodes.
        x: Images [batch, channels, ...], or [batch, ..., channels].
        block: How many pixels a block has along each axis of space.
        channels_last: Whether the channels are the last axis.
        depth_first: Whether a channel's pixels are together in the result.

    Raises:
        Unsupported: A size is not divided by the block.
    """
    if _has_kernel(x, channels_last) and not depth_first:
        return emit.op("SpaceToDepth", x, blocksize=block)
    batch, channels, *space = _sizes(emit, x, channels_last)
    smaller = [_divided(emit, size, block) for size in space]
    split = [part for size in smaller for part in (size, block)]
    count, first = len(space), 1 if channels_last else 2
    outer, inner = range(first, first + 2 * count, 2), range(first + 1, first + 2 * count, 2)
    deep = [2 * count + 1 if channels_last else 1]
    deep = [*deep, *inner] if depth_first else [*inner, *deep]
    order = [0, *outer, *deep] if channels_last else [0, *deep, *outer]
    moved = emit.op("Transpose", _reshaped(emit, x, _joined(batch, channels, split, channels_last)), perm=order)
    depth = _times(emit, channels, block**count)
    return _reshaped(emit, moved, _joined(batch, depth, smaller, channels_last))


def depth_to_space(
    emit: Emitter, x: Tensor, block: int, *, channels_last: bool = False, depth_first: bool = False
) -> Tensor:
    """Channels as blocks of pixels: the inverse of `space_to_depth`, with the same arguments."""
    if _has_kernel(x, channels_last):
        return emit.op("DepthToSpace", x, blocksize=block, mode="CRD" if depth_first else "DCR")
    batch, channels, *space = _sizes(emit, x, channels_last)
    count = len(space)
    fewer = _divided(emit, channels, block**count)
    deep = [fewer, *[block] * count] if depth_first else [*[block] * count, fewer]
    start = 1 + count if channels_last else 1  # of the channels' parts
    pixels = range(1 if channels_last else 2 + count, 1 + count if channels_last else 2 + 2 * count)
    channel, inner = (start, start + 1) if depth_first else (start + count, start)
    turns = [axis for k in range(count) for axis in (pixels[k], inner + k)]
    parts = [batch, *space, *deep] if channels_last else [batch, *deep, *space]
    order = [0, *turns, channel] if channels_last else [0, channel, *turns]
    moved = emit.op("Transpose", _reshaped(emit, x, parts), perm=order)
    larger = [_times(emit, size, block) for size in space]
    return _reshaped(emit, moved, _joined(batch, fewer, larger, channels_last))


def space_to_batch(emit: Emitter, x: Tensor, blocks: Sequence[int]) -> Tensor:
    """Blocks of pixels as rows of the batch, the place in a block being the outer one.

    Args:
        emit: Receives the nodes.
        x: Images, with their borders: [batch, blocked axes, others].
        blocks: The size of blocks along each of the axes after the batch.

    Raises:
        Unsupported: A size is not divided by its block.
    """
    count, rank = len(blocks), x.rank
    batch, *rest = _dims(emit, x)
    parts: list[_Size] = [batch]
    for size, block in zip(rest, blocks, strict=False):
        parts += [_divided(emit, size, block), block]
    parts += rest[count:]
    order = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count + 1, 2), *range(2 * count + 1, rank + count)]
    moved = emit.op("Transpose", _reshaped(emit, x, parts), perm=order)
    target = [_times(emit, batch, math.prod(blocks)), *parts[1 : 2 * count + 1 : 2], *rest[count:]]
    return _reshaped(emit, moved, target)


def batch_to_space(
    emit: Emitter, x: Tensor, blocks: Sequence[int], crops: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """Rows of the batch as blocks of pixels: the inverse of `space_to_batch`.

    Args:
        emit: Receives the nodes.
        x: [batch, blocked axes, others].
        blocks: The size of blocks along each of the axes after the batch.
        crops: What is cut off at the start and at the end of each of these axes; nothing when omitted.

    Raises:
        Unsupported: The batch is not divided by the blocks.
    """
    count, rank = len(blocks), x.rank
    batch, *rest = _dims(emit, x)
    rows = _divided(emit, batch, math.prod(blocks))
    split = _reshaped(emit, x, [*blocks, rows, *rest])
    turns = [axis for k in range(count) for axis in (count + 1 + k, k)]
    moved = emit.op("Transpose", split, perm=[count, *turns, *range(2 * count + 1, rank + count)])
    whole = [_times(emit, size, block) for size, block in zip(rest, blocks, strict=False)]
    made = _reshaped(emit, moved, [rows, *whole, *rest[count:]])
    if crops is None:
        return made
    sizes = emit.op("Concat", *(_vector(emit, size) for size in whole), axis=0)
    start, cut = crops
    return emit.op("Slice", made, start, emit.op("Sub", sizes, cut), emit.constant([*range(1, count + 1)]))


def _has_kernel(x: Tensor, channels_last: bool) -> bool:
    """Whether ONNX's operator is computed in the type of the elements: integers would go through floats."""
    return x.rank == 4 and not channels_last and x.dtype in FLOATS


def _dims(emit: Emitter, x: Tensor) -> list[_Size]:
    shape, known = emit.shape_of(x), x.shape or (None,) * x.rank
    return [emit.op("Gather", shape, emit.constant([k])) if size is None else size for k, size in enumerate(known)]


def _sizes(emit: Emitter, x: Tensor, channels_last: bool) -> list[_Size]:
    """The sizes of batch, channels and space."""
    batch, *rest = _dims(emit, x)
    return [batch, rest[-1], *rest[:-1]] if channels_last else [batch, *rest]


def _joined(batch: _Size, channels: _Size, space: Sequence[_Size], channels_last: bool) -> list[_Size]:
    return [batch, *space, channels] if channels_last else [batch, channels, *space]


def _vector(emit: Emitter, size: _Size) -> Tensor:
    return emit.constant([size]) if isinstance(size, int) else size


def _divided(emit: Emitter, size: _Size, by: int) -> _Size:
    if by < 1 or (isinstance(size, int) and size % by):
        raise Unsupported(f"a size of {size} is not divided by {by}")
    return size // by if isinstance(size, int) else emit.op("Div", size, emit.constant([by]))


def _times(emit: Emitter, size: _Size, factor: int) -> _Size:
    return size * factor if isinstance(size, int) else emit.op("Mul", size, emit.constant([factor]))


def _reshaped(emit: Emitter, x: Tensor, sizes: Sequence[_Size]) -> Tensor:
    if all(isinstance(size, int) for size in sizes):
        return emit.op("Reshape", x, emit.constant(list(sizes)), allowzero=1)
    target = emit.op("Concat", *(_vector(emit, size) for size in sizes), axis=0)
    shape = tuple(size if isinstance(size, int) else None for size in sizes)
    return emit.op("Reshape", x, target, allowzero=1, shape=shape)
