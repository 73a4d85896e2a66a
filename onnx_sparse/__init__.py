"""Sparse, segment and embedding operators for ONNX: schemas, kernels for ONNX Runtime, converters.

Importing this package registers the operators' schemas with onnx and nothing else; what needs ONNX Runtime is imported
when it is first used.
"""

from __future__ import annotations

from onnx_sparse.schemas import DOMAIN, OPS, OPSET_VERSION, register

register(tuple(OPS.values()))
