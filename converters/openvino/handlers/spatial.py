"""Operators that move the elements of images between channels, batch and space."""

from __future__ import annotations

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import FLOATS, NARROW, OpenVINOEmitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.handlers.windows import paddings, per_axis
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering import blocks
from onnx_sparse.converters.writing.lowering.windows import windows_along


def _square_blocks(node: Node) -> tuple[str, int]:
    """The mode and the size of blocks, of data that have space."""
    mode, block = node.choice("mode", ("blocks_first", "depth_first")), node.integer("block_size", 1)
    if block < 1:
        raise Unsupported(f"block_size = {block}")
    node.ranked(0, 3)
    return mode, block


@handles("DepthToSpace-1", to="DepthToSpace, or Reshape, Transpose")
def depth_to_space(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """DepthToSpace-1: the channels of a pixel become a block of pixels."""
    mode, block = _square_blocks(node)
    return blocks.depth_to_space(emit, node[0], block, depth_first=mode == "depth_first")


@handles("SpaceToDepth-1", to="SpaceToDepth, or Reshape, Transpose")
def space_to_depth(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """SpaceToDepth-1: the inverse of DepthToSpace."""
    mode, block = _square_blocks(node)
    return blocks.space_to_depth(emit, node[0], block, depth_first=mode == "depth_first")


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
    sizes = _blocks(node)
    pads = emit.op("Concat", emit.vector(node[2]), emit.vector(node[3]), axis=0)
    return blocks.space_to_batch(emit, emit.op("Pad", node[0], pads), sizes)


@handles("BatchToSpace-2", to="Reshape, Transpose, Slice", notes="The block shape must be a constant.")
def batch_to_space(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """BatchToSpace-2: (data, block shape, what is cropped at the start, at the end): the inverse of SpaceToBatch."""
    sizes = _blocks(node)
    after_batch = _span(emit, 1, node[0].rank)
    start, cut = (emit.op("Slice", emit.vector(node[k]), *after_batch) for k in (2, 3))
    return blocks.batch_to_space(emit, node[0], sizes, (start, cut))


def _blocks(node: Node) -> list[int]:
    """The sizes of blocks along the axes after the batch, of which there are none."""
    sizes = node[1].integers("the block shape")
    if len(sizes) != node[0].rank or min(sizes, default=0) < 1 or sizes[0] != 1:
        raise Unsupported(f"block shape {sizes} does not fit {node[0]}")
    return sizes[1:]


def _span(emit: OpenVINOEmitter, start: int, end: int) -> tuple[Tensor, Tensor]:
    return emit.constant([start]), emit.constant([end])


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
    padding = node.choice("auto_pad", ("valid", "same_upper", "same_lower"))
    made, counts = node.ranked(0, 4, 4), []
    for k, (size, stride, rate) in enumerate(zip(sizes, strides, rates, strict=True)):
        made, count = windows_along(emit, made, 2 + 2 * k, size=size, stride=stride, rate=rate, padding=padding)
        counts.append(count)
    moved = emit.op("Transpose", made, perm=[0, 3, 5, 1, 2, 4])
    depth = emit.op("Mul", emit.shape_of(node[0], 1, 2), emit.constant([sizes[0] * sizes[1]]))
    target = emit.op("Concat", emit.shape_of(node[0], 0, 1), depth, *counts, axis=0)
    return emit.op("Reshape", moved, target, allowzero=1)


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
