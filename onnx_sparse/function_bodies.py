"""Models that need no kernels of ours: function bodies are embedded in them, or inlined to standard ONNX."""

from __future__ import annotations

from onnx import FunctionProto, ModelProto, inliner

from onnx_sparse.graphs import DomainNode, Names, all_nodes, domain_nodes
from onnx_sparse.inlining import without_calls_of_functions
from onnx_sparse.large_models import around_large_tensors
from onnx_sparse.onnx_tools import as_value_errors, with_inferred_types
from onnx_sparse.opsets import at_least_body_opset, default_opset
from onnx_sparse.schemas import DOMAIN
from onnx_sparse.schemas.function_body import function_proto

#: The lowest IR version in which a model can have several bodies of one operator (`overload`).
_BODY_IR_VERSION = 10


@around_large_tensors
def embed_functions(model: ModelProto) -> ModelProto:
    """Add the function bodies of the domain's operators that a model uses, as model-local functions.

    The result runs in plain ONNX Runtime without onnx_sparse; where kernels are registered, they are used instead.
    Bodies assume legal input and report no errors. ONNX Runtime before 1.27 takes only one body per operator: a model
    that needs two, say for two element types, must be lowered to run there (`lower`).

    Args:
        model: Any model; it is not changed.

    Returns:
        A new model. Where it has bodies, its default opset is at least 18, because runtimes read bodies in the model's
        opset, and its IR version is at least 10, which allows several bodies of one operator.

    Raises:
        ValueError: A node's op_type is not in the domain, or is an operator without a function body; its attributes or
            element types are illegal or cannot be inferred; onnx cannot raise the model's opset.
    """
    result = without_calls_of_functions(model)
    if not any(node.domain == DOMAIN for node in all_nodes(result.graph.node)):
        return result
    result = with_inferred_types(at_least_body_opset(result))
    names = Names(result)
    bodies: dict[tuple[str, str], FunctionProto] = {}
    for found in domain_nodes(result):
        body = _body(found, default_opset(result))
        bodies.setdefault((body.name, body.overload), body)
        found.node.overload = body.overload
        found.write_out(names)  # some runtimes take only calls that give all inputs and outputs
    result.functions.extend(bodies.values())
    result.ir_version = max(result.ir_version, _BODY_IR_VERSION)
    return result


@around_large_tensors
def lower(model: ModelProto) -> ModelProto:
    """Replace the domain's nodes by their function bodies: standard ONNX only.

    Args:
        model: Any model; it is not changed.

    Returns:
        A new model without nodes of the domain and without its opset import.

    Raises:
        ValueError: As `embed_functions`.
    """
    embedded = embed_functions(model)
    bodies = [(DOMAIN, f.name) for f in embedded.functions if f.domain == DOMAIN]
    if bodies:
        with as_value_errors(embedded, "function bodies cannot be inlined"):
            embedded = inliner.inline_selected_functions(embedded, bodies)
    imports = [i for i in embedded.opset_import if i.domain != DOMAIN]
    del embedded.opset_import[:]
    embedded.opset_import.extend(imports)
    return embedded


def _body(found: DomainNode, opset: int) -> FunctionProto:
    missing = [i.name for i in found.op.inputs if not i.optional and i.name not in found.given()]
    if missing:
        raise ValueError(f"{found.label}: input {missing[0]} is required")
    attributes = found.op.with_defaults(found.attributes())
    types = found.binding()
    for variable, legal in found.op.types.items():
        if variable not in types and all(i.optional for i in found.op.inputs if i.type == variable):
            types[variable] = legal[-1]
        if variable not in types:
            raise ValueError(
                f"{found.label}: its element type {variable} cannot be inferred; declare the types of its inputs"
            )
    body = function_proto(found.op, types, attributes, found.given(), opset)
    if body is None:
        reason = f"the operator has no function body: standard ONNX cannot express it. {found.op.body_notes}".strip()
        raise ValueError(f"{found.label}: {reason}")
    return body
