"""List the operators of the domain, or show one: its semantics, types, attributes and an example."""

from __future__ import annotations

import argparse
import difflib
from typing import TYPE_CHECKING, Any

from onnx_sparse.cli import output

if TYPE_CHECKING:
    from onnx_sparse.schemas import Op

NAME = "ops"
SUMMARY = "list the operators, or explain one"
EXAMPLES = """
onnx-sparse ops
onnx-sparse ops SparseFillEmptyRows
onnx-sparse ops --json | jq '.[].name'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the operator to explain (default: list all)")


def run(arguments: argparse.Namespace) -> int:
    """List all operators, or explain one."""
    from onnx_sparse.schemas import OPS

    if arguments.name is None:
        if arguments.json:
            output.write_json([describe(op) for op in OPS.values()])
        else:
            _show_all()
        return output.DONE
    op = find(arguments.name)
    if arguments.json:
        output.write_json(describe(op))
    else:
        from onnx_sparse.schemas.pages import page

        output.show_prose(page(op))
    return output.DONE


def find(name: str) -> Op:
    """The operator of a name, in upper or lower case.

    Raises:
        CommandError: There is none; the message names close ones.
    """
    from onnx_sparse.schemas import OPS

    by_lower_name = {known.lower(): op for known, op in OPS.items()}
    if name.lower() in by_lower_name:
        return by_lower_name[name.lower()]
    raise output.CommandError(f"there is no operator {name}{suggestion(name)}")


def suggestion(name: str) -> str:
    """What to add to an error about an unknown name: `"; did you mean SegmentMax?"`."""
    from onnx_sparse.schemas import OPS

    by_lower_name = {known.lower(): known for known in OPS}
    close = [by_lower_name[match] for match in difflib.get_close_matches(name.lower(), by_lower_name, 3, 0.7)]
    return f"; did you mean {' or '.join(close)}?" if close else f"; there are {', '.join(OPS)}"


def describe(op: Op) -> dict[str, Any]:
    """All that an operator's declaration says, as JSON."""
    from onnx_sparse.cli.model_graph import type_name
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


def _show_all() -> None:
    from onnx_sparse.schemas import DOMAIN, FAMILIES, OPS, OPSET_VERSION

    output.heading(f"{len(OPS)} operators, domain {DOMAIN}, opset {OPSET_VERSION}")
    output.write_line()
    rows = [[op.name, op.summary, _types_text(op)] for family in FAMILIES for op in family.ops]
    output.table(["operator", "what it does", "types"], rows)
    output.write_line()
    output.write_line("onnx-sparse ops NAME explains one.")


def _types_text(op: Op) -> str:
    """The element types of the data in few words: `"all numbers, bool"`."""
    from onnx_sparse.cli.model_graph import type_name
    from onnx_sparse.schemas.declaration import FLOATS, NUMBERS

    if not op.types:
        return op.inputs[0].type
    types = next(iter(op.types.values()))
    groups = {"all numbers": NUMBERS, "all floats": FLOATS}
    for words, group in groups.items():
        if set(group) <= set(types):
            return ", ".join([words, *(type_name(t) for t in types if t not in group)])
    return ", ".join(type_name(t) for t in types)
