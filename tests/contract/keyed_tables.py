"""Keyed tables: drawing legal inputs of their operators, and the oracles, which compare each query with each key.

The oracle of an index follows the page of IndexKeys, one key at a time.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from contract.expected import Expected, Inputs, elements
from contract.fingerprint import fingerprint64

Array = np.ndarray[Any, Any]

SHAPES: tuple[tuple[int, ...], ...] = ((2,), (), (0,), (40,), (3, 5), (2, 0))
SIZES = (1, 3, 12, 13, 40, 200)
_MASK = 2**64 - 1


def legal_keys(random: np.random.Generator, dtype: np.dtype[Any], fewest: int = 0) -> Array:
    """Integers, none of them twice, some of them next to each other or at the ends of the type."""
    info = np.iinfo(dtype)
    count = int(random.choice([fewest, *SIZES]))
    drawn = random.integers(info.min, info.max, count, dtype, endpoint=True)
    near = random.integers(0, 2 * count + 1, count).astype(dtype)
    ends = np.array([info.min, info.max, info.max // 2 + 1], dtype)
    keys = np.unique(np.concatenate([near, drawn, ends]))
    return random.permutation(keys)[:count]


def legal_texts(random: np.random.Generator, fewest: int = 0) -> list[str]:
    """Texts, none of them twice, of all lengths that are hashed in another way."""
    words = ["", "a", "ß", "日本語", *(letter * n for letter in "bc" for n in (3, 8, 17, 33, 65, 200))]
    words += [f"id_{number}" for number in random.integers(0, 10**9, 60)]
    return [str(word) for word in random.permutation(list(dict.fromkeys(words)))[: random.choice([fewest, *SIZES])]]


def joined(texts: list[bytes]) -> dict[str, Array]:
    """Texts as the inputs of keys."""
    offsets = np.cumsum([0, *map(len, texts)])
    return {"key_bytes": np.frombuffer(b"".join(texts), np.uint8).copy(), "key_offsets": offsets.astype(np.int64)}


def shaped(random: np.random.Generator, pool: list[Any], dtype: Any) -> Array:
    """Queries from a pool."""
    shape = SHAPES[random.integers(len(SHAPES))]
    queries = np.empty(shape, dtype)
    for position in np.ndindex(*shape):
        queries[position] = pool[random.integers(len(pool))]
    return queries


def legal_find_keys(random: np.random.Generator, dtype: np.dtype[Any]) -> dict[str, Array]:
    keys = legal_keys(random, dtype)
    pool = [*keys.tolist(), *keys.tolist(), *legal_keys(random, dtype, 1).tolist()]
    return {"keys": keys, **_perhaps(random, index_of(keys)), "queries": shaped(random, pool, dtype)}


def legal_find_strings(random: np.random.Generator) -> dict[str, Array]:
    texts = legal_texts(random)
    keys = joined([text.encode() for text in texts])
    pool = [*texts, *texts, "absent", "b" * 4, *legal_texts(random)]
    index = index_of([text.encode() for text in texts])
    return {**keys, **_perhaps(random, index), "queries": shaped(random, pool, object)}


def legal_index_keys(random: np.random.Generator, dtype: np.dtype[Any]) -> dict[str, Array]:
    return {"keys": legal_keys(random, dtype)}


def legal_index_strings(random: np.random.Generator) -> dict[str, Array]:
    return joined([text.encode() for text in legal_texts(random, 1)])


def _perhaps(random: np.random.Generator, index: Array) -> dict[str, Array]:
    """An index, an empty one, or none."""
    return [{"index": index}, {"index": index[:0]}, {}][min(random.integers(6), 2)]


def mix(value: int) -> int:
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31


def index_of(keys: Array | list[bytes]) -> Array:
    """The index of keys, one key after the other."""
    count = len(keys)
    if isinstance(keys, list):
        kind, hashes = 3, [fingerprint64(key) for key in keys]
    else:
        kind, hashes = 1 if keys.itemsize == 4 else 2, [mix(int(key) & _MASK) for key in keys]
    homes = count // 12 + 1
    bits = count.bit_length()
    ordered = sorted(((h >> 32) * homes >> 32, position) for position, h in enumerate(hashes))
    taken: dict[int, int] = {}
    last, longest = -1, 1
    for home, position in ordered:
        last = max(home * 16, last + 1)
        taken[last] = (hashes[position] << bits & 0xFFFFFFFF) | position + 1
        longest = max(longest, last // 16 - home + 1)
    size = max(homes, last // 16 + 1) * 16
    slots = [taken.get(number, 0) for number in range(size)]
    of_keys = sum(mix(h + i * 0x9E3779B97F4A7C15 & _MASK) for i, h in enumerate(hashes)) & _MASK
    of_slots = sum(mix(j * 2**32 + slot) for j, slot in enumerate(slots)) & _MASK
    header = struct.pack("<8sIIQQQQQQ", b"OSKEYIDX", 1, kind, count, size, longest, of_keys, of_slots, 0)
    return np.frombuffer(header + struct.pack(f"<{size}I", *slots), np.uint8).copy()


def texts_of(inputs: Inputs) -> list[bytes]:
    data, offsets = inputs["key_bytes"].tobytes(), inputs["key_offsets"].tolist()
    return [data[begin:end] for begin, end in itertools.pairwise(offsets)]


def _positions(keys: list[Any], queries: list[Any], shape: tuple[int, ...]) -> dict[str, Expected]:
    found = [next((i for i, key in enumerate(keys) if key == query), -1) for query in queries]
    return {"positions": Expected.exactly(np.int64, shape, found)}


def find_keys(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    return _positions(elements(inputs["keys"]), elements(inputs["queries"]), inputs["queries"].shape)


def find_strings(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    queries = [query.encode() for query in elements(inputs["queries"])]
    return _positions(texts_of(inputs), queries, inputs["queries"].shape)


def index_keys(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    index = index_of(inputs["keys"])
    return {"index": Expected.exactly(np.uint8, index.shape, index.tolist())}


def index_strings(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    index = index_of(texts_of(inputs))
    return {"index": Expected.exactly(np.uint8, index.shape, index.tolist())}
