"""Keeps onnxscript's optimizer from taking small numbers for 0, and numbers near 1 for 1.

It drops the addition of 0 and the multiplication by 1, and compares constants with a tolerance of 1e-8 or 1e-5 of the
number: `sum / (count + 1e-16)`, which is 0 / 1e-16 without a count, becomes 0 / 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from onnx_sparse.converters.torch.lazy_imports import require


@contextmanager
def compared_exactly() -> Iterator[None]:
    """Let the optimizer's rules match only constants that are equal to theirs."""
    with ExitStack() as stack:
        for constant in _constants_of_rules():
            stack.enter_context(patch.multiple(constant, _rel_tol=0.0, _abs_tol=0.0))
        yield


def _constants_of_rules() -> list[Any]:
    """The constants in the patterns of the rules that drop operations with a neutral element."""
    rules = require("onnxscript.rewriter.rules.common._no_op").rules
    values = [value for rule in rules for node in rule._target_pattern for value in node.inputs]
    return [value for value in values if hasattr(value, "_abs_tol")]
