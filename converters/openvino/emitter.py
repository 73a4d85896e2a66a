"""Writes ONNX nodes: standard operators for the handlers, and the domain's in canonical form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from onnx_sparse.converters.openvino.tensors import Array, Shape, Tensor, Unsupported
from onnx_sparse.converters.operator_types import bound_types
from onnx_sparse.converters.ort_kernels import computed_in, operands
from onnx_sparse.schemas import DOMAIN, OPS, OPSET_VERSION
from onnx_sparse.schemas.declaration import DType, numpy_dtype

#: The default opset of the models: the first in which every reduction takes its axes as an input.
OPSET = 18
#: The most elements of a constant whose value is still known after a Cast.
_SMALL = 4096


class Names:
    """The names of a model: all tensors, including those in bodies, have different names."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def fresh(self, wanted: str) -> str:
        """The name, or the first free one of name_1, name_2, ..."""
        name = wanted
        while name in self._taken:
            self._taken[wanted] += 1
            name = f"{wanted}_{self._taken[wanted]}"
        self._taken[name] = 0
        return name


class Emitter:
    """The graph, or body of a control-flow operator, under construction.

    Attributes:
        names: The names of the model.
        nodes: Its nodes so far.
        initializers: Its constants.
        domains: The operator sets that the model needs.
    """

    def __init__(self, names: Names | None = None, domains: dict[str, int] | None = None) -> None:
        self.names = names or Names()
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.domains = {"": OPSET} if domains is None else domains
        self._prefix = ""

    def begin(self, name: str) -> None:
        """Name the following nodes after a layer."""
        self._prefix = name

    def body(self) -> Emitter:
        """An emitter for a body within this graph."""
        return Emitter(self.names, self.domains)

    def node(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        dtypes: Sequence[DType],
        *,
        domain: str = "",
        **attributes: Any,
    ) -> tuple[Tensor, ...]:
        """Add a node as it is, with one result per element type. None is an input that is omitted."""
        given = list(inputs)
        while given and given[-1] is None:  # ONNX Runtime's Squeeze fails on an axes input with an empty name
            given.pop()
        label = self.names.fresh(f"{self._prefix}/{op_type}")
        outputs = [Tensor(f"{label}:{k}" if k else label, dtype) for k, dtype in enumerate(dtypes)]
        self.nodes.append(
            helper.make_node(
                op_type,
                ["" if t is None else t.name for t in given],
                [t.name for t in outputs],
                name=label,
                domain=domain,
                **{key: value for key, value in attributes.items() if value is not None},
            )
        )
        return tuple(outputs)

    def op(
        self, op_type: str, *inputs: Tensor | None, dtype: DType | None = None, shape: Shape | None = None, **attrs: Any
    ) -> Tensor:
        """Add a standard node with one result, by default of its first operand's element type.

        If ONNX Runtime has no kernel for that type, inputs of the type go through a wider one.
        """
        span = operands(op_type)
        first = next(t for t in inputs[span] if t is not None).dtype
        wide = computed_in(op_type, first)
        given = list(inputs)
        given[span] = [self.cast(t, wide) if t is not None and t.dtype == first else t for t in inputs[span]]
        result = dtype if dtype is not None else first
        (made,) = self.node(op_type, given, [wide if result == first and dtype is None else result], **attrs)
        made = Tensor(made.name, made.dtype, shape)
        return self.cast(made, result)

    def cast(self, tensor: Tensor, dtype: DType) -> Tensor:
        """Cast a tensor; it is returned as it is if it has that element type."""
        if tensor.dtype == dtype:
            return tensor
        value = tensor.value
        if value is not None and value.size <= _SMALL and TensorProto.STRING not in (dtype, tensor.dtype):
            with np.errstate(all="ignore"):
                return self.constant(value.astype(numpy_dtype(dtype)), dtype)
        (made,) = self.node("Cast", [tensor], [dtype], to=dtype)
        return Tensor(made.name, dtype, tensor.shape)

    def constant(self, value: Any, dtype: DType = TensorProto.INT64, name: str = "") -> Tensor:
        """A constant."""
        array: Array = np.asarray(value)
        if dtype != TensorProto.STRING:
            array = array.astype(numpy_dtype(dtype), copy=False)
        tensor = Tensor(self.names.fresh(name or f"{self._prefix}/constant"), dtype, array.shape, array)
        self.initializers.append(numpy_helper.from_array(array, tensor.name))
        return tensor

    def int64(self, tensor: Tensor) -> Tensor:
        """The tensor as int64, ONNX's type of shapes, axes and counts."""
        return self.cast(tensor, TensorProto.INT64)

    def vector(self, tensor: Tensor) -> Tensor:
        """A scalar or vector of integers as a vector of int64."""
        if tensor.value is not None:
            return self.constant(tensor.value.reshape(-1))
        return self.op("Reshape", self.int64(tensor), self.constant([-1]))

    def scalar(self, tensor: Tensor) -> Tensor:
        """A tensor of one element as a scalar."""
        if tensor.shape == () and tensor.value is None:
            return tensor
        if tensor.value is not None:
            if tensor.value.size != 1:
                raise Unsupported(f"{tensor.name} is not one number")
            return self.constant(tensor.value.reshape(()), tensor.dtype)
        return self.op("Reshape", tensor, self.constant(np.zeros(0)), shape=())

    def index(self, tensor: Tensor) -> Tensor:
        """Indices in a type that ONNX takes: int32 or int64."""
        keep = tensor.dtype in (TensorProto.INT32, TensorProto.INT64)
        return tensor if keep else self.cast(tensor, TensorProto.INT64)

    def shape_of(self, tensor: Tensor, start: int | None = None, end: int | None = None) -> Tensor:
        """The shape of a tensor, or part of it, as int64."""
        return self.op("Shape", tensor, dtype=TensorProto.INT64, start=start, end=end)

    def like(self, value: float, tensor: Tensor) -> Tensor:
        """A scalar of a tensor's element type."""
        return self.constant(value, tensor.dtype)

    def domain_op(
        self, op_type: str, inputs: Mapping[str, Tensor | None], attributes: Mapping[str, str] | None = None
    ) -> tuple[Tensor, ...]:
        """Add a node of the domain in canonical form: every attribute, input and output is written.

        Args:
            op_type: The operator.
            inputs: Its inputs by name; an optional input that is None gets its sentinel.
            attributes: Values of attributes; others get their defaults.

        Raises:
            Unsupported: The operator does not take an input's element type.
        """
        op = OPS[op_type]
        types = bound_types(op, {name: tensor.dtype for name, tensor in inputs.items() if tensor is not None})
        arguments = []
        for declared in op.inputs:
            dtype = types.get(declared.type, TensorProto.INT64)
            arguments.append(inputs.get(declared.name) or self.constant(declared.sentinel_array(dtype), dtype))
        self.domains[DOMAIN] = OPSET_VERSION
        dtypes = [op.bind(o.type, types) for o in op.outputs]
        return self.node(op_type, arguments, dtypes, domain=DOMAIN, **op.with_defaults(attributes or {}))

    def graph(self, name: str, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto]) -> GraphProto:
        """The finished graph, without the nodes and constants that nothing in it reads."""
        used = {value.name for value in outputs}
        nodes = []
        for node in reversed(self.nodes):
            if used.isdisjoint(node.output):
                continue
            _leave_off_outputs(node, used)
            nodes.append(node)
            used |= used_names([node])
        kept = [t for t in self.initializers if t.name in used]
        return helper.make_graph(nodes[::-1], name, inputs, outputs, kept)


def _leave_off_outputs(node: NodeProto, used: set[str]) -> None:
    """Drop optional outputs at the end that nothing reads. Nodes of the domain are canonical and keep theirs."""
    if node.domain:
        return
    declared = onnx.defs.get_schema(node.op_type, OPSET).outputs
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    while node.output[-1] not in used and declared[min(len(node.output), len(declared)) - 1].option == optional:
        del node.output[-1]


def used_names(nodes: Sequence[NodeProto]) -> set[str]:
    """The names of the tensors that nodes and the bodies in them read."""
    used: set[str] = set()
    for node in nodes:
        used.update(node.input)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                used |= used_names(attribute.g.node) | {value.name for value in attribute.g.output}
    return used


def value_info(tensor: Tensor) -> ValueInfoProto:
    """A tensor as an input or output of a graph."""
    shape = None if tensor.shape is None else list(tensor.shape)
    return helper.make_tensor_value_info(tensor.name, tensor.dtype, shape)
