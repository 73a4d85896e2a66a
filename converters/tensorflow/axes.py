"""Replaces negative axes of reductions by non-negative ones.

ONNX Runtime does not reduce an empty tensor along a negative axis: the sum of a [0, 4] along -1 has shape [0, 4]
there, not [0].
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import GraphProto, ModelProto, numpy_helper

from onnx_sparse.converters.graphs import graphs


def count_axes_from_the_front(model: ModelProto) -> None:
    """Rewrite negative axes wherever the rank is known. Shapes must have been inferred."""
    constants = {tensor.name: tensor for graph in graphs(model.graph) for tensor in graph.initializer}
    for graph in graphs(model.graph):
        ranks = dict(_ranks(graph))
        for node in graph.node:
            rank = ranks.get(node.input[0]) if node.input else None
            if rank is None or not node.op_type.startswith(("Reduce", "Arg")):
                continue
            for attribute in node.attribute:
                if attribute.name == "axis":
                    attribute.i %= rank
            given = constants.get(node.input[1]) if len(node.input) > 1 else None
            axes = numpy_helper.to_array(given) if given is not None else np.zeros(0, np.int64)
            if (axes < 0).any():
                node.input[1] = f"{node.name}/axes"
                graph.initializer.append(numpy_helper.from_array(axes % rank, node.input[1]))


def _ranks(graph: GraphProto) -> Iterator[tuple[str, int]]:
    for value in (*graph.input, *graph.value_info, *graph.output):
        if value.type.tensor_type.HasField("shape"):
            yield value.name, len(value.type.tensor_type.shape.dim)
    for tensor in graph.initializer:
        yield tensor.name, len(tensor.dims)
