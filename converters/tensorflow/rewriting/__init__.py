"""Rewriting of converted graphs: dozens of nodes that TensorFlow writes for an operation become that operation.

A rule is one class of three methods: what its pattern is, why it must stay as it is, what replaces it.
"""

from __future__ import annotations

from onnx_sparse.converters.rewriting.rule import Rule
from onnx_sparse.converters.tensorflow.phases import PHASES, rewrite

__all__ = ["PHASES", "Rule", "rewrite"]
