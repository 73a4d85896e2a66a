"""Whether the ids of a scatter are known to differ, so that no row is written over another."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.tensor import Array
from onnx_sparse.models.graphs import attribute

#: What changes the form of ids, or their type, and not which there are.
_RESHAPING = ("Reshape", "Unsqueeze", "Squeeze", "Expand", "Transpose", "Cast", "Identity", "Slice", "Flatten")

#: What gives each element of a result another number: the second result of TopK, along its axis; positions.
_DISTINCT = ("Range", "NonZero", "TopK", "Unique")

#: Operators of which integers that are known only by sizes are made.
_COMPUTING = ("Concat", "Add", "Sub", "Mul", *_RESHAPING)


def are_distinct(graph: Graph, node: NodeProto) -> bool:
    """Whether no two rows, or elements, of a scatter are known to have one place."""
    ids = node.input[1]
    shape = graph.shape(ids)
    if shape is not None and None not in shape:
        inner = shape[:-1] if node.op_type == "ScatterND" else shape
        if int(np.prod([size or 0 for size in inner])) <= 1:
            return True
    value = graph.constant(ids)
    if value is not None:
        return _differ(value, node)
    return _are_positions(graph, ids, node.op_type == "ScatterND")


def _differ(ids: Array, node: NodeProto) -> bool:
    """Whether constant ids differ, each along the scatter's axis; one of both signs may be twice the same place."""
    if ids.size and ids.min() < 0 <= ids.max():
        return False
    if node.op_type == "ScatterND":
        places = ids.reshape(-1, ids.shape[-1])
        return len(np.unique(places, axis=0)) == len(places)
    ordered = np.sort(ids, axis=attribute(node, "axis", 0))
    return bool((np.diff(ordered, axis=attribute(node, "axis", 0)) != 0).all())


def _are_positions(graph: Graph, name: str, is_grid: bool) -> bool:
    """Whether ids are a Range, positions of a mask or an order; or a grid of such coordinates."""
    node = graph.producer(name)
    if node is None:
        return graph.constant(name) is not None and is_grid
    if node.op_type in _DISTINCT:
        return node.op_type != "Unique" or node.output[0] == name
    if node.op_type == "Gather":
        mask = graph.producer(node.input[0], "NonZero")
        return mask is not None and graph.rank(mask.input[0]) == 1
    if node.op_type in _RESHAPING:
        return _are_positions(graph, node.input[0], is_grid)
    if node.op_type in _COMPUTING and (is_grid or node.op_type != "Concat"):
        sides = [side for side in node.input if graph.uniform(side) is None]
        if node.op_type != "Concat" and len(sides) > 1:
            return False  # a sum of two positions may be twice the same
        return bool(sides) and all(_are_positions(graph, side, is_grid) for side in sides)
    return False
