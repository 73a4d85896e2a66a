"""Operators that move the elements of images between channels, batch and space."""

from __future__ import annotations

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import Emitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.handlers.windows import paddings, per_axis
from onnx_sparse.converters.tensor import Tensor


@handles("SpaceToBatch-2", to="Pad, Reshape, Transpose", notes="The block shape must be a constant.")
def space_to_batch(node: Node, emit: Emitter) -> Tensor:
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
def batch_to_space(node: Node, emit: Emitter) -> Tensor:
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


def _interleaved(emit: Emitter, sizes: Tensor, blocks: Tensor, rank: int) -> Tensor:
    """The sizes and blocks of the axes in turn, without the first block."""
    pairs = [emit.op("Unsqueeze", t, emit.constant([1])) for t in (sizes, blocks)]
    flat = emit.op("Reshape", emit.op("Concat", *pairs, axis=1), emit.constant([-1]))
    return emit.op("Gather", flat, emit.constant([0, *range(2, 2 * rank)]))


def _span(emit: Emitter, start: int, end: int) -> tuple[Tensor, Tensor]:
    return emit.constant([start]), emit.constant([end])


def _product(numbers: list[int]) -> int:
    made = 1
    for number in numbers:
        made *= number
    return made


@handles("ReorgYolo-1", "ReorgYolo-2", to="Reshape, SpaceToDepth")
def reorg_yolo(node: Node, emit: Emitter) -> Tensor:
    """ReorgYolo: the elements of an image are taken for one with fewer channels, whose blocks become channels."""
    (stride,) = per_axis(node, "stride", 1, least=1)
    batch, channels, height, width = (emit.shape_of(node[0], k, k + 1) for k in range(4))
    times, squared = emit.constant([stride]), emit.constant([stride**2])
    larger = [emit.op("Div", channels, squared), *(emit.op("Mul", size, times) for size in (height, width))]
    smaller = [emit.op("Mul", channels, squared), *(emit.op("Div", size, times) for size in (height, width))]
    image = emit.op("Reshape", node[0], emit.op("Concat", batch, *larger, axis=0), allowzero=1)
    made = emit.op("SpaceToDepth", image, blocksize=stride)
    return emit.op("Reshape", made, emit.op("Concat", batch, *smaller, axis=0), allowzero=1)


@handles("Col2Im-15", to="Col2Im")
def col2im(node: Node, emit: Emitter) -> Tensor:
    """Col2Im-15, also without a batch."""
    is_batch = node[0].rank == 3
    front = emit.constant([0])
    data = node[0] if is_batch else emit.op("Unsqueeze", node[0], front)
    made = emit.op(
        "Col2Im",
        data,
        emit.vector(node[1]),
        emit.vector(node[2]),
        strides=per_axis(node, "strides", 2, least=1),
        dilations=per_axis(node, "dilations", 2, least=1),
        pads=paddings(node, 2),
    )
    return made if is_batch else emit.op("Squeeze", made, front)
