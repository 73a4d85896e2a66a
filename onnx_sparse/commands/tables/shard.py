"""`shard`: a model whose tables are split over machines."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from onnx_sparse.commands import Progress
from onnx_sparse.commands.errors import raised
from onnx_sparse.settings import FilePath, function_of, option, positive
from onnx_sparse.shown import Shown, Table

if TYPE_CHECKING:
    from onnx_sparse.sharding.manifest import Manifest

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def byte_count(given: str) -> int:
    """A positive number of bytes, as 4096, 64M or 2G."""
    found = re.fullmatch(r"(\d+)([KMG]?)", given.strip(), re.I)
    if found is None or not int(found[1]):
        raise ValueError(f"{given!r} is not a number of bytes, such as 4096, 64M or 2G")
    return int(found[1]) * _UNITS[found[2].upper()]


@dataclass(frozen=True)
class ShardSettings:
    """What `shard` is asked for: the arguments of `onnx_sparse.shard`, and the options of `onnx-sparse shard`."""

    model: FilePath = field(metadata=option("an ONNX file", "MODEL", position=True))
    output: FilePath = field(metadata=option("the new folder", "DIR", short="-o"))
    _: KW_ONLY
    shards: int = field(metadata=option("how many shards", "K", parse=positive))
    by: Literal["rows", "table"] = field(
        default="rows",
        metadata=option(
            "rows: split each table, row i to shard i mod K; table: a whole table per shard (default: rows)"
        ),
    )
    at_least: int | str = field(
        default="64M",
        metadata=option(
            "the bytes of the smallest table that is split, such as 4096, 64M or 2G (default: 64M)",
            "BYTES",
            parse=lambda text: byte_count(text) and text,
        ),
    )
    exact: bool = field(
        default=False,
        metadata=option("send rows, never sums: answers equal the whole model's to the last bit"),
    )
    verify: bool = field(
        default=False,
        metadata=option("compare random rows of the tables, and answers to generated inputs, with the model's"),
    )


@dataclass(frozen=True, repr=False)
class Sharded(Shown):
    """A model that was split. Print it, or let a notebook show it.

        split: onnx_sparse.Sharded = onnx_sparse.shard("model.onnx", "in_two", shards=2, at_least=1)
        print(split.folder, split.manifest)

    Attributes:
        folder: The folder.
        manifest: What is in it.
        verified: What `verify` has compared; empty if it was not asked for.
    """

    folder: str
    manifest: Manifest
    verified: str = ""

    def __str__(self) -> str:
        return "\n".join(filter(None, [super().__str__(), self.verified]))

    @property
    def _title(self) -> str:
        return f"{self.folder}: {self.manifest.shards} shards"

    def _tables(self) -> list[Table]:
        return [self.cells()]

    def cells(self) -> tuple[list[str], list[list[object]]]:
        """The parts as text: the columns' names, and the rows."""
        from onnx_sparse.models.files.load_and_save import size_text

        files = {file.name: file.bytes for file in self.manifest.files}
        rows: list[list[object]] = []
        for shard in range(self.manifest.shards):
            held = [table for table in self.manifest.tables if shard in table.shards]
            size = sum(count for name, count in files.items() if name.startswith(f"shard-{shard}/"))
            rows.append([f"shard-{shard}", size_text(size), ", ".join(_rows(table, shard) for table in held)])
        rest = sum(count for name, count in files.items() if "/" not in name)
        rows.append(["the rest", size_text(rest), ""])
        return ["part", ">bytes", "rows of tables"], rows


def _rows(table: object, shard: int) -> str:
    from onnx_sparse.sharding.manifest import TablePlace

    assert isinstance(table, TablePlace)
    place = table.shards.index(shard)
    return f"{table.name} ({len(range(place, table.shape[0], len(table.shards))):,})"


def split_model(settings: ShardSettings, progress: Progress = lambda stage: None) -> Sharded:
    """Split a model.

    Raises:
        CommandError: The model cannot be read or split, or the folder cannot be written; or a comparison fails, then
            nothing is written.
    """
    from onnx_sparse.commands.description.findings import refuse_domain_errors
    from onnx_sparse.models.files.load_and_save import load_model
    from onnx_sparse.models.tools.inlining import without_calls_of_functions
    from onnx_sparse.sharding.parts import split
    from onnx_sparse.sharding.tables import split_tables
    from onnx_sparse.sharding.verification import compare_answers, compare_rows
    from onnx_sparse.sharding.writing import write_folder

    path, folder = Path(settings.model), Path(settings.output)
    least = byte_count(str(settings.at_least))
    progress(f"reading {path}")
    model = load_model(path, external_data=True)
    refuse_domain_errors(model, path)
    model = without_calls_of_functions(model)
    tables = split_tables(model, least)
    parts = split(model, tables, exact=settings.exact)
    manifest = write_folder(
        model,
        parts,
        folder,
        tables=tables,
        shards=settings.shards,
        by=settings.by,
        exact=settings.exact,
        least=least,
        progress=progress,
    )
    verified: Sequence[str] = ()
    if settings.verify:
        progress("comparing rows and answers")
        try:
            verified = [compare_rows(tables, folder), compare_answers(path, folder)]
        except BaseException:
            shutil.rmtree(folder)  # which is new
            raise
    return Sharded(str(folder), manifest, "; ".join(verified))


@function_of(ShardSettings)
def shard(settings: ShardSettings) -> Sharded:
    """Split the tables of a model over machines, as `onnx-sparse shard` does.

        onnx_sparse.shard("model.onnx", "split", shards=2, at_least=1)  # at_least: the bytes of a table that is split

    The folder gets a model for each shard with its rows, the model that merges what shards answer, and a manifest. Only
    a few megabytes of a table are in memory at a time. `onnx_sparse.ray.ShardedModel` serves the folder.

    Raises:
        ValueError: The model cannot be read, or one of the tables cannot be split; the message says why.
    """
    with raised(ShardSettings, failure=ValueError):
        return split_model(settings)
