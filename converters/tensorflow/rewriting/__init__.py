"""Rewriting of converted graphs: what TensorFlow writes as dozens of nodes becomes what it means.

A rule is one class with a pattern, its conditions and, where it looks at a node and does not fire, the reason.
"""

from __future__ import annotations

from onnx_sparse.converters.tensorflow.rewriting.rewrite import PHASES, rewrite
from onnx_sparse.converters.tensorflow.rewriting.rule import Attempt, Rule

__all__ = ["PHASES", "Attempt", "Rule", "rewrite"]
