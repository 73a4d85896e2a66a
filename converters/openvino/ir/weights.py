"""The .bin of an IR: the bytes of its constants, one after the other, unaligned; equal constants share their bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import ml_dtypes
import numpy as np

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.openvino.element_types import CARRIED, NF4, ONNX_TYPES, PER_BYTE, PER_THREE_BYTES
from onnx_sparse.converters.tensor import Array
from onnx_sparse.files.ranges import FileRange, StoredFile
from onnx_sparse.models.data.references import LEAST
from onnx_sparse.schemas.declaration import numpy_dtype

_FLOAT8 = {
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e8m0": ml_dtypes.float8_e8m0fnu,
}


class Weights:
    """The constants of an IR. Large ones are mapped, not read; bytes that no constant uses never are.

    Args:
        path: The file.
        root: The folder that holds it; None if the caller has named it.
    """

    def __init__(self, path: Path, root: Path | None = None) -> None:
        self.path, self._root = path, root
        self._file: StoredFile | None = None

    def constant(self, element_type: str, shape: Sequence[int], offset: int, size: int) -> Array:
        """The constant at an offset.

        Raises:
            ConversionError: It is not inside the file, or its size is not that of its shape.
        """
        count = math.prod(shape)
        if element_type not in ONNX_TYPES:
            raise ConversionError(f"element type {element_type[:20]!r} is not known")
        if any(dim < 0 for dim in shape) or count > 2**48:
            raise ConversionError(f"shape {list(shape)} is not a valid shape of a constant")
        if element_type == "string":
            return _strings(self._slice(offset, size), count).reshape(shape)
        needed = _byte_count(element_type, count)
        # An empty constant has a filler byte.
        if size < needed or (size > needed and count):
            raise ConversionError(f"it has {size} bytes; {element_type}{list(shape)} takes {needed}")
        if needed >= LEAST and not _is_decoded(element_type):
            return self._range(offset, needed).mapped(numpy_dtype(ONNX_TYPES[element_type]), tuple(shape))
        return _decode(self._slice(offset, needed), element_type, count).reshape(shape)

    def _slice(self, offset: int, size: int) -> bytes:
        return self._range(offset, size).read() if size else b""

    def _range(self, offset: int, size: int) -> FileRange:
        file = self.file()
        if offset < 0 or size < 0 or offset + size > file.size:
            raise ConversionError(
                f"it lies at bytes {offset} to {offset + size} of {self.path.name}, which has only {file.size}"
            )
        return FileRange(file, offset, size)

    def file(self) -> StoredFile:
        """The file.

        Raises:
            ConversionError: It cannot be read.
        """
        if self._file is None:
            try:
                self._file = StoredFile.of(self.path, self._root)
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise ConversionError(f"{self.path}, the constants of the IR, cannot be read: {reason}") from error
        return self._file


def _byte_count(element_type: str, count: int) -> int:
    if element_type in PER_BYTE:
        return -(-count // PER_BYTE[element_type])
    if element_type in PER_THREE_BYTES:
        return 3 * -(-count // PER_THREE_BYTES[element_type])
    if element_type in _FLOAT8:
        return count
    return count * numpy_dtype(ONNX_TYPES[element_type]).itemsize


def _is_decoded(element_type: str) -> bool:
    return element_type in _FLOAT8 or element_type in CARRIED or element_type == "boolean"


def _decode(data: bytes, element_type: str, count: int) -> Array:
    if element_type in _FLOAT8:
        return np.frombuffer(data, _FLOAT8[element_type]).astype(numpy_dtype(ONNX_TYPES[element_type]))
    if element_type not in CARRIED:
        dtype = np.dtype(numpy_dtype(ONNX_TYPES[element_type]))
        if element_type == "boolean":  # any byte but 0 is true; numpy would keep the byte's value
            return np.not_equal(np.frombuffer(data, np.uint8), 0)
        return np.frombuffer(data, dtype)
    raw = np.frombuffer(data, np.uint8)
    if element_type == "u1":  # the highest bit first
        return np.unpackbits(raw, count=count)
    if element_type == "u2":
        return np.stack([(raw >> shift) & 3 for shift in (0, 2, 4, 6)], axis=-1).ravel()[:count]
    if element_type in PER_THREE_BYTES:  # the highest bits first
        bits = np.unpackbits(raw.reshape(-1, 3), axis=1)
        lower, upper = (
            part.reshape(len(bits), PER_THREE_BYTES[element_type], -1) for part in (bits[:, :16], bits[:, 16:])
        )
        whole = np.concatenate([upper, lower], axis=2)
        return np.asarray(whole @ (1 << np.arange(whole.shape[2])[::-1]), np.uint8).ravel()[:count]
    nibbles = np.stack([raw & 15, raw >> 4], axis=-1).ravel()[:count]  # the lower one first
    if element_type == "u4":
        return nibbles
    if element_type == "i4":
        return ((nibbles ^ 8).astype(np.int8) - 8).astype(np.int8)
    if element_type == "f4e2m1":
        return np.asarray(nibbles.view(ml_dtypes.float4_e2m1fn), np.float16)
    return np.array(NF4, np.float32)[nibbles]


def _strings(data: bytes, count: int) -> Array:
    """Decode strings, which are stored as their number, the start of each and the end of the last, then all bytes."""
    head = 4 * (count + 2)
    if len(data) < head or (found := int(np.frombuffer(data, "<i4", 1)[0])) != count:
        raise ConversionError(f"it does not hold {count} strings" if len(data) < head else f"it holds {found} strings")
    bounds = np.frombuffer(data, "<i4", count + 1, 4).astype(np.int64)
    if bounds[0] < 0 or (np.diff(bounds) < 0).any() or head + bounds[-1] > len(data):
        raise ConversionError("the bounds of its strings are not in order")
    strings = np.empty(count, object)
    strings[:] = [data[head + a : head + b] for a, b in pairwise(bounds)]
    return strings
