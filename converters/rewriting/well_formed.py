"""Whether a node has the inputs, outputs and attributes that its operator must have: rules leave others as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from onnx import AttributeProto, NodeProto, defs

from onnx_sparse.models.graphs import subgraphs
from onnx_sparse.schemas import DOMAIN, OPS


@dataclass(frozen=True)
class _Needs:
    """What an operator must have.

    Attributes:
        required: The positions of inputs that cannot be omitted.
        least, most: The least and the largest number of inputs.
        outputs: The largest number of outputs.
        needed: The attributes without a default.
        types: The types of all attributes.
    """

    required: tuple[int, ...]
    least: int
    most: int
    outputs: int
    needed: frozenset[str]
    types: Mapping[str, Any]


@cache
def _needs(op_type: str, domain: str, opset: int) -> _Needs | None:
    """What an operator must have; None if there is no such operator."""
    if domain == DOMAIN:
        op = OPS.get(op_type)
        if op is None:
            return None
        types: dict[str, Any] = {a.name: AttributeProto.STRING for a in op.attributes}
        needed = frozenset(a.name for a in op.attributes if a.default is None)
        required = tuple(k for k, declared in enumerate(op.inputs) if not declared.optional)
        return _Needs(required, len(required), len(op.inputs), len(op.outputs), needed, types)
    try:
        schema = defs.get_schema(op_type, domain=domain) if domain else defs.get_schema(op_type, opset)
    except (defs.SchemaError, TypeError):  # of a version of 64 bits, or a name that is not UTF-8
        return None
    types = {name: declared.type for name, declared in schema.attributes.items()}
    needed = frozenset(name for name, declared in schema.attributes.items() if declared.required)
    single = defs.OpSchema.FormalParameterOption.Single
    # A Resize of opset 11 omits the scales where it has sizes, whatever the schema says.
    required = tuple(k for k, i in enumerate(schema.inputs) if i.option == single and (k == 0 or op_type != "Resize"))
    return _Needs(required, schema.min_input, schema.max_input, schema.max_output, needed, types)


def is_well_formed(node: NodeProto, opset: int) -> bool:
    """Whether a node is one of its operator, as far as the node itself tells; ONNX Runtime refuses others."""
    needs = _needs(node.op_type, node.domain.removeprefix("ai.onnx") and node.domain, opset)
    if needs is None:
        return False
    count = len(node.input)
    return (
        needs.least <= count <= needs.most
        and all(node.input[k] for k in needs.required if k < count)
        and 0 < len(node.output) <= needs.outputs
        and needs.needed <= {a.name for a in node.attribute}
        and all(needs.types.get(a.name) == a.type for a in node.attribute)
        and _fits_bodies(node)
    )


def lacks_inputs(node: NodeProto, opset: int) -> bool:
    """Whether a node has fewer inputs than its operator must have."""
    needs = _needs(node.op_type, node.domain.removeprefix("ai.onnx") and node.domain, opset)
    return needs is not None and node.domain in ("", "ai.onnx", DOMAIN) and len(node.input) < needs.least


def _fits_bodies(node: NodeProto) -> bool:
    """Whether the graphs of a node have the inputs and outputs that the node gives and takes."""
    if node.op_type not in ("If", "Loop", "Scan"):
        return True
    bodies = subgraphs(node)
    given = 0 if node.op_type == "If" else len(node.input)
    taken = len(node.output) + (node.op_type == "Loop")  # a loop's body also has the condition to go on
    return len(bodies) == 1 + (node.op_type == "If") and all(
        len(body.input) == given and len(body.output) == taken for body in bodies
    )
