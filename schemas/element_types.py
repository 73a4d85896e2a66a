"""Element types: ONNX's numbers of them, which of them belong together, and numpy's dtypes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from onnx import TensorProto
from onnx.helper import np_dtype_to_tensor_dtype, tensor_dtype_to_np_dtype

DType = int  # a TensorProto.DataType

HALF_FLOATS = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
FLOATS = (*HALF_FLOATS, TensorProto.FLOAT, TensorProto.DOUBLE)
SIGNED_INTEGERS = (TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64)
UNSIGNED_INTEGERS = (TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64)
NUMBERS = FLOATS + SIGNED_INTEGERS + UNSIGNED_INTEGERS
INDEX = (TensorProto.INT32, TensorProto.INT64)


def dtype_name(dtype: DType) -> str:
    """ONNX's name of an element type: `"float16"`, `"int64"`; its number if ONNX has none."""
    known = dtype in TensorProto.DataType.values()
    return str(TensorProto.DataType.Name(dtype)).lower() if known else f"element type {dtype}"


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """numpy's dtype of an element type; bfloat16 is ml_dtypes', strings are objects.

    Raises:
        ValueError: ONNX has no such type.
    """
    try:
        return np.dtype(tensor_dtype_to_np_dtype(dtype))
    except KeyError:
        raise ValueError(f"element type {dtype}, which ONNX lacks") from None


@functools.cache
def element_type(dtype: np.dtype[Any]) -> DType:
    """The element type that a numpy dtype holds; strings are objects or numpy's text."""
    if dtype.kind in "OU":
        return int(TensorProto.STRING)
    try:
        return int(np_dtype_to_tensor_dtype(dtype))
    except (KeyError, ValueError):
        return int(TensorProto.UNDEFINED)
