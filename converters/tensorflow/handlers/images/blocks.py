"""tf.raw_ops.SpaceToDepth, DepthToSpace, SpaceToBatchND, BatchToSpaceND: blocks of pixels in another dimension."""

from __future__ import annotations

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering import blocks

_EVERY = ("every type",)


@handles("SpaceToDepth", "DepthToSpace", to="Transpose", dtypes=_EVERY)
def space_to_depth(node: Node, emit: Emitter) -> Tensor:
    """Blocks of pixels as channels, or channels as blocks of pixels."""
    x, block, form = node["input"], int(node.attributes["block_size"]), node.attributes["data_format"]
    if form not in (b"NHWC", b"NCHW"):
        raise Unsupported(f"its attribute data_format = {form.decode('utf-8', 'replace')!r} is not converted")
    if x.rank != 4:
        raise Unsupported(f"{x} is not of rank 4")
    move = blocks.space_to_depth if node.op_type == "SpaceToDepth" else blocks.depth_to_space
    return move(emit, x, block, channels_last=form == b"NHWC")


@handles("SpaceToBatchND", "SpaceToBatch", to="Transpose", dtypes=("all numbers",))
def space_to_batch(node: Node, emit: Emitter) -> Tensor:
    """Blocks of pixels as rows of the batch, after a border of zeros is added."""
    x, sizes = node["input"], _sizes(node)
    paddings = emit.int64(node["paddings"])
    if paddings.value is None or paddings.value.any():
        border = emit.op("Reshape", emit.op("Transpose", paddings, perm=[1, 0]), emit.constant([-1]))
        x = emit.op("Pad", x, border, emit.like(0, x), emit.constant([*range(1, len(sizes) + 1)]))
    return blocks.space_to_batch(emit, x, sizes)


@handles("BatchToSpaceND", "BatchToSpace", to="Transpose", dtypes=_EVERY)
def batch_to_space(node: Node, emit: Emitter) -> Tensor:
    """Rows of the batch as blocks of pixels, of which a border is cut off."""
    sizes, crops = _sizes(node), emit.int64(node["crops"])
    if crops.value is not None and not crops.value.any():
        return blocks.batch_to_space(emit, node["input"], sizes)
    start, cut = (emit.op("Gather", crops, emit.constant(k), axis=1) for k in (0, 1))
    return blocks.batch_to_space(emit, node["input"], sizes, (start, cut))


def _sizes(node: Node) -> list[int]:
    """The sizes of blocks; those of images are squares whose size is an attribute."""
    given = "block_shape" in node.inputs
    sizes = node["block_shape"].integers("block_shape") if given else [int(node.attributes["block_size"])] * 2
    if node["input"].rank < len(sizes) + 1:
        raise Unsupported(f"{node['input']} has not {len(sizes)} dimensions between batch and rest")
    return sizes
