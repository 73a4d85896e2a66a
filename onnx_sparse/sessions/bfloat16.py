"""bfloat16 arrays (ml_dtypes) in and out of ONNX Runtime: its Python binding converts all other element types."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
from ml_dtypes import bfloat16
from onnx import TensorProto, helper, numpy_helper


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
    if array.dtype.kind in "OU":
        return _strings_value(array)
    return ort.OrtValue.ortvalue_from_numpy(array)


def to_numpy(values: Sequence[ort.OrtValue]) -> list[Any]:
    """Outputs as arrays; they are copies."""
    return [_bfloat16_array(v) if v.element_type() == TensorProto.BFLOAT16 else v.numpy() for v in values]


def _strings_value(array: np.ndarray[Any, Any]) -> ort.OrtValue:
    """Strings as an OrtValue, which the Python binding makes only as the result of a session."""
    tensor = numpy_helper.from_array(array.astype(object), "strings")
    node = helper.make_node("Constant", [], ["strings"], value=tensor)
    result = helper.make_tensor_value_info("strings", TensorProto.STRING, array.shape)
    graph = helper.make_graph([node], "strings", [], [result])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # no pool of threads to start
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_output("strings")
    session.run_with_iobinding(binding)
    value = binding.get_outputs()[0]
    value.session = session  # which may own the memory
    return value


def _bfloat16_array(value: ort.OrtValue) -> np.ndarray[Any, Any]:
    shape = value.shape()
    array = np.empty(shape, bfloat16)
    ctypes.memmove(array.ctypes.data, value.data_ptr(), array.nbytes)
    return array
