"""The roads by which patterns with known faults of ONNX Runtime come; each writes the same operations in its way."""

from __future__ import annotations

from faults.on_onnx import Onnx
from faults.on_openvino import OpenVino
from faults.on_tensorflow import TensorFlow
from faults.on_torch import Torch

ROADS = {"tensorflow": TensorFlow, "torch": Torch, "openvino": OpenVino, "onnx": Onnx}
