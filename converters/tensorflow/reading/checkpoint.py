"""The values of a checkpoint: an index of keys (`.index`) and shards with the data."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from onnx_sparse.converters.errors import ConversionError, Unsupported
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.reading import sorted_table
from onnx_sparse.converters.tensorflow.reading.element_types import NUMBERS, onnx_type, type_name
from onnx_sparse.converters.tensorflow.reading.messages import BundleEntryProto, BundleHeaderProto, TrackableObjectGraph
from onnx_sparse.converters.tensorflow.reading.tensor_values import shape_of
from onnx_sparse.converters.varint import read_varint
from onnx_sparse.files.checksum import masked_crc32c, masked_crc32c_of_file
from onnx_sparse.files.guarded_files import open_file, read_file
from onnx_sparse.files.ranges import FileRange, StoredFile
from onnx_sparse.schemas.declaration import numpy_dtype

#: Of one dimension of a part: its start and length, and whether it is the whole dimension.
Bound = tuple[tuple[int, int], bool]

_STRING = NUMBERS["string"]
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
#: Arrays of more bytes stay on disk until they are used.
MAPPED = 1 << 22
#: The largest index, and the most parts of a tensor.
_MOST_INDEX, _MOST_PARTS = 1 << 28, 1 << 14


class Checkpoint:
    """A checkpoint.

    Args:
        prefix: What its files' names begin with: `.../variables/variables`, `.../model.ckpt`.
        root: The folder outside of which no file is read; that of its files when omitted.

    Raises:
        ConversionError: Its index cannot be read.
    """

    def __init__(self, prefix: str, root: Path | None = None) -> None:
        self.prefix, self._root = prefix, root or Path(prefix).parent
        self._checked: set[tuple[int, int, int]] = set()
        index = Path(f"{prefix}.index")
        try:
            entries = sorted_table.entries(read_file(index, self._root, _MOST_INDEX))
            self._header = BundleHeaderProto.FromString(entries.pop(b"", b""))
        except OSError as error:
            raise ConversionError(f"{index} cannot be read: {error.strerror}") from error
        except (ValueError, DecodeError) as error:
            raise ConversionError(f"{index} is damaged: {error}") from error
        if self._header.endianness:
            raise ConversionError(f"{index} is of a machine with the highest byte first")
        self._entries = entries

    def __contains__(self, key: str) -> bool:
        return key.encode() in self._entries

    def matches(self, pattern: re.Pattern[bytes]) -> list[re.Match[bytes]]:
        """Those of its keys that are of a form."""
        return [found for key in self._entries if (found := pattern.fullmatch(key))]

    def read(self, key: str, part: str = "") -> Array:
        """The value of a tensor; large ones are mapped into memory, strings are bytes in an array of objects.

        Args:
            key: Its key.
            part: The part of it, as RestoreV2 writes it: `"4 3 0,2:-"`; all when empty.

        Raises:
            Unsupported: There is no such tensor, or its data are not whole.
        """
        entry = self._entry(key.encode(), key)
        if not part:
            return self._whole(entry, key)
        shape, bounds = _bounds(part)
        for held in entry.slices:
            if [(e.start, e.length) for e in held.extent] == [
                (0, 0) if whole else bound for bound, whole in bounds
            ]:  # a whole dimension has no extent
                return self._stored(self._entry(_slice_key(key, bounds), key), key)
        whole = self._whole(entry, key)
        if whole.shape != tuple(shape):
            raise Unsupported(f"the checkpoint's {key} is {list(whole.shape)}, not {shape}")
        return whole[tuple(slice(start, start + length) for (start, length), _ in bounds)]

    def _whole(self, entry: Any, key: str) -> Array:
        if not entry.slices:
            return self._stored(entry, key)
        dims = _dims(entry, key)
        places = [
            [((e.start, e.length or size), not e.length) for e, size in zip(held.extent, dims, strict=False)]
            for held in entry.slices
        ]
        _require_partition(places, dims, key)  # before there is memory for the whole
        parts = [self._stored(self._entry(_slice_key(key, bounds), key), key) for bounds in places]
        array = np.empty(dims, numpy_dtype(onnx_type(entry.dtype)))
        for bounds, part in zip(places, parts, strict=True):
            place = tuple(slice(start, start + length) for (start, length), _ in bounds)
            if array[place].shape != part.shape:
                raise Unsupported(f"a part of {key} in the checkpoint does not fit")
            array[place] = part
        return array

    def _entry(self, raw: bytes, key: str) -> Any:
        try:
            return BundleEntryProto.FromString(self._entries[raw])
        except KeyError:
            raise Unsupported(f"the checkpoint has no value for {key}") from None
        except DecodeError:
            raise Unsupported(f"the checkpoint's entry for {key} is damaged") from None

    def _stored(self, entry: Any, key: str) -> Array:
        shard = Path(f"{self.prefix}.data-{entry.shard_id:05}-of-{self._header.num_shards:05}")
        dims = _dims(entry, key)
        try:
            with open_file(shard, self._root) as file:
                if min(entry.offset, entry.size) < 0 or os.fstat(file.fileno()).st_size < entry.offset + entry.size:
                    raise Unsupported(f"{shard.name} is cut off before the end of {key}")
                dtype = numpy_dtype(onnx_type(entry.dtype))
                if entry.dtype != _STRING and entry.size != dtype.itemsize * math.prod(dims):
                    raise Unsupported(
                        f"the checkpoint has {entry.size} bytes for {key} {type_name(entry.dtype)}{list(dims)}"
                    )
                file.seek(entry.offset)
                if entry.dtype == _STRING:
                    try:
                        texts, crc = _texts(file.read(entry.size), dims)
                    except ValueError:
                        raise Unsupported(f"{shard.name} is damaged: the strings of {key} are not in order") from None
                    self._check(crc, entry, shard, key)
                    return texts
                if entry.size > MAPPED:
                    if (place := (entry.shard_id, entry.offset, entry.size)) not in self._checked:
                        self._check(masked_crc32c_of_file(file, entry.size), entry, shard, key)
                        self._checked.add(place)
                    return FileRange(StoredFile.of(shard, self._root), entry.offset, entry.size).mapped(dtype, dims)
                content = file.read(entry.size)
                self._check(masked_crc32c(content), entry, shard, key)
                return np.frombuffer(content, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(dims)
        except OSError as error:
            raise Unsupported(f"{shard.name} cannot be read: {error.strerror or error}") from error

    @staticmethod
    def _check(crc: int, entry: Any, shard: Path, key: str) -> None:
        if crc != entry.crc32c:
            raise Unsupported(f"{shard.name} is damaged: {key} does not have its checksum")

    def object_keys(self) -> dict[int, str]:
        """The key of the value of each variable, by its number among the objects of a TensorFlow 2 model."""
        if _OBJECT_GRAPH not in self:
            return {}
        try:
            graph = TrackableObjectGraph.FromString(bytes(self.read(_OBJECT_GRAPH).item()))
        except (DecodeError, ValueError) as error:
            raise Unsupported(f"the checkpoint's objects are damaged: {error}") from error
        return dict(self._values_of(graph))

    @staticmethod
    def _values_of(graph: Any) -> Iterator[tuple[int, str]]:
        for number, node in enumerate(graph.nodes):
            for attribute in node.attributes:
                if attribute.name == "VARIABLE_VALUE":
                    yield number, attribute.checkpoint_key


def _dims(entry: Any, key: str) -> tuple[int, ...]:
    shape = shape_of(entry.shape)
    if shape is None or None in shape:
        raise Unsupported(f"the checkpoint does not say the shape of {key}")
    return tuple(size for size in shape if size is not None)


def _require_partition(places: Sequence[Sequence[Bound]], dims: tuple[int, ...], key: str) -> None:
    """Refuse parts of a tensor that are not all of it, or of which two have the same elements.

    Raises:
        Unsupported: They are such parts.
    """
    problem = f"the parts of {key} in the checkpoint do not make up {list(dims)}"
    if len(places) > _MOST_PARTS or any(len(bounds) != len(dims) for bounds in places):
        raise Unsupported(problem)
    inside = all(
        start >= 0 and length >= 0 and start + length <= size
        for bounds in places
        for ((start, length), _), size in zip(bounds, dims, strict=True)
    )
    held = sum(math.prod(length for (_, length), _ in bounds) for bounds in places)
    if not inside or held != math.prod(dims):
        raise Unsupported(problem)
    corners = np.array([[(start, start + length) for (start, length), _ in bounds] for bounds in places], np.int64)
    begins, ends = (corners.reshape(len(places), len(dims), 2)[:, :, k] for k in (0, 1))
    for k in range(len(places) - 1):
        if ((begins[k] < ends[k + 1 :]) & (begins[k + 1 :] < ends[k])).all(axis=1).any():
            raise Unsupported(problem)


def _texts(data: bytes, dims: tuple[int, ...]) -> tuple[Array, int]:
    """Strings, and their checksum: all lengths, the checksum of these, the bytes.

    Both checksums count each length in as many bytes as a number has, not in those that are written.

    Raises:
        ValueError: They are damaged.
    """
    count, position, lengths = math.prod(dims), 0, []
    if count > len(data):
        raise ValueError("there are more strings than bytes")
    for _ in range(count):
        length, position = read_varint(data, position)
        lengths.append(length)
    sizes = b"".join(map(_fixed, lengths))
    if masked_crc32c(sizes) != int.from_bytes(data[position : position + 4], "little"):
        raise ValueError("the lengths do not have their checksum")
    crc = masked_crc32c(sizes + data[position:])
    position += 4
    if position + sum(lengths) != len(data):
        raise ValueError("the strings do not end with the bytes")
    texts = np.empty(count, object)
    for k, length in enumerate(lengths):
        texts[k] = data[position : position + length]
        position += length
    return texts.reshape(dims), crc


def _fixed(length: int) -> bytes:
    return length.to_bytes(4 if length < 1 << 32 else 8, "little")


def _bounds(part: str) -> tuple[list[int], list[Bound]]:
    """The whole shape, and for each dimension start and length, and whether that is all of it."""
    try:
        *sizes, bounds = part.split(" ")
        shape = [int(size) for size in sizes]
        found: list[Bound] = []
        for text, size in zip(bounds.split(":"), shape, strict=True):
            start, _, length = text.partition(",")
            found.append(((0, size), True) if text == "-" else ((int(start), int(length)), False))
    except ValueError:
        raise Unsupported(f"{part[:80]!r} is not a part of a variable") from None
    return shape, found


def _slice_key(key: str, bounds: list[Bound]) -> bytes:
    """The key of a part of a tensor, in the order-preserving code of TensorFlow's checkpoints."""
    text = key.encode().replace(b"\x00", b"\x00\xff")
    code = [_natural(0), text, b"\x00\x01", _natural(len(bounds))]
    for (start, length), whole in bounds:
        code += [_signed(0), _signed(-1)] if whole else [_signed(start), _signed(length)]
    return b"".join(code)


def _natural(number: int) -> bytes:
    digits = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return bytes([len(digits)]) + digits


def _signed(number: int) -> bytes:
    """A number with as many leading ones as bytes, then the sign's complement, then the number in two's complement."""
    magnitude = ~number if number < 0 else number
    length = 1
    while magnitude >= 1 << (7 * length - 1):
        length += 1
    bits = 8 * length
    code = (number & ((1 << bits) - 1)) ^ _header(length, bits)
    return code.to_bytes(length, "big")


def _header(length: int, bits: int) -> int:
    return ((1 << length) - 1) << (bits - length)
