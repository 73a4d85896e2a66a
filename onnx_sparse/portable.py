"""Models that need no kernels of ours: the portable bodies embedded, or inlined to standard ONNX."""

from __future__ import annotations

from onnx import FunctionProto, ModelProto, helper, inliner, version_converter

from onnx_sparse.graphs import DomainNode, domain_nodes, with_inferred_types, without_calls_of_functions
from onnx_sparse.schemas import DOMAIN
from onnx_sparse.schemas.function_body import BODY_OPSET, function_proto
from onnx_sparse.schemas.law import check_attributes

#: The lowest IR version that tells bodies of one operator apart (`overload`).
_BODY_IR_VERSION = 10


def embed_functions(model: ModelProto) -> ModelProto:
    """Add the portable bodies of the domain's operators that a model uses, as model-local functions.

    The result runs in plain ONNX Runtime with onnx_sparse not installed; where kernels are registered they are used
    instead. Bodies assume legal input: they do not report errors. ONNX Runtime before 1.27 takes one body per operator:
    a model that needs two, for two element types say, runs there when it is lowered (`lower`).

    Args:
        model: Any model; it is not changed.

    Returns:
        A new model. Its IR version is at least 10, which tells several bodies of one operator apart.

    Raises:
        ValueError: A node's op_type is no operator of the domain, or one without a portable body; its attributes or
            element types are illegal or cannot be inferred.
    """
    result = with_inferred_types(without_calls_of_functions(model))
    opset = max(_opset(result), BODY_OPSET)
    bodies: dict[tuple[str, str], FunctionProto] = {}
    for found in domain_nodes(result):
        body = _body(found, opset)
        bodies.setdefault((body.name, body.overload), body)
        found.node.overload = body.overload
    if bodies:
        result.functions.extend(bodies.values())
        result.ir_version = max(result.ir_version, _BODY_IR_VERSION)
    return result


def lower(model: ModelProto) -> ModelProto:
    """Replace the domain's nodes by their portable bodies: standard ONNX only.

    Args:
        model: Any model; it is not changed.

    Returns:
        A new model without nodes of the domain and without its opset import. Its default opset is at least 18.

    Raises:
        ValueError: As `embed_functions`.
    """
    embedded = embed_functions(_at_least_body_opset(model))
    bodies = [(DOMAIN, f.name) for f in embedded.functions if f.domain == DOMAIN]
    if bodies:
        embedded = inliner.inline_selected_functions(embedded, bodies)
    imports = [i for i in embedded.opset_import if i.domain != DOMAIN]
    del embedded.opset_import[:]
    embedded.opset_import.extend(imports)
    return embedded


def _body(found: DomainNode, opset: int) -> FunctionProto:
    missing = [i.name for i in found.op.inputs if not i.optional and i.name not in found.given()]
    if missing:
        raise ValueError(f"{found.label}: input {missing[0]} is required")
    attributes = {a.name: a.default for a in found.op.attributes if a.default is not None} | found.attributes()
    try:
        check_attributes(found.op, attributes)
    except ValueError as error:
        raise ValueError(f"{found.label}: {error}") from None
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
        reason = f"the operator has no portable body: standard ONNX cannot say it. {found.op.body_notes}".strip()
        raise ValueError(f"{found.label}: {reason}")
    return body


def _at_least_body_opset(model: ModelProto) -> ModelProto:
    """The model at the opset that the bodies are written in, when it is below."""
    opset = _opset(model)
    if opset >= BODY_OPSET:
        return model
    if opset == 0:
        raised = ModelProto()
        raised.CopyFrom(model)
        raised.opset_import.append(helper.make_opsetid("", BODY_OPSET))
        return raised
    return version_converter.convert_version(model, BODY_OPSET)


def _opset(model: ModelProto) -> int:
    """The version of ai.onnx that the model imports; 0 when it imports none."""
    return next((i.version for i in model.opset_import if i.domain in ("", "ai.onnx")), 0)
