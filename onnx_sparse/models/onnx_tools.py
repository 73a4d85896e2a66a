"""onnx's tools for models: on malformed ones each raises exceptions of its own, which are made ValueErrors here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from onnx import ModelProto, helper, shape_inference
from onnx.shape_inference import InferenceError

from onnx_sparse.models.domain_nodes import node_name
from onnx_sparse.models.graphs import all_nodes, every_node
from onnx_sparse.schemas import DOMAIN, OPSET_VERSION
from onnx_sparse.schemas.validation import KernelError

#: The limit of protocol buffers, in bytes; the tools of the onnx package refuse larger models.
LARGEST_PROTO = 2**31 - 1


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
        result = shape_inference.infer_shapes(whole, data_prop=data_prop)
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
