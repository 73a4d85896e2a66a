"""FarmHash's Fingerprint64 again, in Python integers: one string at a time, written as its definition is."""

from __future__ import annotations

MASK = 2**64 - 1
K0, K1, K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def fingerprint64(text: bytes) -> int:
    length = len(text)
    if length > 64:
        return _long(text)
    mul = K2 + 2 * length
    if length >= 17:
        a = _fetch(text, 0) * (K1 if length <= 32 else K2)
        b = _fetch(text, 8)
        c = _fetch(text, length - 8) * mul
        d = _fetch(text, length - 16) * K2
        y = _rotate(a + b, 43) + _rotate(c, 30) + d
        other = a + _rotate(b + K2, 18) + c
        if length <= 32:
            return _len16(y, other, mul)
        z = _len16(y, other, mul)
        e = _fetch(text, 16) * mul
        f = _fetch(text, 24)
        g = (y + _fetch(text, length - 32)) * mul
        h = (z + _fetch(text, length - 24)) * mul
        return _len16(_rotate(e + f, 43) + _rotate(g, 30) + h, e + _rotate(f + a, 18) + g, mul)
    if length >= 8:
        a = _fetch(text, 0) + K2
        b = _fetch(text, length - 8)
        return _len16(_rotate(b, 37) * mul + a, (_rotate(a, 25) + b) * mul, mul)
    if length >= 4:
        return _len16(length + 8 * _fetch(text, 0, 4), _fetch(text, length - 4, 4), mul)
    if length >= 1:
        y = text[0] + 256 * text[length // 2]
        z = length + 4 * text[-1]
        return _mix((y * K2 ^ z * K0) & MASK) * K2 & MASK
    return K2


def _fetch(text: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(text[at : at + size], "little")


def _rotate(value: int, right: int) -> int:
    value &= MASK
    return (value >> right | value << (64 - right)) & MASK


def _mix(value: int) -> int:
    value &= MASK
    return value ^ value >> 47


def _len16(u: int, v: int, mul: int) -> int:
    a = _mix(((u ^ v) & MASK) * mul)
    b = _mix(((v ^ a) & MASK) * mul)
    return b * mul & MASK


def _weak(text: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_fetch(text, at + 8 * k) for k in range(4))
    a += w
    b = _rotate(b + a + z, 21)
    c = a
    a += x + y
    b += _rotate(a, 44)
    return (a + z) & MASK, (b + c) & MASK


def _long(text: bytes) -> int:
    length = len(text)
    x = 81 * K2 + _fetch(text, 0)
    y = 81 * K1 + 113
    z = _mix(y * K2 + 113) * K2
    v1 = v2 = w1 = w2 = at = 0
    while at + 64 < length:
        x = _rotate(x + y + v1 + _fetch(text, at + 8), 37) * K1 & MASK
        y = _rotate(y + v2 + _fetch(text, at + 48), 42) * K1
        x ^= w2
        y += v1 + _fetch(text, at + 40)
        z = _rotate(z + w1, 33) * K1
        v1, v2 = _weak(text, at, v2 * K1, x + w1)
        w1, w2 = _weak(text, at + 32, z + w2, y + _fetch(text, at + 16))
        x, z = z, x
        at += 64
    mul = K1 + 2 * (z & 0xFF)
    at = length - 64
    w1 += (length - 1) % 64
    v1 += w1
    w1 += v1
    x = _rotate(x + y + v1 + _fetch(text, at + 8), 37) * mul & MASK
    y = _rotate(y + v2 + _fetch(text, at + 48), 42) * mul
    x ^= w2 * 9 & MASK
    y += v1 * 9 + _fetch(text, at + 40)
    z = _rotate(z + w1, 33) * mul
    v1, v2 = _weak(text, at, v2 * mul, x + w1)
    w1, w2 = _weak(text, at + 32, z + w2, y + _fetch(text, at + 16))
    x, z = z, x
    return _len16(_len16(v1, w1, mul) + _mix(y) * K0 + z, _len16(v2, w2, mul) + x, mul)
