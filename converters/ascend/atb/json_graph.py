"""Reads ATB graphs from JSON: `GetGraphInfo` with tensor ids, and the dump tools' version of it with names.

The two are told apart graph by graph: operations have `inTensorIds` in the one and `inTensors` in the other. Nested
graphs are flattened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx_sparse.converters.ascend.atb.graph import AtbGraph, AtbGroup, AtbNode, NodePath, strings
from onnx_sparse.converters.errors import ConversionError

#: ATB does not nest graphs more deeply.
_MOST_LEVELS = 32
_MODEL_INPUTS = ("inTensors", "weightTensors", "kCacheTensors", "vCacheTensors")
#: Whole models have some ten thousand operations.
_MOST_NODES = 200_000
#: No real graph has more inputs, outputs or inner tensors.
_MOST_TENSORS = 1_000_000


def is_atb_json(document: Any) -> bool:
    """Whether a JSON document is an ATB graph in either form."""
    return (
        isinstance(document, Mapping)
        and isinstance(document.get("nodes"), list)
        and any(key in document for key in ("opName", "opType", "modelName", "inTensorNum"))
    ) or (isinstance(document, Mapping) and "opType" in document and "nodes" not in document)


def read_graph(document: Any, where: object = "this JSON") -> AtbGraph:
    """The graph in a JSON document.

    Args:
        document: The parsed JSON: a graph, or a single operation, which is a graph of one operation.
        where: Its name in messages: the file.

    Raises:
        ConversionError: It is not an ATB graph or contradicts itself.
    """
    if not is_atb_json(document):
        raise ConversionError(f"{where} is not an ATB graph: an ATB graph has nodes and opName, opType or modelName")
    try:
        if "nodes" not in document:
            document = _graph_of_one(document)
        name = _text(document, "modelName") or _text(document, "opName") or _text(document, "opType") or "graph"
        op_type = "" if "modelName" in document else _text(document, "opType")
        if _has_ids(document):
            return _read_ids(document, name, op_type)
        return _read_names(document, name, op_type)
    except (TypeError, ValueError) as error:
        raise ConversionError(f"{where} is a malformed ATB graph: {error}") from error


def _graph_of_one(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """A graph around a single operation, which dumps write in the same form as a graph."""
    if "inTensorNum" not in operation and "outTensorNum" not in operation:
        inner = {key: operation.get(key, []) for key in ("inTensors", "outTensors")}
        return {**inner, "opName": operation.get("opName", ""), "opType": "", "nodes": [operation]}
    ins, outs = _count(operation, "inTensorNum"), _count(operation, "outTensorNum")
    node = {**operation, "inTensorIds": [*range(ins)], "outTensorIds": [*range(ins, ins + outs)]}
    return {**operation, "opType": "", "param": "", "nodes": [node]}


def _has_ids(graph: Mapping[str, Any]) -> bool:
    return "inTensorNum" in graph or any(isinstance(n, Mapping) and "inTensorIds" in n for n in graph["nodes"])


@dataclass
class _Flat:
    """What a graph holds, its inner graphs taken apart."""

    nodes: list[AtbNode] = field(default_factory=list)
    groups: list[AtbGroup] = field(default_factory=list)


# --- with tensor ids -------------------------------------------------------------------------------------------------


def _read_ids(document: Mapping[str, Any], name: str, op_type: str) -> AtbGraph:
    ins, outs = _count(document, "inTensorNum"), _count(document, "outTensorNum")
    inputs = [f"{name}_input_{i}" for i in range(ins)]
    outputs = [f"{name}_output_{i}" for i in range(outs)]
    found = _Flat()
    _collect_ids(document, name, [*inputs, *outputs], (), found)
    return AtbGraph(name, op_type, tuple(inputs), tuple(outputs), tuple(found.nodes), groups=tuple(found.groups))


def _collect_ids(graph: Mapping[str, Any], scope: str, known: list[str], path: NodePath, found: _Flat) -> None:
    """Append the operations of a graph; `known` are the names of its inputs and outputs."""
    _check_depth(path, scope)
    inner = _count(graph, "internalTensorNum")
    for position, node in enumerate(_nodes(graph)):
        label = _text(node, "opName") or _text(node, "name") or f"node {position} of {scope}"
        inputs, outputs = (_by_id(node, key, label, known, scope, inner) for key in ("inTensorIds", "outTensorIds"))
        here = (*path, (position, _text(node, "opType")))
        if isinstance(node.get("nodes"), list):
            ports = (_count(node, "inTensorNum"), _count(node, "outTensorNum"))
            if ports != (len(inputs), len(outputs)):
                raise ValueError(f"{label} has {len(inputs)} inputs and {len(outputs)} outputs, but declares {ports}")
            found.groups.append(AtbGroup(label, _text(node, "opType"), tuple(outputs), here))
            _collect_ids(node, f"{scope}/{label}", [*inputs, *outputs], here, found)
        else:
            found.nodes.append(
                AtbNode(label, _text(node, "opType"), node.get("param"), tuple(inputs), tuple(outputs), here)
            )


def _by_id(node: Mapping[str, Any], key: str, label: str, known: list[str], scope: str, inner: int) -> list[str]:
    """The names of tensors: the known ones have the first ids, the inner ones the ids after them."""
    ids = node.get(key) or []
    if not isinstance(ids, list) or any(isinstance(i, bool) or not isinstance(i, int) for i in ids):
        raise TypeError(f"{key} of {label} is not a list of numbers")
    count = len(known) + inner
    wrong = [i for i in ids if not 0 <= i < count]
    if wrong:
        raise ValueError(f"{key} of {label}: tensor id {wrong[0]} is out of range [0, {count})")
    declared = node.get(key.replace("Ids", "Num"))
    if isinstance(declared, int) and declared != len(ids):
        raise ValueError(f"{label} declares {declared} {key} and has {len(ids)}")
    return [known[i] if i < len(known) else f"{scope}_internal_{i - len(known)}" for i in ids]


# --- with names ------------------------------------------------------------------------------------------------------


def _read_names(document: Mapping[str, Any], name: str, op_type: str) -> AtbGraph:
    inputs = [tensor for key in _MODEL_INPUTS for tensor in strings(document.get(key))]
    found = _Flat()
    _collect_names(document, name, {}, (), found)
    return AtbGraph(
        name,
        op_type,
        tuple(inputs),
        tuple(strings(document.get("outTensors"))),
        tuple(found.nodes),
        frozenset(strings(document.get("weightTensors"))),
        open="modelName" in document and not any(key in document for key in (*_MODEL_INPUTS, "outTensors")),
        groups=tuple(found.groups),
    )


def _collect_names(
    graph: Mapping[str, Any],
    scope: str,
    alias: Mapping[str, str],
    path: NodePath,
    found: _Flat,
) -> None:
    """Append the operations of a graph. Nested graphs use the outer graph's names, or own names for their ports."""
    _check_depth(path, scope)
    for position, node in enumerate(_nodes(graph)):
        label = _text(node, "opName") or _text(node, "name") or f"node {position} of {scope}"
        inputs, outputs = (
            [alias.get(name, name) for name in strings(node.get(key))] for key in ("inTensors", "outTensors")
        )
        here = (*path, (position, _text(node, "opType")))
        if isinstance(node.get("nodes"), list):
            ports = {f"{label}_input_{i}": outer for i, outer in enumerate(inputs)}
            ports |= {f"{label}_output_{i}": outer for i, outer in enumerate(outputs)}
            found.groups.append(AtbGroup(label, _text(node, "opType"), tuple(outputs), here))
            _collect_names(node, label, {**alias, **ports}, here, found)
        else:
            found.nodes.append(
                AtbNode(label, _text(node, "opType"), node.get("param"), tuple(inputs), tuple(outputs), here)
            )


# --- pieces ----------------------------------------------------------------------------------------------------------


def _nodes(graph: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    nodes: list[Mapping[str, Any]] = graph["nodes"]
    if len(nodes) > _MOST_NODES:
        raise ValueError(f"it has {len(nodes)} operations; up to {_MOST_NODES} are read")
    for node in nodes:
        if not isinstance(node, Mapping):
            raise TypeError(f"a node is not an object: {str(node)[:60]!r}")
    return nodes


def _text(source: Mapping[str, Any], key: str) -> str:
    value = source.get(key, "")
    if not isinstance(value, str):
        raise TypeError(f"{key} is not text: {str(value)[:60]!r}")
    return value


def _count(source: Mapping[str, Any], key: str) -> int:
    value = source.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_TENSORS:
        raise ValueError(f"{key} is not a number of tensors: {str(value)[:60]!r}")
    return value


def _check_depth(path: NodePath, scope: str) -> None:
    if len(path) > _MOST_LEVELS:
        raise ValueError(f"graphs in graphs are nested more than {_MOST_LEVELS} deep at {scope}")
