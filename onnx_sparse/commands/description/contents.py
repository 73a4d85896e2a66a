"""What is in a model, and the backends that can run it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from onnx_sparse.errors import printable

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.commands.inputs.model_graph import PlacedNode


class Value(TypedDict):
    """An input or output."""

    name: str
    type: str


class DescribedFeature(TypedDict):
    """A feature that the model records."""

    name: str
    kind: str
    inputs: Mapping[str, str]
    vocabulary_size: int | None


class DescribedNode(TypedDict):
    """A node of the domain: `exists` says whether this version has its operator."""

    name: str
    op: str
    exists: bool
    types: Mapping[str, str]
    attributes: Mapping[str, str]
    canonical: bool
    backends: Mapping[str, bool]


class LostRows(TypedDict):
    """A scatter that loses rows, and how."""

    node: str
    how: str


class DescribedBackend(TypedDict):
    """Whether a backend runs the model, why it does not, and what it is."""

    runs: bool
    why_not: list[str]
    what: str


class Description(TypedDict):
    """What is in a model."""

    model: str
    size: int
    other_domains: list[str]
    form: str
    ir_version: int
    opsets: dict[str, int]
    producer: str
    inputs: list[Value]
    outputs: list[Value]
    features: list[DescribedFeature]
    nodes: list[DescribedNode]
    other_nodes: dict[str, int]
    lost_rows: list[LostRows]
    functions: list[str]
    backends: dict[str, DescribedBackend]


def describe(model: ModelProto, path: Path) -> Description:
    """Everything that `inspect` shows."""
    from onnx_sparse.commands.description.forms import form_of
    from onnx_sparse.commands.description.runnable_backends import BACKENDS, PYTHON, canonical_obstacle, obstacles
    from onnx_sparse.commands.inputs.model_graph import (
        disk_size,
        infer_types,
        nodes,
        opset_imports,
        other_domains,
        type_text,
    )
    from onnx_sparse.converters.rewriting.rules.lost_rows import lost_rows

    typed = infer_types(model)
    placed_nodes = list(nodes(typed))
    ours = [placed for placed in placed_nodes if placed.is_ours]
    against = {id(placed): obstacles(model, placed) for placed in ours}
    why_not = {name: [why for placed in ours for why in against[id(placed)][name]] for name in BACKENDS}
    if ours and not why_not[PYTHON]:
        why_not[PYTHON] += filter(None, [canonical_obstacle(model)])
    return {
        "model": str(path),
        "size": disk_size(model, path),
        "other_domains": other_domains(model),
        "form": form_of(model),
        "ir_version": model.ir_version,
        "opsets": opset_imports(model),
        "producer": printable(f"{model.producer_name} {model.producer_version}".strip()),
        "inputs": [{"name": printable(v.name), "type": type_text(v)} for v in model.graph.input],
        "outputs": [{"name": printable(v.name), "type": type_text(v)} for v in model.graph.output],
        "features": _describe_features(model),
        "nodes": [_describe_node(placed, against[id(placed)]) for placed in ours],
        "other_nodes": dict(Counter(_operator(p) for p in placed_nodes if not p.is_ours).most_common()),
        "lost_rows": [{"node": printable(node), "how": printable(how)} for node, how in lost_rows(typed)],
        "functions": sorted({_function_name(f.domain, f.name, f.overload) for f in model.functions}),
        "backends": {
            name: {
                "runs": not why_not[name],
                "why_not": list(dict.fromkeys(why_not[name])),
                "what": what,
            }
            for name, what in BACKENDS.items()
        },
    }


def _describe_features(model: ModelProto) -> list[DescribedFeature]:
    """The features that a model records; none if its record does not fit it."""
    from onnx_sparse.rows.model_features import features

    try:
        known = features(model)
    except ValueError:
        return []
    return [
        {
            "name": printable(feature.name),
            "kind": feature.kind,
            "inputs": {role: printable(name) for role, name in feature.inputs.items()},
            "vocabulary_size": feature.vocabulary_size,
        }
        for feature in known.values()
    ]


def _describe_node(placed: PlacedNode, against: dict[str, list[str]]) -> DescribedNode:
    from onnx_sparse.commands.inputs.model_graph import type_name
    from onnx_sparse.models.forms.canonical import canonical_gaps

    op = placed.op
    binding = placed.type_binding(op) if op else {}
    return {
        "name": placed.label,
        "op": placed.operator,
        "exists": op is not None,
        "types": {variable: type_name(dtype) for variable, dtype in binding.items()},
        "attributes": {
            a.name: printable(f"@{a.ref_attr_name}" if a.ref_attr_name else a.s)
            for a in placed.node.attribute
            if a.s or a.ref_attr_name
        },
        "canonical": op is not None and not canonical_gaps(placed.node),
        "backends": {name: not why for name, why in against.items()},
    }


def _operator(placed: PlacedNode) -> str:
    domain = printable(placed.node.domain)
    name = printable(placed.node.op_type)
    return name if domain in ("", "ai.onnx") else f"{domain}.{name}"


def _function_name(*parts: str) -> str:
    return ".".join(printable(part) for part in parts if part)
