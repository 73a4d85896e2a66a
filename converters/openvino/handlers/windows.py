"""The windows of convolutions and poolings: strides, dilations, paddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.handlers.registry import Node

_SAME = {"same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER"}


def window(node: Node, kernel: Sequence[int | None], *, dilations: bool = True) -> dict[str, Any]:
    """The attributes of an ONNX operator whose windows have the size `kernel`.

    Raises:
        Unsupported: They do not fit the data, or ONNX does not have such windows.
    """
    spatial = len(kernel)
    if node[0].shape is not None and len(node[0].shape) != spatial + 2:
        raise Unsupported(f"windows over {spatial} axes, on data of rank {len(node[0].shape)}")
    attributes: dict[str, Any] = {"strides": per_axis(node, "strides", spatial, least=1)}
    if dilations:
        attributes["dilations"] = per_axis(node, "dilations", spatial, least=1)
    auto = node.choice("auto_pad", ("explicit", "notset", "valid", *_SAME), "explicit")
    if auto == "valid" or auto in _SAME:
        node.disregard("pads_begin", "pads_end")
    if auto == "valid":
        attributes["pads"] = [0] * (2 * spatial)
    elif auto in _SAME:
        attributes |= _same_paddings(node, kernel, attributes, auto)
    else:
        attributes["pads"] = paddings(node, spatial)
        if min(attributes["pads"], default=0) < 0:
            raise Unsupported("negative paddings, which ONNX does not have")
    return attributes


def per_axis(node: Node, key: str, spatial: int, *, least: int | None = None) -> list[int]:
    """An attribute with one number per axis; if it is omitted, all are `least` or 0.

    Raises:
        Unsupported: There are more or fewer numbers, or one is less than `least`.
    """
    numbers = node.integers(key, [least or 0] * spatial)
    if len(numbers) != spatial or (least is not None and min(numbers, default=least) < least):
        raise Unsupported(f"{key} = {numbers} does not fit windows over {spatial} axes")
    return numbers


def paddings(node: Node, spatial: int) -> list[int]:
    """The explicit paddings: those at the start of each axis, then those at the end."""
    return per_axis(node, "pads_begin", spatial) + per_axis(node, "pads_end", spatial)


def _same_paddings(node: Node, kernel: Sequence[int | None], attributes: dict[str, Any], auto: str) -> dict[str, Any]:
    """The paddings of auto_pad, or the mode if sizes that these depend on are not known.

    ONNX Runtime gets the mode wrong for dilations in one operator, and refuses it in others; and it takes paddings that
    would be negative, with strides larger than the window, for an error.
    """
    strides = attributes["strides"]
    dilations = attributes.get("dilations", [1] * len(kernel))
    sizes = (node[0].shape or (None,) * len(kernel))[-len(kernel) :]
    begins, ends = [], []
    for size, length, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        if length is None or (size is None and stride != 1):
            break
        reach = (length - 1) * dilation
        total = reach if stride == 1 or size is None else max((-(-size // stride) - 1) * stride + reach + 1 - size, 0)
        small, large = total // 2, total - total // 2
        begins.append(small if auto == "same_upper" else large)
        ends.append(large if auto == "same_upper" else small)
    else:
        return {"pads": begins + ends}
    if set(dilations) - {1}:
        raise Unsupported("auto_pad with dilations and strides, and sizes that are not known")
    if any(length is None or length < stride for length, stride in zip(kernel, strides, strict=True)):
        raise Unsupported("auto_pad with strides larger than the window, and sizes that are not known")
    return {"auto_pad": _SAME[auto]}
