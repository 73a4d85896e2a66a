"""How handlers write ONNX nodes: operators of the domain in canonical form, and standard ones around them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.domain_types import bound_types
from onnx_sparse.converters.ort_kernels import computed_in
from onnx_sparse.converters.tensorflow.handlers.registry import Tensor
from onnx_sparse.schemas import DOMAIN, OPS
from onnx_sparse.schemas.declaration import DType


class Emitter(ABC):
    """Writes nodes to the graph under construction, which a subclass knows."""

    @abstractmethod
    def node(
        self,
        domain: str,
        op_type: str,
        inputs: Sequence[Tensor],
        dtypes: Sequence[DType],
        attributes: Mapping[str, Any],
    ) -> tuple[Tensor, ...]:
        """Add a node; returns one tensor per element type in `dtypes`."""

    @abstractmethod
    def constant(self, array: np.ndarray[Any, Any]) -> Tensor:
        """Add a constant."""

    def standard(self, op_type: str, *inputs: Tensor, dtype: DType, **attributes: Any) -> Tensor:
        """Add a standard ONNX node with one output of the given element type."""
        return self.node("", op_type, inputs, (dtype,), attributes)[0]

    def cast(self, tensor: Tensor, dtype: DType) -> Tensor:
        """Cast a tensor; it is returned as it is if it has that element type."""
        return tensor if tensor.dtype == dtype else self.standard("Cast", tensor, dtype=dtype, to=dtype)

    def integers(self, *values: int) -> Tensor:
        """A constant vector of int64."""
        return self.constant(np.array(values, np.int64))

    def integer(self, value: int) -> Tensor:
        """A constant scalar of int64."""
        return self.constant(np.array(value, np.int64))

    def ints(self, op_type: str, *inputs: Tensor, **attributes: Any) -> Tensor:
        """Add a standard node with an int64 output."""
        return self.standard(op_type, *inputs, dtype=TensorProto.INT64, **attributes)

    def like(self, op_type: str, *inputs: Tensor, **attributes: Any) -> Tensor:
        """Add a standard node whose output has the element type of its first input."""
        return self.standard(op_type, *inputs, dtype=inputs[0].dtype, **attributes)

    def size(self, tensor: Tensor, axis: int) -> Tensor:
        """The size of one dimension, as a vector of one element.

        Shape's attributes are not used: tf2onnx loses them when it moves a Transpose past the node.
        """
        return self.ints("Gather", self.ints("Shape", tensor), self.integers(axis))

    def where(self, condition: Tensor, chosen: Tensor, other: Tensor) -> Tensor:
        """Select elements of any type; types without a Where kernel in ONNX Runtime go through another type."""
        dtype = chosen.dtype
        wide = computed_in("Where", dtype)
        picked = self.standard("Where", condition, self.cast(chosen, wide), self.cast(other, wide), dtype=wide)
        return self.cast(picked, dtype)

    def domain_op(
        self, op_type: str, inputs: Mapping[str, Tensor], attributes: Mapping[str, str] | None = None
    ) -> tuple[Tensor, ...]:
        """Add a node of the domain in canonical form: every attribute, input and output is written.

        Args:
            op_type: The operator.
            inputs: Its inputs by name; an omitted optional input gets its sentinel.
            attributes: Values of attributes; others get their defaults.

        Raises:
            Unsupported: If the operator does not take an input's element type.
        """
        op = OPS[op_type]
        types = bound_types(op, {name: tensor.dtype for name, tensor in inputs.items()})
        arguments = [
            inputs.get(i.name) or self.constant(i.sentinel_array(types.get(i.type, TensorProto.INT64)))
            for i in op.inputs
        ]
        dtypes = [op.bind(o.type, types) for o in op.outputs]
        return self.node(DOMAIN, op_type, arguments, dtypes, op.with_defaults(attributes or {}))
