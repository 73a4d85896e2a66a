"""List the embedding tables of a model, with their data and the nodes that read them, or change them.

- `show` prints the rows of keys, or of row numbers.
- `update` changes, adds and deletes rows. FILE is a Parquet, Arrow, CSV or .npz file with the columns `key` (`row`
  in tables that are read by row numbers), `values`, and, to delete keys, `deleted`. It writes as much as it changes.
  Servers take it when they read the model again.
- `compact` writes tables that were updated as a whole; `export` writes the keys and rows of a table into a file.
- `replace` swaps tables for retrained ones of the same shape, without another conversion. A float32 array can also
  replace a table of half floats or of 8-bit or 4-bit integers: it is rounded as `convert --tables` does. With -o, a
  new model in the same folder shares the other tables with the old model, on disk and in memory.

A model is changed whole or not at all.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx_sparse.cli import output
from onnx_sparse.cli.arguments import add_options, given
from onnx_sparse.commands.inputs.named_values import named_values
from onnx_sparse.commands.tables.tables import Tables, TablesSettings, listed
from onnx_sparse.errors import UsageError

NAME = "tables"
SUMMARY = "list a model's embedding tables, or change them"
EXAMPLES = """
onnx-sparse tables model.onnx
onnx-sparse tables model.onnx --check
onnx-sparse tables model.onnx show items_table=5,7
onnx-sparse tables model.onnx update items_table=changed.parquet
onnx-sparse tables model.onnx compact
onnx-sparse tables model.onnx export items_table=items.parquet
onnx-sparse tables model.onnx replace items_table=retrained.npy
onnx-sparse tables m.onnx replace items=items.npy users=users.npy -o new.onnx
"""

#: What each action is given.
_ACTIONS = {
    "show": "NAME=KEY,...",
    "update": "NAME=FILE",
    "compact": "",
    "export": "NAME=FILE",
    "replace": "NAME=FILE.npy",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_options(parser, TablesSettings)
    parser.add_argument("action", nargs="?", metavar="|".join(_ACTIONS), help="what to do; before or after MODEL")
    parser.add_argument("operands", nargs="*", metavar="NAME=...", help="a table, and its file or keys")


def run(arguments: argparse.Namespace) -> int:
    """List, show, change or write tables."""
    settings = given(TablesSettings, arguments)
    action = arguments.action
    if str(settings.model) in _ACTIONS and action is not None and not Path(settings.model).exists():
        settings, action = replace(settings, model=Path(action)), str(settings.model)
    if action is not None:
        settings = replace(settings, **_asked(action, arguments.operands))
    with output.progress("reading", quiet=arguments.json) as progress:
        found = listed(settings, progress)
    if arguments.json:
        output.write_json(_document(found))
        return output.DONE
    output.heading(found.model)
    if found.tables:
        output.table(*found.cells())
    else:
        output.write_line("no tables: neither our lookups nor Gather read an initializer")
    for line in found.lines():
        output.write_line(line)
    return output.DONE


def _asked(action: str, operands: Sequence[str]) -> dict[str, Any]:
    """The setting of an action."""
    if action not in _ACTIONS:
        raise UsageError(f"{action} is not one of {', '.join(_ACTIONS)}")
    form = _ACTIONS[action]
    if not form:
        if operands:
            raise UsageError(f"{action} does not take {operands[0]}: it writes all tables that were updated")
        return {action: True}
    if len(operands) == 2 and "=" not in operands[0]:  # TABLE FILE
        operands = ["=".join(operands)]
    named = named_values(operands, form, at_last=action != "show")
    if not named and action != "show":
        raise UsageError(f"{action} needs {form}")
    if action != "show":
        return {action: named}
    return {action: {name: [_key(text) for text in keys.split(",")] for name, keys in named.items()} or None}


def _key(text: str) -> int | str:
    return int(text) if text.removeprefix("-").isdecimal() else text


def _document(found: Tables) -> Mapping[str, Any]:
    rows = {
        name: [{"key": key, "values": None if row is None else row.tolist()} for key, row in shown.items()]
        for name, shown in found.rows.items()
    }
    return {
        "model": found.model,
        "tables": found.tables,
        "states": found.states,
        "updates": found.updates,
        "moved": found.moved,
        "bytes_written": found.written,
        "rows": rows,
    }
