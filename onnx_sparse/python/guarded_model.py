"""Rewriting a model in memory, so that its kernels' errors can be raised and half floats run."""

from __future__ import annotations

from collections.abc import Iterable

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from onnx_sparse.models.domain_nodes import DomainNode, domain_nodes, uses_domain
from onnx_sparse.models.forms.canonical import canonicalize
from onnx_sparse.models.graphs import Names, graphs, names_of
from onnx_sparse.models.tools.inlining import without_calls_of_functions
from onnx_sparse.models.tools.onnx_tools import with_inferred_types
from onnx_sparse.python.kernels import CARRIED_ATTRIBUTE, GUARDED_DOMAIN
from onnx_sparse.python.passed_text import require_text
from onnx_sparse.schemas import OPSET_VERSION
from onnx_sparse.schemas.declaration import HALF_FLOATS


def guarded_model(model: ModelProto) -> tuple[ModelProto, str]:
    """The model with its nodes of the domain moved to the guarded domain.

    Args:
        model: Any model; it is not changed.

    Returns:
        The guarded model, and the name of its last input, an int64 scalar to which every run feeds its number. A model
        without nodes of the domain is returned itself, and "", because it has no such input.

    Raises:
        ValueError: As `onnx_sparse.canonicalize`; or an operator has no Python kernels.
        KernelError: A constant of an operator has strings that cannot be passed on.
    """
    if not uses_domain(model):
        return model, ""
    result = with_inferred_types(canonicalize(without_calls_of_functions(model)))
    moved = list(domain_nodes(result))
    result.opset_import.append(helper.make_opsetid(GUARDED_DOMAIN, OPSET_VERSION))
    _require_text(result, moved)
    names = names_of(result)
    run_number = names.fresh("onnx_sparse_run")
    result.graph.input.append(helper.make_tensor_value_info(run_number, TensorProto.INT64, []))
    for found in moved:
        node = found.node
        if found.op.no_python_kernels:
            raise ValueError(
                f"{found.label} has no Python kernels: {found.op.no_python_kernels}; use the native kernels "
                "(backend='native'), or onnx's ReferenceEvaluator with onnx_sparse.reference_ops()"
            )
        carried = found.binding().get("T", 0)
        carried = carried if carried in HALF_FLOATS else 0
        if carried:
            _carry_in_float32(found, names)
        node.domain = GUARDED_DOMAIN
        node.input.append(run_number)
        node.attribute.append(helper.make_attribute(CARRIED_ATTRIBUTE, carried))
    return result, run_number


def _require_text(model: ModelProto, found: Iterable[DomainNode]) -> None:
    """Refuse constants of the domain's nodes with strings that would be cut or end the process."""
    constants = {tensor.name: tensor for graph in graphs(model.graph) for tensor in graph.initializer}
    for graph in graphs(model.graph):
        for node in graph.node:
            if node.op_type == "Constant":
                constants |= {name: a.t for name in node.output for a in node.attribute if a.name == "value"}
    for each in found:
        for name in each.node.input:
            if name in constants and constants[name].data_type == TensorProto.STRING:
                require_text(f"{each.label}: {name}", constants[name].string_data)


def _carry_in_float32(found: DomainNode, names: Names) -> None:
    """Cast the node's half floats to float32 before it and back after it; both are exact."""
    node, half = found.node, found.binding()["T"]
    before, after = [], []
    for position, declared in enumerate(found.op.inputs):
        if declared.type == "T":
            carrier = names.fresh(f"{declared.name}_float")
            before.append(helper.make_node("Cast", [node.input[position]], [carrier], to=TensorProto.FLOAT))
            node.input[position] = carrier
    for position, output in enumerate(found.op.outputs):
        if output.type == "T":
            carrier = names.fresh(f"{output.name}_float")
            after.append(helper.make_node("Cast", [carrier], [node.output[position]], to=half))
            node.output[position] = carrier
    _insert(found.graph, node, before, after)


def _insert(graph: GraphProto, node: NodeProto, before: list[NodeProto], after: list[NodeProto]) -> None:
    position = next(k for k, other in enumerate(graph.node) if other is node)
    for new in reversed(after):
        graph.node.insert(position + 1, new)
    for new in reversed(before):
        graph.node.insert(position, new)
