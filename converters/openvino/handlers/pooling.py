"""Poolings."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from onnx_sparse.converters.openvino.emitter import Emitter
from onnx_sparse.converters.openvino.handlers.registry import Node, converts
from onnx_sparse.converters.openvino.handlers.windows import window
from onnx_sparse.converters.openvino.tensors import Tensor, Unsupported


def _pool(node: Node, emit: Emitter, op_type: str, **more: int) -> tuple[Tensor, Tensor | None]:
    kernel = node.integers("kernel")
    attributes: dict[str, Any] = more | window(
        node, len(kernel), dilations=op_type == "MaxPool" and node.has("dilations")
    )
    rounding = node.choice("rounding_type", ("floor", "ceil", "ceil_torch"), "floor")
    attributes["ceil_mode"] = int(rounding != "floor")
    if rounding == "ceil":
        _refuse_windows_in_padding(node, attributes)
    if op_type == "MaxPool" and len(node.layer.outputs) > 1:
        values, indices = emit.node(op_type, [node[0]], [node[0].dtype, TensorProto.INT64],
                                    kernel_shape=kernel, **attributes)  # fmt: skip
        return values, indices
    return emit.op(op_type, node[0], kernel_shape=kernel, **attributes), None


def _refuse_windows_in_padding(node: Node, attributes: dict[str, Any]) -> None:
    """OpenVINO's `ceil` has windows that begin in the padding at the end. ONNX, as `ceil_torch`, leaves them off."""
    if "pads" not in attributes or node[0].shape is None:
        return
    count = len(attributes["strides"])
    begins, sizes = attributes["pads"][:count], node[0].shape[-count:]
    outputs = (node.results[0][1] or ())[-count:]
    for size, output, begin, stride in zip(sizes, outputs, begins, attributes["strides"], strict=False):
        if size is not None and output is not None and (output - 1) * stride >= size + begin:
            raise Unsupported("rounding_type = 'ceil' with a window that begins in the padding, which ONNX has not")


@converts("MaxPool", 1, to="MaxPool")
def max_pool_1(node: Node, emit: Emitter) -> Tensor:
    """MaxPool-1."""
    return _pool(node, emit, "MaxPool")[0]


@converts("MaxPool", 8, 14, to="MaxPool")
def max_pool_8(node: Node, emit: Emitter) -> Tensor | tuple[Tensor, ...]:
    """MaxPool-8 and MaxPool-14: also the position of each maximum, which ONNX counts over the whole tensor."""
    values, indices = _pool(node, emit, "MaxPool")
    if indices is None:
        return values
    axis = node.integer("axis", 0)
    rank = node[0].rank("the data")
    if axis % rank == 0:
        return values, indices
    size = emit.op("ReduceProd", emit.shape_of(node[0], start=axis % rank), keepdims=0)
    return values, emit.op("Mod", indices, size)


@converts("AvgPool", 1, 14, to="AveragePool")
def avg_pool(node: Node, emit: Emitter) -> Tensor:
    """AvgPool-1 and AvgPool-14."""
    return _pool(node, emit, "AveragePool", count_include_pad=int(not node.flag("exclude-pad")))[0]


@converts("AdaptiveAvgPool", 8, to="AveragePool, GlobalAveragePool", notes="Sizes that divide the data's.")
def adaptive_avg_pool(node: Node, emit: Emitter) -> Tensor:
    """AdaptiveAvgPool-8."""
    return _adaptive(node, emit, "AveragePool")


def _adaptive(node: Node, emit: Emitter, op_type: str) -> Tensor:
    wanted = [int(d) for d in node[1].constant("the output shape").ravel()]
    if all(size == 1 for size in wanted):
        return emit.op(f"Global{op_type}", node[0])
    sizes = node[0].dims("the data")[-len(wanted) :]
    if any(size % want for size, want in zip(sizes, wanted, strict=True)):
        raise Unsupported(f"size {wanted} does not divide {list(sizes)}")
    kernel = [size // want for size, want in zip(sizes, wanted, strict=True)]
    return emit.op(op_type, node[0], kernel_shape=kernel, strides=kernel)
