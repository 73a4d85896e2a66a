"""An emitter that knows what ONNX infers: the shapes of results, and the values of arithmetic with sizes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import NewNode
from onnx_sparse.converters.writing.graph_emitter import GraphEmitter
from onnx_sparse.converters.writing.inference import computed_value, inferred_shapes, is_small
from onnx_sparse.models.graphs import read_names


class InferringEmitter(GraphEmitter):
    """The graph, or body of a control-flow operator, under construction."""

    @abstractmethod
    def body(self) -> InferringEmitter:
        """An emitter for a body within this graph."""

    def _add(self, new: NewNode) -> tuple[Tensor, ...]:
        """Add a node. Shapes that are not given are those that ONNX infers."""
        made = super()._add(new)
        if all(tensor.shape is not None for tensor in made):
            return made
        found = inferred_shapes(self.nodes[-1], new.inputs, self.domains)
        return tuple(t if t.shape is not None else replace(t, shape=found.get(t.name)) for t in made)

    def _known(self, op_type: str, inputs: Sequence[Tensor | None], attrs: Mapping[str, Any], made: Tensor) -> Tensor:
        """The result of a standard node: what follows from constants, as sizes do, is a constant."""
        if all(tensor is None or is_small(tensor) for tensor in inputs):
            value = computed_value(op_type, inputs, attrs, self.domains)
            if value is not None:
                return self.constant(value, made.dtype)
        return made

    def require_opset(self, version: int) -> None:
        """Raise the model's operator set, for a node that the usual one lacks. The other nodes mean the same in it."""
        self.domains[""] = max(self.domains[""], version)

    def shape_of(self, tensor: Tensor, start: int | None = None, end: int | None = None) -> Tensor:
        """The shape of a tensor, or part of it, as int64; a constant if it is known."""
        dims = None if tensor.shape is None else tensor.shape[start:end]
        if dims is not None and None not in dims:
            return self.constant(dims)
        return super().shape_of(tensor, start, end)

    def vector(self, tensor: Tensor) -> Tensor:
        """A scalar or vector of integers as a vector of int64."""
        if tensor.value is not None:
            return self.constant(np.reshape(tensor.value, -1), TensorProto.INT64)
        if tensor.shape is not None and len(tensor.shape) == 1:
            return self.int64(tensor)
        return self.op("Reshape", self.int64(tensor), self.constant([-1]))

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
        if node.domain or not onnx.defs.has(node.op_type, self.domains[""]):  # a newer operator set is required later
            return
        declared = onnx.defs.get_schema(node.op_type, self.domains[""]).outputs
        optional = onnx.defs.OpSchema.FormalParameterOption.Optional
        while node.output[-1] not in used and declared[min(len(node.output), len(declared)) - 1].option == optional:
            del node.output[-1]
