"""The domain's nodes of a model, also in subgraphs, with the element types that are known at each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    helper,
    numpy_helper,
)

from onnx_sparse.models.data.references import is_known
from onnx_sparse.models.graphs import Names, array_of, element_types, every_node, graphs, subgraphs
from onnx_sparse.schemas import DOMAIN, OPS, OPSET_VERSION
from onnx_sparse.schemas.declaration import DType, Op
from onnx_sparse.schemas.function_body import Known
from onnx_sparse.schemas.validation import Dim, KernelError, attribute_value, check_attributes

#: Constants of more elements are tables, which say nothing about most nodes.
_SMALL = 64
#: The attributes of Constant that are numbers and lists of them, and their types.
_NUMBERS = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}


@dataclass(frozen=True)
class DomainNode:
    """A node of the domain, and where it is.

    Attributes:
        node: The node itself.
        op: Its declaration.
        graph: The graph that holds it, which may be a branch or a loop's body.
        types: The element types of values that are visible there, as far as they are known.
        shapes: Their dimensions likewise: numbers, symbols, None for unknown ones.
        constants: Those of them that never change and can be read.
    """

    node: NodeProto
    op: Op
    graph: GraphProto
    types: Mapping[str, DType]
    shapes: Mapping[str, tuple[Dim, ...]] = field(default_factory=dict)
    constants: Mapping[str, TensorProto] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The node's name in messages: `SegmentMax node "pool"`."""
        return f"{self.op.name} node {node_name(self.node)}"

    def given(self) -> frozenset[str]:
        """The names of the inputs that the node gives."""
        return frozenset(i.name for i, value in zip(self.op.inputs, self.node.input, strict=False) if value)

    def known(self) -> Known:
        """What the model tells about the node's inputs.

        Raises:
            ValueError: A constant is malformed.
        """
        values = {i.name: value for i, value in zip(self.op.inputs, self.node.input, strict=False) if value}
        return Known(
            shapes={name: self.shapes[value] for name, value in values.items() if value in self.shapes},
            constants={n: self._array(v) for n, v in values.items() if v in self.constants and self._is_read(n, v)},
        )

    def _is_read(self, name: str, value: str) -> bool:
        """Whether a body may ask for the value of an input, which is a constant."""
        return name in self.op.read_by_body or math.prod(self.constants[value].dims) <= _SMALL

    def _array(self, value: str) -> np.ndarray[Any, Any]:
        try:
            return array_of(self.constants[value])
        except Exception as error:  # it raises whatever numpy does
            raise ValueError(f"{self.label}: constant {value!r} is malformed: {error}") from error

    def binding(self) -> dict[str, DType]:
        """The element type of each of the operator's type variables, as far as they are known.

        Raises:
            KernelError: The operator does not take one of them.
        """
        bound: dict[str, DType] = {}
        variables = [i.type for i in self.op.inputs[: len(self.node.input)]] + [o.type for o in self.op.outputs]
        for variable, value in zip(variables, (*self.node.input, *self.node.output), strict=False):
            if variable in self.op.types and value in self.types:
                element = bound.setdefault(variable, self.types[value])
                if element not in self.op.types[variable]:
                    raise KernelError(f"{self.label} does not take element type {_type_name(element)} of {value}")
        return bound

    def attributes(self) -> dict[str, str]:
        """The attributes that the node writes.

        Raises:
            KernelError: They are not those of the operator.
        """
        values = {a.name: attribute_value(a) for a in self.node.attribute}
        try:
            check_attributes(self.op, values)
        except KernelError as error:
            raise KernelError(f"{self.op.name}: {error}") from None
        return {name: str(value) for name, value in values.items()}

    def write_out(self, names: Names) -> None:
        """Write what the node omits: attributes' defaults, "" for inputs, names for outputs.

        Raises:
            ValueError: The node has more inputs or outputs than the operator, or other attributes.
        """
        if len(self.node.input) > len(self.op.inputs) or len(self.node.output) > len(self.op.outputs):
            raise ValueError(
                f"{self.label} has {len(self.node.input)} inputs and {len(self.node.output)} outputs; "
                f"expected at most {len(self.op.inputs)} and {len(self.op.outputs)}"
            )
        written = self.attributes()
        for name, value in self.op.with_defaults({}).items():
            if name not in written:
                self.node.attribute.append(helper.make_attribute(name, value))
        self.node.input.extend([""] * (len(self.op.inputs) - len(self.node.input)))
        self.node.output.extend([""] * (len(self.op.outputs) - len(self.node.output)))
        for position, output in enumerate(self.op.outputs):
            if not self.node.output[position]:
                self.node.output[position] = names.fresh(f"{self.node.name or self.op.name}_{output.name}")


def domain_nodes(model: ModelProto) -> Iterator[DomainNode]:
    """The domain's nodes in the model's graph and its subgraphs, in order.

    Raises:
        ValueError: A node's op_type is not an operator of the domain, or the model imports a later opset of it, in
            which the same operators may have other semantics.
    """
    refuse_later_opset(model.opset_import)
    yield from _walk(model.graph, _Visible())


def uses_domain(model: ModelProto) -> bool:
    """Whether a node of the model calls an operator of the domain, also in subgraphs and functions."""
    return any(node.domain == DOMAIN for node in every_node(model))


#: The version of a registered domain that ONNX Runtime writes into a model it saves, where the model did not import it.
UNSPECIFIED_OPSET = 1000


def refuse_later_opset(imports: Iterable[OperatorSetIdProto]) -> None:
    """Refuse a model that imports a later opset of the domain than this version knows.

    Raises:
        ValueError: It does.
    """
    for imported in imports:
        known = imported.version <= OPSET_VERSION or imported.version == UNSPECIFIED_OPSET
        if imported.domain == DOMAIN and not known:
            raise ValueError(unknown_opset(imported.version))


def refuse_illegal_attributes(model: ModelProto) -> None:
    """Check the attributes of the domain's nodes in the model's graph and its subgraphs.

    Raises:
        KernelError: They are not those of the operator.
    """
    for graph in graphs(model.graph):
        for node in graph.node:
            if node.domain == DOMAIN and node.op_type in OPS:
                DomainNode(node, OPS[node.op_type], graph, {}).attributes()


def unknown_opset(version: int) -> str:
    """The error about a model that imports an opset of the domain that this version does not know."""
    return f"opset {version} of domain {DOMAIN}; this version of onnx_sparse has {OPSET_VERSION}"


def node_name(node: NodeProto) -> str:
    """The name of a node in messages: its first output's where it has none."""
    return f'"{node.name or next(iter(node.output), "")}"'


@dataclass(frozen=True)
class _Visible:
    """The values that nodes of a graph can read: those of the graph itself, and of the graphs around it."""

    types: Mapping[str, DType] = field(default_factory=dict)
    shapes: Mapping[str, tuple[Dim, ...]] = field(default_factory=dict)
    constants: Mapping[str, TensorProto] = field(default_factory=dict)

    def inside(self, graph: GraphProto) -> _Visible:
        """What the nodes of a graph in this one can read."""
        return _Visible(
            {**self.types, **element_types(graph)},
            {**self.shapes, **_shapes(graph)},
            {**self.constants, **_constants(graph)},
        )


def _walk(graph: GraphProto, outer: _Visible) -> Iterator[DomainNode]:
    visible = outer.inside(graph)
    for node in graph.node:
        if node.domain == DOMAIN:
            if node.op_type not in OPS:
                name = node_name(node)
                raise ValueError(
                    f"{node.op_type} is not an operator of domain {DOMAIN} (node {name}); it has {', '.join(OPS)}"
                )
            yield DomainNode(node, OPS[node.op_type], graph, visible.types, visible.shapes, visible.constants)
        for inner in subgraphs(node):
            yield from _walk(inner, visible)


def _shapes(graph: GraphProto) -> dict[str, tuple[Dim, ...]]:
    """The dimensions of a graph's own values, as far as it declares them."""
    shapes: dict[str, tuple[Dim, ...]] = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        if value.type.tensor_type.HasField("shape"):
            shapes[value.name] = tuple(
                dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None)
                for dim in value.type.tensor_type.shape.dim
            )
    return shapes


def _constants(graph: GraphProto) -> dict[str, TensorProto]:
    """The tensors that a graph has under names which no caller can give other values."""
    given = {value.name for value in graph.input}
    constants = {tensor.name: tensor for tensor in graph.initializer if tensor.name not in given}
    for node in graph.node:
        if node.domain not in ("", "ai.onnx") or not node.output:
            continue
        if node.op_type == "Constant":
            tensor = _tensor_of(node)
            if tensor is not None:
                constants[node.output[0]] = tensor
        elif node.op_type == "Identity" and node.input and node.input[0] in constants:
            constants[node.output[0]] = constants[node.input[0]]
    return {name: tensor for name, tensor in constants.items() if is_known(tensor)}


def _tensor_of(constant: NodeProto) -> TensorProto | None:
    """The tensor of a Constant node; None where it is no tensor of numbers."""
    for attribute in constant.attribute:
        if attribute.name == "value" and attribute.HasField("t"):
            tensor: TensorProto = attribute.t
            return tensor
        if attribute.name in _NUMBERS:
            value = helper.get_attribute_value(attribute)
            return numpy_helper.from_array(np.array(value, _NUMBERS[attribute.name]))
    return None


def _type_name(element: DType) -> str:
    known = TensorProto.DataType.values()
    return TensorProto.DataType.Name(element).lower() if element in known else str(element)
