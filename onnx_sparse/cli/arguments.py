"""Options that several commands have."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_inputs(parser: argparse.ArgumentParser, *names: str, help: str) -> None:  # as argparse calls it
    """Declare an option for the inputs of a run, which `feeds.read_feeds` reads."""
    parser.add_argument(*names, action="append", default=[], metavar="FILE.npz|NAME=FILE|NAME=JSON", help=help)


def add_source(parser: argparse.ArgumentParser) -> None:
    """Declare the options that name the source of a model, and which graph of it."""
    parser.add_argument("--source", type=Path, metavar="SRC", help="the source of MODEL, to compare with")
    parser.add_argument("--signature", help="the signature of SRC, if it is a SavedModel (default: serving_default)")
    parser.add_argument("--tag", help="the graph of SRC, if it is a SavedModel with several (default: serve)")
