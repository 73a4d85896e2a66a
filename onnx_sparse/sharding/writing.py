"""Writing the folder of a model that is split: each table is read once, and rows go to all shards at once."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from onnx import ModelProto, TensorProto

from onnx_sparse.errors import CommandError
from onnx_sparse.files.new_folder import new_parts
from onnx_sparse.files.ranges import FileRange
from onnx_sparse.models.data.references import byte_size, data_of, is_reference, point_to, state_place
from onnx_sparse.models.files.load_and_save import save_model
from onnx_sparse.models.graphs import all_tensors, array_of, attributes
from onnx_sparse.schemas import DOMAIN
from onnx_sparse.schemas.declaration import numpy_dtype
from onnx_sparse.sharding.manifest import (
    FRONT,
    MANIFEST,
    MERGE,
    ROWS,
    SHARD,
    WHOLE,
    By,
    LookupPlace,
    Manifest,
    PartFile,
    TablePlace,
)
from onnx_sparse.sharding.parts import Ask, Parts, shard_model
from onnx_sparse.sharding.tables import Table

#: The bytes of rows that are read at once.
_BLOCK = 1 << 24
#: Tensors begin at multiples of this, so that they can be mapped into memory.
_PAGE = 4096
#: Tensors of fewer bytes stay in the model without data: their values say what inputs mean.
_SMALL = 1024


@dataclass
class _Shard:
    """The file with a shard's rows while it is written."""

    file: BinaryIO
    sha1: Any = field(default_factory=lambda: hashlib.sha1(usedforsecurity=False))
    places: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def write(self, content: Any) -> None:
        self.file.write(content)
        self.sha1.update(content)

    def begin(self) -> int:
        self.write(bytes(-self.file.tell() % _PAGE))
        return self.file.tell()


def write_folder(
    model: ModelProto,
    parts: Parts,
    folder: Path,
    *,
    tables: Sequence[Table],
    shards: int,
    by: By,
    exact: bool,
    least: int,
    progress: Callable[[str], None] = lambda stage: None,
) -> Manifest:
    """Write all parts of a model; the folder appears whole or not at all.

    Raises:
        CommandError: There is something already, or it cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CommandError(f"{folder} is there already; servers may have mapped its tables: give a new folder")
    if by == "table" and len(tables) < shards:
        raise CommandError(
            f"{len(tables)} tables are split, so with --by table at most --shards {len(tables)} have one"
        )
    places = _places(tables, shards, by)
    with new_parts(folder) as part:
        written: list[PartFile] = []
        with contextlib.ExitStack() as opened:
            made = []
            for shard in range(shards):
                (part / f"shard-{shard}").mkdir()
                made.append(_Shard(opened.enter_context((part / f"shard-{shard}" / ROWS).open("wb"))))
            for table in tables:
                progress(f"splitting {table.name}")
                for tensor in table.tensors:
                    _split_rows(tensor, [made[shard] for shard in places[table.name].shards])
        for number, each in enumerate(made):
            held = [ask for ask in parts.asks if number in places[ask.table.name].shards]
            written += _write_shard(model, held, each, part / f"shard-{number}")
        progress("writing what computes ids and what merges")
        _write_whole(model, tables, part)
        if parts.front is not None:
            save_model(parts.front, part / FRONT)
        save_model(parts.merge, part / MERGE)
        written += [_part_file(path) for path in sorted(part.iterdir()) if path.is_file()]
        named = {tensor.name for table in tables for tensor in table.tensors}
        others = {t.name: byte_size(t) or 0 for t in model.graph.initializer if t.name not in named}
        manifest = Manifest(
            shards=shards,
            by=by,
            exact=exact,
            tables=tuple(places.values()),
            lookups=tuple(map(_lookup_place, parts.asks)),
            constants={n: (a.dtype.name, a.shape, a.reshape(-1).tolist()) for n, a in parts.constants.items()},
            front=parts.front is not None,
            outputs=tuple(parts.outputs),
            whole={name: size for name, size in others.items() if size >= least},
            files=tuple(written),
        ).signed()
        (part / MANIFEST).write_text(manifest.text(), "utf-8")
    return manifest


def _places(tables: Sequence[Table], shards: int, by: By) -> dict[str, TablePlace]:
    """Where each table is; whole tables go to the shard that has the fewest bytes, the largest first."""
    held = [0] * shards
    chosen: dict[str, tuple[int, ...]] = {}
    for table in sorted(tables, key=lambda table: -table.bytes):
        least = held.index(min(held))
        held[least] += table.bytes
        chosen[table.name] = (least,) if by == "table" else tuple(range(shards))
    return {table.name: _place(table, chosen[table.name]) for table in tables}


def _place(table: Table, shards: tuple[int, ...]) -> TablePlace:
    kinds = [(tuple(map(int, t.dims)), numpy_dtype(t.data_type).name) for t in table.tensors]
    (shape, dtype), scales = kinds[0], kinds[1] if len(kinds) > 1 else None
    return TablePlace(table.name, shape, dtype, shards, table.bytes, scales)


def _split_rows(tensor: TensorProto, shards: Sequence[_Shard]) -> None:
    """Write the rows of a tensor, in turn, to the files of shards."""
    count, rows = len(shards), int(tensor.dims[0])
    row = (byte_size(tensor) or 0) // max(rows, 1)
    begins = [shard.begin() for shard in shards]
    for block in _row_blocks(tensor, row, count):
        for place, shard in enumerate(shards):
            shard.write(np.ascontiguousarray(block[place::count]))
    for place, (shard, begin) in enumerate(zip(shards, begins, strict=True)):
        shard.places[tensor.name] = (len(range(place, rows, count)), begin, shard.file.tell() - begin)


def _row_blocks(tensor: TensorProto, row: int, multiple: int) -> Iterator[Any]:
    """The rows of a tensor as bytes [n, row]; each block but the last has a multiple of so many rows."""
    rows = int(tensor.dims[0])
    some = max(1, _BLOCK // max(row, 1) // multiple) * multiple
    data = data_of(tensor) if is_reference(tensor) else None
    if isinstance(data, FileRange):
        with data.file.open() as file:  # not mapped: what is mapped counts as memory
            file.seek(data.offset)
            for first in range(0, rows, some):
                wanted = min(some, rows - first) * row
                content = file.read(wanted)
                if len(content) < wanted:
                    raise CommandError(f"{data.file.path} ends before the data of {tensor.name} do")
                yield np.frombuffer(content, np.uint8).reshape(-1, row)
        return
    array = np.ascontiguousarray(array_of(tensor))
    for first in range(0, rows, some):
        block = array[first : first + some]
        yield np.frombuffer(block.tobytes(), np.uint8).reshape(len(block), row)


def _write_shard(model: ModelProto, asks: Sequence[Ask], shard: _Shard, folder: Path) -> list[PartFile]:
    """Write the model of a shard, whose tables are in the file with its rows."""
    made = shard_model(model, asks)
    tensors = {tensor.name: tensor for ask in asks for tensor in ask.table.tensors}
    checksum = shard.sha1.hexdigest()
    for name, tensor in tensors.items():
        rows, offset, length = shard.places[name]
        held = made.graph.initializer.add(name=name, data_type=tensor.data_type, dims=[rows, *tensor.dims[1:]])
        if length:
            point_to(held, ROWS, offset, length, checksum)
        else:
            held.raw_data = b""
    made.ClearField("functions")
    path = folder / SHARD
    path.write_bytes(made.SerializeToString())
    data = folder / ROWS
    return [_part_file(path, folder.name), PartFile(f"{folder.name}/{ROWS}", data.stat().st_size, checksum)]


def _write_whole(model: ModelProto, tables: Sequence[Table], folder: Path) -> None:
    """Write the model as it was, without the data of large tensors, which tools ask about its inputs."""
    whole = ModelProto()
    whole.CopyFrom(model)
    for tensor in all_tensors(whole):
        size = byte_size(tensor) or 0
        if size >= _SMALL and tensor.data_type != TensorProto.STRING:
            for typed in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                tensor.ClearField(typed)
            state_place(tensor, "split", 0, size)
    (folder / WHOLE).write_bytes(whole.SerializeToString())


def _lookup_place(ask: Ask) -> LookupPlace:
    found = attributes(ask.lookup.node) if ask.lookup.node.domain == DOMAIN else {}
    written = {name: value.decode() for name, value in found.items()}
    operator = ask.lookup.op.name if ask.lookup.op is not None else "Gather"
    return LookupPlace(ask.key, ask.table.name, operator, ask.lookup.label, written, dict(ask.inputs), ask.sums)


def _part_file(path: Path, folder: str = "") -> PartFile:
    with path.open("rb") as file:
        return PartFile(
            f"{folder}/{path.name}" if folder else path.name,
            path.stat().st_size,
            hashlib.file_digest(file, "sha1").hexdigest(),
        )
