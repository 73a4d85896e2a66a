"""Shifts of bits, for which ONNX has unsigned integers only."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.schemas.declaration import SIGNED_INTEGERS, UNSIGNED_INTEGERS, DType, dtype_name, numpy_dtype

#: The unsigned integers by their number of bits.
_UNSIGNED = {8: TensorProto.UINT8, 16: TensorProto.UINT16, 32: TensorProto.UINT32, 64: TensorProto.UINT64}


def shift_left(emit: Emitter, x: Tensor, by: Tensor) -> Tensor:
    """The bits of integers moved up; those beyond the type are lost. Amounts are as of `shift_right`."""
    return emit.cast(_moved(emit, x, _amounts(emit, by), "LEFT"), x.dtype)


def shift_right(emit: Emitter, x: Tensor, by: Tensor) -> Tensor:
    """The bits of integers moved down; a negative one keeps its sign.

    An amount below 0 is 0, and one of the width of the type or more is the width less 1, as in TensorFlow. OpenVINO
    does not define these: its CPU plugin takes what the processor takes.

    Raises:
        Unsupported: They are no integers.
    """
    by = _amounts(emit, by)
    if x.dtype in UNSIGNED_INTEGERS:
        return _moved(emit, x, by, "RIGHT")
    # Of a negative number, the complement is moved, and turned back.
    is_negative = emit.op("Less", x, emit.like(0, x))
    positive = emit.op("Where", is_negative, emit.op("BitwiseNot", x), x)
    moved = emit.cast(_moved(emit, positive, by, "RIGHT"), x.dtype)
    return emit.op("Where", is_negative, emit.op("BitwiseNot", moved), moved)


def _amounts(emit: Emitter, by: Tensor) -> Tensor:
    last = _bits(by.dtype) - 1
    if by.value is not None and ((by.value >= 0) & (by.value <= last)).all():
        return by
    return emit.extreme("Max", emit.extreme("Min", by, emit.like(last, by)), emit.like(0, by))


def _moved(emit: Emitter, x: Tensor, by: Tensor, direction: str) -> Tensor:
    unsigned = _UNSIGNED[_bits(x.dtype)]
    return emit.op("BitShift", emit.cast(x, unsigned), emit.cast(by, unsigned), direction=direction)


def _bits(dtype: DType) -> int:
    if dtype not in (*SIGNED_INTEGERS, *UNSIGNED_INTEGERS):
        raise Unsupported(f"shifts of {dtype_name(dtype)}; integers are shifted")
    return np.iinfo(numpy_dtype(dtype)).bits
