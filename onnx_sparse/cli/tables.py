"""List the embedding tables of a model, with their data and the nodes that read them, or replace tables.

`replace` swaps tables for retrained ones of the same shape, without another conversion. A float32 array can also
replace a table of half floats or of 8-bit or 4-bit integers: it is rounded as `convert --tables` does. The model is
replaced whole or not at all. With -o, a new model in the same folder shares the other tables with the old model, on
disk and in memory.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from onnx_sparse.cli import output
from onnx_sparse.cli.arguments import add_options, given
from onnx_sparse.commands.named_values import named_values
from onnx_sparse.commands.tables import TablesSettings, listed
from onnx_sparse.errors import UsageError

NAME = "tables"
SUMMARY = "list a model's embedding tables, or replace them"
EXAMPLES = """
onnx-sparse tables model.onnx
onnx-sparse tables model.onnx --check
onnx-sparse tables model.onnx replace items_table=retrained.npy
onnx-sparse tables model.onnx replace items_table=retrained.npy users_table=users.npy -o new.onnx
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_options(parser, TablesSettings)
    parser.add_argument("action", nargs="?", choices=["replace"], metavar="replace", help="replace tables")
    parser.add_argument(
        "replacements", nargs="*", metavar="NAME=FILE.npy", help="with replace: a table and its new values"
    )


def run(arguments: argparse.Namespace) -> int:
    """List or replace tables."""
    settings = given(TablesSettings, arguments)
    if arguments.action is not None:
        named = named_values(arguments.replacements, "NAME=FILE.npy", at_last=True)
        if not named:
            raise UsageError("replace needs NAME=FILE.npy")
        settings = replace(settings, replace=named)
    with output.progress("reading", quiet=arguments.json) as progress:
        found = listed(settings, progress)
    if arguments.json:
        output.write_json({"model": found.model, "tables": found.tables})
        return output.DONE
    output.heading(found.model)
    if found.tables:
        output.table(*found.cells())
    else:
        output.write_line("no tables: neither our lookups nor Gather read an initializer")
    return output.DONE
