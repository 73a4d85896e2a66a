"""Compressed weights, as NNCF and OpenVINO write them: integers, a zero point, a scale."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.openvino_models import c, ops

_RANGES = {"i8": (-128, 127), "u8": (0, 255), "i4": (-8, 7), "u4": (0, 15)}
#: Some of the numbers that small floats have.
_NUMBERS = {"nf4": (-1, 0, 1), "f4e2m1": (-6, -3, -2, -1, 0, 1, 2, 3, 4, 6)}


class CompressedWeight:
    """Random integers with a zero point and a scale.

    Args:
        element_type: Of the integers.
        shape: Of the integers.
        scaled: The shape of scale and zero point.
        zero_point: The element type of the zero point, `whole` or `half` for floats; empty without one.
        arithmetic: The type in which the weight is computed.
    """

    def __init__(
        self,
        element_type: str,
        shape: tuple[int, ...],
        scaled: tuple[int, ...] = (),
        zero_point: str = "",
        arithmetic: Any = np.float16,
    ) -> None:
        rng = np.random.default_rng(0)
        least, most = _RANGES.get(element_type, (0, 9))
        self.element_type, self.arithmetic, self.zero_point = element_type, arithmetic, zero_point
        self.integers = rng.integers(least, most + 1, shape)
        if element_type in _NUMBERS:
            self.integers = rng.choice(_NUMBERS[element_type], shape)
        self.shift = rng.integers(max(least, 0), min(most, 100) + 1, scaled) + 0.5 * (zero_point == "half")
        self.scale = rng.uniform(0.001, 0.02, scaled).astype(arithmetic)

    @property
    def floats(self) -> Any:
        """The weight."""
        return ((self.integers - (self.shift if self.zero_point else 0)) * self.scale).astype(np.float32)

    def node(self) -> Any:
        """The weight in OpenVINO, as float32."""
        kind, name = ops(16), {np.float16: "f16", np.float32: "f32"}[self.arithmetic]
        made = kind.convert(constant(self.element_type, self.integers), name)
        if self.zero_point in _RANGES:
            made = kind.subtract(made, kind.convert(constant(self.zero_point, self.shift), name))
        elif self.zero_point:
            made = kind.subtract(made, c(self.shift, self.arithmetic))
        made = kind.multiply(made, c(self.scale, self.arithmetic))
        return made if name == "f32" else kind.convert(made, "f32")


def constant(element_type: str, numbers: Any) -> Any:
    """A constant of 4 or 8 bits."""
    import openvino as ov

    values = np.asarray(numbers).astype(float if element_type in _NUMBERS else int)
    return ov.op.Constant(getattr(ov.Type, element_type), ov.Shape(values.shape), values.ravel().tolist())
