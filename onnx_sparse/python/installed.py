"""Whether this installation has the Python kernels: onnxruntime-extensions calls them."""

from __future__ import annotations

from importlib.util import find_spec


def python_kernels_problem() -> str | None:
    """Why there are no Python kernels; None if there are."""
    if find_spec("onnxruntime_extensions") is not None:
        return None
    return "this installation has no Python kernels: onnxruntime-extensions is not installed"
