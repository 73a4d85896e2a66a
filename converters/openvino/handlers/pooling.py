"""Poolings."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import Emitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.handlers.windows import window
from onnx_sparse.converters.tensor import Tensor


def _attributes(node: Node, *, dilations: bool, counted: bool = False) -> dict[str, Any]:
    """The attributes of a pooling; `counted` says that an average is also over the paddings."""
    kernel = node.integers("kernel")
    attributes = window(node, kernel, dilations=dilations) | {"kernel_shape": kernel}
    if any(pad >= size for pad, size in zip(attributes.get("pads", ()), kernel * 2, strict=False)):
        raise Unsupported("paddings as large as the window, which ONNX Runtime does not take")
    rounding = node.choice("rounding_type", ("floor", "ceil", "ceil_torch"), "floor")
    if rounding == "floor" or "pads" not in attributes:  # the windows of auto_pad end where the paddings do
        return attributes
    longer = []
    for k, size in enumerate((node[0].shape or (None,) * len(kernel))[-len(kernel) :]):
        longer.append(_Axis(size, k, attributes).missing(torch=rounding == "ceil_torch"))
    if not counted and None not in longer:
        ends = [end + more for end, more in zip(attributes["pads"][len(kernel) :], longer, strict=True)]
        if all(end < size for end, size in zip(ends, kernel, strict=True)):
            return attributes | {"pads": attributes["pads"][: len(kernel)] + ends}
    return attributes | {"ceil_mode": int(set(longer) != {0})}


class _Axis:
    """One axis of a pooling with `ceil`: a last window may reach beyond the paddings.

    With `ceil` it may also begin beyond the data; with `ceil_torch`, as in ONNX Runtime, it is then omitted. ONNX's own
    shape inference counts it nevertheless, so a model says the number of windows by its paddings where sizes are known.
    """

    def __init__(self, size: int | None, k: int, attributes: dict[str, Any]) -> None:
        count = len(attributes["kernel_shape"])
        self.size = size
        self.stride: int = attributes["strides"][k]
        self.begin: int = attributes["pads"][k]
        self.end: int = attributes["pads"][count + k]
        self.reach: int = (attributes["kernel_shape"][k] - 1) * attributes.get("dilations", [1] * count)[k] + 1

    def missing(self, *, torch: bool) -> int | None:
        """How much padding the last window lacks; None if the size is not known.

        Raises:
            Unsupported: It begins beyond the data, or does so for some size.
        """
        if self.size is None:
            if not torch and self.end + self.stride > self.reach:
                raise Unsupported("rounding_type = 'ceil' with a window that begins beyond the data, unlike in ONNX")
            return None
        padded = self.size + self.begin + self.end
        last = -(-(padded - self.reach) // self.stride) * self.stride
        if last < self.size + self.begin:
            return max(last + self.reach - padded, 0)
        if not torch:
            raise Unsupported("rounding_type = 'ceil' with a window that begins beyond the data, unlike in ONNX")
        return 0


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


@handles("AvgPool-1", "AvgPool-14", "AvgPool-16", to="AveragePool")
def avg_pool(node: Node, emit: Emitter) -> Tensor:
    """AvgPool-1, AvgPool-14 and AvgPool-16, the only one with dilations."""
    dilated = node.has("dilations") and set(node.integers("dilations")) != {1}
    if dilated:
        emit.require_opset(19)
    counted = not node.flag("exclude-pad")
    attributes = _attributes(node, dilations=dilated, counted=counted)
    return emit.op("AveragePool", node[0], count_include_pad=int(counted), **attributes)


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
