"""The contents of a model: its nodes, also in subgraphs and functions, their element types, its values as text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    ValueInfoProto,
)

from onnx_sparse.errors import printable
from onnx_sparse.models.files.data_parts import locations
from onnx_sparse.models.graphs import element_types
from onnx_sparse.models.tools.onnx_tools import infer_shapes
from onnx_sparse.schemas import DOMAIN, OPS, Op
from onnx_sparse.schemas.declaration import DType, dtype_name
from onnx_sparse.schemas.function_body import operator_name
from onnx_sparse.schemas.validation import KernelError, bind_types

#: The domains of nodes that any ONNX runtime knows.
_STANDARD = {"", "ai.onnx", "ai.onnx.ml"}

#: ONNX's names that numpy users read as something else.
_NUMPY_NAMES = {"float": "float32", "double": "float64"}


def type_name(dtype: DType) -> str:
    """An element type's name in numpy: `"float32"` for ONNX's `"float"`."""
    name = dtype_name(dtype)
    return _NUMPY_NAMES.get(name, name)


@dataclass(frozen=True)
class PlacedNode:
    """One node and where it is.

    Attributes:
        node: The node.
        position: Its position among its siblings.
        scope: The functions and subgraphs that it is in, outermost first; empty in the main graph.
        types: The element types of the values that it can see, as far as they are known; in a model-local function
            they depend on the caller.
        is_call: Whether the node calls a body of its operator under another name.
    """

    node: NodeProto
    position: int
    scope: tuple[str, ...] = ()
    types: Mapping[str, DType] = field(default_factory=dict)
    is_call: bool = False

    @property
    def operator(self) -> str:
        """The name of the node's operator."""
        name = printable(self.node.op_type)
        return operator_name(name) if self.is_call else name

    @property
    def op(self) -> Op | None:
        """The declaration of the node's operator, if it is one of ours."""
        return OPS.get(self.operator) if self.is_ours else None

    @property
    def is_ours(self) -> bool:
        """Whether the node is of our domain, even if its operator does not exist."""
        return self.node.domain == DOMAIN

    @property
    def label(self) -> str:
        """A name to find the node by: its own, or its first output's when it has none."""
        outputs = [name for name in self.node.output if name]
        name = self.node.name or (f"-> {printable(outputs[0])}" if outputs else f"#{self.position}")
        return " / ".join([*self.scope, printable(name)])

    def input_types(self, op: Op) -> dict[str, DType]:
        """The element types of the operator's inputs, as far as the model declares them."""
        return {
            declared.name: self.types[name]
            for declared, name in zip(op.inputs, self.node.input, strict=False)
            if name in self.types
        }

    def type_binding(self, op: Op) -> dict[str, DType]:
        """The element types of the operator's type variables, as far as the model declares them."""
        try:
            bound = bind_types(op, self.input_types(op))
        except KernelError:  # `check` reports illegal types
            return {}
        return {variable: bound[variable] for variable in op.types if variable in bound}


def infer_types(model: ModelProto) -> ModelProto:
    """The model with the types and shapes that inference finds; the model itself where it finds none."""
    try:
        return infer_shapes(model, data_prop=True)
    except Exception:  # `check` reports what is wrong with the model
        return model


def nodes(model: ModelProto) -> Iterator[PlacedNode]:
    """Every node: of the main graph, of subgraphs, of model-local functions. Our own function bodies are left out."""
    renamed = {f.name for f in model.functions if is_function_body(f) and f.name not in OPS}
    for placed in _every_node(model):
        is_call = placed.is_ours and placed.node.op_type in renamed and operator_name(placed.node.op_type) in OPS
        yield replace(placed, is_call=True) if is_call else placed


def _every_node(model: ModelProto) -> Iterator[PlacedNode]:
    yield from _graph_nodes(model.graph, (), {})
    for function in model.functions:
        if not is_function_body(function):
            scope = (f"function {printable(function.name)}",)
            yield from _placed(function.node, scope, {})


def other_domains(model: ModelProto) -> list[str]:
    """The domains of nodes that are neither standard ONNX, nor ours, nor calls of the model's own functions."""
    functions = {(function.domain, function.name) for function in model.functions}
    found = (placed.node for placed in nodes(model))
    return sorted({n.domain for n in found if (n.domain, n.op_type) not in functions} - _STANDARD - {DOMAIN})


def who_runs(domains: Iterable[str]) -> str:
    """What can run a model that has, beside standard nodes, those of other domains."""
    names = ", ".join(map(printable, domains))
    return f"a runtime that knows {names} can run it" if names else "any ONNX runtime can run it"


def is_function_body(function: FunctionProto) -> bool:
    """Whether a model-local function is the function body of an operator of ours."""
    return bool(function.domain == DOMAIN)


def _graph_nodes(graph: GraphProto, scope: tuple[str, ...], outer: Mapping[str, DType]) -> Iterator[PlacedNode]:
    yield from _placed(graph.node, scope, {**outer, **element_types(graph)})


def _placed(siblings: Iterable[NodeProto], scope: tuple[str, ...], types: Mapping[str, DType]) -> Iterator[PlacedNode]:
    for position, node in enumerate(siblings):
        yield PlacedNode(node, position, scope, types)
        for attribute in node.attribute:
            graphs = [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs
            for graph in graphs:
                inner = (*scope, f"{printable(node.name or node.op_type)}.{printable(attribute.name)}")
                yield from _graph_nodes(graph, inner, types)


def type_text(value: ValueInfoProto) -> str:
    """A value's type as text: `"float32[N, 3]"`, `"int64[]"` for a scalar, `"float32[...]"` for an unknown rank."""
    which = value.type.WhichOneof("value")
    if which != "tensor_type":
        return str(which or "unknown").removesuffix("_type")
    tensor = value.type.tensor_type
    return f"{type_name(tensor.elem_type)}[{dims_text(shape_of(value))}]"


def shape_of(value: ValueInfoProto) -> list[int | str | None] | None:
    """A tensor's dimensions: numbers, symbols, None for unknown ones; None for an unknown rank.

    Some exporters write an open dimension as -1, which ONNX Runtime takes for one, too.
    """
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else (printable(dim.dim_param) or None)
        for dim in tensor.shape.dim
    ]


def dims_text(shape: list[int | str | None] | None) -> str:
    """Dimensions as text: `"N, 3"`."""
    return "..." if shape is None else ", ".join("?" if dim is None else str(dim) for dim in shape)


def required_inputs(model: ModelProto) -> list[ValueInfoProto]:
    """The inputs that a caller must give: those without an initializer as default."""
    defaults = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in defaults]


def opset_imports(model: ModelProto) -> dict[str, int]:
    """The opsets that the model uses, by domain; the default domain is `"ai.onnx"`."""
    return {printable(imported.domain) or "ai.onnx": imported.version for imported in model.opset_import}


def disk_size(model: ModelProto, path: Path) -> int:
    """The bytes of a model's file and of the files that hold its tensors."""
    files = {path, *(path.parent / name for name in locations(model) if "\0" not in name)}  # which no file's name has
    # Like onnx, this does not follow a path that leads out of the model's folder.
    folder = os.path.realpath(path.parent)
    sizes = []
    for file in files:
        real = os.path.realpath(file)
        if os.path.commonpath([real, folder]) == folder and os.path.isfile(real):
            sizes.append(os.path.getsize(real))
    return sum(sizes)
