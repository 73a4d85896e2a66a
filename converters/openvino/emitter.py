"""Writes ONNX nodes for layers, and bodies of control flow within a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto

from onnx_sparse.converters.graph_emitter import GraphEmitter
from onnx_sparse.converters.graphs import read_names
from onnx_sparse.converters.names import Names
from onnx_sparse.converters.openvino.compressed_weight import Weight
from onnx_sparse.converters.openvino.inference import computed_value, inferred_shapes, is_small
from onnx_sparse.converters.tensor import Shape, Tensor
from onnx_sparse.schemas.declaration import DType, numpy_dtype

#: The floats that ONNX Runtime computes in.
FLOATS = (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE)
#: The integers all of which a float has, and all integers.
NARROW = (TensorProto.UINT8, TensorProto.INT8, TensorProto.UINT16, TensorProto.INT16)
_INTEGERS = (*NARROW, TensorProto.INT32, TensorProto.UINT32, TensorProto.INT64, TensorProto.UINT64)


class Emitter(GraphEmitter):
    """The graph, or body of a control-flow operator, under construction.

    Attributes:
        weights: The compressed weights whose floats are not in the graph, by the name of a tensor that stands for them.
    """

    def __init__(self, names: Names | None = None, domains: dict[str, int] | None = None) -> None:
        super().__init__(names, domains)
        self.weights: dict[str, Weight] = {}

    def body(self) -> Emitter:
        """An emitter for a body within this graph."""
        return Emitter(self.names, self.domains)

    def node(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        dtypes: Sequence[DType],
        shapes: Sequence[Shape | None] = (),
        *,
        domain: str = "",
        **attributes: Any,
    ) -> tuple[Tensor, ...]:
        """Add a node as it is; see `Emitter`. Shapes that are not given are those that ONNX infers."""
        made = super().node(op_type, inputs, dtypes, shapes, domain=domain, **attributes)
        if all(tensor.shape is not None for tensor in made):
            return made
        found = inferred_shapes(self.nodes[-1], inputs, self.domains)
        return tuple(t if t.shape is not None else replace(t, shape=found.get(t.name)) for t in made)

    def op(
        self, op_type: str, *inputs: Tensor | None, dtype: DType | None = None, shape: Shape | None = None, **attrs: Any
    ) -> Tensor:
        """Add a standard node with one result; see `Emitter`. What follows from constants, as sizes do, is one."""
        made = super().op(op_type, *inputs, dtype=dtype, shape=shape, **attrs)
        if all(tensor is None or is_small(tensor) for tensor in inputs):
            value = computed_value(op_type, inputs, attrs, self.domains)
            if value is not None:
                return self.constant(value, made.dtype)
        return made

    def floats(self, tensor: Tensor) -> Tensor:
        """A tensor in a type of floats: its own, or float for integers, whose results `narrowed` rounds."""
        return tensor if tensor.dtype in FLOATS else self.cast(tensor, TensorProto.FLOAT)

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

    def require_opset(self, version: int) -> None:
        """Raise the model's operator set, for a node that the usual one lacks. The other nodes mean the same in it."""
        self.domains[""] = max(self.domains[""], version)

    def int64(self, tensor: Tensor) -> Tensor:
        """The tensor as int64, ONNX's type of shapes, axes and counts."""
        return self.cast(tensor, TensorProto.INT64)

    def vector(self, tensor: Tensor) -> Tensor:
        """A scalar or vector of integers as a vector of int64."""
        if tensor.value is not None:
            return self.constant(tensor.value.reshape(-1), TensorProto.INT64)
        return self.op("Reshape", self.int64(tensor), self.constant([-1]))

    def index(self, tensor: Tensor) -> Tensor:
        """Indices in a type that ONNX takes: int32 or int64."""
        keep = tensor.dtype in (TensorProto.INT32, TensorProto.INT64)
        return tensor if keep else self.cast(tensor, TensorProto.INT64)

    def shape_of(self, tensor: Tensor, start: int | None = None, end: int | None = None) -> Tensor:
        """The shape of a tensor, or part of it, as int64; a constant if it is known."""
        dims = None if tensor.shape is None else tensor.shape[start:end]
        if dims is not None and None not in dims:
            return self.constant(dims)
        return self.op("Shape", tensor, start=start, end=end)

    def graph(self, name: str, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto]) -> GraphProto:
        """The finished graph, without the nodes and constants that nothing in it reads."""
        used = {value.name for value in outputs}
        nodes = []
        for node in reversed(self.nodes):
            if not used.isdisjoint(node.output):
                self._omit_outputs(node, used)
                nodes.append(node)
                used |= read_names([node])
        self.nodes = nodes[::-1]
        return super().graph(name, inputs, outputs)

    def _omit_outputs(self, node: NodeProto, used: set[str]) -> None:
        """Drop optional outputs at the end that nothing reads. Nodes of the domain are canonical and keep theirs."""
        if node.domain:
            return
        declared = onnx.defs.get_schema(node.op_type, self.domains[""]).outputs
        optional = onnx.defs.OpSchema.FormalParameterOption.Optional
        while node.output[-1] not in used and declared[min(len(node.output), len(declared)) - 1].option == optional:
            del node.output[-1]
