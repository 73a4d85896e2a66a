"""How a session shows itself: its inputs and outputs, as text and in notebooks."""

from __future__ import annotations

from typing import Any

from onnx_sparse.html import html_table, text


def session_text(session: Any, backend: str) -> str:
    """A session in one line."""
    inputs, outputs = (
        ", ".join(value.name for value in values) for values in (session.get_inputs(), session.get_outputs())
    )
    return f"<InferenceSession with {backend} kernels: {inputs} -> {outputs}>"


def session_html(session: Any, backend: str) -> str:
    """A session as a table of its inputs and outputs."""
    rows = [
        [kind, value.name, value.type, list(value.shape)]
        for kind, values in (("input", session.get_inputs()), ("output", session.get_outputs()))
        for value in values
    ]
    return f"<p>{text(f'InferenceSession with {backend} kernels')}</p>" + html_table(
        ["", "name", "type", "shape"], rows
    )
