"""Writes ONNX nodes for layers, and bodies of control flow within a graph."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.openvino.compressed_weight import Weight
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter
from onnx_sparse.models.graphs import Names
from onnx_sparse.schemas.declaration import DType, numpy_dtype

#: The floats that ONNX Runtime computes in.
FLOATS = (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE)
#: The integers all of which a float has, and all integers.
NARROW = (TensorProto.UINT8, TensorProto.INT8, TensorProto.UINT16, TensorProto.INT16)
_INTEGERS = (*NARROW, TensorProto.INT32, TensorProto.UINT32, TensorProto.INT64, TensorProto.UINT64)


class OpenVINOEmitter(InferringEmitter):
    """The graph, or body of a control-flow operator, under construction.

    Attributes:
        weights: The compressed weights whose floats are not in the graph, by the name of a tensor that stands for them.
    """

    def __init__(self, names: Names | None = None, domains: dict[str, int] | None = None) -> None:
        super().__init__(names, domains)
        self.weights: dict[str, Weight] = {}

    def body(self) -> OpenVINOEmitter:
        """An emitter for a body within this graph."""
        return OpenVINOEmitter(self.names, self.domains)

    def narrowed(self, op_type: str, tensor: Tensor, dtype: DType) -> Tensor:
        """What an operator computed in a wider type, in its own: but for reductions, OpenVINO takes the nearest integer
        of a float.
        """
        if tensor.dtype not in FLOATS or dtype not in _INTEGERS or op_type.startswith("Reduce"):
            return super().narrowed(op_type, tensor, dtype)
        whole = self.op("Round", tensor)
        if dtype in NARROW:  # the nearest that the type has
            limits = np.iinfo(numpy_dtype(dtype))
            whole = self.op("Clip", whole, *(self.like(end, whole) for end in (limits.min, limits.max)))
        return self.cast(whole, dtype)

    def vector(self, tensor: Tensor) -> Tensor:
        """A scalar or vector of integers as a vector of int64."""
        if tensor.value is not None:
            return self.constant(tensor.value.reshape(-1), TensorProto.INT64)
        return self.op("Reshape", self.int64(tensor), self.constant([-1]))

    def index(self, tensor: Tensor) -> Tensor:
        """Indices in a type that ONNX takes: int32 or int64."""
        keep = tensor.dtype in (TensorProto.INT32, TensorProto.INT64)
        return tensor if keep else self.cast(tensor, TensorProto.INT64)
