"""The checksums that a model states of the files with its data, and files that grow at their end.

ONNX has one checksum for a whole file. A file that rows are added to has one for each part instead, in the model's
metadata: the parts that were there before need not be read again. What is in such a file never changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from onnx_sparse.errors import CommandError
from onnx_sparse.files.new_file import errors_of, locked
from onnx_sparse.files.ranges import Part
from onnx_sparse.models.data.references import is_reference

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

#: The key of the record in a model's metadata_props.
METADATA_KEY = "onnx_sparse.data_parts"
VERSION = 1


def location(tensor: TensorProto) -> dict[str, str]:
    """Where a tensor's data are, by ONNX's keys: `location`, `offset`, `length`, `checksum`; empty if in the model.

    A reference of this process counts as being in the model.
    """
    is_elsewhere = tensor.data_location == tensor.EXTERNAL and not is_reference(tensor)
    return {entry.key: entry.value for entry in tensor.external_data} if is_elsewhere else {}


def locations(model: ModelProto) -> set[str]:
    """The names of the files next to a model that have data of its tensors, as the model says them."""
    from onnx_sparse.models.graphs import all_tensors

    return {place["location"] for place in map(location, all_tensors(model)) if "location" in place}


def data_ends(model: ModelProto) -> dict[str, int]:
    """The byte after the last one that a model names in each file, by location, where it states offsets and lengths."""
    from onnx_sparse.models.graphs import all_tensors

    ends: dict[str, int] = {}
    for place in map(location, all_tensors(model)):
        offset, length = place.get("offset", "0"), place.get("length", "")
        if "location" in place and offset.isdecimal() and length.isdecimal():
            ends[place["location"]] = max(ends.get(place["location"], 0), int(offset) + int(length))
    return ends


def parts_of(model: ModelProto) -> dict[str, tuple[Part, ...]]:
    """The parts of each file, by location, that the external data of a model name and state checksums of.

    Raises:
        CommandError: The record is damaged, or of a later version.
    """
    from onnx_sparse.models.graphs import all_tensors

    recorded, ends = _recorded(model), data_ends(model)
    found: dict[str, tuple[Part, ...]] = {}
    for tensor in all_tensors(model):
        place = location(tensor)
        if {"location", "checksum"} <= place.keys():
            found[place["location"]] = (Part(place["checksum"].lower(), named=ends.get(place["location"], 0)),)
        elif place.get("location") in recorded:
            found.setdefault(place["location"], recorded[place["location"]])
    return found


def record_parts(model: ModelProto, files: Mapping[str, Sequence[Part]]) -> None:
    """State the parts of files that grow; those of other files, which the model no longer names, are forgotten."""
    named = locations(model)
    kept = {
        name: [[part.begin, part.end, part.checksum] for part in parts if part.end is not None]
        for name, parts in sorted({**_recorded(model), **files}.items())
        if name in named
    }
    others = [entry for entry in model.metadata_props if entry.key != METADATA_KEY]
    del model.metadata_props[:]
    model.metadata_props.extend(others)
    if kept:
        model.metadata_props.add(key=METADATA_KEY, value=json.dumps({"version": VERSION, "files": kept}))


def _recorded(model: ModelProto) -> dict[str, tuple[Part, ...]]:
    record = next((entry.value for entry in model.metadata_props if entry.key == METADATA_KEY), None)
    if record is None:
        return {}
    try:
        content = json.loads(record)
        if content["version"] != VERSION:
            raise ValueError(f"version {content['version']!r} is not {VERSION}")
        return {name: tuple(map(_part, parts)) for name, parts in content["files"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CommandError(f"the metadata {METADATA_KEY} cannot be read: {error}") from None


def _part(entry: Any) -> Part:
    begin, end, checksum = entry
    if not (type(begin) is type(end) is int and 0 <= begin <= end and isinstance(checksum, str)):
        raise ValueError(f"{entry!r} is not a part of a file")
    return Part(checksum, begin, end)


@contextlib.contextmanager
def growing(places: Sequence[tuple[Path, int, int]]) -> Iterator[Growth]:
    """Files that rows are added to, at the same number in each; as long as the block lasts, by this process only.

    What another process has left behind stays where it is: another model may have named it.

    Args:
        places: The files, each with the byte at which its table begins, and the bytes of a row.

    Raises:
        CommandError: Another process adds rows to one.
    """
    if sys.platform == "win32":
        raise CommandError("rows cannot be added to a file on Windows, where it cannot be locked: replace the table")
    with contextlib.ExitStack() as opened:
        files = []
        for path, _, _ in places:
            with errors_of(path):
                file = opened.enter_context(path.open("r+b"))
            if not opened.enter_context(locked(file)):
                raise CommandError(f"{path}: another process adds rows to it; run the command again when it is done")
            files.append(file)
        yield Growth(places, files)


class Growth:
    """See `growing`.

    Attributes:
        sizes: The bytes that the files had before.
        first: The number of the first row that is added.
    """

    def __init__(self, places: Sequence[tuple[Path, int, int]], files: Sequence[BinaryIO]) -> None:
        self._places, self._files = places, files
        self.sizes = [os.fstat(file.fileno()).st_size for file in files]
        self.first = max(-((begin - size) // row) for (_, begin, row), size in zip(places, self.sizes, strict=True))

    def add(self, contents: Sequence[memoryview]) -> list[Part]:
        """Write rows, which are on the disk then, and return where they are in each file."""
        parts = []
        for (path, begin, row), file, content in zip(self._places, self._files, contents, strict=True):
            at = begin + self.first * row
            with errors_of(path):
                file.seek(at)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            digest = hashlib.sha1(content, usedforsecurity=False).hexdigest()
            parts.append(Part(digest, at, at + content.nbytes))
        return parts

    def undo(self) -> None:
        """Take back what was added, and no model names."""
        for file, size in zip(self._files, self.sizes, strict=True):
            with contextlib.suppress(OSError):
                file.truncate(size)
