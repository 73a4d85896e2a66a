"""FarmHash's Fingerprint64 in numpy, many strings of one length at a time.

Written after the definition of farmhashna::Hash64, which Fingerprint64 is, in Google's FarmHash (MIT license,
https://github.com/google/farmhash). The length of a string alone decides which of four mixtures it takes, so strings of
one length take the same steps. Arithmetic is on unsigned 64-bit integers, and words are little-endian.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_sparse.reference.implementation import Array

#: One number for all strings, or one for each.
Factor = Array | np.uint64

_K0 = np.uint64(0xC3A5C85C97CB3127)
_K1 = np.uint64(0xB492B66FBE98F273)
_K2 = np.uint64(0x9AE16A3B2F90404F)


def fingerprint64(texts: Sequence[bytes]) -> Array:
    """The fingerprints of byte strings, uint64[N]."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    fingerprints = np.empty(len(texts), np.uint64)
    order = np.argsort(lengths, kind="stable")
    starts = np.flatnonzero(np.diff(lengths[order], prepend=-1))
    for positions in np.split(order, starts[1:]):
        if positions.size:
            joined = b"".join([texts[k] for k in positions])
            rows = np.frombuffer(joined, np.uint8).reshape(len(positions), lengths[positions[0]])
            fingerprints[positions] = _hash(rows)
    return fingerprints


def _hash(rows: Array) -> Array:
    """The fingerprints of strings of one length, uint8[N, length]."""
    length = rows.shape[1]
    if length <= 16:
        return _hash_0_to_16(rows, length)
    if length <= 32:
        return _hash_17_to_32(rows, length)
    if length <= 64:
        return _hash_33_to_64(rows, length)
    return _hash_long(rows, length)


def _word(rows: Array, at: int, size: int = 8) -> Array:
    """The word of 1, 4 or 8 bytes at position `at` of each string, as uint64[N]."""
    return np.ascontiguousarray(rows[:, at : at + size]).view(f"<u{size}")[:, 0].astype(np.uint64)


def _rotate(values: Array, right: int) -> Array:
    return values >> np.uint64(right) | values << np.uint64(64 - right)


def _shift_mix(values: Array) -> Array:
    mixed: Array = values ^ values >> np.uint64(47)
    return mixed


def _hash_pair(u: Array, v: Array, multiplier: Factor) -> Array:
    a = _shift_mix((u ^ v) * multiplier)
    return _shift_mix((v ^ a) * multiplier) * multiplier


def _multiplier(length: int) -> np.uint64:
    return _K2 + np.uint64(length * 2)


def _hash_0_to_16(rows: Array, length: int) -> Array:
    multiplier = _multiplier(length)
    if length >= 8:
        a = _word(rows, 0) + _K2
        b = _word(rows, length - 8)
        c = _rotate(b, 37) * multiplier + a
        d = (_rotate(a, 25) + b) * multiplier
        return _hash_pair(c, d, multiplier)
    if length >= 4:
        u = np.uint64(length) + (_word(rows, 0, 4) << np.uint64(3))
        return _hash_pair(u, _word(rows, length - 4, 4), multiplier)
    if length == 0:
        return np.full(len(rows), _K2)
    first, middle, last = (_word(rows, at, 1) for at in (0, length // 2, length - 1))
    y = first + (middle << np.uint64(8))
    z = np.uint64(length) + (last << np.uint64(2))
    return _shift_mix(y * _K2 ^ z * _K0) * _K2


def _mix_ends(rows: Array, length: int, first_multiplier: np.uint64) -> tuple[Array, Array, Array]:
    """The common part of the mixtures for middle lengths: the first word, and two that are mixed into one."""
    a = _word(rows, 0) * first_multiplier
    b = _word(rows, 8)
    c = _word(rows, length - 8) * _multiplier(length)
    d = _word(rows, length - 16) * _K2
    return a, _rotate(a + b, 43) + _rotate(c, 30) + d, a + _rotate(b + _K2, 18) + c


def _hash_17_to_32(rows: Array, length: int) -> Array:
    _, u, v = _mix_ends(rows, length, _K1)
    return _hash_pair(u, v, _multiplier(length))


def _hash_33_to_64(rows: Array, length: int) -> Array:
    multiplier = _multiplier(length)
    a, y, v = _mix_ends(rows, length, _K2)
    z = _hash_pair(y, v, multiplier)
    e = _word(rows, 16) * multiplier
    f = _word(rows, 24)
    g = (y + _word(rows, length - 32)) * multiplier
    h = (z + _word(rows, length - 24)) * multiplier
    return _hash_pair(_rotate(e + f, 43) + _rotate(g, 30) + h, e + _rotate(f + a, 18) + g, multiplier)


def _weak_pair(rows: Array, at: int, a: Array, b: Array) -> tuple[Array, Array]:
    w, x, y, z = (_word(rows, at + 8 * k) for k in range(4))
    a = a + w
    total = a + x + y
    return total + z, _rotate(b + a + z, 21) + _rotate(total, 44) + a


def _hash_long(rows: Array, length: int) -> Array:
    seed = np.full(len(rows), 81, np.uint64)
    x = seed * _K2 + _word(rows, 0)
    y = seed * _K1 + np.uint64(113)
    z = _shift_mix(y * _K2 + np.uint64(113)) * _K2
    v = w = np.zeros_like(seed), np.zeros_like(seed)

    def mix(at: int, multiplier: Factor, weight: int) -> None:
        nonlocal x, y, z, v, w
        x = _rotate(x + y + v[0] + _word(rows, at + 8), 37) * multiplier ^ w[1] * np.uint64(weight)
        y = _rotate(y + v[1] + _word(rows, at + 48), 42) * multiplier + v[0] * np.uint64(weight) + _word(rows, at + 40)
        z = _rotate(z + w[0], 33) * multiplier
        v = _weak_pair(rows, at, v[1] * multiplier, x + w[0])
        w = _weak_pair(rows, at + 32, z + w[1], y + _word(rows, at + 16))
        x, z = z, x

    # Whole blocks first, without the last 1 to 64 bytes; the last 64 bytes are then mixed, overlapping these blocks.
    for at in range(0, (length - 1) // 64 * 64, 64):
        mix(at, _K1, 1)
    multiplier = _K1 + ((z & np.uint64(0xFF)) << np.uint64(1))
    w0 = w[0] + np.uint64((length - 1) % 64)
    v = v[0] + w0, v[1]
    w = w0 + v[0], w[1]
    mix(length - 64, multiplier, 9)
    return _hash_pair(
        _hash_pair(v[0], w[0], multiplier) + _shift_mix(y) * _K0 + z,
        _hash_pair(v[1], w[1], multiplier) + x,
        multiplier,
    )
