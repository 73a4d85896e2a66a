"""Roads into the `onnx_sparse` domain: one package per source, each with a `convert` that returns a ModelProto."""

from __future__ import annotations

from onnx_sparse.converters.errors import ConversionError, UnsupportedNode

__all__ = ["ConversionError", "UnsupportedNode"]
