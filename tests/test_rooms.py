"""Rooms that lift out: without one of these, nothing else needs to be edited, and the rest does what it did."""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from test_architecture import MODULES, ROOT

from onnx_sparse.sessions.runtime import get_library_path

#: The rooms, and what each consists of: a command belongs to its room.
ROOMS = {
    "tensorflow": ("converters/tensorflow", "cli/demo"),
    "torch": ("converters/torch",),
    "openvino": ("converters/openvino",),
    "ascend": ("converters/ascend", "cli/replay"),
    "onnx": ("converters/onnx",),
    "serving": ("serving", "cli/serve.py"),
    "triton": ("cli/triton",),
}

#: Imports of what may be missing, behind the question whether it is there.
ASKED_BEFORE = {("tensorflow", "onnx_sparse.converters.ascend.ge.tensorflow_operators")}

#: The small models of the demo, the rooms that convert them, and their options.
SOURCES = {
    "demo_saved_model": ("tensorflow", []),
    "demo_sources/model.xml": ("openvino", []),
    "demo_sources/recommender.pt2": ("torch", []),
    "demo_sources/by_tf2onnx.onnx": ("onnx", ["--fuse"]),
    "demo_sources/layer.json": ("ascend", ["--input-spec", "x:float16:2,3"]),
    "demo_sources/export.air": ("ascend", []),
}

#: What installs nothing cannot convert.
NEEDS_MORE = {"demo_sources/recommender.pt2"} if importlib.util.find_spec("torch") is None else set()

#: Runs a command of the package in a folder, whatever package is installed.
PROGRAM = """
import json, sys
folder, *commands = sys.argv[1:]
sys.meta_path[:] = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
sys.path.insert(0, folder)
import onnx_sparse
assert onnx_sparse.__file__.startswith(folder), onnx_sparse.__file__
from onnx_sparse.cli import main
print("exits", json.dumps([main(json.loads(command)) for command in commands]))
"""


def run_in(folder: Path, *commands: list[str]) -> tuple[list[int], str, str]:
    """The exit statuses of commands, run one after the other in one process, and what they print and complain of."""
    arguments = [sys.executable, "-c", PROGRAM, str(folder), *map(json.dumps, commands)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    before, _, exits = done.stdout.rpartition("exits ")
    return json.loads(exits), before, done.stderr


def copy_without(rooms: Iterable[str], folder: Path) -> Path:
    """A copy of the package without some rooms."""
    shutil.copytree(ROOT, folder / "onnx_sparse", ignore=shutil.ignore_patterns("__pycache__", "build", "*.so"))
    for part in (part for room in rooms for part in ROOMS[room]):
        path = folder / "onnx_sparse" / part
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return folder


def imports_when_run(node: ast.AST) -> Iterator[str]:
    """The modules that a module imports, but for those that only type checkers import."""
    inner = ast.iter_child_nodes(node)
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        inner = iter(node.orelse)
    for other in inner:
        yield from imports_when_run(other)


@functools.cache
def when_run(path: Path) -> list[str]:
    """The modules that the module of a file imports when it runs."""
    return [*imports_when_run(ast.parse(path.read_text("utf-8")))]


def modules_of(room: str) -> set[str]:
    """The names of the modules of a room."""
    names = {f"onnx_sparse.{part.removesuffix('.py').replace('/', '.')}" for part in ROOMS[room]}
    return {module for module in MODULES if any(module == name or module.startswith(f"{name}.") for name in names)}


def test_imports_for_type_checkers_are_told_from_others():
    text = """
if TYPE_CHECKING:
    import a
else:
    import b
def f():
    from c import d
"""
    assert [*imports_when_run(ast.parse(text))] == ["b", "c", "c.d"]


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_else_needs_the_room(room):
    inside = modules_of(room)
    assert inside
    arrows = [
        f"{module} imports {name}"
        for module, path in MODULES.items()
        if module not in inside and (room, module) not in ASKED_BEFORE
        for name in when_run(path)
        if name in inside
    ]
    assert not arrows


def converted(without: Iterable[str], rooms: Iterable[str], folder: Path) -> dict[str, bytes | None]:
    """What a package without some rooms makes of the sources of others, as far as it can; its help works always."""
    copy, demo = copy_without(without, folder), ROOT / "cli" / "demo"
    made = {name: folder / f"{n}.onnx" for n, name in enumerate(SOURCES) if SOURCES[name][0] in rooms}
    commands = [["convert", str(demo / name), "-o", str(path), *SOURCES[name][1]] for name, path in made.items()]
    exits, printed, complaints = run_in(copy, ["--help"], ["convert", "--help", "all"], *commands)
    assert exits[:2] == [0, 0]
    assert [path.exists() for path in made.values()] == [status == 0 for status in exits[2:]]
    assert "Traceback" not in complaints
    commands_left = [Path(part).stem for room in without for part in ROOMS[room] if part.startswith("cli/")]
    assert not [name for name in commands_left if f"    {name} " in printed]
    return {name: path.read_bytes() if path.exists() else None for name, path in made.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes | None]:
    """The models that the whole package makes of the sources."""
    return converted([], ROOMS, tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("room", dict.fromkeys(room for room, _ in SOURCES.values()))
def test_a_room_alone_does_what_it_did(room, whole, tmp_path: Path, monkeypatch):
    """Without all other rooms."""
    monkeypatch.setenv("ONNX_SPARSE_LIBRARY", get_library_path())
    made = converted(ROOMS.keys() - {room}, [room], tmp_path)
    assert made == {name: whole[name] for name in SOURCES if SOURCES[name][0] == room}
    assert [name for name, model in made.items() if model is None] == [name for name in made if name in NEEDS_MORE]


def test_a_source_of_a_missing_room_is_refused_in_a_line(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("ONNX_SPARSE_LIBRARY", get_library_path())
    sources = ROOMS.keys() - {"serving", "triton"}
    assert not any(converted(sources, sources, tmp_path).values())
