"""FindKeys, FindStrings, IndexKeys and IndexStrings in numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_sparse.reference.farmhash import fingerprint64
from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.reference.key_index import TEXT_KIND, KeyIndex, build, hash_of_integers, kind_of
from onnx_sparse.reference.requirements import require_row_splits
from onnx_sparse.reference.string_tensor import bytes_of, shown
from onnx_sparse.schemas import keyed_tables as declarations
from onnx_sparse.schemas.validation import KernelError


@implements(declarations.FIND_KEYS)
def find_keys(keys: Array, index: Array | None, queries: Array) -> Array:
    """The positions of integers among the keys; see the semantics of FindKeys."""
    prebuilt = KeyIndex.of(_index_of(keys) if index is None else index, len(keys), kind_of(keys.dtype))
    flat = queries.reshape(-1)
    found = prebuilt.find(hash_of_integers(flat), lambda which, positions: flat[which] == keys[positions])
    return found.reshape(queries.shape)


@implements(declarations.FIND_STRINGS)
def find_strings(key_bytes: Array, key_offsets: Array, index: Array | None, queries: Array) -> Array:
    """The positions of strings among the keys; see the semantics of FindStrings."""
    if not len(key_offsets):
        raise KernelError("key_offsets has 0 elements; at least 1 expected")
    built = _index_of_text(key_bytes, key_offsets) if index is None else index
    prebuilt = KeyIndex.of(built, len(key_offsets) - 1, TEXT_KIND)
    texts = bytes_of(queries)

    def equal(which: Array, positions: Array) -> Array:
        keys = _texts(key_bytes, key_offsets, positions)
        return np.array([texts[q] == key for q, key in zip(which, keys, strict=True)], bool)

    return prebuilt.find(fingerprint64(texts), equal).reshape(queries.shape)


@implements(declarations.INDEX_KEYS)
def index_keys(keys: Array) -> Array:
    """The index of integers; see the semantics of IndexKeys."""
    return _index_of(keys)


@implements(declarations.INDEX_STRINGS)
def index_strings(key_bytes: Array, key_offsets: Array) -> Array:
    """The index of strings; see the semantics of IndexStrings."""
    return _index_of_text(key_bytes, key_offsets)


def require_index(index: Array, *keys: Array) -> None:
    """Compare an index with all of its keys and slots: its header, and both checksums.

    Args:
        index: The index, uint8[B].
        keys: The keys, or the bytes and offsets of text.

    Raises:
        KernelError: It is damaged, or an index of other keys; or the offsets are not those of these bytes.
    """
    if len(keys) == 1:
        found = KeyIndex.of(index, len(keys[0]), kind_of(keys[0].dtype))
        found.require(lambda first, end: hash_of_integers(keys[0][first:end]))
        return
    key_bytes, key_offsets = keys
    require_row_splits("key_offsets", key_offsets, len(key_bytes))
    found = KeyIndex.of(index, len(key_offsets) - 1, TEXT_KIND)
    found.require(lambda first, end: fingerprint64(_texts(key_bytes, key_offsets, range(first, end))))


def _index_of(keys: Array) -> Array:
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    for again in np.flatnonzero(first[which.reshape(-1)] < np.arange(len(keys)))[:1]:
        raise KernelError(f"keys[{again}] = {keys[again]} is also keys[{first[which[again]]}]")
    return build(hash_of_integers(keys), kind_of(keys.dtype))


def _index_of_text(key_bytes: Array, key_offsets: Array) -> Array:
    require_row_splits("key_offsets", key_offsets, len(key_bytes))
    texts = _texts(key_bytes, key_offsets, range(len(key_offsets) - 1))
    first: dict[bytes, int] = {}
    for again, text in enumerate(texts):
        if first.setdefault(text, again) < again:
            raise KernelError(f"key {again} = {shown(text)} is also key {first[text]}")
    return build(fingerprint64(texts), TEXT_KIND)


def _texts(key_bytes: Array, key_offsets: Array, positions: Array | Sequence[int]) -> list[bytes]:
    """The bytes of the keys at some positions.

    Raises:
        KernelError: Offsets are not those of a part of the bytes; of several, those of the first key.
    """
    begins, ends = key_offsets[positions], key_offsets[np.asarray(positions, np.int64) + 1]
    illegal = np.asarray(positions)[(begins < 0) | (begins > ends) | (ends > len(key_bytes))]
    if illegal.size:
        at = int(illegal.min())
        raise KernelError(
            f"key_offsets[{at}] = {key_offsets[at]} and key_offsets[{at + 1}] = {key_offsets[at + 1]} are no part of "
            f"the {len(key_bytes)} bytes"
        )
    data = np.ascontiguousarray(key_bytes).data
    return [bytes(data[begin:end]) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
