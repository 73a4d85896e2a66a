"""Rewriting of converted graphs: dozens of nodes that TensorFlow writes for an operation become that operation.

A rule is one class with a pattern, its conditions and, for each condition that fails, the reason why it does not fire.
"""

from __future__ import annotations

from onnx_sparse.converters.tensorflow.rewriting.rewrite import PHASES, rewrite
from onnx_sparse.converters.tensorflow.rewriting.rule import Attempt, Rule

__all__ = ["PHASES", "Attempt", "Rule", "rewrite"]
