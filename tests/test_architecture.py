"""The arrows between the modules are those that docs/design.md draws, and there is no circle anywhere."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import onnx_sparse

ROOT = Path(onnx_sparse.__file__).parent
DESIGN = Path(__file__).parents[1] / "docs" / "design.md"

#: A row of the page's table of rooms: a room, what it holds, and the rooms that it imports.
ROW = re.compile(r"^\| `(?P<room>[\w.]+)` \|[^|]*\|(?P<imports>[^|]*)\|$", re.M)


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
    assert "onnx_sparse.sessions.runtime" in IMPORTS["onnx_sparse.converters.verification.verify"]


def with_packages(name: str) -> set[str]:
    """What a module imports; with each module its packages, which Python runs before it."""
    found = set(IMPORTS[name])
    for other in IMPORTS[name]:
        parts = other.split(".")
        found |= {".".join(parts[:count]) for count in range(2, len(parts))}
    return {other for other in found if not name.startswith(f"{other}.")} - {name}


def test_no_modules_import_each_other_in_a_circle():
    assert circles(IMPORTS) == []


def test_no_packages_import_each_other_in_a_circle():
    assert circles({name: with_packages(name) for name in IMPORTS}) == []


HEAVY = {"onnxruntime", "onnxruntime_extensions", "openvino", "tensorflow", "torch"}


@pytest.mark.parametrize(
    "package", ["tensorflow", "torch", "openvino", "ascend", "onnx", "pipeline", "verification.verify"]
)
def test_converters_import_heavy_packages_where_they_use_them(package: str):
    """The command line forks after it has imported a converter, which no process with such a library can."""
    program = f"import sys, onnx_sparse.converters.{package}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint(done.stdout.split())


#: The packages that consist of rooms.
HOUSES = ("models", "converters", "commands")


def room(name: str) -> str:
    """The room of a module: its package, for those of `HOUSES` the one below them; the module itself if it has none."""
    parts = name.split(".")[1:]
    is_inner = parts[0:1] and parts[0] in HOUSES and (len(parts) > 2 or MODULES[name].name == "__init__.py")
    return ".".join(parts[: 2 if is_inner else 1]) or "onnx_sparse"


def arrows() -> dict[str, set[str]]:
    """The rooms that each room imports."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, imports in IMPORTS.items():
        found[room(name)] |= {room(other) for other in imports} - {room(name)}
    return found


def test_the_arrows_are_those_of_the_design():
    """Every pair of rooms: an arrow that is not drawn fails, and so does one that is drawn and not there."""
    drawn = {row["room"]: set(re.findall(r"`([\w.]+)`", row["imports"])) for row in ROW.finditer(DESIGN.read_text())}
    assert {name: sorted(rooms) for name, rooms in arrows().items()} == {n: sorted(rooms) for n, rooms in drawn.items()}


def test_the_rooms_of_the_design_import_those_above_them():
    above = {"onnx_sparse"}  # the root, for its version and its lazy names, which only the command line asks for
    for row in ROW.finditer(DESIGN.read_text()):
        imports = set(re.findall(r"`([\w.]+)`", row["imports"]))
        assert row["room"] == "onnx_sparse" or imports <= above, row["room"]
        above.add(row["room"])


def test_a_family_of_handlers_imports_only_those_above_it():
    """The order of TensorFlow's families, and OpenVINO's handlers of detectors, which no other needs."""
    package = "onnx_sparse.converters.tensorflow.handlers"
    order = re.findall(
        r"^-? ?`(\w+)`[ :]", ast.get_docstring(ast.parse(MODULES[package].read_text("utf-8"))) or "", re.M
    )
    families = {name.split(".")[4] for name in MODULES if name.startswith(package) and name.count(".") == 5}
    assert sorted(order) == sorted(families)
    for name, imports in IMPORTS.items():
        for other in imports if name.startswith(f"{package}.") else ():
            if other.startswith(f"{package}.") and other.count(".") == 5:
                assert order.index(other.split(".")[4]) <= order.index(name.split(".")[4]), (name, other)
    vision = "onnx_sparse.converters.openvino.handlers.vision"
    assert not [name for name, imports in IMPORTS.items() if vision not in name and any(vision in o for o in imports)]


#: The modules of onnx whose functions end the process on some models.
FATAL_TOOLS = ("checker", "compose", "hub", "inliner", "parser", "shape_inference", "utils", "version_converter")


def called_tools(source: str) -> set[str]:
    """The functions of those modules that a module names; not their exceptions."""
    if not any(tool in source for tool in FATAL_TOOLS):
        return set()
    tree = ast.parse(source)
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases |= {
                a.asname or a.name.partition(".")[0]: a.name if a.asname else "onnx"
                for a in node.names
                if a.name.split(".")[0] == "onnx"
            }
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "onnx":
            aliases |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    named = {aliases[node.id] for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in aliases}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, *rest = ast.unparse(node).split(".")
            if first in aliases:
                named.add(".".join([aliases[first], *rest]))
    parts = (name.split(".") for name in named)
    return {".".join(p) for p in parts if len(p) > 2 and p[1] in FATAL_TOOLS and p[2][0].islower()}


@pytest.mark.parametrize(
    "source",
    [
        "import onnx\nonnx.shape_inference.infer_shapes(m)",
        "import onnx.shape_inference\nonnx.shape_inference.infer_shapes(m)",
        "import onnx.shape_inference as s\ns.infer_shapes(m)",
        "from onnx import shape_inference\nx = [shape_inference.infer_shapes]",
        "from onnx.shape_inference import infer_shapes as f\ndef g(): return f(m)",
        "def g():\n    import onnx\n    return onnx.shape_inference.infer_shapes",
    ],
)
def test_calls_of_tools_are_found(source: str):
    assert called_tools(source) == {"onnx.shape_inference.infer_shapes"}


def test_onnx_tools_are_called_in_one_place():
    """They end the process on some models; `models/tools/onnx_tools.py` knows of which."""
    assert not called_tools("from onnx.shape_inference import InferenceError\nraise InferenceError")
    found = {name: sorted(called_tools(path.read_text("utf-8"))) for name, path in MODULES.items()}
    place = "onnx_sparse.models.tools.onnx_tools"
    assert len(found.pop(place)) >= 5
    assert {name: tools for name, tools in found.items() if tools} == {}
