"""Split the tables of a model over machines: for tables that one machine cannot hold.

DIR gets a model for each shard, with its rows of each table, a model that computes ids, a model
that merges what the shards answer, and manifest.json. Row i of a table is on shard i mod K. Each
table is read once, a few megabytes at a time.

`onnx-sparse run DIR` and `score DIR` run all shards in one process, `score DIR --engine ray` and
onnx_sparse.ray.ShardedModel(DIR) on a Ray cluster.
"""

from __future__ import annotations

import argparse
import dataclasses

from onnx_sparse.cli import output
from onnx_sparse.cli.arguments import add_options, given
from onnx_sparse.commands.tables.shard import ShardSettings, split_model

NAME = "shard"
SUMMARY = "split a model's tables over machines"
EXAMPLES = """
onnx-sparse shard model.onnx -o split --shards 8
onnx-sparse shard model.onnx -o out --shards 8 --at-least 1G --exact --verify
onnx-sparse shard model.onnx -o split --shards 3 --by table
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_options(parser, ShardSettings)


def run(arguments: argparse.Namespace) -> int:
    """Split the model."""
    settings = given(ShardSettings, arguments)
    with output.progress("reading", quiet=arguments.json) as progress:
        made = split_model(settings, progress)
    if arguments.json:
        output.write_json(
            {"folder": made.folder, **dataclasses.asdict(made.manifest), "verified": made.verified or None}
        )
        return output.DONE
    output.heading(made.folder)
    output.table(*made.cells())
    if made.verified:
        output.write_line(made.verified)
    return output.DONE
