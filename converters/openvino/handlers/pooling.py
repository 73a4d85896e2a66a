"""Poolings."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import Emitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.handlers.windows import window
from onnx_sparse.converters.tensor import Tensor


def _attributes(node: Node, *, dilations: bool) -> dict[str, Any]:
    kernel = node.integers("kernel")
    attributes = window(node, kernel, dilations=dilations) | {"kernel_shape": kernel}
    if any(pad >= size for pad, size in zip(attributes.get("pads", ()), kernel * 2, strict=False)):
        raise Unsupported("paddings as large as the window, which ONNX Runtime does not take")
    rounding = node.choice("rounding_type", ("floor", "ceil", "ceil_torch"), "floor")
    if rounding == "ceil":
        _refuse_windows_in_padding(node, attributes)
    return attributes | {"ceil_mode": int(rounding != "floor")}


def _refuse_windows_in_padding(node: Node, attributes: dict[str, Any]) -> None:
    """Refuse `ceil` with windows that begin in the padding at the end, which ONNX, like `ceil_torch`, omits."""
    if "pads" not in attributes:
        return
    kernel, strides = attributes["kernel_shape"], attributes["strides"]
    dilations = attributes.get("dilations", [1] * len(kernel))
    count = len(kernel)
    sizes = (node[0].shape or (None,) * count)[-count:]
    for k, size in enumerate(sizes):
        begin, end, reach = attributes["pads"][k], attributes["pads"][count + k], (kernel[k] - 1) * dilations[k] + 1
        if size is None:
            # Whether no size at all lets the last window begin in the padding.
            inside = end + strides[k] <= reach
        else:
            inside = -(-(size + begin + end - reach) // strides[k]) * strides[k] < size + begin
        if not inside:
            raise Unsupported("rounding_type = 'ceil' with a window that begins in the padding, unlike in ONNX")


@handles("MaxPool-1", to="MaxPool")
def max_pool_1(node: Node, emit: Emitter) -> Tensor:
    """MaxPool-1."""
    return emit.op("MaxPool", node[0], **_attributes(node, dilations=False))


@handles("MaxPool-8", "MaxPool-14", to="MaxPool")
def max_pool_8(node: Node, emit: Emitter) -> Tensor | tuple[Tensor, ...]:
    """MaxPool-8 and MaxPool-14: also the positions of the maxima, which ONNX counts over the whole tensor."""
    attributes = _attributes(node, dilations=True)
    if len(node.layer.outputs) == 1:
        return emit.op("MaxPool", node[0], **attributes)
    values, indices = emit.node("MaxPool", [node[0]], [node[0].dtype, TensorProto.INT64], **attributes)
    axis = node.integer("axis", 0)
    rank = node[0].rank
    if axis % rank == 0:
        return values, indices
    size = emit.op("ReduceProd", emit.shape_of(node[0], start=axis % rank), keepdims=0)
    return values, emit.op("Mod", indices, size)


@handles("AvgPool-1", "AvgPool-14", "AvgPool-16", to="AveragePool", notes="Without dilations.")
def avg_pool(node: Node, emit: Emitter) -> Tensor:
    """AvgPool-1, AvgPool-14 and AvgPool-16."""
    if node.has("dilations") and set(node.integers("dilations")) - {1}:
        raise Unsupported("dilations, which ONNX has from operator set 19 on")
    counted = int(not node.flag("exclude-pad"))
    return emit.op("AveragePool", node[0], count_include_pad=counted, **_attributes(node, dilations=False))


@handles("AdaptiveAvgPool-8", to="AveragePool, GlobalAveragePool", notes="The sizes must divide the data's.")
def adaptive_avg_pool(node: Node, emit: Emitter) -> Tensor:
    """AdaptiveAvgPool-8."""
    if all(size == 1 for size in node[1].integers("the output shape")):
        return emit.op("GlobalAveragePool", node[0])
    return emit.op("AveragePool", node[0], **_even_windows(node))


@handles("AdaptiveMaxPool-8", to="MaxPool", notes="The sizes must divide the data's.")
def adaptive_max_pool(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """AdaptiveMaxPool-8, whose positions are counted within a channel."""
    values, indices = emit.node("MaxPool", [node[0]], [node[0].dtype, TensorProto.INT64], **_even_windows(node))
    size = emit.op("ReduceProd", emit.shape_of(node[0], start=2), keepdims=0)
    return values, emit.op("Mod", indices, size)


def _even_windows(node: Node) -> dict[str, Any]:
    wanted = node[1].integers("the output shape")
    sizes = node[0].dims[2:]
    if len(sizes) != len(wanted) or any(want < 1 or size % want for size, want in zip(sizes, wanted, strict=True)):
        raise Unsupported(f"size {wanted} does not divide {list(sizes)}")
    kernel = [size // want for size, want in zip(sizes, wanted, strict=True)]
    return {"kernel_shape": kernel, "strides": kernel}
