"""Conditions that do not depend on a model's inputs: of a branch that never runs, nothing is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.tensor_values import array_of

#: The operators that run one of several functions.
BRANCHES = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
#: How many operators may stand between a condition and its constants.
_MOST_DEPTH = 30

_COMPUTED: Mapping[str, Callable[..., Any]] = {
    "LogicalAnd": np.logical_and,
    "LogicalOr": np.logical_or,
    "LogicalNot": np.logical_not,
    "Equal": np.equal,
    "NotEqual": np.not_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
}
#: The attribute of the branches that tf.cond writes, whose conditions are scalars. A vector as the condition of the raw
#: operator holds if it is not empty.
_OF_SCALAR = "_lower_using_switch_merge"
#: Of these, one operand of such a value decides, if all are scalars.
_DECIDING = {"LogicalAnd": False, "LogicalOr": True}


class Scoped(Protocol):
    """What is read of a scope: where its tensors come from."""

    def origin(self, tensor: str) -> Any:
        """The scope and the node that make a tensor, or a value that stands for itself."""


def functions(node: NodeDef) -> list[str]:
    """The functions of a node's branches, by the number that its condition has for each."""
    if node.op in ("If", "StatelessIf"):
        return [node.attr[name].func.name for name in ("else_branch", "then_branch")]
    return [function.name for function in node.attr["branches"].list.func]


def only_branch(scope: Scoped, node: NodeDef) -> str | None:
    """The function of the only branch of a node that can run; None if that depends on inputs.

    Args:
        scope: The scope of the node.
        node: The node, one of `BRANCHES`.
    """
    names, inputs = functions(node), [name for name in node.input if not name.startswith("^")]
    value = _constant(scope, inputs[0], 0, _OF_SCALAR in node.attr) if inputs and names else None
    if value is None:
        return None
    if node.op in ("If", "StatelessIf"):  # of a tensor that is no scalar, and of a string: whether it is empty
        return names[bool(value.size) if value.ndim else bool(value.item())]
    if value.ndim:
        return None
    place = int(value.item())
    return names[place if 0 <= place < len(names) else -1]


def _constant(scope: Scoped, tensor: str, depth: int, of_scalars: bool) -> Array | None:
    """The value of a tensor, if it follows from constants by logic and comparisons."""
    try:
        origin: Any = scope.origin(tensor)
        is_of_node = isinstance(origin, tuple)
        if not is_of_node:
            return None  # a value that an argument stands for
        node = origin.scope.nodes[origin.node]
        if node.op == "Const":
            return array_of(node.attr["value"].tensor)
        if node.op not in _COMPUTED or depth >= _MOST_DEPTH:
            return None
        operands = [_constant(origin.scope, name, depth + 1, of_scalars) for name in origin.scope.data_inputs(node)]
        known = [each for each in operands if each is not None]
        if len(known) == len(operands):
            return np.asarray(_COMPUTED[node.op](*known))
    except (Unsupported, ValueError, TypeError):  # which is an error where the node is converted
        return None
    decides = _DECIDING.get(node.op) if of_scalars else None
    is_decided = decides is not None and any(each.shape == () and each == decides for each in known)
    return np.asarray(decides) if is_decided else None
