"""Rewriting of graphs: many nodes that a framework's exporter writes for an operation become that operation.

A rule is one class of three methods: what its pattern is, why it must stay as it is, what replaces it.
"""

from __future__ import annotations

from onnx_sparse.converters.rewriting.engine import rewrite
from onnx_sparse.converters.rewriting.explanation import Attempt, Rewriting
from onnx_sparse.converters.rewriting.graph import Graph
from onnx_sparse.converters.rewriting.rule import Match, Rule

__all__ = ["Attempt", "Graph", "Match", "Rewriting", "Rule", "rewrite"]
