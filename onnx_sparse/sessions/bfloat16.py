"""bfloat16 arrays (ml_dtypes) in and out of ONNX Runtime: its Python binding converts all other element types."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import onnxruntime as ort
from ml_dtypes import bfloat16
from onnx import TensorProto

from onnx_sparse.sessions import string_values


def needs_conversion(session: ort.InferenceSession) -> bool:
    """Whether the model takes or gives bfloat16."""
    return any(v.type == "tensor(bfloat16)" for v in (*session.get_inputs(), *session.get_outputs()))


def to_ort_value(value: Any) -> ort.OrtValue:
    """An input as an OrtValue; one that is an OrtValue already stays."""
    if isinstance(value, ort.OrtValue):
        return value
    array = np.asarray(value)
    if array.dtype == bfloat16:
        bits = np.require(array, requirements="C").view(np.uint16)
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)
    if array.dtype.kind in "OUS" or array.dtype.type is np.void:
        return string_values.to_ort_value(array)
    return ort.OrtValue.ortvalue_from_numpy(array)


def to_numpy(value: ort.OrtValue) -> Any:
    """An output as an array, which is a copy."""
    shape = value.shape()
    array = np.empty(shape, bfloat16)
    ctypes.memmove(array.ctypes.data, value.data_ptr(), array.nbytes)
    return array
