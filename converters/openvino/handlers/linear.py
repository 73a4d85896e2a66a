"""Matrix products and convolutions."""

from __future__ import annotations

from onnx_sparse.converters.openvino.emitter import Emitter
from onnx_sparse.converters.openvino.handlers.registry import Node, converts
from onnx_sparse.converters.openvino.handlers.windows import paddings, window
from onnx_sparse.converters.openvino.tensors import Shape, Tensor, Unsupported


@converts("MatMul", 1, to="MatMul")
def matmul(node: Node, emit: Emitter) -> Tensor:
    """MatMul-1. A vector is not transposed."""
    a, b = (
        _transposed(emit, node[k], what) if node.flag(f"transpose_{what}", False) else node[k]
        for k, what in enumerate("ab")
    )
    return emit.op("MatMul", a, b)


def _transposed(emit: Emitter, tensor: Tensor, what: str) -> Tensor:
    rank = tensor.rank(f"the transposed input {what}")
    if rank < 2:
        return tensor
    return emit.op("Transpose", tensor, perm=[*range(rank - 2), rank - 1, rank - 2])


@converts("Einsum", 7, to="Einsum")
def einsum(node: Node, emit: Emitter) -> Tensor:
    """Einsum-7."""
    return emit.op("Einsum", *node.inputs, equation=node.layer.data.get("equation", ""))


@converts("Convolution", 1, to="Conv")
def convolution(node: Node, emit: Emitter) -> Tensor:
    """Convolution-1."""
    return emit.op("Conv", node[0], node[1], **window(node, _kernel_sizes(node, 2)))


def _kernel_sizes(node: Node, channels: int) -> Shape:
    """The kernel's spatial dimensions, which follow those of groups and channels."""
    node[1].rank("the kernel")
    return (node[1].shape or ())[channels:]


@converts("GroupConvolution", 1, to="Conv")
def group_convolution(node: Node, emit: Emitter) -> Tensor:
    """GroupConvolution-1, whose kernel is [groups, out, in, ...]; ONNX has the first two in one."""
    kernel, groups = _grouped(node, emit)
    return emit.op("Conv", node[0], kernel, group=groups, **window(node, _kernel_sizes(node, 3)))


def _grouped(node: Node, emit: Emitter) -> tuple[Tensor, int]:
    rank = node[1].rank("the kernel")
    groups = (node[1].shape or (None,))[0]
    if groups is None:
        raise Unsupported("the number of groups is not known")
    # Not through the element count: [groups, out] -> [groups * out] keeps the rest by its own shape.
    rest = emit.shape_of(node[1], 2, rank)
    return emit.op("Reshape", node[1], emit.op("Concat", emit.constant([-1]), rest, axis=0)), groups


@converts("ConvolutionBackpropData", 1, to="ConvTranspose", notes="A given output shape must be a constant.")
def deconvolution(node: Node, emit: Emitter) -> Tensor:
    """ConvolutionBackpropData-1."""
    return _deconvolution(node, emit, node[1], _kernel_sizes(node, 2), 1)


@converts("GroupConvolutionBackpropData", 1, to="ConvTranspose", notes="A given output shape must be a constant.")
def group_deconvolution(node: Node, emit: Emitter) -> Tensor:
    """GroupConvolutionBackpropData-1, whose kernel is [groups, in, out, ...]."""
    kernel, groups = _grouped(node, emit)
    return _deconvolution(node, emit, kernel, _kernel_sizes(node, 3), groups)


def _deconvolution(node: Node, emit: Emitter, kernel: Tensor, sizes: Shape, groups: int) -> Tensor:
    """The result is cut at both ends by the paddings; where it is to be longer than it is, zeros follow."""
    spatial = len(sizes)
    ones = ",".join("1" * spatial)
    strides, dilations = node.integers("strides", ones), node.integers("dilations", ones)
    cut = _cut(node, sizes, strides, dilations)
    if min(cut[:spatial], default=0) < 0:
        raise Unsupported("negative paddings at the begin")
    made = emit.op("ConvTranspose", node[0], kernel, group=groups, strides=strides, dilations=dilations,
                   pads=[max(n, 0) for n in cut])  # fmt: skip
    if min(cut) >= 0:
        return made
    longer = [max(-n, 0) for n in cut[spatial:]]
    return emit.op("Pad", made, emit.constant([0] * (spatial + 4) + longer))


def _cut(node: Node, kernel: Shape, strides: list[int], dilations: list[int]) -> list[int]:
    """How much of the whole result is cut off at the begin of each axis, then at the end; negative: how much is added.

    Without an output shape, OpenVINO has no paddings for `auto_pad`. With one, SAME_LOWER puts the larger half last,
    the other way round than where data is padded, and output_padding counts for the two SAME only.
    """
    auto = node.choice("auto_pad", ("explicit", "notset", "same_upper", "same_lower", "valid"), "explicit")
    spatial = len(kernel)
    given = paddings(node, spatial) if auto in ("explicit", "notset") else [0] * (2 * spatial)
    extra = node.integers("output_padding", ",".join("0" * spatial))
    if (wanted := node.optional(2)) is None:
        return given[:spatial] + [end - more for end, more in zip(given[spatial:], extra, strict=True)]
    shape = [int(d) for d in wanted.constant("the output shape").ravel()]
    begins, ends = given[:spatial], []
    lengths = node[1].dims("the kernel")[-spatial:]
    for k, (size, length) in enumerate(zip(node[0].dims("the data")[-spatial:], lengths, strict=True)):
        surplus = (size - 1) * strides[k] + (length - 1) * dilations[k] + 1 - shape[k]
        if auto.startswith("same"):
            halved = max(surplus + extra[k], 0)
            begins[k] = halved // 2 if auto == "same_lower" else halved - halved // 2
        ends.append(surplus - begins[k])
    return begins + ends
