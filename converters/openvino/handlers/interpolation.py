"""Interpolate: OpenVINO's is ONNX's Resize."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import Emitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor

_MODES = {"nearest": "nearest", "linear": "linear", "linear_onnx": "linear", "cubic": "cubic"}
_COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "tf_half_pixel_for_nn")
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@handles("Interpolate-4", to="Resize", notes="Without antialias and paddings; linear in two dimensions only.")
def interpolate_4(node: Node, emit: Emitter) -> Tensor:
    """Interpolate-4: (image, sizes, scales, axes)."""
    sizes = node.choice("shape_calculation_mode", ("sizes", "scales")) == "sizes"
    return _interpolate(node, emit, node[1] if sizes else None, node[2], node.optional(3))


@handles("Interpolate-11", to="Resize", notes="Without antialias, paddings, bilinear_pillow and bicubic_pillow.")
def interpolate_11(node: Node, emit: Emitter) -> Tensor:
    """Interpolate-11: (image, sizes or scales, axes)."""
    sizes = node.choice("shape_calculation_mode", ("sizes", "scales")) == "sizes"
    return _interpolate(node, emit, node[1] if sizes else None, node[1], node.optional(2))


def _interpolate(node: Node, emit: Emitter, sizes: Tensor | None, scales: Tensor, axes: Tensor | None) -> Tensor:
    if node.flag("antialias", False):
        raise Unsupported("antialias")
    if any(node.integers("pads_begin", []) + node.integers("pads_end", [])):
        raise Unsupported("paddings")
    x, mode = node[0], _MODES[node.choice("mode", tuple(_MODES))]
    coordinates = node.choice("coordinate_transformation_mode", _COORDINATES, "half_pixel")
    nearest = node.choice("nearest_mode", _NEAREST, "round_prefer_floor")
    if coordinates == "tf_half_pixel_for_nn":
        # (x + 0.5) * scale, without the 0.5 that half_pixel subtracts: its floor is half_pixel's result rounded.
        if mode != "nearest" or nearest != "floor":
            raise Unsupported(f"coordinate_transformation_mode = 'tf_half_pixel_for_nn' with {mode}, {nearest}")
        coordinates, nearest = "half_pixel", "round_prefer_ceil"
    chosen = None if axes is None else axes.integers("the axes")
    attributes: dict[str, Any] = {
        "axes": chosen,
        "mode": mode,
        "coordinate_transformation_mode": coordinates,
        "nearest_mode": nearest,
        "cubic_coeff_a": node.number("cube_coeff", -0.75),
    }
    if sizes is None:
        return emit.op("Resize", x, None, emit.cast(scales, TensorProto.FLOAT), **attributes)
    return emit.op("Resize", x, None, None, emit.vector(sizes), **attributes)
