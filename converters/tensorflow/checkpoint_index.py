"""Where a checkpoint has the data of its tensors: the `.index` file, which TensorFlow reads but does not show.

It is a sorted table of LevelDB's format, whose values are BundleEntryProto messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnx_sparse.converters.tensorflow.lazy_imports import require
from onnx_sparse.converters.tensorflow.reading import sorted_table
from onnx_sparse.converters.writing.tensor import Array


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a checkpoint's shard.

    Attributes:
        shard: The file.
        offset: Where its data begin.
        dtype: Its element type.
        shape: Its shape.
    """

    shard: Path
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """How many bytes its data take."""
        return int(self.dtype.itemsize * math.prod(self.shape))

    def mapped(self) -> Array:
        """The tensor, of which no more is read than is used."""
        return np.memmap(self.shard, self.dtype, "r", self.offset, self.shape)


def large_tensors(prefix: Path, least: int) -> dict[str, StoredTensor]:
    """The tensors of numbers of at least so many bytes whose data lie in one piece, by their keys.

    Args:
        prefix: The checkpoint: `.../variables/variables`.
        least: How many bytes.

    Returns:
        What is sure; none where the index has another form, or a shard is not as long as it says.
    """
    try:
        content = prefix.with_name(f"{prefix.name}.index").read_bytes()
        entries = dict(sorted_table.entries(content))
        return dict(_large(entries, prefix, least))
    except Exception:  # whatever a damaged index leads to: TensorFlow reads it then, and says what is wrong
        return {}


def _large(entries: dict[bytes, bytes], prefix: Path, least: int) -> Iterator[tuple[str, StoredTensor]]:
    bundle = require("tensorflow.core.protobuf.tensor_bundle_pb2")
    dtypes = require("tensorflow").dtypes
    header = bundle.BundleHeaderProto.FromString(entries.get(b"", b""))
    if header.endianness != bundle.BundleHeaderProto.LITTLE:
        return
    for key, value in entries.items():
        entry = bundle.BundleEntryProto.FromString(value)
        if not key or entry.size < least or entry.slices or entry.shape.unknown_rank:
            continue
        dtype = dtypes.as_dtype(entry.dtype)
        if not (dtype.is_floating or dtype.is_integer) or dtype.is_quantized:
            continue
        shard = prefix.with_name(f"{prefix.name}.data-{entry.shard_id:05}-of-{header.num_shards:05}")
        shape = tuple(int(dim.size) for dim in entry.shape.dim)
        tensor = StoredTensor(shard, entry.offset, np.dtype(dtype.as_numpy_dtype), shape)
        is_whole = tensor.nbytes == entry.size and entry.offset >= 0 and min(shape, default=0) > 0
        if is_whole and shard.stat().st_size >= entry.offset + entry.size:
            yield key.decode(), tensor
