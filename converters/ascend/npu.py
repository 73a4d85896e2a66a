"""ONNX files with operators of torch_npu's exporter, domain `npu`: each is rewritten, the rest is unchanged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge.handlers import NodeAttributes as GeAttributes
from onnx_sparse.converters.ascend.npu_handlers import HANDLERS, Node
from onnx_sparse.converters.errors import ConversionError, Unsupported, UnsupportedNode, UnsupportedNodes, first_line
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.graph_emitter import IR_VERSION, value_info
from onnx_sparse.converters.writing.inference import MOST_OF_SIZES, inferred
from onnx_sparse.converters.writing.reads import Inputs
from onnx_sparse.models.data.references import is_known
from onnx_sparse.models.graphs import array_of, attribute, graphs, put_nodes
from onnx_sparse.models.tools.onnx_tools import ONNX_ERRORS, convert_version, infer_shapes
from onnx_sparse.schemas import DOMAIN as OWN_DOMAIN
from onnx_sparse.schemas import OPSET_VERSION

DOMAIN = "npu"

#: From this opset up to the emitter's, its nodes are legal as they are.
_LOWEST_OPSET = 13


class _Emitter(AscendEmitter):
    """The emitter of torch_npu's files, whose own nodes are kept: later operator sets would change them."""

    opset = 17


def has_npu_nodes(model: ModelProto) -> bool:
    """Whether a model has operators of torch_npu, including in control-flow bodies."""
    return any(node.domain == DOMAIN for graph in graphs(model.graph) for node in graph.node)


def convert_npu(path: Path, *, saturate: bool = False) -> ModelProto:
    """Rewrite the operators of torch_npu in an ONNX file.

    Args:
        path: The file.
        saturate: Whether values beyond float16 in these operators become the largest float16.

    Raises:
        ConversionError: Some have no handler, or an input's type cannot be inferred; all are listed.
    """
    try:
        model = onnx.load(path)
        version = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
        if not _LOWEST_OPSET <= version <= _Emitter.opset:
            model = convert_version(model, _Emitter.opset)
    except Exception as error:  # onnx's exceptions have no common base of their own
        raise ConversionError(
            f"{path} cannot be brought to opset {_Emitter.opset}: {' '.join(str(error).split())}"
        ) from error
    domains = ["" if entry.domain == "ai.onnx" else entry.domain for entry in model.opset_import]
    if repeated := sorted({domain for domain in domains if domains.count(domain) > 1}):
        raise ConversionError(f"{path} imports domain {repeated[0]!r} more than once")
    _, *bodies = graphs(model.graph)
    if inner := [node for body in bodies for node in body.node if node.domain == DOMAIN]:
        reason = "it is in the body of control flow, which is not supported"
        raise ConversionError(
            unsupported=[UnsupportedNode(_label(node), f"npu::{node.op_type}", reason) for node in inner]
        )
    model.ir_version = max(model.ir_version, IR_VERSION)
    waiting = -1
    failures = UnsupportedNodes()
    went_on = False
    while left := sum(node.domain == DOMAIN for node in model.graph.node):
        if left == waiting:
            raise ConversionError(unsupported=failures.found)
        waiting = left
        # Inference stops at an unknown operator, and continues from the types that rewriting has added: node by node,
        # and here where that cannot continue, as in control flow.
        try:
            model = infer_shapes(model)
        except ONNX_ERRORS as error:
            raise ConversionError(f"{path} is not a valid model: {first_line(error)}") from error
        failures, followed = _rewrite(model, saturate=saturate)
        went_on |= followed
    imports = [entry for entry in model.opset_import if entry.domain != DOMAIN]
    del model.opset_import[:]
    model.opset_import.extend(imports)
    try:
        typed = infer_shapes(model, strict_mode=True)
    except ONNX_ERRORS as error:
        raise ConversionError(f"the converted model is not valid: {first_line(error)}") from error
    return typed if went_on else model


def _label(node: NodeProto) -> str:
    return node.name or next(iter(node.output), "?")


def _rewrite(model: ModelProto, *, saturate: bool) -> tuple[UnsupportedNodes, bool]:
    """Rewrite the nodes that can be rewritten now; returns the others, and whether any type was followed to that."""
    graph = model.graph
    types = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
    known = {name: tensor for name, value in types.items() if (tensor := _tensor(value)) is not None}
    known |= {t.name: Tensor(t.name, t.data_type, tuple(t.dims)) for t in graph.initializer}
    names = {*known, *(name for node in graph.node for name in (*node.input, *node.output))}
    emit = _Emitter(sorted(names), saturate=saturate)
    opsets = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in model.opset_import}
    followed = _Followed({OWN_DOMAIN: OPSET_VERSION, **opsets}, known, graph)
    failures = UnsupportedNodes()
    nodes: list[NodeProto] = []
    for node in graph.node:
        if node.domain != DOMAIN:
            nodes.append(node)
            known |= followed.results(node)
            continue
        start = len(emit.nodes)
        emit.begin(_label(node))
        with failures.collecting(_label(node), f"npu::{node.op_type}"):
            results = _results(node, known, emit)
            outputs = [name for name in node.output if name]
            if len(outputs) > len(results):
                raise Unsupported(f"it has {len(outputs)} outputs, {len(results)} expected")
            named = emit.name_outputs(results[: len(outputs)], outputs)
            for tensor in named:
                known[tensor.name] = tensor
                if tensor.name not in types:
                    graph.value_info.append(value_info(tensor))
            followed.wrote(emit, start, named)
            nodes.extend(emit.nodes[start:])
            continue
        del emit.nodes[start:]
        nodes.append(node)
    put_nodes(graph, nodes)
    graph.initializer.extend(emit.initializers)
    there = {entry.domain for entry in model.opset_import}
    model.opset_import.extend(
        helper.make_opsetid(domain, version) for domain, version in emit.domains.items() if domain not in there
    )
    return failures, followed.went_on


class _Followed:
    """The types of what comes after the first nodes of torch_npu, where the inference of the whole model has stopped.

    Args:
        opsets: The versions of the operator sets.
        known: The tensors whose types the inference found.
        graph: The graph, for its small constants.

    Attributes:
        went_on: Whether anything was found.
    """

    def __init__(self, opsets: Mapping[str, int], known: Mapping[str, Tensor], graph: GraphProto) -> None:
        self._opsets = opsets
        self._tensors = dict(known)
        for constant in graph.initializer:
            self._note(constant.name, constant)
        self._initializers = 0
        self.went_on = False

    def results(self, node: NodeProto) -> dict[str, Tensor]:
        """The results of a node, as far as their types were not known and are found."""
        if node.op_type == "Constant" and (value := attribute(node, "value")) is not None:
            self._note(node.output[0], value)
        read = [self._tensors.get(name) if name else None for name in node.input]
        missing = [name for name in node.output if name and name not in self._tensors]
        if not missing or any(name and tensor is None for name, tensor in zip(node.input, read, strict=True)):
            return {}
        found = inferred(node, read, self._opsets)
        found = {name: tensor for name, tensor in found.items() if name in missing and tensor.dtype}
        self._tensors |= found
        self.went_on |= bool(found)
        return found

    def wrote(self, emit: AscendEmitter, start: int, results: Iterable[Tensor]) -> None:
        """Follow the nodes that a handler wrote."""
        for constant in emit.initializers[self._initializers :]:
            self._note(constant.name, constant)
        self._initializers = len(emit.initializers)
        for node in emit.nodes[start:]:
            self.results(node)
        for tensor in results:
            self._tensors.setdefault(tensor.name, tensor)

    def _note(self, name: str, constant: TensorProto) -> None:
        dims = tuple(constant.dims)
        small = math.prod(dims) <= MOST_OF_SIZES and is_known(constant)
        self._tensors[name] = Tensor(name, constant.data_type, dims, array_of(constant) if small else None)


def _results(node: NodeProto, known: dict[str, Tensor], emit: AscendEmitter) -> tuple[Tensor, ...]:
    handler = HANDLERS.get(node.op_type)
    if handler is None:
        raise Unsupported("this operator is not supported")
    unknown = [name for name in node.input if name not in known]
    if unknown:
        raise Unsupported(f"the element type of its input {unknown[0]} cannot be inferred")
    inputs = Inputs[Tensor | None](known[name] for name in node.input)
    return handler.convert(Node(node.op_type, inputs, GeAttributes(_attributes(node)), ()), emit)


def _tensor(value: ValueInfoProto) -> Tensor | None:
    kind = value.type.tensor_type
    if not kind.elem_type or kind.elem_type not in TensorProto.DataType.values():
        return None
    if not kind.HasField("shape"):
        return Tensor(value.name, kind.elem_type)
    dims = tuple(d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim)
    return Tensor(value.name, kind.elem_type, dims)


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute if a.type != AttributeProto.UNDEFINED}
