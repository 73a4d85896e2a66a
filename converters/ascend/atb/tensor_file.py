"""Reads the `.bin` files in which ATB's dump tools write tensors: lines of text, then the data.

The files are untrusted: reading is bounded, sizes are checked against the file before anything is allocated, and
nothing outside the dump's folder is opened, wherever `data=` or a symbolic link points.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnx_sparse.converters.ascend.atb.records import TensorPlace, TensorRecord
from onnx_sparse.converters.ascend.dtypes import ACL, ACL_NAMES, FORMATS
from onnx_sparse.converters.ascend.source import inside, is_file_inside
from onnx_sparse.converters.errors import ConversionError, Unsupported
from onnx_sparse.files.guarded_files import open_file
from onnx_sparse.schemas.declaration import DType, numpy_dtype

_MOST_HEADER_BYTES = 64 * 1024
_MOST_DIMS = 64
#: The folder of a layer or operation: `<id>_<Type>`.
FOLDER = re.compile(r"(?:\d+_)*?(\d+)_(\D.*)")
#: msprobe's name for a tensor that it has saved before: the ids of layer, graphs and operation, then the file's name.
_SAVED_BEFORE = re.compile(r"((?:\d{1,9}_)+)(in|out)tensor(\d{1,5})\.bin")


@dataclass(frozen=True)
class _Header:
    dtype: DType | None
    acl: int  # the number of the element type
    format: str | None
    shape: tuple[int, ...]
    start: int  # where the data area begins in the file
    data: tuple[int, int] | None  # offset in the data area, and length
    elsewhere: str  # the file that holds the data, if it is not in this one


def read_record(file: Path, root: Path | None) -> TensorRecord:
    """The record in the header of a file, or why it has none; a tool can be told to write headers without data."""
    try:
        header = _header(file, root)
        without_data = header.data is not None and header.data[1] > 0 and file.stat().st_size <= header.start
    except ConversionError as error:
        return TensorRecord(file=file, error=str(error))
    place = None if without_data else file
    return TensorRecord(header.dtype, header.format, header.shape, place, _saved_as(header.elsewhere))


def _saved_as(text: str) -> TensorPlace | None:
    match = _SAVED_BEFORE.fullmatch(text)
    return TensorPlace(tuple(map(int, match[1].split("_")[:-1])), match[2], int(match[3])) if match else None


def read_tensor(file: Path, root: Path | None) -> np.ndarray[Any, Any]:
    """The tensor in a file.

    Args:
        file: The file.
        root: The folder outside of which nothing is read.

    Raises:
        ConversionError: The file is malformed, truncated or outside the folder.
        Unsupported: Its element type is one that no handler computes with.
    """
    header = _header(file, root)
    if header.dtype is None:
        if header.acl in ACL_NAMES:
            raise Unsupported(f"{file.name} is {ACL_NAMES[header.acl]}, which is not computed here")
        raise ConversionError(f"{file}: dtype={header.acl} is not an element type of ACL")
    holder, place = file, header
    if header.elsewhere:
        holder = _other_file(file, header.elsewhere, root)
        place = _header(holder, root)
        if place.elsewhere:
            raise ConversionError(f"{file}: data={header.elsewhere} has no data itself")
    if place.data is None:
        raise ConversionError(f"{holder}: $Object.data is missing")
    dtype = numpy_dtype(header.dtype)
    offset, length = place.data
    wanted = math.prod(header.shape) * dtype.itemsize
    there = os.stat(holder).st_size - place.start
    if length != wanted or offset < 0 or offset + length > there:
        raise ConversionError(
            f"{file}: {dtype} {list(header.shape)} is {wanted} bytes; the header says {length} at {offset}, "
            f"and there are {there}"
        )
    with open_file(holder, root) as stream:
        stream.seek(place.start + offset)
        data = stream.read(length)
    if len(data) != length:
        raise ConversionError(f"{file} is truncated")
    return np.frombuffer(data, dtype).reshape(header.shape)


def _other_file(file: Path, text: str, root: Path | None) -> Path:
    """The file that `data=` names: a tensor saved before, else a path from the file's own folder or the dump's."""
    folder = root if root is not None else file.parent
    saved = _saved_as(text)
    candidates = [file.parent / text, folder / text, *([] if saved is None else _files_of(saved, file))]
    for candidate in candidates:
        if os.path.isfile(candidate):
            if not is_file_inside(candidate, folder):
                break
            return candidate
    raise ConversionError(f"{file}: data={text!r} is not a file in the dump's folder {folder}; nothing else is read")


def _files_of(place: TensorPlace, file: Path) -> list[Path]:
    """The file of a tensor in the same round as another file."""
    folder = file.parent.parent
    while FOLDER.fullmatch(folder.name):
        folder = folder.parent
    found = [folder]
    for wanted in place.ids:
        found = [
            child
            for parent in found
            for child in sorted(parent.iterdir())
            if (match := FOLDER.fullmatch(child.name)) and int(match[1]) == wanted and child.is_dir()
        ]
    when = "before" if place.side == "in" else "after"
    return [parent / when / f"{place.side}tensor{place.index}.bin" for parent in found]


def _header(file: Path, root: Path | None) -> _Header:
    if not inside(file, root):
        raise ConversionError(f"{file} is outside of the dump's folder {root}; nothing else is read")
    try:
        with open_file(file, root) as stream:
            head = stream.read(_MOST_HEADER_BYTES)
    except OSError as error:
        raise ConversionError(f"{file} cannot be read: {error.strerror}") from error
    fields: dict[str, str] = {}
    start = 0
    while "$End" not in fields:
        end = head.find(b"\n", start)
        if end < 0:
            raise ConversionError(f"{file} is not a tensor of an ATB dump: its header has no $End")
        key, _, value = head[start:end].decode("utf-8", "replace").strip().partition("=")
        fields[key.strip()] = value.strip()
        start = end + 1
    try:
        shape = _integers(fields.get("dims", ""))
        data = _integers(fields["$Object.data"]) if "$Object.data" in fields else None
        dtype, layout = int(fields.get("dtype", "-1")), int(fields.get("format", "-1"))
    except ValueError as error:
        raise ConversionError(f"{file}: its header is malformed: {error}") from error
    if len(shape) > _MOST_DIMS or any(not 0 <= dim < 2**63 for dim in shape) or (data is not None and len(data) != 2):
        raise ConversionError(f"{file}: its header is malformed: dims {list(shape)[:8]}, data {data}")
    place = None if data is None else (data[0], data[1])
    elsewhere = fields.get("data", "") if place is None else ""
    return _Header(ACL.get(dtype), dtype, FORMATS.get(layout, str(layout)), shape, start, place, elsewhere)


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())
