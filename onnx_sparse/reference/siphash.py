"""SipHash-2-4 in numpy, many strings at a time.

Written after Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012). Strings of as many words take the same
steps. Arithmetic is on unsigned 64-bit integers, and words are little-endian.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_sparse.reference.implementation import Array

#: "somepseudorandomlygeneratedbytes"
_INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_State = tuple[Array, Array, Array, Array]


def siphash(texts: Sequence[bytes], key: tuple[int, int]) -> Array:
    """The keyed hashes of byte strings, uint64[N].

    Args:
        texts: The strings.
        key: The two halves of the key, in [0, 2**64).
    """
    hashes = np.empty(len(texts), np.uint64)
    words = np.fromiter((len(text) // 8 + 1 for text in texts), np.int64, len(texts))
    order = np.argsort(words, kind="stable")
    starts = np.flatnonzero(np.diff(words[order], prepend=-1))
    for positions in np.split(order, starts[1:]):
        if positions.size:
            padded = b"".join(_padded(texts[k]) for k in positions)
            rows = np.frombuffer(padded, "<u8").reshape(len(positions), words[positions[0]])
            hashes[positions] = _hash(rows.astype(np.uint64), key)
    return hashes


def _padded(text: bytes) -> bytes:
    """Zeros up to a whole number of words; the last byte is the length modulo 256."""
    return text + bytes(7 - len(text) % 8) + bytes([len(text) % 256])


def _hash(rows: Array, key: tuple[int, int]) -> Array:
    """The hashes of padded strings, uint64[N, words]."""
    v0, v1, v2, v3 = (np.full(len(rows), initial ^ key[k % 2], np.uint64) for k, initial in enumerate(_INITIAL))
    state = (v0, v1, v2, v3)
    for word in rows.T:
        v0, v1, v2, v3 = _round(_round((state[0], state[1], state[2], state[3] ^ word)))
        state = (v0 ^ word, v1, v2, v3)
    state = (state[0], state[1], state[2] ^ np.uint64(0xFF), state[3])
    for _ in range(4):
        state = _round(state)
    hashes: Array = state[0] ^ state[1] ^ state[2] ^ state[3]
    return hashes


def _round(state: _State) -> _State:
    v0, v1, v2, v3 = state
    v0 = v0 + v1
    v2 = v2 + v3
    v1 = _rotate(v1, 13) ^ v0
    v3 = _rotate(v3, 16) ^ v2
    v0 = _rotate(v0, 32) + v3
    v2 = v2 + v1
    v1 = _rotate(v1, 17) ^ v2
    v3 = _rotate(v3, 21) ^ v0
    return v0, v1, _rotate(v2, 32), v3


def _rotate(values: Array, left: int) -> Array:
    rotated: Array = values << np.uint64(left) | values >> np.uint64(64 - left)
    return rotated
