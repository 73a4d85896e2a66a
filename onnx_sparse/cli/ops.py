"""List the operators of the domain, or show one: its semantics, types, attributes and an example."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

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
    parser.add_argument(
        "name", nargs="?", type=operator_name, metavar="NAME", help="the operator to explain (default: list all)"
    )


def operator_name(text: str) -> str:
    """A name as it is typed, which shells complete; `find` says which was meant."""
    return text


def run(arguments: argparse.Namespace) -> int:
    """List all operators, or explain one."""
    from onnx_sparse.commands.description.operators import describe, find
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
    from onnx_sparse.commands.inputs.model_graph import type_name
    from onnx_sparse.schemas.declaration import FLOATS, NUMBERS

    if not op.types:
        return op.inputs[0].type
    types = next(iter(op.types.values()))
    groups = {"all numbers": NUMBERS, "all floats": FLOATS}
    for words, group in groups.items():
        if set(group) <= set(types):
            return ", ".join([words, *(type_name(t) for t in types if t not in group)])
    return ", ".join(type_name(t) for t in types)
