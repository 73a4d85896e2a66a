"""Writes the nodes of a TensorFlow graph, and keeps large constants out of the messages until these are finished."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.inferring_emitter import InferringEmitter
from onnx_sparse.converters.names import Names
from onnx_sparse.converters.ort_kernels import computed_in, operands
from onnx_sparse.converters.tensor import Array, Shape, Tensor
from onnx_sparse.schemas.declaration import DType

#: Constants of at least so many bytes are not copied into the graph.
LARGE = 1 << 20


class Emitter(InferringEmitter):
    """The graph, or the body of a control-flow operator, under construction.

    Attributes:
        large: The large constants by name, of the whole model; they are inputs of its graph until they are attached.
    """

    def __init__(
        self,
        names: Names | None = None,
        domains: dict[str, int] | None = None,
        large: dict[str, Array] | None = None,
    ) -> None:
        super().__init__(names, domains)
        self.large: dict[str, Array] = {} if large is None else large

    def body(self) -> Emitter:
        """An emitter for a body within this graph."""
        return Emitter(self.names, self.domains, self.large)

    def _add_constant(self, array: Array, dtype: DType, name: str) -> str:
        if dtype == TensorProto.STRING:
            _refuse_other_than_text(array)
        if array.nbytes < LARGE or dtype == TensorProto.STRING:
            return super()._add_constant(array, dtype, name)
        name = name or self.names.fresh("constant")
        self.large[name] = array
        return name

    def op(
        self, op_type: str, *inputs: Tensor | None, dtype: DType | None = None, shape: Shape | None = None, **attrs: Any
    ) -> Tensor:
        """Add a standard node with one result; see `Emitter`. Doubles are not computed in float."""
        first = next((tensor.dtype for tensor in inputs[operands(op_type)] if tensor is not None), None)
        if first == TensorProto.DOUBLE and computed_in(op_type, first) == TensorProto.FLOAT:
            raise Unsupported(f"ONNX Runtime has no {op_type} of double")
        return super().op(op_type, *inputs, dtype=dtype, shape=shape, **attrs)

    def int64(self, tensor: Tensor) -> Tensor:
        """The tensor as int64, ONNX's type of shapes, axes and counts."""
        return self.cast(tensor, TensorProto.INT64)

    def vector(self, tensor: Tensor) -> Tensor:
        """A scalar or vector of integers as a vector of int64."""
        if tensor.value is not None:
            return self.constant(np.reshape(tensor.value, -1), TensorProto.INT64)
        if tensor.shape is not None and len(tensor.shape) == 1:
            return self.int64(tensor)
        return self.op("Reshape", self.int64(tensor), self.constant([-1]))


def _refuse_other_than_text(array: Array) -> None:
    """Refuse strings that ONNX Runtime would not load."""
    for text in array.reshape(-1):
        if isinstance(text, bytes):
            try:
                text.decode()
            except UnicodeDecodeError:
                raise Unsupported("it has strings that are not UTF-8") from None
