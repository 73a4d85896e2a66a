"""The options of `convert` and `replay` that are about Ascend's graphs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from onnx_sparse.errors import UsageError

#: The options that only Ascend's graphs have, by the name of their value, with their defaults.
_DEFAULTS: dict[str, Any] = {
    "input_spec": [],
    "tensors": None,
    "fill_value": None,
    "fp16_overflow": None,
    "keep_unknown": False,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of an Ascend conversion."""
    group = parser.add_argument_group("options for Ascend's graphs")
    group.add_argument(
        "--input-spec",
        action="append",
        default=[],
        metavar="NAME:DTYPE:2,3",
        help="an input's element type and shape, if the file lacks them; write ? for an unknown dimension",
    )
    group.add_argument(
        "--tensors",
        type=Path,
        metavar="PATH",
        help="the dump's tensors: a folder or a csv file (default: searched for next to the graph)",
    )
    add_fill_arguments(group)
    group.add_argument(
        "--keep-unknown",
        action="store_true",
        help="keep unsupported operations as nodes of the domain ascend.atb; a model with such nodes does not run",
    )


def add_fill_arguments(group: argparse._ActionsContainer) -> None:
    """Declare the options about values that a dump loses and that float16 cannot hold."""
    group.add_argument(
        "--fill-value",
        type=float,
        metavar="NUMBER",
        help="the fill value that the dump lost, an infinity or NaN: --fill-value=-inf",
    )
    group.add_argument(
        "--fp16-overflow",
        choices=("saturate", "ieee"),
        help="values beyond float16: saturate to 65504 in every operation (310P, 910A), or become infinite with ieee "
        "(Ascend 950); default: fill values saturate, computed values become infinite (Atlas A2, A3)",
    )


def check(origin: str, arguments: argparse.Namespace) -> None:
    """Refuse options that mean nothing for the source.

    Raises:
        UsageError: Such an option is given.
    """
    if origin == "ascend":
        if arguments.verify or arguments.verify_with or arguments.signature or arguments.inputs or arguments.outputs:
            raise UsageError(
                "--verify, --signature, --inputs and --outputs are not for Ascend's graphs: describe their inputs with "
                "--input-spec NAME:DTYPE:2,3, and `onnx-sparse replay` compares with a dump's own tensors"
            )
        return
    given = [name for name, default in _DEFAULTS.items() if getattr(arguments, name) != default]
    if given:
        raise UsageError(f"--{given[0].replace('_', '-')} is for Ascend's graphs, and this source is {origin}")


def values(arguments: argparse.Namespace) -> dict[str, Any]:
    """The arguments of the converter."""
    named = {name: getattr(arguments, name) for name in _DEFAULTS}
    return {"inputs": named.pop("input_spec"), **named}
