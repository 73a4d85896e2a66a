"""A compressed weight, as the layers of an IR state it."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_sparse.converters.openvino.ir import Layer


@dataclass(frozen=True)
class Weight:
    """Floats made of integers: (integers - zero_point) * scale, reshaped.

    Attributes:
        integers: The Const layer of the integers.
        scale: The Const layer of the scale.
        zero_point: The Const layer of the zero point.
        stored_shape: The shape of the integers, to which scale and zero point broadcast.
        shape: The shape of the floats.
    """

    integers: Layer
    scale: Layer
    zero_point: Layer | None
    stored_shape: tuple[int, ...]
    shape: tuple[int, ...]
