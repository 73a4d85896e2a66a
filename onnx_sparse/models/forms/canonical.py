"""Canonical form: every attribute written, every optional input present, every output named.

Converters write it, because it runs on every backend; `canonicalize` brings hand-written models to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from onnx import ModelProto, NodeProto, helper, numpy_helper

from onnx_sparse.models.domain_nodes import DomainNode, domain_nodes
from onnx_sparse.models.files.large_models import around_large_tensors
from onnx_sparse.models.forms.function_bodies import embed_functions
from onnx_sparse.models.graphs import Names, names_of
from onnx_sparse.models.tools.inlining import without_calls_of_functions
from onnx_sparse.models.tools.onnx_tools import with_inferred_types
from onnx_sparse.models.tools.opsets import default_opset, with_default_opset
from onnx_sparse.schemas import DOMAIN, OPS
from onnx_sparse.schemas.declaration import DType, Input, Output, dtype_name
from onnx_sparse.schemas.function_body import operator_name

#: The first opset of ai.onnx whose Constant has every element type.
_CONSTANTS_OPSET = 9


@around_large_tensors
def canonicalize(model: ModelProto) -> ModelProto:
    """Write out what a model leaves to defaults in its nodes of the domain.

        canonical = onnx_sparse.canonicalize(onnx.load("model.onnx"))

    Attributes get their default values, optional inputs their sentinels (constants of the right element type), and
    outputs names. Model-local functions that call the domain's operators are inlined, because element types are known
    only where they are called. Function bodies in the model are rewritten to fit.

    Args:
        model: Any model; it is not changed.

    Returns:
        A new model that computes the same.

    Raises:
        ValueError: A node's op_type is not in the domain, it has too many inputs or outputs, or the element type of a
            sentinel cannot be inferred, or the model's opset of ai.onnx is below 9 and a sentinel is needed.
    """
    had_bodies = any(f.domain == DOMAIN for f in model.functions)
    result = with_inferred_types(with_default_opset(without_calls_of_functions(model)))
    names = names_of(result)
    sentinels: dict[tuple[str, DType], NodeProto] = {}
    for found in domain_nodes(result):
        _canonicalize_node(found, names, sentinels)
    opset = default_opset(result)
    if sentinels and opset < _CONSTANTS_OPSET:
        raise ValueError(
            f"the model's opset {opset} of ai.onnx has no constants of every type for optional inputs that are "
            f"omitted; opset {_CONSTANTS_OPSET} has"
        )
    for position, constant in enumerate(sentinels.values()):
        result.graph.node.insert(position, constant)
    return embed_functions(result) if had_bodies else result


def canonical_gaps(node: NodeProto) -> list[str]:
    """What keeps a node of the domain from canonical form: `["input num_segments is omitted"]`."""
    op = OPS[operator_name(node.op_type)]
    written = {a.name for a in node.attribute}
    gaps = [f"attribute {a.name} is omitted" for a in op.attributes if a.name not in written]
    gaps += [f"input {name} is omitted" for name in _absent(op.inputs, node.input)]
    gaps += [f"output {name} is omitted" for name in _absent(op.outputs, node.output)]
    return gaps


def _absent(declared: Sequence[Input | Output], given: Sequence[str]) -> list[str]:
    return [d.name for d, name in zip_longest(declared, given[: len(declared)]) if not name]


def _canonicalize_node(found: DomainNode, names: Names, sentinels: dict[tuple[str, DType], NodeProto]) -> None:
    node, op = found.node, found.op
    binding = found.binding()
    found.write_out(names)
    for position, declared in enumerate(op.inputs):
        if node.input[position]:
            continue
        if not declared.optional:
            raise ValueError(f"{found.label}: input {declared.name} is required")
        dtype = _sentinel_type(found, declared, binding)
        key = (declared.name, dtype)
        if key not in sentinels:
            sentinels[key] = _sentinel_node(declared, dtype, names.fresh(f"no_{declared.name}_{dtype_name(dtype)}"))
        node.input[position] = sentinels[key].output[0]


def _sentinel_type(found: DomainNode, declared: Input, binding: dict[str, DType]) -> DType:
    if declared.type in binding or declared.type not in found.op.types:
        return found.op.bind(declared.type, binding)
    if all(i.optional for i in found.op.inputs if i.type == declared.type):
        return found.op.element_types(declared.type)[-1]  # nothing else fixes it: any type will do
    raise ValueError(
        f"{found.label}: the element type of {declared.name} cannot be inferred; "
        f"declare the type of another input of type {declared.type} (graph inputs or value_info)"
    )


def _sentinel_node(declared: Input, dtype: DType, name: str) -> NodeProto:
    tensor = numpy_helper.from_array(declared.sentinel_array(dtype), name)
    return helper.make_node("Constant", [], [name], name=name, value=tensor)
