"""Matrix products and convolutions."""

from __future__ import annotations

from typing import Any

from onnx_sparse.converters.openvino.emitter import Emitter
from onnx_sparse.converters.openvino.handlers.registry import Node, converts
from onnx_sparse.converters.openvino.handlers.windows import window
from onnx_sparse.converters.openvino.tensors import Tensor, Unsupported


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
    spatial = node[1].rank("the kernel") - 2
    return emit.op("Conv", node[0], node[1], **window(node, spatial))


@converts("GroupConvolution", 1, to="Conv")
def group_convolution(node: Node, emit: Emitter) -> Tensor:
    """GroupConvolution-1, whose kernel is [groups, out, in, ...]; ONNX has the first two in one."""
    kernel, groups = _grouped(node, emit)
    spatial = node[1].rank("the kernel") - 3
    return emit.op("Conv", node[0], kernel, group=groups, **window(node, spatial))


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
    spatial = node[1].rank("the kernel") - 2
    return _deconvolution(node, emit, node[1], spatial, 1)


@converts("GroupConvolutionBackpropData", 1, to="ConvTranspose", notes="A given output shape must be a constant.")
def group_deconvolution(node: Node, emit: Emitter) -> Tensor:
    """GroupConvolutionBackpropData-1, whose kernel is [groups, in, out, ...]."""
    kernel, groups = _grouped(node, emit)
    return _deconvolution(node, emit, kernel, node[1].rank("the kernel") - 3, groups)


def _deconvolution(node: Node, emit: Emitter, kernel: Tensor, spatial: int, groups: int) -> Tensor:
    attributes = window(node, spatial)
    extra = node.integers("output_padding", ",".join("0" * spatial))
    attributes["output_padding"] = extra
    if (wanted := node.optional(2)) is not None:
        attributes |= _padding_for(node, wanted, attributes)
        attributes.pop("auto_pad", None)
    return emit.op("ConvTranspose", node[0], kernel, group=groups, **attributes)


def _padding_for(node: Node, wanted: Tensor, attributes: dict[str, Any]) -> dict[str, list[int]]:
    """The paddings that give the wanted output. OpenVINO's SAME_LOWER puts the larger half of their sum last.

    That is the other way round than where data is padded.
    """
    shape = [int(d) for d in wanted.constant("the output shape").ravel()]
    sizes = node[0].dims("the data")[-len(shape) :]
    kernel = node[1].dims("the kernel")[-len(shape) :]
    strides, dilations = attributes["strides"], attributes["dilations"]
    extra = attributes["output_padding"]
    begins, ends = [], []
    for k, size in enumerate(shape):
        total = (sizes[k] - 1) * strides[k] + (kernel[k] - 1) * dilations[k] + 1 + extra[k] - size
        small, large = max(total, 0) // 2, max(total, 0) - max(total, 0) // 2
        first, last = (small, large) if attributes.get("auto_pad") == "SAME_LOWER" else (large, small)
        begins.append(first)
        ends.append(last)
        if total < 0:
            raise Unsupported(f"output shape {shape} is larger than the data gives")
    return {"pads": begins + ends}
