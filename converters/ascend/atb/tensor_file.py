"""Reads the `.bin` files in which ATB's dump tools write tensors: lines of text, then the data.

The files are untrusted: reading is bounded, sizes are checked against the file before anything is allocated, and
nothing outside the dump's folder is opened, wherever `data=` or a symbolic link points.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnx_sparse.converters.ascend.atb.records import TensorRecord
from onnx_sparse.converters.ascend.dtypes import ACL, FORMATS
from onnx_sparse.converters.ascend.source import inside, is_file_inside
from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.files.guarded_files import open_file
from onnx_sparse.schemas.declaration import DType, numpy_dtype

_MOST_HEADER_BYTES = 64 * 1024
_MOST_DIMS = 64


@dataclass(frozen=True)
class _Header:
    dtype: DType | None
    format: str | None
    shape: tuple[int, ...]
    start: int  # where the data area begins in the file
    data: tuple[int, int] | None  # offset in the data area, and length
    elsewhere: str  # the file that holds the data, if it is not in this one


def read_record(file: Path, root: Path | None) -> TensorRecord:
    """The record in the header of a file; a tool can be told to write headers without data."""
    header = _header(file, root)
    without_data = header.data is not None and header.data[1] > 0 and file.stat().st_size <= header.start
    return TensorRecord(header.dtype, header.format, header.shape, None if without_data else file)


def read_tensor(file: Path, root: Path | None) -> np.ndarray[Any, Any]:
    """The tensor in a file.

    Args:
        file: The file.
        root: The folder outside of which nothing is read.

    Raises:
        ConversionError: The file is malformed, truncated or outside the folder.
    """
    header = _header(file, root)
    if header.dtype is None:
        raise ConversionError(f"{file}: its element type is not one that ONNX has")
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
    """The file that `data=` names, relative to the file's own folder or to the dump's."""
    folder = root if root is not None else file.parent
    for base in (file.parent, folder):
        if os.path.isfile(base / text):
            if not is_file_inside(base / text, folder):
                break
            return base / text
    raise ConversionError(f"{file}: data={text!r} is not a file in the dump's folder {folder}; nothing else is read")


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
    return _Header(ACL.get(dtype), FORMATS.get(layout, str(layout)), shape, start, place, elsewhere)


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())
