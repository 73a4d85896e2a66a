"""The ranks of inputs that TensorFlow leaves open: the only ones that the operators behind them take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.converters.tensorflow.source import Frozen

#: The ranks that are tried; TensorFlow's operators take no more dimensions.
_RANKS = range(9)


def with_ranks(frozen: Frozen) -> Frozen:
    """The graph with ranks of its inputs: TensorFlow refuses all others when it infers shapes.

    Raises:
        ConversionError: If the graph takes an input of several ranks.
    """
    if all(port.shape is not None for port in frozen.inputs):
        return frozen
    graph_def = type(frozen.graph_def)()
    graph_def.CopyFrom(frozen.graph_def)
    nodes = {node.name: node for node in graph_def.node}
    ports, open_ranks = [], []
    for port in frozen.inputs:
        if port.shape is None:
            node = nodes[port.tensor.partition(":")[0]]
            taken = [rank for rank in _RANKS if _is_taken(graph_def, node, rank)]
            if len(taken) == 1:
                port = replace(port, shape=(None,) * taken[0])
                _set_rank(node, taken[0])
            else:
                open_ranks.append(f"input {port.name} has no known rank; give its TensorSpec a shape such as [None, 3]")
        ports.append(port)
    if open_ranks:
        raise ConversionError("; ".join(open_ranks))
    return replace(frozen, graph_def=graph_def, inputs=tuple(ports))


def _is_taken(graph_def: Any, node: Any, rank: int) -> bool:
    """Whether TensorFlow takes a tensor of a rank for an input."""
    tf = require("tensorflow")
    before = type(node)()
    before.CopyFrom(node)
    _set_rank(node, rank)
    try:
        with tf.Graph().as_default():
            tf.import_graph_def(graph_def, name="")
    except ValueError:
        return False
    finally:
        node.CopyFrom(before)
    return True


def _set_rank(node: Any, rank: int) -> None:
    node.attr.pop("_output_shapes", None)
    shape = require("tensorflow").TensorShape([None] * rank)
    node.attr["shape"].shape.CopyFrom(shape.as_proto())
