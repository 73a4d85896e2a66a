"""What a folder of a model that is split says about itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from onnx_sparse.errors import CommandError, printable
from onnx_sparse.files.guarded_files import read_file
from onnx_sparse.files.ranges import Part, damage

MANIFEST = "manifest.json"
#: The model as it was, without the data of its tensors.
WHOLE = "model.onnx"
FRONT, MERGE = "ids.onnx", "merge.onnx"
#: In the folder of each shard.
SHARD, ROWS = "shard.onnx", "rows.data"

#: Of files of more bytes only the size is compared when a model is opened.
_COMPARED = 1 << 24
#: Of the format of manifests.
_VERSION = 2

#: How tables are split: the rows of each over all shards, or each table to one shard.
By = Literal["rows", "table"]


@dataclass(frozen=True)
class TablePlace:
    """A table, and where its rows are.

    Attributes:
        name: Its name in the model.
        shape: Its shape.
        type: The element type.
        shards: The shards that have rows of it: the row i is row i // n of the shard at place i mod n of these n.
        bytes: Its bytes, with scales and biases.
        scales: The shape and the element type of the scales and biases of a quantized one.
    """

    name: str
    shape: tuple[int, ...]
    type: str
    shards: tuple[int, ...]
    bytes: int
    scales: tuple[tuple[int, ...], str] | None = None


@dataclass(frozen=True)
class LookupPlace:
    """A lookup of a table that is split.

    Attributes:
        key: What begins the names of its inputs and outputs in the models of the parts.
        table: The table's name.
        operator: The operator.
        label: The node in messages.
        attributes: The node's attributes.
        inputs: The values that it reads beside the table, by the names of the operator's inputs.
        sums: Whether shards may send sums.
    """

    key: str
    table: str
    operator: str
    label: str
    attributes: Mapping[str, str]
    inputs: Mapping[str, str]
    sums: bool


@dataclass(frozen=True)
class PartFile:
    """A file of the folder: its name, bytes and SHA-1."""

    name: str
    bytes: int
    sha1: str


@dataclass(frozen=True)
class Manifest:
    """What a folder holds.

    Attributes:
        shards: How many shards there are.
        by: How tables are split.
        exact: Whether shards send rows, never sums.
        version: What tells the folder from those of other models and tables: the SHA-1 of the rest of the manifest.
        tables: The tables that are split.
        lookups: What reads them.
        constants: Inputs of lookups that never change: element type, shape and values.
        front: Whether a model computes ids.
        outputs: The outputs of the model that this one makes.
        whole: The other tensors of so many bytes, which all are in the merging model or that of ids.
        files: The files.
    """

    shards: int
    by: By
    exact: bool
    tables: tuple[TablePlace, ...]
    lookups: tuple[LookupPlace, ...]
    constants: Mapping[str, tuple[str, Sequence[int], Sequence[Any]]]
    front: bool
    outputs: tuple[str, ...]
    whole: Mapping[str, int] = field(default_factory=dict)
    files: tuple[PartFile, ...] = ()
    version: str = ""

    def signed(self) -> Manifest:
        """It with its version."""
        content = replace(self, version="").text().encode()
        return replace(self, version=hashlib.sha1(content, usedforsecurity=False).hexdigest())

    def text(self) -> str:
        """It as JSON."""
        return json.dumps({"format": _VERSION, **asdict(self)}, indent=1) + "\n"

    def constant_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The constants."""
        return {n: np.array(values, dtype).reshape(shape) for n, (dtype, shape, values) in self.constants.items()}


def is_split(path: Path) -> bool:
    """Whether a path is the folder of a model that is split."""
    return (path / MANIFEST).is_file()


def refuse_split(path: Path) -> None:
    """Refuse to change the folder of a model that is split, or a file of it: its manifest says what each holds.

    Raises:
        CommandError: The path is one of these.
    """
    for folder in (path, path.parent, path.parent.parent):
        if is_split(folder) and (
            folder == path or path in (folder / file.name for file in read_manifest(folder).files)
        ):
            raise CommandError(
                f"{path} is of the model that is split in {folder}, whose parts cannot be changed: change the whole "
                "model, and split it again into a new folder (onnx-sparse shard MODEL -o DIR)"
            )


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder.

    Raises:
        CommandError: There is none, or it is damaged or of another format.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise CommandError(f"{folder} is not the folder of a model that is split: it has no {MANIFEST}")
    try:
        held = json.loads(read_file(path))
        if (version := held.pop("format")) != _VERSION:
            raise CommandError(f"{path} is of format {version}; this version of onnx_sparse reads {_VERSION}")
        tables = tuple(_table(**table) for table in held.pop("tables"))
        lookups = tuple(LookupPlace(**lookup) for lookup in held.pop("lookups"))
        files = tuple(PartFile(**file) for file in held.pop("files"))
        manifest = Manifest(tables=tables, lookups=lookups, files=files, **held)
        if manifest.version != (version := manifest.signed().version):
            raise ValueError(f"its SHA-1 is {version}, and it names {printable(manifest.version)}")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CommandError(f"{path} is damaged: {error}") from error
    return manifest


def require_files(folder: Path, manifest: Manifest, part: str, *, whole: bool = False) -> None:
    """Compare the files of a part with the manifest, so that parts of two versions are never used together.

    Args:
        folder: The folder.
        manifest: Its manifest.
        part: The folder in it; empty for the files in the folder itself.
        whole: Whether large files are read, too. Else only their size is compared; the model beside them names their
            checksum.

    Raises:
        CommandError: A file is missing, or another one.
    """
    for file in manifest.files:
        path = folder / file.name
        if file.name.rpartition("/")[0] != part:
            continue
        if not path.is_file():
            raise CommandError(f"{path}: no such file")
        compared = whole or file.bytes <= _COMPARED
        if path.stat().st_size != file.bytes or (compared and damage(path, Part(file.sha1))):
            raise CommandError(f"{path} is not the file that {MANIFEST} names: it is damaged, or of another version")


def _table(shape: Any, shards: Any, scales: Any, **rest: Any) -> TablePlace:
    scales = None if scales is None else (tuple(scales[0]), scales[1])
    return TablePlace(shape=tuple(shape), shards=tuple(shards), scales=scales, **rest)
