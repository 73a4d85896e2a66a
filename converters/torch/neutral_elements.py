"""Keeps onnxscript's optimizer from taking small numbers for 0, numbers near 1 for 1, and sizes for lists of sizes.

It drops the addition of 0 and the multiplication by 1, and compares constants with a tolerance of 1e-8 or 1e-5 of the
number: `sum / (count + 1e-16)`, which is 0 / 1e-16 without a count, becomes 0 / 0. And it
fails at parts of a size that is known only when the model runs: "'NoneType' object has no attribute 'ndim'".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from onnx_sparse.converters.torch.lazy_imports import require


@contextmanager
def compared_exactly() -> Iterator[None]:
    """Let the optimizer's rules match only constants that are equal to theirs."""
    with ExitStack() as stack:
        for constant in _constants_of_rules():
            stack.enter_context(patch.multiple(constant, _rel_tol=0.0, _abs_tol=0.0))
        evaluators = require("onnxscript.optimizer._constant_folding").registry.op_evaluators
        key = ("", "SplitToSequence")
        kept = [replace(each, function=_of_known_sizes(each.function)) for each in evaluators[key]]
        stack.enter_context(patch.dict(evaluators, {key: kept}))
        yield


def _of_known_sizes(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """The evaluator of SplitToSequence, but for parts of one size that is not known."""
    import onnx_ir as ir

    def evaluate_known(node: Any, op: Any, state: Any) -> Any:
        size = node.inputs[1] if len(node.inputs) > 1 else None
        if size is not None and size.shape is not None and not len(size.shape):
            return None if ir.convenience.get_const_tensor(size) is None else evaluate(node, op, state)
        return evaluate(node, op, state)

    return evaluate_known


def _constants_of_rules() -> list[Any]:
    """The constants in the patterns of the rules that drop operations with a neutral element."""
    rules = require("onnxscript.rewriter.rules.common._no_op").rules
    values = [value for rule in rules for node in rule._target_pattern for value in node.inputs]
    return [value for value in values if hasattr(value, "_abs_tol")]
