"""The domain's operators by name, and what their declarations say."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from onnx_sparse.errors import CommandError

if TYPE_CHECKING:
    from onnx_sparse.schemas import Op


def find(name: str) -> Op:
    """The operator of a name, in upper or lower case.

    Raises:
        CommandError: There is none; the message names close ones.
    """
    from onnx_sparse.schemas import OPS

    by_lower_name = {known.lower(): op for known, op in OPS.items()}
    if name.lower() in by_lower_name:
        return by_lower_name[name.lower()]
    raise CommandError(f"there is no operator {name or repr(name)}{suggestion(name)}")


def suggestion(name: str) -> str:
    """What to add to an error about an unknown name: `"; did you mean SegmentMax?"`."""
    from onnx_sparse.schemas import OPS

    by_lower_name = {known.lower(): known for known in OPS}
    close = [by_lower_name[match] for match in difflib.get_close_matches(name.lower(), by_lower_name, 3, 0.7)]
    close = close or [known for lower, known in by_lower_name.items() if name and lower.startswith(name.lower())][:3]
    return f"; did you mean {' or '.join(close)}?" if close else "; `onnx-sparse ops` lists all"


def describe(op: Op) -> dict[str, Any]:
    """All that an operator's declaration says, as JSON."""
    from onnx_sparse.commands.inputs.model_graph import type_name
    from onnx_sparse.schemas.pages import signature

    return {
        "name": op.name,
        "signature": signature(op),
        "summary": op.summary,
        "semantics": op.semantics,
        "source": op.source,
        "inputs": [
            {"name": i.name, "type": i.type, "shape": i.shape, "optional": i.optional, "doc": i.doc} for i in op.inputs
        ],
        "outputs": [
            {"name": o.name, "type": o.type, "shape": o.shape, "optional": o.optional, "doc": o.doc} for o in op.outputs
        ],
        "attributes": [
            {"name": a.name, "choices": list(a.choices), "default": a.default, "doc": a.doc} for a in op.attributes
        ],
        "types": {variable: [type_name(t) for t in types] for variable, types in op.types.items()},
        "function_body": op.body is not None,
        "function_body_notes": op.body_notes,
        "examples": [
            {
                "name": e.name,
                "types": {variable: type_name(t) for variable, t in e.types.items()},
                "attributes": dict(e.attributes),
                "inputs": dict(e.inputs),
                "outputs": dict(e.outputs),
            }
            for e in op.examples
        ],
    }
