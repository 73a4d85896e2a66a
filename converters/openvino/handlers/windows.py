"""What convolutions and poolings say of their windows: strides, dilations, paddings."""

from __future__ import annotations

from typing import Any

from onnx_sparse.converters.openvino.handlers.registry import Node
from onnx_sparse.converters.openvino.tensors import Unsupported

_AUTO_PAD = {"same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}


def window(node: Node, spatial: int, *, dilations: bool = True) -> dict[str, Any]:
    """The attributes of an ONNX operator with windows over `spatial` axes."""
    ones = ",".join("1" * spatial)
    attributes: dict[str, Any] = {"strides": node.integers("strides", ones)}
    if dilations:
        attributes["dilations"] = node.integers("dilations", ones)
    auto = node.choice("auto_pad", ("explicit", "notset", *_AUTO_PAD), "explicit")
    if auto in _AUTO_PAD:
        attributes["auto_pad"] = _AUTO_PAD[auto]
    else:
        zeros = ",".join("0" * spatial)
        attributes["pads"] = node.integers("pads_begin", zeros) + node.integers("pads_end", zeros)
        if min(attributes["pads"], default=0) < 0:
            raise Unsupported("negative paddings, which ONNX does not have")
    return attributes
