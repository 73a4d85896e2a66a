"""Writes the nodes of a TensorFlow graph, and keeps large constants out of the messages until these are finished."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import GraphProto, TensorProto, ValueInfoProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Array, Shape, Tensor
from onnx_sparse.converters.writing.emitter import NewNode
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.converters.writing.inference import computed_value, is_small
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter
from onnx_sparse.models.graphs import Names
from onnx_sparse.schemas.declaration import DType, numpy_dtype

#: The most elements of a tensor that is filled while a model is converted.
_SMALL = 4096
#: Operators that move the elements of tensors and do not change them.
_MOVING = frozenset({"Concat", "Expand", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze"})
#: Sizes that stand for unknown ones; where the two lead to one result, it has no unknown size.
_STAND_INS = (100_003, 100_019)

#: Constants of at least so many bytes are not copied into the graph.
LARGE = 1 << 20


class TensorFlowEmitter(InferringEmitter):
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
        self._sizes: dict[str, Shape] = {}  # what is known of tensors of sizes
        self._shaped: dict[str, Tensor] = {}  # the results of nodes of which a shape is known

    def body(self) -> TensorFlowEmitter:
        """An emitter for a body within this graph."""
        return TensorFlowEmitter(self.names, self.domains, self.large)

    def _add_constant(self, array: Array, dtype: DType, name: str) -> str:
        if array.nbytes < LARGE or dtype == TensorProto.STRING:
            return super()._add_constant(array, dtype, name)
        name = name or self.names.fresh("constant")
        self.large[name] = array
        return name

    def _add(self, new: NewNode) -> tuple[Tensor, ...]:
        made = super()._add(new)
        self.note_shapes(made)
        return made

    def note_shapes(self, tensors: Iterable[Tensor]) -> None:
        """Take note of the shapes of results, which are written into the graph: its own inference may not know them."""
        self._shaped.update((tensor.name, tensor) for tensor in tensors if tensor.shape is not None)

    def graph(self, name: str, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto]) -> GraphProto:
        """The finished graph; see `InferringEmitter`."""
        made = super().graph(name, inputs, outputs)
        inner = dict.fromkeys(output for node in made.node for output in node.output)
        for value in outputs:
            inner.pop(value.name, None)
        made.value_info.extend(value_info(self._shaped[name]) for name in inner if name in self._shaped)
        return made

    def _check(self, op_type: str, inputs: Sequence[Tensor | None]) -> None:
        """Doubles are not computed in float."""
        has_double = any(tensor is not None and tensor.dtype == TensorProto.DOUBLE for tensor in inputs)
        if has_double and TensorProto.FLOAT in self.wider(op_type, inputs).values():
            raise Unsupported(f"ONNX Runtime has no {op_type} of double")

    def _known(self, op_type: str, inputs: Sequence[Tensor | None], attrs: Mapping[str, Any], made: Tensor) -> Tensor:
        found = super()._known(op_type, inputs, attrs, made)
        return self._with_known_sizes(op_type, inputs, attrs, found) if found.value is None else found

    def shape_of(self, tensor: Tensor, start: int | None = None, end: int | None = None) -> Tensor:
        """The shape of a tensor, or part of it, as int64; a constant if it is known."""
        made = super().shape_of(tensor, start, end)
        if made.value is None and tensor.shape is not None:
            self._sizes[made.name] = tensor.shape[start:end]
        return made

    def cast(self, tensor: Tensor, dtype: DType) -> Tensor:
        """Cast a tensor; it is returned as it is if it has that element type."""
        made = super().cast(tensor, dtype)
        if tensor.name in self._sizes:
            self._sizes[made.name] = self._sizes[tensor.name]
        return made

    def domain_op(
        self, op_type: str, inputs: Mapping[str, Tensor | None], attributes: Mapping[str, str] | None = None
    ) -> tuple[Tensor, ...]:
        """Add a node of the domain in canonical form; see `Emitter`. A small tensor of one constant is a constant."""
        dims, value = inputs.get("dims"), inputs.get("value")
        if op_type == "Fill" and dims is not None and value is not None and is_small(dims) and value.value is not None:
            shape = tuple(int(size) for size in dims.integers("dims"))
            if 0 <= math.prod(shape) <= _SMALL and min(shape, default=0) >= 0 and value.value.size == 1:
                return (self.constant(np.full(shape, value.value.reshape(()), value.value.dtype), value.dtype),)
        made = super().domain_op(op_type, inputs, attributes)
        if op_type == "Fill" and dims is not None and (sizes := self.known_sizes(dims)) is not None:
            made = (replace(made[0], shape=sizes),)
            self.note_shapes(made)
        return made

    def known_sizes(self, tensor: Tensor) -> Shape | None:
        """What is known of the elements of a vector of sizes."""
        if tensor.value is not None:
            return tuple(int(size) for size in tensor.value.reshape(-1))
        return self._sizes.get(tensor.name)

    def _with_known_sizes(
        self, op_type: str, inputs: Sequence[Tensor | None], attributes: Mapping[str, Any], made: Tensor
    ) -> Tensor:
        """The result of an operator that moves sizes of which some are known, as a constant if it has only these."""
        known = [tensor is not None and tensor.name in self._sizes for tensor in inputs]
        if op_type not in _MOVING or not any(known):
            return made
        if op_type != "Concat" and any(known[1:]):  # what says where: any stand-in would be the end of a short tensor
            return made
        computed = []
        for unknown in _STAND_INS:
            given = []
            for tensor, has_sizes in zip(inputs, known, strict=True):
                if tensor is not None and has_sizes:
                    sizes = [unknown if size is None else size for size in self._sizes[tensor.name]]
                    tensor = replace(tensor, value=np.array(sizes, numpy_dtype(tensor.dtype)).reshape(_rank_of(tensor)))
                given.append(tensor)
            if not all(tensor is None or is_small(tensor) for tensor in given):
                return made
            computed.append(computed_value(op_type, given, attributes, self.domains))
        one, other = computed
        if one is None or other is None:
            return made
        if np.array_equal(one, other):
            return self.constant(one, made.dtype)
        if one.ndim <= 1:
            moved = zip(one.reshape(-1).tolist(), other.reshape(-1).tolist(), strict=True)
            self._sizes[made.name] = tuple(a if a == b else None for a, b in moved)
        return made


def _rank_of(sizes: Tensor) -> tuple[int, ...]:
    """The shape to give to known sizes: that of a scalar or a vector."""
    return () if sizes.shape == () else (-1,)
