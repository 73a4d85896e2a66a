"""Which backends can run a node of ours, and why the others cannot."""

from __future__ import annotations

import warnings
from typing import Final

from onnx import ModelProto

from onnx_sparse.commands.inputs.model_graph import PlacedNode, is_function_body, type_name
from onnx_sparse.errors import one_line, printable
from onnx_sparse.models.forms.canonical import canonical_gaps
from onnx_sparse.models.graphs import all_nodes, element_types, graphs
from onnx_sparse.schemas import DOMAIN
from onnx_sparse.schemas.declaration import HALF_FLOATS
from onnx_sparse.settings import Backend

NATIVE: Final = "native"
PLAIN_NATIVE = "native_plain_session"
PYTHON: Final = "python"
PLAIN_PYTHON = "python_plain_session"
PORTABLE = "function_bodies"

#: The ways to run a model, and what each means.
BACKENDS = {
    NATIVE: "the native kernels, in onnx_sparse.InferenceSession",
    PLAIN_NATIVE: "the native kernels, in any other ONNX Runtime session",
    PYTHON: "the Python kernels, in onnx_sparse.InferenceSession",
    PLAIN_PYTHON: "the Python kernels, in onnxruntime.InferenceSession",
    PORTABLE: "standard ONNX that the model carries, in a runtime that reads functions",
}


def native_library() -> str | None:
    """The path of the native library; None where this installation has none."""
    from onnx_sparse.sessions.runtime import get_library_path

    try:
        return get_library_path()
    except FileNotFoundError:
        return None


def chosen_backend(asked: Backend) -> Backend:
    """The backend that a session uses: `auto` is the native one where there is a library."""
    if asked != "auto":
        return asked
    if native_library():
        return NATIVE
    from onnx_sparse.sessions.runtime import SLOW_KERNELS, available_backends

    if available_backends():
        warnings.warn(SLOW_KERNELS, RuntimeWarning, stacklevel=2)
    return PYTHON


def canonical_obstacle(model: ModelProto) -> str | None:
    """What keeps the model from canonical form, to which a session with Python kernels brings it first."""
    from onnx_sparse.models.forms.canonical import canonicalize

    try:
        canonicalize(model)
    except Exception as error:  # inference and the inliner raise exceptions of their own on broken models
        return one_line(error)
    return None


def untyped_calls(model: ModelProto) -> list[str]:
    """Calls of functions with nodes of ours whose outputs' types are not declared.

    ONNX Runtime does not infer them, and refuses such a call; `onnx_sparse.InferenceSession` inlines the functions.
    Inside of a function only its outputs can have types: those that its caller declares.
    """
    functions = {(f.domain, f.name, f.overload): f for f in model.functions if not is_function_body(f)}
    ours: set[tuple[str, str, str]] = set()
    for _ in functions:  # functions call functions
        ours |= {
            key
            for key, function in functions.items()
            for node in all_nodes(function.node)
            if node.domain == DOMAIN or (node.domain, node.op_type, node.overload) in ours
        }
    places = [(graph.node, set(element_types(graph))) for graph in graphs(model.graph)]
    places += [(function.node, set(function.output)) for key, function in functions.items() if key in ours]
    return [
        f"function {printable(node.op_type)} is called without declaring the type of {printable(name)}"
        for nodes, typed in places
        for node in nodes
        if (node.domain, node.op_type, node.overload) in ours
        for name in node.output
        if name and name not in typed
    ]


def obstacles(model: ModelProto, placed: PlacedNode) -> dict[str, list[str]]:
    """What keeps each backend from running a node; an empty list where nothing does."""
    from onnx_sparse.sessions.runtime import available_backends

    untyped = untyped_calls(model)
    op = placed.op
    embedded = any(
        is_function_body(f) and f.name == placed.node.op_type and f.overload == placed.node.overload
        for f in model.functions
    )
    if op is None:
        missing = [] if embedded else ["there is no such operator"]
        return dict.fromkeys(BACKENDS, missing)
    python = [op.no_python_kernels] if op.no_python_kernels else []
    if "python" not in available_backends():
        python.append("this installation has no Python kernels")
    plain = [f"not in canonical form: {gap}" for gap in canonical_gaps(placed.node)]
    plain += [
        f"no {type_name(dtype)} in Python kernels" for dtype in placed.type_binding(op).values() if dtype in HALF_FLOATS
    ]
    if embedded:
        portable = []
    elif op.body is None:
        portable = [f"{op.name} has no function body"]
    else:
        portable = ["not in this file: `onnx-sparse convert --portable` adds them"]
    native = [] if native_library() else ["this installation has no native library"]
    called = []
    if placed.is_call:
        called = [f"it calls the body {DOMAIN}.{printable(placed.node.op_type)}, which is not the name of a kernel"]
    return {
        NATIVE: native,
        PLAIN_NATIVE: native + untyped + called,
        PYTHON: python,
        PLAIN_PYTHON: plain + python + called,
        PORTABLE: portable,
    }
