"""Lookups of unique ids become lookups of the ids themselves.

TensorFlow's embedding_lookup_sparse looks each id up once, Gather(table, unique(ids)), and lets the reduction pick from
these rows by position. That saves memory traffic only where the lookup is remote. In ONNX Runtime, Unique takes half of
the model's time, and the gathered rows are an intermediate that EmbeddingSegments operators exist to avoid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from onnx_sparse.converters.tensorflow.naming import graphs
from onnx_sparse.schemas import DOMAIN
from onnx_sparse.schemas.declaration import INDEX

_LEFTOVERS = ("Cast", "Gather", "Unique")


@dataclass(frozen=True)
class _UniqueRows:
    """Rows of a table at the unique values of ids."""

    table: str
    ids: str


def look_up_directly(model: ModelProto) -> None:
    """Replace reductions and gathers of unique rows by ones of the table. Types must have been inferred.

    The result is the same to the bit, for the same rows are reduced in the same order.
    """
    for graph in graphs(model.graph):
        _look_up_directly(graph)
    _drop_leftovers(model)


def _look_up_directly(graph: GraphProto) -> None:
    producers = {name: node for node in graph.node for name in node.output}
    values = {value.name: value.type.tensor_type for value in (*graph.input, *graph.value_info)}
    types = {name: value.elem_type for name, value in values.items()}
    # Unique flattens; positions have the shape of the ids only where these are a vector.
    vectors = {n for n, v in values.items() if v.HasField("shape") and len(v.shape.dim) == 1 and v.elem_type in INDEX}
    nodes: list[NodeProto] = []
    for node in graph.node:
        rows = _unique_rows(node, producers)
        if rows is not None and rows.ids in vectors:
            wanted = types.get(node.input[1]) if node.domain == DOMAIN else None
            given = types.get(rows.ids)
            if wanted in (None, given):
                node.input[0], node.input[1] = rows.table, rows.ids
            elif (given, wanted) == (TensorProto.INT32, TensorProto.INT64):
                wide = f"{node.input[1]}/ids"
                nodes.append(helper.make_node("Cast", [rows.ids], [wide], name=f"{node.name}/Cast", to=wanted))
                node.input[0], node.input[1] = rows.table, wide
            # int64 ids are not narrowed: one that is out of range might then be in range.
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def _unique_rows(node: NodeProto, producers: dict[str, NodeProto]) -> _UniqueRows | None:
    """The unique rows that a node picks from at the positions of the ids; None where it does no such thing."""
    picks = (node.domain == DOMAIN and node.op_type.startswith("EmbeddingSegments")) or _is_row_gather(node)
    gather = producers.get(node.input[0]) if picks else None
    if gather is None or not _is_row_gather(gather):
        return None
    values, positions = _without_casts(gather.input[1], producers), _without_casts(node.input[1], producers)
    unique = producers.get(values)
    if unique is None or unique.op_type != "Unique" or any(a.name == "axis" for a in unique.attribute):
        return None
    if len(unique.output) < 3 or (unique.output[0], unique.output[2]) != (values, positions):
        return None
    return _UniqueRows(gather.input[0], unique.input[0])


def _is_row_gather(node: NodeProto) -> bool:
    return node.op_type == "Gather" and all(a.i == 0 for a in node.attribute if a.name == "axis")


def _without_casts(name: str, producers: dict[str, NodeProto]) -> str:
    """What a tensor was before casts between integers."""
    while name in producers and producers[name].op_type == "Cast":
        name = producers[name].input[0]
    return name


def _drop_leftovers(model: ModelProto) -> None:
    """Remove the nodes that nothing uses any more."""
    while True:
        everything = list(graphs(model.graph))
        used = Counter(name for graph in everything for node in graph.node for name in node.input)
        used.update(value.name for graph in everything for value in graph.output)
        removed = 0
        for graph in everything:
            kept = [n for n in graph.node if n.op_type not in _LEFTOVERS or any(used[name] for name in n.output)]
            removed += len(graph.node) - len(kept)
            _replace(graph, kept)
        if not removed:
            return


def _replace(graph: GraphProto, nodes: Iterable[NodeProto]) -> None:
    nodes = list(nodes)
    if len(nodes) == len(graph.node):
        return
    there = {name for node in nodes for name in node.output}
    typed = [value for value in graph.value_info if value.name in there]
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]
    graph.value_info.extend(typed)
