"""Operators that move elements without computing: shapes, axes, parts, paddings."""

from __future__ import annotations

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import OpenVINOEmitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering import reordering


@handles("Reshape-1", to="Reshape")
def reshape(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Reshape-1. With `special_zero` a 0 copies the input's dimension, else it is a dimension of size 0."""
    return emit.op("Reshape", node[0], emit.vector(node[1]), allowzero=int(not node.flag("special_zero")))


@handles("Squeeze-1", to="Squeeze")
def squeeze_1(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Squeeze-1. Axes of another size than 1 are an error, as in ONNX. Empty axes are all of size 1."""
    axes = node.optional(1)
    if axes is None or (axes.value is not None and not axes.value.size):
        return emit.op("Squeeze", node[0])
    return emit.op("Squeeze", node[0], emit.vector(axes))


@handles("Squeeze-15", to="Squeeze", notes="With allow_axis_skip, dimensions must be known.")
def squeeze_15(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Squeeze-15. With `allow_axis_skip`, axes of another size than 1 are kept."""
    skips, axes = node.flag("allow_axis_skip", False), node.optional(1)
    if not skips or axes is None or (axes.value is not None and not axes.value.size):
        return squeeze_1(node, emit)
    dims = node[0].dims
    chosen = [node[0].axis(a) for a in axes.integers("axes of allow_axis_skip")]
    return emit.op("Squeeze", node[0], emit.constant([a for a in chosen if dims[a] == 1]))


@handles("Unsqueeze-1", to="Unsqueeze")
def unsqueeze(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Unsqueeze-1."""
    return emit.op("Unsqueeze", node[0], emit.vector(node[1]))


@handles("Transpose-1", to="Transpose", notes="The order must be a constant.")
def transpose(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Transpose-1. An empty order reverses the axes."""
    order = node[1].integers("the order of axes")
    return emit.op("Transpose", node[0], perm=order or None)


@handles("Concat-1", to="Concat")
def concat(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Concat-1."""
    return emit.op("Concat", *node.inputs, axis=node.integer("axis"))


@handles("Split-1", to="Split", notes="The axis must be a constant.")
def split(node: Node, emit: OpenVINOEmitter) -> tuple[Tensor, ...]:
    """Split-1: parts of equal size."""
    parts = node.integer("num_splits")
    if parts != len(node.layer.outputs):
        raise Unsupported(f"num_splits = {parts}, with {len(node.layer.outputs)} outputs")
    axis = node[1].integer("the axis")
    return emit.node("Split", [node[0]], [node[0].dtype] * parts, axis=axis, num_outputs=parts)


@handles("VariadicSplit-1", to="Split", notes="The axis must be a constant.")
def variadic_split(node: Node, emit: OpenVINOEmitter) -> tuple[Tensor, ...]:
    """VariadicSplit-1. One length may be -1, which stands for the rest."""
    axis = node[1].integer("the axis")
    parts = len(node.layer.outputs)
    lengths = emit.vector(node[2])
    if lengths.value is None or (lengths.value < 0).any():
        total = emit.shape_of(node[0])
        size = emit.op("Gather", total, emit.constant([axis]))
        known = emit.op("ReduceSum", emit.op("Max", lengths, emit.constant([0])), emit.constant([0]))
        rest = emit.op("Sub", size, known)
        negative = emit.op("Less", lengths, emit.constant(0))
        lengths = emit.op("Where", negative, rest, lengths)
    return emit.node("Split", [node[0], lengths], [node[0].dtype] * parts, axis=axis)


@handles("Tile-1", to="Tile")
def tile(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Tile-1. The shorter of shape and repeats is padded with leading ones."""
    x, repeats = node[0], emit.vector(node[1])
    rank, count = x.rank, repeats.value.size if repeats.value is not None else None
    if count is None:
        count = (node[1].shape or (None,))[0]
    if count is None:
        raise Unsupported("the number of repeats is not known")
    if count < rank:
        repeats = emit.op("Concat", emit.constant([1] * (rank - count)), repeats, axis=0)
    elif count > rank:
        x = emit.op("Unsqueeze", x, emit.constant(list(range(count - rank))))
    return emit.op("Tile", x, repeats)


@handles("Broadcast-1", to="Expand", notes="mode pdpd is not supported.")
def broadcast_1(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Broadcast-1, whose mode explicit the file calls none."""
    mode = node.choice("mode", ("numpy", "explicit", "none"), "numpy")
    return _broadcast(node, emit, mode.replace("none", "explicit"))


@handles("Broadcast-3", to="Expand", notes="mode pdpd is not supported.")
def broadcast_3(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Broadcast-3: also in both directions, as Expand does."""
    return _broadcast(node, emit, node.choice("mode", ("numpy", "explicit", "bidirectional"), "numpy"))


def _broadcast(node: Node, emit: OpenVINOEmitter, mode: str) -> Tensor:
    x, target = node[0], emit.vector(node[1])
    if mode == "explicit":
        # The result's axes that the data's axes become; the others have size 1 before the expansion.
        axes = node[2].integers("the axes")
        rank = target.value.size if target.value is not None else (node[1].shape or (None,))[0]
        if rank is None:
            raise Unsupported("the rank of the result is not known")
        x = emit.op("Unsqueeze", x, emit.constant([axis for axis in range(rank) if axis not in axes]))
    else:
        node.disregard("2")
    return emit.op("Expand", x, target)


@handles("Pad-1", "Pad-12", to="Pad", notes="In mode symmetric, paddings must be constants.")
def pad(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Pad-1 and Pad-12."""
    mode = node.choice("pad_mode", ("constant", "edge", "reflect", "symmetric"))
    begins, ends = emit.vector(node[1]), emit.vector(node[2])
    if mode != "constant":
        node.disregard("3")
    if mode == "symmetric":
        pairs = [*zip(begins.integers("the paddings"), ends.integers("the paddings"), strict=True)]
        return reordering.mirrored(emit, node[0], pairs, symmetric=True)
    pads = emit.op("Concat", begins, ends, axis=0)
    value = node.optional(3) if mode == "constant" else None
    if value is not None:
        value = emit.scalar(emit.cast(value, node[0].dtype))
    return emit.op("Pad", node[0], pads, value, mode=mode)


@handles("Reverse-1", to="Slice", notes="The axes must be a constant.")
def reverse(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Reverse-1."""
    axes = node[1].constant("the axes").ravel()
    if node.choice("mode", ("index", "mask")) == "mask":
        axes = axes.nonzero()[0]
    return reordering.reversed_along(emit, node[0], axes.tolist())


@handles("ReverseSequence-1", to="ReverseSequence")
def reverse_sequence(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """ReverseSequence-1."""
    batch, time = node.integer("batch_axis", 0), node.integer("seq_axis", 1)
    return reordering.reverse_sequence(emit, node[0], emit.vector(node[1]), batch=batch, time=time)
