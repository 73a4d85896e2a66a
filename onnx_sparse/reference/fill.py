"""Fill and MaskedFill in numpy."""

from __future__ import annotations

import numpy as np

from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.reference.requirements import require_allocatable, require_in_range
from onnx_sparse.schemas import fill as declarations


@implements(declarations.FILL)
def fill(dims: Array, value: Array) -> Array:
    """A tensor of shape `dims`, `value` everywhere; see the semantics of Fill."""
    shape = [int(d) for d in dims]
    require_allocatable(shape, value.dtype, f"dims = {shape}")
    return np.full(shape, value, value.dtype)


@implements(declarations.MASKED_FILL)
def masked_fill(x: Array, mask: Array, value: Array) -> Array:
    """`value` where `mask` is set, else `x`; see the semantics of MaskedFill."""
    if mask.dtype != bool:
        require_in_range("mask", mask, 2)
    return np.where(mask.astype(bool, copy=False), value, x)
