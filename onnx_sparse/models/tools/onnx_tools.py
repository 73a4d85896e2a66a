"""onnx's tools for models: on malformed ones each raises exceptions of its own, which are made ValueErrors here."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from onnx import (
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    checker,
    defs,
    helper,
    inliner,
    shape_inference,
    version_converter,
)
from onnx.shape_inference import InferenceError

from onnx_sparse.models.data.references import is_reference
from onnx_sparse.models.domain_nodes import node_name
from onnx_sparse.models.graphs import all_nodes, all_tensors, every_node
from onnx_sparse.models.tools.apart import made_apart
from onnx_sparse.models.tools.uninferable import infer_safely, may_be_inferred, unhide, wide_values, with_hidden
from onnx_sparse.schemas import DOMAIN, OPSET_VERSION
from onnx_sparse.schemas.validation import KernelError

#: The limit of protocol buffers, in bytes; the tools of the onnx package refuse larger models.
LARGEST_PROTO = 2**31 - 1

#: What onnx's tools raise on malformed models: they have no common base.
ONNX_ERRORS = (
    InferenceError,
    checker.ValidationError,
    version_converter.ConvertError,
    defs.SchemaError,
    RuntimeError,
    ValueError,
    IndexError,
)


#: The highest version of an operator set that onnx's functions for single nodes take.
_MOST_VERSION = 2**31 - 1


def infer_shapes(
    model: ModelProto, *, check_type: bool = False, strict_mode: bool = False, data_prop: bool = False
) -> ModelProto:
    """As onnx's function. Nodes with which it would end the process are skipped.

    Raises:
        ONNX_ERRORS: The model is malformed.
    """
    plain = functools.partial(shape_inference.infer_shapes, check_type=check_type, strict_mode=strict_mode)
    if not data_prop:
        return infer_safely(model, plain)
    wide, follow = wide_values(model), functools.partial(plain, data_prop=True)
    return infer_safely(infer_safely(model, plain) if wide else model, follow, without=wide)


def infer_outputs(
    node: NodeProto, types: dict[str, TypeProto], data: dict[str, TensorProto], opsets: Mapping[str, int]
) -> dict[str, TypeProto]:
    """The types of a node's outputs by onnx's inference, as far as that knows them.

    Args:
        node: The node.
        types: The types of its inputs, by name.
        data: Those of them that are constants.
        opsets: The versions of the operator sets, by domain.
    """
    if not may_be_inferred(node, types, opsets[node.domain]) or max(opsets.values()) > _MOST_VERSION:
        return {}
    imports = [helper.make_opsetid(*pair) for pair in opsets.items()]
    try:
        schema = defs.get_schema(node.op_type, opsets[node.domain], node.domain)
        return shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=imports)
    except (*ONNX_ERRORS, TypeError):  # of names that are not UTF-8, and versions below those of 32 bits
        return {}


def check_model(model: ModelProto | Path) -> None:
    """As onnx's checker, which finds the external data of a model that is given as a path.

    Raises:
        ONNX_ERRORS: The model is malformed.
    """
    checker.check_model(_without_references(model) if isinstance(model, ModelProto) else str(model))


def _without_references(model: ModelProto) -> ModelProto:
    """A model whose references, whose data the checker would look for, are empty tensors."""
    if not any(map(is_reference, all_tensors(model))):
        return model
    shown = ModelProto()
    shown.CopyFrom(model)
    for tensor in filter(is_reference, all_tensors(shown)):
        for field in ("external_data", "data_location"):
            tensor.ClearField(field)
        tensor.dims[:] = [0]
    return shown


def convert_version(model: ModelProto, opset: int) -> ModelProto:
    """As onnx's function, in a child process.

    Raises:
        EndedProcessError: The conversion has ended its process.
        ONNX_ERRORS: The model is malformed.
        ValueError: A node changes with the opset, and reads a value of unknown type with which inference would end.
    """
    shown = with_hidden(model, shape_inference.infer_shapes)  # the converter begins with inference
    converted = made_apart(functools.partial(version_converter.convert_version, target_version=opset), shown)
    before = max((i.version for i in model.opset_import if i.domain in ("", "ai.onnx")), default=opset)
    for node in unhide(converted):
        if node.domain in ("", "ai.onnx") and _since(node, before) != _since(node, opset):
            raise ValueError(f"node {node_name(node)}: {node.op_type} reads a value of unknown type")
    return converted


def _since(node: NodeProto, opset: int) -> int:
    """The version of a standard operator in an opset; 0 if the opset does not have it."""
    try:
        return int(defs.get_schema(node.op_type, opset, "").since_version)
    except defs.SchemaError:
        return 0


def inline_functions(model: ModelProto, selected: Collection[tuple[str, str]] | None = None) -> ModelProto:
    """As onnx's functions. Functions of other opsets than the model's are converted in a child process.

    Args:
        model: The model.
        selected: The domains and names of the functions, which are not converted; all functions when omitted.

    Raises:
        EndedProcessError: The conversion has ended its process.
        ONNX_ERRORS: The model is malformed.
    """
    if selected is not None:
        return inliner.inline_selected_functions(model, list(selected))
    opsets = {
        i.version for holder in (model, *model.functions) for i in holder.opset_import if i.domain in ("", "ai.onnx")
    }
    if len(opsets) < 2:
        return inliner.inline_local_functions(model)
    return made_apart(functools.partial(inliner.inline_local_functions, convert_version=True), model)


def with_inferred_types(model: ModelProto, *, data_prop: bool = False) -> ModelProto:
    """A copy of the model with the types that shape inference finds.

    Nodes may be of domains that the model does not import, as in ONNX Runtime, which imports those of registered
    libraries itself. Of these, only this project's domain is imported in the copy.

    Args:
        model: The model.
        data_prop: Whether sizes are followed through the nodes that compute shapes with them.

    Raises:
        KernelError: The graph already shows that a node of the domain violates the operator's semantics.
        ValueError: The model is malformed.
    """
    imported = {i.domain for i in model.opset_import} | {"", "ai.onnx"}
    unimported = {node.domain for node in all_nodes(model.graph.node)} - imported
    whole = model
    if unimported:
        whole = ModelProto()
        whole.CopyFrom(model)
        whole.opset_import.extend(helper.make_opsetid(domain, OPSET_VERSION) for domain in sorted(unimported))
    with as_value_errors(model):
        result = infer_shapes(whole, data_prop=data_prop)
    kept = [i for i in result.opset_import if i.domain == DOMAIN or i.domain not in unimported]
    if len(kept) < len(result.opset_import):
        del result.opset_import[:]
        result.opset_import.extend(kept)
    return result


@contextmanager
def as_value_errors(model: ModelProto, failed: str = "the model is malformed") -> Iterator[None]:
    """Raise what a tool of onnx raises as a ValueError of one line.

    Args:
        model: The model that the tool is given.
        failed: What failed, to put before the tool's own message.

    Raises:
        KernelError: Type inference finds that a node is illegal.
        ValueError: Anything else is wrong with the model.
    """
    try:
        yield
    except InferenceError as error:
        raise KernelError(_one_line(f"{error}{_suspects(model, str(error))}")) from None
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(_one_line(f"{failed}: {str(error) or type(error).__name__}")) from error


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _suspects(model: ModelProto, message: str) -> str:
    """The nodes that an error of the domain's type inference can be about; it knows only the operator."""
    named = [
        node_name(node)
        for node in every_node(model)
        if node.domain == DOMAIN and message.startswith(f"{node.op_type}: ")
    ]
    return f" ({'node' if len(named) == 1 else 'one of the nodes'} {', '.join(named)})" if named else ""
