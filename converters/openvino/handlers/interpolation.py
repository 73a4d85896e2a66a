"""Interpolate: OpenVINO's is ONNX's Resize."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import FLOATS, OpenVINOEmitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor

_MODES = {"nearest": "nearest", "linear": "linear", "linear_onnx": "linear", "cubic": "cubic"}
#: The modes of the library Pillow, by which what shrinks is averaged.
_PILLOW = {"bilinear_pillow": "linear", "bicubic_pillow": "cubic"}
_COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "tf_half_pixel_for_nn")
#: How what is greater by a half is rounded to the same number.
_SHIFTED = {"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")


@handles("Interpolate-1", to="Resize", notes="Without paddings and mode area, and without antialias of mode linear.")
def interpolate_1(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Interpolate-0, whose layers are of opset1: (image, sizes), with the axes as an attribute."""
    coordinates = "align_corners" if node.flag("align_corners", True) else "asymmetric"
    axes = node.integers("axes")
    return _resized(node, emit, coordinates, "simple", axes, sizes=node[1])


@handles(
    "Interpolate-4",
    to="Resize",
    notes="Without paddings, and without antialias of mode linear.",
)
def interpolate_4(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Interpolate-4: (image, sizes, scales, axes)."""
    sizes = node.choice("shape_calculation_mode", ("sizes", "scales")) == "sizes"
    if not sizes:
        node.disregard("1")
    return _interpolate(node, emit, node[1] if sizes else None, node[2], node.optional(3))


@handles("Interpolate-11", to="Resize", notes="Without paddings, and without antialias of mode linear.")
def interpolate_11(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Interpolate-11: (image, sizes or scales, axes)."""
    sizes = node.choice("shape_calculation_mode", ("sizes", "scales")) == "sizes"
    return _interpolate(node, emit, node[1] if sizes else None, node[1], node.optional(2))


def _interpolate(
    node: Node, emit: OpenVINOEmitter, sizes: Tensor | None, scales: Tensor, axes: Tensor | None
) -> Tensor:
    coordinates = node.choice("coordinate_transformation_mode", _COORDINATES, "half_pixel")
    nearest = node.choice("nearest_mode", _NEAREST, "round_prefer_floor")
    if coordinates == "tf_half_pixel_for_nn":
        # (x + 0.5) * scale, without the 0.5 that half_pixel subtracts: its floor is half_pixel's result rounded.
        if node.text("mode") != "nearest" or nearest not in _SHIFTED:
            raise Unsupported(
                f"coordinate_transformation_mode = 'tf_half_pixel_for_nn' with {node.text('mode')}, {nearest}"
            )
        coordinates, nearest = "half_pixel", _SHIFTED[nearest]
    chosen = None if axes is None else axes.integers("the axes")
    return _resized(node, emit, coordinates, nearest, chosen, sizes=sizes, scales=scales)


def _resized(
    node: Node,
    emit: OpenVINOEmitter,
    coordinates: str,
    nearest: str,
    axes: Sequence[int] | None,
    *,
    sizes: Tensor | None = None,
    scales: Tensor | None = None,
) -> Tensor:
    # The other modes do not heed it.
    if node.flag("antialias", False) and node.text("mode") == "linear":
        raise Unsupported("antialias of the mode linear, which OpenVINO's CPU plugin ignores")
    if any(node.integers("pads_begin", []) + node.integers("pads_end", [])):
        raise Unsupported("paddings")
    modes = _MODES | _PILLOW
    mode = modes[node.choice("mode", tuple(modes))]
    attributes: dict[str, Any] = {
        "axes": axes,
        "mode": mode,
        "coordinate_transformation_mode": coordinates,
        "nearest_mode": None if nearest == "simple" else nearest,
        "cubic_coeff_a": node.number("cube_coeff", -0.75),
    }
    if node.text("mode") in _PILLOW:
        return _averaged(node, emit, attributes, sizes=sizes, scales=scales)
    if nearest == "simple" and mode == "nearest":
        return _simple(node, emit, axes, attributes, sizes=sizes, scales=scales)
    # Of integers, ONNX Runtime cuts off what is rounded here, or does not take them.
    image = node[0] if mode == "nearest" else emit.floats(node[0])
    if sizes is not None:
        made = emit.op("Resize", image, None, None, emit.vector(sizes), **attributes)
    else:
        assert scales is not None
        made = emit.op("Resize", image, None, emit.cast(scales, TensorProto.FLOAT), **attributes)
    return emit.narrowed("Resize", made, node[0].dtype)


def _averaged(
    node: Node, emit: OpenVINOEmitter, attributes: Mapping[str, Any], *, sizes: Tensor | None, scales: Tensor | None
) -> Tensor:
    """A mode of Pillow, which heeds no other attribute, and takes scales only to compute the sizes."""
    if node[0].dtype not in FLOATS:
        raise Unsupported(f"mode = {node.text('mode')!r} of {node[0]}, whose means OpenVINO rounds otherwise")
    if sizes is None:
        assert scales is not None
        shape = emit.shape_of(node[0])
        if attributes["axes"] is not None:
            shape = emit.op("Gather", shape, emit.constant(attributes["axes"]), axis=0)
        sizes = emit.op("Floor", emit.op("Mul", emit.cast(shape, TensorProto.FLOAT),
                                         emit.cast(scales, TensorProto.FLOAT)))  # fmt: skip
    fixed = {"coordinate_transformation_mode": "half_pixel", "antialias": 1, "exclude_outside": 1,
             "cubic_coeff_a": -0.5}  # fmt: skip
    return emit.op("Resize", node[0], None, None, emit.vector(sizes), **{**attributes, **fixed})


def _simple(
    node: Node,
    emit: OpenVINOEmitter,
    axes: Sequence[int] | None,
    attributes: dict[str, Any],
    *,
    sizes: Tensor | None,
    scales: Tensor | None,
) -> Tensor:
    """The nearest mode `simple`: an axis that shrinks takes the next element, one that grows the last one."""
    given = scales if sizes is None else sizes
    assert given is not None
    numbers = given.constant("the sizes or scales, with nearest_mode 'simple',").ravel()
    chosen = [*range(node[0].rank)] if axes is None else [node[0].axis(axis) for axis in axes]
    if len(numbers) != len(chosen):
        raise Unsupported(f"{len(numbers)} sizes or scales for {len(chosen)} axes")
    if sizes is None:
        shrinks = [bool(number < 1) for number in numbers]
    else:
        shrinks = [bool(number < node[0].dims[axis]) for number, axis in zip(numbers, chosen, strict=True)]
    made = node[0]
    for shrinking, nearest in ((False, "floor"), (True, "ceil")):
        picked = [k for k, shrunk in enumerate(shrinks) if shrunk == shrinking]
        if not picked:
            continue
        part = attributes | {"axes": [chosen[k] for k in picked], "nearest_mode": nearest}
        if sizes is None:
            made = emit.op("Resize", made, None, emit.constant(numbers[picked], TensorProto.FLOAT), **part)
        else:
            made = emit.op("Resize", made, None, None, emit.constant(numbers[picked], TensorProto.INT64), **part)
    return made
