"""Repeated numbers of protobuf as they are sent: their bytes are an array already, or become one without objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_sparse.rows.columns import Array

#: Numbers of fixed length, and the types of those of variable length, by their fields of the protocol's contents.
_FIXED: dict[str, np.dtype[Any]] = {"fp32_contents": np.dtype("<f4"), "fp64_contents": np.dtype("<f8")}
_VARIABLE: dict[str, Any] = {
    "bool_contents": np.bool_,
    "int_contents": np.int32,
    "int64_contents": np.int64,
    "uint_contents": np.uint32,
    "uint64_contents": np.uint64,
}
FIELDS = (*_FIXED, *_VARIABLE)

#: The bytes of a number, which has seven bits in each, and the bytes that are decoded at once.
_MOST_BYTES, _PIECE = 10, 1 << 20


def packed(field: str, array: Array) -> bytes:
    """The bytes of numbers in a field, packed.

    Args:
        field: One of `FIELDS`.
        array: The numbers.
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    if (dtype := _FIXED.get(field)) is not None:
        return flat.astype(dtype, copy=False).tobytes()
    pieces = []
    for begin in range(0, flat.size, _PIECE // _MOST_BYTES):
        values = flat[begin : begin + _PIECE // _MOST_BYTES]
        values = values.astype(np.int64 if values.dtype.kind == "i" else np.uint64).view(np.uint64)
        shifted = values[:, None] >> np.arange(0, 7 * _MOST_BYTES, 7, dtype=np.uint64)
        is_sent = shifted != 0
        is_sent[:, 0] = True
        content = (shifted & np.uint64(0x7F)).astype(np.uint8)
        content[:, :-1] |= np.where(is_sent[:, 1:], np.uint8(0x80), np.uint8(0))
        pieces.append(content[is_sent].tobytes())
    return b"".join(pieces)


def numbers(field: str, chunks: Sequence[bytes]) -> Array | None:
    """The numbers in the packed chunks of a field; None if these are no numbers.

    Args:
        field: One of `FIELDS`.
        chunks: What was sent for it.
    """
    content = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    if (dtype := _FIXED.get(field)) is not None:
        return None if len(content) % dtype.itemsize else np.frombuffer(content, dtype)
    raw = np.frombuffer(content, np.uint8)
    if raw.size and raw[-1] & 0x80:
        return None
    found: list[Array] = []
    kind, begin = _VARIABLE[field], 0
    while begin < raw.size:
        ends = np.flatnonzero(raw[begin : begin + _PIECE] < 0x80)
        if not ends.size:
            return None
        begins = np.append(0, ends[:-1] + 1)
        lengths = ends - begins + 1
        if lengths.max() > _MOST_BYTES:
            return None
        piece = raw[begin : begin + int(ends[-1]) + 1]
        values = np.zeros(len(ends), np.uint64)
        for k in range(int(lengths.max())):
            has = np.flatnonzero(lengths > k)
            values[has] |= (piece[begins[has] + k] & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * k)
        found.append(values != 0 if kind is np.bool_ else values.astype(kind))
        begin += int(ends[-1]) + 1
    return np.concatenate(found) if found else np.zeros(0, kind)
