"""Which standard operators converters, rules, guards and function bodies write, read from their sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from onnx import defs

import onnx_sparse

_FOLDERS = ("converters", "schemas")


@cache
def written() -> frozenset[str]:
    """The operators whose names stand in a call, a table or a method's name."""
    known = {schema.name for schema in defs.get_all_schemas() if not schema.domain and not schema.deprecated}
    package = Path(onnx_sparse.__file__).parent
    found: set[str] = set()
    for folder in _FOLDERS:
        for path in (package / folder).rglob("*.py"):
            found.update(known.intersection(_names(ast.parse(path.read_text("utf-8")))))
    return frozenset(found)


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
