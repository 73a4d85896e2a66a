"""Running models of the domain on OpenVINO's CPU plugin, through `extensions()`."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import ModelProto

from onnx_sparse.converters.openvino import extensions

#: Without this the plugin may compute in bfloat16 for speed.
FLOAT32 = {"INFERENCE_PRECISION_HINT": "f32"}
#: OpenVINO's names of the types that numpy lacks.
_NAMES = {
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(ml_dtypes.float8_e4m3fn): "f8e4m3",
    np.dtype(ml_dtypes.float8_e5m2): "f8e5m2",
    np.dtype(ml_dtypes.float8_e8m0fnu): "f8e8m0",
}


def run_model(model: ModelProto, inputs: Mapping[str, Any]) -> list[Any]:
    """The outputs of an ONNX model, read with the extensions."""
    import openvino as ov

    core = ov.Core()
    for extension in extensions(model):
        core.add_extension(extension)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        compiled = core.compile_model(core.read_model(path), "CPU", FLOAT32)
    return outputs_of(compiled, inputs)


def run_saved(model: ModelProto, inputs: Mapping[str, Any]) -> list[Any]:
    """The outputs of an ONNX model that was saved as an IR, which is read without the extensions."""
    import openvino as ov

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        ov.save_model(ov.convert_model(path, extension=extensions()), path.with_suffix(".xml"), compress_to_fp16=False)
        core = ov.Core()
        compiled = core.compile_model(core.read_model(path.with_suffix(".xml")), "CPU", FLOAT32)
        return outputs_of(compiled, inputs)


def outputs_of(compiled: Any, inputs: Mapping[Any, Any]) -> list[Any]:
    """The outputs of a compiled model, in order, for inputs by name or position.

    The types that numpy lacks, bfloat16 and the floats of 8 bits, go in and out as their bits.
    """
    request = compiled.create_infer_request()
    request.infer({name: _tensor(value) for name, value in inputs.items()})
    return [_array(request.get_output_tensor(k)) for k in range(len(compiled.outputs))]


def _tensor(value: Any) -> Any:
    import openvino as ov

    array = np.ascontiguousarray(value).reshape(np.shape(value))
    name = _NAMES.get(array.dtype)
    if name is None:
        return ov.Tensor(array)
    return ov.Tensor(array.view(f"u{array.itemsize}"), array.shape, getattr(ov.Type, name))


def _array(tensor: Any) -> Any:
    if tensor.element_type.get_type_name() == "string":
        return np.array(tensor.str_data, object)
    bits = np.array(tensor.data)
    kinds = [dtype for dtype, name in _NAMES.items() if name == tensor.element_type.get_type_name()]
    return bits.view(kinds[0]) if kinds else bits
