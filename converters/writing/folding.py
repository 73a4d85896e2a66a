"""Nodes of standard ONNX computed while a model is converted, where their inputs are constants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from onnx import NodeProto
from onnx.reference import ReferenceEvaluator

from onnx_sparse.converters.tensor import Array
from onnx_sparse.models.graphs import attribute

_ELEMENTWISE = frozenset(
    {"Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Or",
     "Sub", "Where", "Xor"}
)  # fmt: skip


def folded(node: NodeProto, given: Mapping[str, Array], opsets: Mapping[str, int], most: int) -> Array | None:
    """The output of a node, unless it has too many elements or cannot be computed.

    Nothing larger is made on the way: a few numbers can ask for more memory than there is.

    Args:
        node: A node with one output, whose operator does not depend on chance.
        given: Its inputs, by name.
        opsets: The versions of the operator sets, by domain.
        most: How many elements the output may have.

    Raises:
        MemoryError: There is not enough for so many.
    """
    try:
        if _size(node, [given[name] for name in node.input if name]) > most:
            return None
        (result,) = map(np.asarray, ReferenceEvaluator(node, opsets=dict(opsets)).run(None, dict(given)))
    except MemoryError:
        raise
    except Exception:  # whatever numpy raises; a session raises, too, if the node is reached there
        return None
    return result if result.size <= most else None


def _size(node: NodeProto, inputs: Sequence[Array]) -> int:
    """How many elements the output has; 0 where it has no more than the inputs."""
    if node.op_type in _ELEMENTWISE:
        return _product(np.broadcast_shapes(*(array.shape for array in inputs)))
    if node.op_type == "Range":
        start, limit, delta = (array.item() for array in inputs)
        count: int = math.ceil((limit - start) / delta)
        return count
    if node.op_type == "Expand":
        return _product(np.broadcast_shapes(inputs[0].shape, tuple(inputs[1].tolist())))
    if node.op_type == "Tile":
        return inputs[0].size * _product(inputs[1].tolist())
    if node.op_type == "Gather":
        along = int(inputs[0].shape[attribute(node, "axis", 0)])
        return inputs[0].size // max(1, along) * inputs[1].size
    return 0


def _product(sizes: Sequence[int]) -> int:
    return math.prod(map(int, sizes))
