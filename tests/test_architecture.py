"""The arrows between the modules: converters -> schemas <- onnx_sparse, and no circle anywhere."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import onnx_sparse

ROOT = Path(onnx_sparse.__file__).parent

#: What converters import from the package that runs models: its version, and the session in which `verify` and `replay`
#: run a model that has been converted.
FROM_CONVERTERS = {
    "onnx_sparse.converters.ascend.atb.operation": {"onnx_sparse"},
    "onnx_sparse.converters.writing.graph_emitter": {"onnx_sparse"},
    "onnx_sparse.converters.onnx.verify": {"onnx_sparse"},
    "onnx_sparse.converters.openvino.verify": {"onnx_sparse"},
    "onnx_sparse.converters.tensorflow.verify": {"onnx_sparse"},
    "onnx_sparse.converters.torch.verify": {"onnx_sparse"},
}


def module_name(path: Path) -> str:
    """The name under which a file is imported."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FOLDERS = [Path(folder) for folder, _, _ in os.walk(ROOT, followlinks=True)]
MODULES = {module_name(path): path for folder in FOLDERS for path in sorted(folder.glob("*.py"))}


def imported(tree: ast.AST) -> Iterator[str]:
    """The project's modules that a module imports anywhere, also inside functions and for types only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in MODULES or node.module in MODULES:
                    yield inner if inner in MODULES else node.module


IMPORTS = {name: set(imported(ast.parse(path.read_text("utf-8")))) - {name} for name, path in MODULES.items()}


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that import each other, directly or through others: Tarjan's algorithm."""
    found: list[set[str]] = []
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        path.append(name)
        for other in sorted(graph[name]):
            if other not in number:
                visit(other)
            if other in path:
                low[name] = min(low[name], low[other])
        if low[name] == number[name]:
            at = path.index(name)
            component = set(path[at:])
            del path[at:]
            if len(component) > 1:
                found.append(component)

    for name in sorted(graph):
        if name not in number:
            visit(name)
    return found


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert sorted(map(sorted, circles(graph))) == [["a", "b", "c"], ["d", "e"]]


def test_the_modules_are_found():
    """Also those that are reached through a link, and imports inside functions."""
    assert {"onnx_sparse.converters.openvino.ir.reader", "onnx_sparse.schemas.fill"} <= MODULES.keys()
    assert "onnx_sparse" in IMPORTS["onnx_sparse.converters.openvino.verify"]


def test_no_modules_import_each_other_in_a_circle():
    assert circles(IMPORTS) == []


def part(name: str) -> str:
    """The part of the project that a module belongs to."""
    second = name.split(".")[1] if "." in name else ""
    return second if second in ("schemas", "converters") else "onnx_sparse"


@pytest.mark.parametrize("name", MODULES)
def test_arrows(name: str):
    outside = {other for other in IMPORTS[name] if part(other) not in (part(name), "schemas")}
    if part(name) == "schemas":
        assert not outside
    if part(name) == "converters":
        assert outside == FROM_CONVERTERS.get(name, set())
