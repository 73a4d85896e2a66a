"""From a TensorFlow model that has been read to ONNX, without TensorFlow and tf2onnx.

This front end grows beside the road by tf2onnx and is held against it; `convert` does not use it yet.
"""

from __future__ import annotations

from onnx_sparse.converters.tensorflow.importing.conversion import import_graph, import_saved_model

__all__ = ["import_graph", "import_saved_model"]
