"""SipHash-2-4 again, in Python integers: one string at a time, written as its definition is."""

from __future__ import annotations

MASK = 2**64 - 1


def siphash(text: bytes, key: tuple[int, int]) -> int:
    k0, k1 = key[0] & MASK, key[1] & MASK
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    message = bytearray(text)
    while len(message) % 8 != 7:
        message.append(0)
    message.append(len(text) & 0xFF)
    for at in range(0, len(message), 8):
        word = int.from_bytes(message[at : at + 8], "little")
        v[3] ^= word
        _round(v)
        _round(v)
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(4):
        _round(v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _round(v: list[int]) -> None:
    for left, right, by in ((0, 1, 13), (2, 3, 16), (0, 3, 21), (2, 1, 17)):
        v[left] = (v[left] + v[right]) & MASK
        v[right] = _rotated(v[right], by) ^ v[left]
        if by in (13, 17):
            v[left] = _rotated(v[left], 32)


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & MASK
