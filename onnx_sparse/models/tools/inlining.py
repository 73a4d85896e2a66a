"""Inlining model-local functions, so that the element types of their nodes are known."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from onnx import FunctionProto, ModelProto

from onnx_sparse.models.graphs import all_nodes, every_node
from onnx_sparse.models.tools.onnx_tools import as_value_errors, inline_functions
from onnx_sparse.schemas import DOMAIN, OPS
from onnx_sparse.schemas.function_body import operator_name


def without_calls_of_functions(model: ModelProto) -> ModelProto:
    """A copy without function bodies, in which functions that call the domain's operators are inlined.

    Nodes that call a body under another name call its operator again.

    Raises:
        ValueError: As `inlined`; or a function has no name.
    """
    for position, function in enumerate(model.functions):
        if not function.name:
            raise ValueError(f"function {position} of the model has no name")
    copy = ModelProto()
    copy.CopyFrom(model)
    bodies = {f.name for f in model.functions if f.domain == DOMAIN}
    kept = [f for f in model.functions if f.domain != DOMAIN]
    del copy.functions[:]
    copy.functions.extend(kept)
    for node in every_node(copy):
        if node.domain == DOMAIN:
            node.overload = ""
            if node.op_type in bodies and operator_name(node.op_type) in OPS:
                node.op_type = operator_name(node.op_type)
    return inlined(copy) if calls_domain_in_functions(copy) else copy


def with_inlined(model: ModelProto, op_types: Collection[str]) -> ModelProto:
    """A copy in which functions are inlined if one of them has a standard operator of these types.

    What cannot be inlined stays as it is.
    """
    copy = ModelProto()
    copy.CopyFrom(model)
    functions = (function for function in model.functions if function.domain != DOMAIN)
    if not any(not n.domain and n.op_type in op_types for f in functions for n in all_nodes(f.node)):
        return copy
    try:
        return inlined(copy)
    except ValueError:
        copy.CopyFrom(model)
        return copy


def has_renamed_bodies(functions: Iterable[FunctionProto]) -> bool:
    """Whether there are bodies under other names than their operators', which no kernel takes the place of."""
    return any(f.domain == DOMAIN and f.name not in OPS and operator_name(f.name) in OPS for f in functions)


def calls_domain_in_functions(model: ModelProto) -> bool:
    """Whether a function of the model, other than an operator's body, calls the domain's operators."""
    return any(_has_domain_nodes(f) for f in model.functions if f.domain != DOMAIN)


def inlined(model: ModelProto) -> ModelProto:
    """The model with all its model-local functions inlined. The given model is changed, too.

    Raises:
        ValueError: A function is malformed, does not compute a value that it reads or gives, or is in an opset that
            onnx cannot convert to the model's, or the model imports an opset that cannot be.
    """
    _check_versions(model)
    for function in model.functions:
        _check_values(function)
    _write_default_attributes(model)
    _import_what_functions_import(model)
    with as_value_errors(model, "the model's functions cannot be inlined"):
        return inline_functions(model)


def _check_versions(model: ModelProto) -> None:
    """Refuse what is no version: the nodes of functions would get it, and onnx's converter does not notice."""
    for imported in model.opset_import:
        if imported.version < 1:
            domain = imported.domain or "ai.onnx"
            raise ValueError(f"the model imports version {imported.version} of {domain!r}; versions begin at 1")


def _check_values(function: FunctionProto) -> None:
    """Refuse a function that reads or gives a value which it does not have; the inliner would take the caller's."""
    known = {"", *function.input}
    for node in function.node:
        _check_known(function, node.input, known)
        known.update(node.output)
    _check_known(function, function.output, known)


def _check_known(function: FunctionProto, names: Iterable[str], known: set[str]) -> None:
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        called = f"{function.domain}::{function.name}"
        raise ValueError(f"the model's functions cannot be inlined: {called} does not compute {unknown!r}")


def _write_default_attributes(model: ModelProto) -> None:
    """Write the function's defaults for the attributes that calls omit: the inliner ignores those defaults."""
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    for node in every_node(model):
        called = functions.get((node.domain, node.op_type, node.overload))
        if called is not None:
            written = {a.name for a in node.attribute}
            node.attribute.extend(a for a in called.attribute_proto if a.name not in written)


def _import_what_functions_import(model: ModelProto) -> None:
    """Import the domains that only functions import: inlining moves their nodes into the graph."""
    known = {_name(i.domain) for i in model.opset_import}
    for imported in [i for f in model.functions for i in f.opset_import]:
        if _name(imported.domain) not in known:
            known.add(_name(imported.domain))
            model.opset_import.append(imported)


def _name(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _has_domain_nodes(function: FunctionProto) -> bool:
    """Whether a model-local function calls the domain's operators."""
    return any(node.domain == DOMAIN for node in all_nodes(function.node))
