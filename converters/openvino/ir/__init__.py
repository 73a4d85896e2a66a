"""OpenVINO's intermediate representation, versions 10 and 11: an .xml file of layers and a .bin file of constants."""

from __future__ import annotations

from onnx_sparse.converters.openvino.ir.network import BodyMap, Edge, Layer, Network, Port
from onnx_sparse.converters.openvino.ir.reader import read_ir

__all__ = ["BodyMap", "Edge", "Layer", "Network", "Port", "read_ir"]
