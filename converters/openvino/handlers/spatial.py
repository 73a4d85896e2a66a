"""Operators that move the elements of images between channels, batch and space."""

from __future__ import annotations

import numpy as np

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import FLOATS, NARROW, OpenVINOEmitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.handlers.windows import paddings, per_axis
from onnx_sparse.converters.tensor import Tensor


def _square_blocks(node: Node) -> tuple[str, int, int]:
    """The mode and the size of blocks, and the rank of the data."""
    mode, block = node.choice("mode", ("blocks_first", "depth_first")), node.integer("block_size", 1)
    if block < 1:
        raise Unsupported(f"block_size = {block}")
    return mode, block, node.ranked(0, 3).rank


@handles("DepthToSpace-1", to="DepthToSpace, or Reshape, Transpose")
def depth_to_space(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """DepthToSpace-1: the channels of a pixel become a block of pixels. ONNX's operator has two axes of space."""
    mode, block, rank = _square_blocks(node)
    if rank == 4:
        return emit.op(
            "DepthToSpace", node[0], blocksize=block, mode={"blocks_first": "DCR", "depth_first": "CRD"}[mode]
        )
    count = rank - 2
    sizes = emit.shape_of(node[0])
    batch, channels, space = (emit.op("Slice", sizes, *_span(emit, *span)) for span in ((0, 1), (1, 2), (2, rank)))
    fewer = emit.op("Div", channels, emit.constant([block**count]))
    blocks = emit.constant([block] * count)
    depth = [blocks, fewer] if mode == "blocks_first" else [fewer, blocks]
    split = emit.op("Reshape", node[0], emit.op("Concat", batch, *depth, space, axis=0), allowzero=1)
    # The axes of the channels, of the blocks and of space, of which the latter two take turns in the result.
    channel, block_axes = (1 + count, range(1, 1 + count)) if mode == "blocks_first" else (1, range(2, 2 + count))
    order = [0, channel, *(axis for k in range(count) for axis in (2 + count + k, block_axes[k]))]
    larger = emit.op("Concat", batch, fewer, emit.op("Mul", space, blocks), axis=0)
    return emit.op("Reshape", emit.op("Transpose", split, perm=order), larger, allowzero=1)


@handles("SpaceToDepth-1", to="SpaceToDepth, or Reshape, Transpose")
def space_to_depth(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """SpaceToDepth-1: the inverse of DepthToSpace. ONNX's operator has two axes of space, and puts blocks first."""
    mode, block, rank = _square_blocks(node)
    if rank == 4 and mode == "blocks_first":
        return emit.op("SpaceToDepth", node[0], blocksize=block)
    count = rank - 2
    sizes = emit.shape_of(node[0])
    front, channels, space = (emit.op("Slice", sizes, *_span(emit, *span)) for span in ((0, 2), (1, 2), (2, rank)))
    blocks = emit.constant([block] * count)
    smaller = emit.op("Div", space, blocks)
    pairs = [emit.op("Unsqueeze", t, emit.constant([1])) for t in (smaller, blocks)]
    taking_turns = emit.op("Reshape", emit.op("Concat", *pairs, axis=1), emit.constant([-1]))
    split = emit.op("Reshape", node[0], emit.op("Concat", front, taking_turns, axis=0), allowzero=1)
    block_axes, space_axes = range(3, rank + count, 2), range(2, rank + count, 2)
    order = [0, *block_axes, 1, *space_axes] if mode == "blocks_first" else [0, 1, *block_axes, *space_axes]
    more = emit.op("Mul", channels, emit.constant([block**count]))
    deeper = emit.op("Concat", emit.op("Slice", sizes, *_span(emit, 0, 1)), more, smaller, axis=0)
    return emit.op("Reshape", emit.op("Transpose", split, perm=order), deeper, allowzero=1)


@handles("ShuffleChannels-1", to="Reshape, Transpose")
def shuffle_channels(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """ShuffleChannels-1: [.., group, channels / group, ..] with the two swapped."""
    x, groups = node[0], node.integer("group", 1)
    axis = x.axis(node.integer("axis", 1))
    size = (x.shape or ())[axis]
    if groups < 1 or (size is not None and size % groups):
        raise Unsupported(f"{groups} groups of {size} channels")
    count, within = emit.constant([groups]), emit.op("Div", emit.shape_of(x, axis, axis + 1), emit.constant([groups]))
    split = emit.op("Concat", emit.shape_of(x, 0, axis), count, within, emit.shape_of(x, axis + 1), axis=0)
    order = [*range(axis), axis + 1, axis, *range(axis + 2, x.rank + 1)]
    swapped = emit.op("Transpose", emit.op("Reshape", x, split, allowzero=1), perm=order)
    return emit.op("Reshape", swapped, emit.shape_of(x), allowzero=1)


@handles("SpaceToBatch-2", to="Pad, Reshape, Transpose", notes="The block shape must be a constant.")
def space_to_batch(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """SpaceToBatch-2: (data, block shape, paddings at the start, at the end). The blocks' positions become batches."""
    blocks, rank = _blocks(node), node[0].rank
    pads = emit.op("Concat", emit.vector(node[2]), emit.vector(node[3]), axis=0)
    data = emit.op("Pad", node[0], pads)
    sizes = emit.shape_of(data)
    split = emit.op("Div", sizes, emit.constant(blocks))
    # [batch, size / block, block, ...]: the block of the batch, which is 1, is left out.
    shape = _interleaved(emit, split, emit.constant(blocks), rank)
    moved = emit.op("Transpose", emit.op("Reshape", data, shape, allowzero=1),
                    perm=[*range(2, 2 * rank, 2), 0, *range(1, 2 * rank - 1, 2)])  # fmt: skip
    batch = emit.op("Mul", emit.op("Slice", sizes, *_span(emit, 0, 1)), emit.constant([_product(blocks)]))
    rest = emit.op("Slice", split, *_span(emit, 1, rank))
    return emit.op("Reshape", moved, emit.op("Concat", batch, rest, axis=0), allowzero=1)


@handles("BatchToSpace-2", to="Reshape, Transpose, Slice", notes="The block shape must be a constant.")
def batch_to_space(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """BatchToSpace-2: (data, block shape, what is cropped at the start, at the end): the inverse of SpaceToBatch."""
    blocks, rank = _blocks(node), node[0].rank
    sizes = emit.shape_of(node[0])
    batch = emit.op("Div", emit.op("Slice", sizes, *_span(emit, 0, 1)), emit.constant([_product(blocks)]))
    inner = emit.op("Slice", sizes, *_span(emit, 1, rank))
    shape = emit.op("Concat", emit.constant(blocks[1:]), batch, inner, axis=0)
    order = [rank - 1, *(axis for k in range(1, rank) for axis in (rank - 1 + k, k - 1))]
    moved = emit.op("Transpose", emit.op("Reshape", node[0], shape, allowzero=1), perm=order)
    grown = emit.op("Concat", batch, emit.op("Mul", inner, emit.constant(blocks[1:])), axis=0)
    whole = emit.op("Reshape", moved, grown, allowzero=1)
    ends = emit.op("Sub", grown, emit.vector(node[3]))
    return emit.op("Slice", whole, emit.vector(node[2]), ends)


def _blocks(node: Node) -> list[int]:
    blocks = node[1].integers("the block shape")
    if len(blocks) != node[0].rank or min(blocks, default=0) < 1 or blocks[0] != 1:
        raise Unsupported(f"block shape {blocks} does not fit {node[0]}")
    return blocks


def _interleaved(emit: OpenVINOEmitter, sizes: Tensor, blocks: Tensor, rank: int) -> Tensor:
    """The sizes and blocks of the axes in turn, without the first block."""
    pairs = [emit.op("Unsqueeze", t, emit.constant([1])) for t in (sizes, blocks)]
    flat = emit.op("Reshape", emit.op("Concat", *pairs, axis=1), emit.constant([-1]))
    return emit.op("Gather", flat, emit.constant([0, *range(2, 2 * rank)]))


def _span(emit: OpenVINOEmitter, start: int, end: int) -> tuple[Tensor, Tensor]:
    return emit.constant([start]), emit.constant([end])


def _product(numbers: list[int]) -> int:
    made = 1
    for number in numbers:
        made *= number
    return made


@handles("ReorgYolo-1", "ReorgYolo-2", to="Reshape, SpaceToDepth")
def reorg_yolo(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """ReorgYolo: the elements of an image are taken for one with fewer channels, whose blocks become channels."""
    (stride,) = per_axis(node, "stride", 1, least=1)
    batch, channels, height, width = (emit.shape_of(node[0], k, k + 1) for k in range(4))
    times, squared = emit.constant([stride]), emit.constant([stride**2])
    larger = [emit.op("Div", channels, squared), *(emit.op("Mul", size, times) for size in (height, width))]
    smaller = [emit.op("Mul", channels, squared), *(emit.op("Div", size, times) for size in (height, width))]
    image = emit.op("Reshape", node[0], emit.op("Concat", batch, *larger, axis=0), allowzero=1)
    made = emit.op("SpaceToDepth", image, blocksize=stride)
    return emit.op("Reshape", made, emit.op("Concat", batch, *smaller, axis=0), allowzero=1)


@handles("RegionYolo-1", to="Sigmoid, or Softmax", ignored=("anchors",))  # which OpenVINO's kernel does not read
def region_yolo(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """RegionYolo-1: of each region of a cell, the center, what there is, and the classes.

    With `do_softmax` the classes are a distribution, and the axes from `axis` to `end_axis` become one.
    """
    x = node[0]
    is_softmax = node.flag("do_softmax", True)
    node.disregard(*(["mask"] if is_softmax else ["num", "axis", "end_axis"]))
    coordinates, classes = node.integer("coords"), node.integer("classes")
    regions = node.integer("num") if is_softmax else len(node.integers("mask", []))
    if coordinates < 2 or classes < 1 or regions < 1:
        raise Unsupported(f"{regions} regions of {coordinates} coordinates and {classes} classes")
    each = coordinates + 1 + classes
    channels = None if x.shape is None else node.ranked(0, 4, 4).dim(1)
    if channels not in (None, regions * each):
        raise Unsupported(f"{channels} channels for {regions} regions of {each} numbers")
    front, space = emit.shape_of(x, 0, 1), emit.shape_of(x, 2, 4)
    split = emit.op("Concat", front, emit.constant([regions, each]), space, axis=0)
    parts = emit.node(
        "Split",
        [emit.op("Reshape", x, split, allowzero=1), emit.constant([2, coordinates - 2, 1, classes])],
        [x.dtype] * 4,
        axis=2,
    )
    center, size, is_there, scores = parts
    chances = emit.op("Softmax", scores, axis=2) if is_softmax else emit.op("Sigmoid", scores)
    done = [emit.op("Sigmoid", center), size, emit.op("Sigmoid", is_there), chances]
    image = emit.op("Concat", front, emit.constant([regions * each]), space, axis=0)
    made = emit.op("Reshape", emit.op("Concat", *done, axis=2), image, allowzero=1)
    if not is_softmax:
        return made
    first, last = (made.axis(node.integer(key)) for key in ("axis", "end_axis"))
    if first >= last:
        return made
    sizes = emit.shape_of(x)
    joined = emit.op("ReduceProd", emit.op("Slice", sizes, *_span(emit, first, last + 1)))
    ends = emit.op("Slice", sizes, *_span(emit, 0, first)), emit.op("Slice", sizes, *_span(emit, last + 1, 4))
    return emit.op("Reshape", made, emit.op("Concat", ends[0], joined, ends[1], axis=0), allowzero=1)


@handles("ExtractImagePatches-3", to="Pad, Gather, Transpose")
def extract_image_patches(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """ExtractImagePatches-3: [batch, channels, height, width] to [batch, patch, rows of patches, columns of patches].

    A patch has its rows, its columns, and their channels.
    """
    sizes, strides, rates = (per_axis(node, key, 2, least=1) for key in ("sizes", "strides", "rates"))
    auto = node.choice("auto_pad", ("valid", "same_upper", "same_lower"))
    zero = emit.constant([0])
    begins, ends, counts, places = [], [], [], []
    for k, (size, stride, rate) in enumerate(zip(sizes, strides, rates, strict=True)):
        length, step, reach = emit.shape_of(node[0], 2 + k, 3 + k), emit.constant([stride]), (size - 1) * rate + 1
        if auto == "valid":
            over = emit.op("Sub", length, emit.constant([reach - stride]))
            count, begin, end = emit.op("Div", emit.op("Max", over, zero), step), zero, zero
        else:
            count = emit.op("Div", emit.op("Add", length, emit.constant([stride - 1])), step)
            covered = emit.op("Mul", emit.op("Sub", count, emit.constant([1])), step)
            missing = emit.op("Max", emit.op("Sub", emit.op("Add", covered, emit.constant([reach])), length), zero)
            less = emit.op("Div", missing, emit.constant([2]))
            more = emit.op("Sub", missing, less)
            begin, end = (less, more) if auto == "same_upper" else (more, less)
        starts = emit.op("Range", emit.constant(0), emit.op("Squeeze", count, zero), emit.constant(1))
        within = emit.constant(np.arange(size)[:, np.newaxis] * rate)
        at = emit.op("Add", emit.op("Mul", starts, step), within)
        places.append(emit.op("Reshape", at, emit.constant([-1])))
        begins.append(begin)
        ends.append(end)
        counts.append(count)
    front = emit.constant([0, 0])
    padded = emit.op("Pad", node[0], emit.op("Concat", front, *begins, front, *ends, axis=0))
    picked = emit.op("Gather", emit.op("Gather", padded, places[0], axis=2), places[1], axis=3)
    pairs = [part for size, count in zip(sizes, counts, strict=True) for part in (emit.constant([size]), count)]
    split = emit.op("Reshape", picked, emit.op("Concat", emit.shape_of(node[0], 0, 2), *pairs, axis=0), allowzero=1)
    moved = emit.op("Transpose", split, perm=[0, 2, 4, 1, 3, 5])
    depth = emit.op("Mul", emit.shape_of(node[0], 1, 2), emit.constant([sizes[0] * sizes[1]]))
    return emit.op("Reshape", moved, emit.op("Concat", emit.shape_of(node[0], 0, 1), depth, *counts, axis=0),
                   allowzero=1)  # fmt: skip


@handles("Col2Im-15", to="Col2Im", notes="Of floats, and of integers of 8 and 16 bits.")
def col2im(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Col2Im-15, also without a batch. ONNX Runtime adds up floats only."""
    if node[0].dtype not in (*FLOATS, *NARROW):
        raise Unsupported(f"{node[0]}, whose sums floats do not hold")
    is_batch = node[0].rank == 3
    front = emit.constant([0])
    given = emit.floats(node[0])
    data = given if is_batch else emit.op("Unsqueeze", given, front)
    made = emit.op(
        "Col2Im",
        data,
        emit.vector(node[1]),
        emit.vector(node[2]),
        strides=per_axis(node, "strides", 2, least=1),
        dilations=per_axis(node, "dilations", 2, least=1),
        pads=paddings(node, 2),
    )
    return emit.narrowed("Col2Im", made if is_batch else emit.op("Squeeze", made, front), node[0].dtype)
