"""The index of a table of keys in numpy: building it, and searches in it.

The page of IndexKeys says what its bytes are.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onnx_sparse.reference.implementation import Array
from onnx_sparse.schemas.validation import KernelError

MAGIC = b"OSKEYIDX"
VERSION = 1
TEXT_KIND = 3
_HEADER = struct.Struct("<8sII6Q")
_BUCKET = 16  # slots
_KEYS_IN_BUCKET = 12
_MOST_KEYS = 2**32 - 2
_BLOCK = 1 << 20  # keys or slots that are read at a time
_ODD = np.uint64(0x9E3779B97F4A7C15)


def mix(values: Array) -> Array:
    """The finalizer of SplitMix64 of uint64s."""
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    mixed: Array = values ^ values >> np.uint64(31)
    return mixed


def hash_of_integers(keys: Array) -> Array:
    """The hashes of integers, uint64[N]."""
    return mix(keys.astype(np.int64 if keys.dtype.kind == "i" else np.uint64).view(np.uint64))


def kind_of(dtype: np.dtype[np.generic]) -> int:
    """The kind of integer keys."""
    return 1 if dtype.itemsize == 4 else 2


def checksum_of_keys(hashes: Array, first: int = 0) -> int:
    """The checksum of keys with these hashes, the first of which is at the position `first`."""
    at = np.arange(first, first + len(hashes), dtype=np.uint64)
    return int(mix(hashes + at * _ODD).sum(dtype=np.uint64))


def checksum_of_slots(slots: Array, first: int = 0) -> int:
    """The checksum of slots, the first of which is at the position `first`."""
    at = np.arange(first, first + len(slots), dtype=np.uint64)
    return int(mix(at << np.uint64(32) | slots).sum(dtype=np.uint64))


def build(hashes: Array, kind: int) -> Array:
    """The index of keys with these hashes, none of them twice, uint8[B].

    Raises:
        KernelError: There are too many keys.
    """
    count = len(hashes)
    if count > _MOST_KEYS:
        raise KernelError(f"there are {count} keys; an index has at most {_MOST_KEYS}")
    homes, tags, bits = _places(hashes, count)
    order = np.argsort(homes, kind="stable")
    steps = np.arange(count)
    taken = steps + np.maximum.accumulate(homes[order] * _BUCKET - steps) if count else steps
    buckets = max(count // _KEYS_IN_BUCKET + 1, int(taken[-1]) // _BUCKET + 1 if count else 0)
    slots = np.zeros(buckets * _BUCKET, np.uint32)
    slots[taken] = (tags[order] << np.uint64(bits) | order.astype(np.uint64) + np.uint64(1)).astype(np.uint32)
    longest = int((taken // _BUCKET - homes[order]).max(initial=0)) + 1
    checksums = checksum_of_keys(hashes), checksum_of_slots(slots)
    header = _HEADER.pack(MAGIC, VERSION, kind, count, len(slots), longest, *checksums, 0)
    return np.frombuffer(header + slots.astype("<u4").tobytes(), np.uint8).copy()


@dataclass(frozen=True)
class KeyIndex:
    """An index whose header has been checked.

    Attributes:
        count: The number of keys.
        longest: The most buckets that one search reads.
        checksums: That of the keys, and that of the slots.
        unused: The last word of the header.
        slots: uint32[S].
    """

    count: int
    longest: int
    checksums: tuple[int, int]
    unused: int
    slots: Array

    @classmethod
    def of(cls, index: Array, count: int, kind: int) -> KeyIndex:
        """The index of so many keys of a kind that is in bytes, uint8[B].

        Raises:
            KernelError: It is of other keys, or no index.
        """
        if len(index) < _HEADER.size or index[: len(MAGIC)].tobytes() != MAGIC:
            raise KernelError(f"index is no index of keys: it does not begin with {MAGIC.decode()}")
        _, version, its_kind, keys, size, longest, *checksums, unused = _HEADER.unpack(index[: _HEADER.size].tobytes())
        if version != VERSION:
            raise KernelError(f"index has version {version}; {VERSION} is read")
        if its_kind != kind:
            raise KernelError(f"index is of keys of kind {its_kind}; these are of kind {kind}")
        if keys != count:
            raise KernelError(f"index is of {keys} keys; there are {count}")
        buckets, left_over = divmod(size, _BUCKET)
        if len(index) - _HEADER.size != 4 * size:
            raise KernelError(f"index has {len(index)} bytes; expected {_HEADER.size} and 4 for each of {size} slots")
        if left_over or buckets < count // _KEYS_IN_BUCKET + 1 or not 0 < longest <= buckets:
            raise KernelError(f"index is damaged: {size} slots, and searches of at most {longest} buckets")
        return cls(count, longest, (checksums[0], checksums[1]), unused, index[_HEADER.size :].view("<u4"))

    def require(self, hashes: Callable[[int, int], Array]) -> None:
        """Refuse an index that is not the one of its keys. No slot is compared: a checksum is.

        Args:
            hashes: The hashes of the keys from one position to another, uint64[N].

        Raises:
            KernelError: It is damaged, or an index of other keys.
        """
        per_home = np.zeros(self.count // _KEYS_IN_BUCKET + 1, np.int64)
        of_keys = of_slots = 0
        for first in range(0, self.count, _BLOCK):
            block = hashes(first, min(first + _BLOCK, self.count))
            of_keys += checksum_of_keys(block, first)
            per_home += np.bincount(_places(block, self.count)[0], minlength=len(per_home))
        for first in range(0, len(self.slots), _BLOCK):
            of_slots += checksum_of_slots(self.slots[first : first + _BLOCK], first)
        # The keys of a home end where they would if the homes before it were full up to theirs, or after these.
        starts = np.arange(len(per_home)) * _BUCKET
        ends = np.cumsum(per_home) + np.maximum.accumulate(starts - np.cumsum(per_home) + per_home)
        searched = (ends - 1) // _BUCKET - starts // _BUCKET + 1
        fields = {
            "checksum of the keys": (self.checksums[0], of_keys % 2**64),
            "number of slots": (len(self.slots), max(len(per_home), -(-int(ends[-1]) // _BUCKET)) * _BUCKET),
            "most buckets of a search": (self.longest, int(searched[per_home > 0].max(initial=1))),
            "checksum of the slots": (self.checksums[1], of_slots % 2**64),
            "last word of the header": (self.unused, 0),
        }
        for name, (recorded, computed) in fields.items():
            if recorded != computed:
                raise KernelError(
                    f"index is damaged, or of other keys: its {name} is {recorded:#x}, expected {computed:#x}"
                )

    def find(self, hashes: Array, equal: Callable[[Array, Array], Array]) -> Array:
        """The position of each query among the keys, or -1, int64[Q].

        Args:
            hashes: The hashes of the queries, uint64[Q].
            equal: Which of some queries equal the keys at some positions.

        Raises:
            KernelError: A slot names a key that is not there.
        """
        found = np.full(len(hashes), -1, np.int64)
        buckets, tags, bits = _places(hashes, self.count)
        lines = self.slots.reshape(-1, _BUCKET)
        searching, beyond = np.arange(len(hashes)), len(self.slots)
        for _ in range(self.longest):
            searching = searching[buckets[searching] < len(lines)]
            for column in range(_BUCKET):
                slots = lines[buckets[searching], column].astype(np.uint64)
                is_candidate = (slots != 0) & (slots >> np.uint64(bits) == tags[searching])
                candidates = searching[is_candidate]
                positions = (slots[is_candidate] & np.uint64(2**bits - 1)).astype(np.int64) - 1
                illegal = (positions < 0) | (positions >= self.count)
                if illegal.any():
                    beyond = min(beyond, int((buckets[candidates[illegal]] * _BUCKET + column).min()))
                    candidates, positions = candidates[~illegal], positions[~illegal]
                same = equal(candidates, positions)
                found[candidates[same]] = positions[same]
                searching = searching[found[searching] < 0]
            searching = searching[lines[buckets[searching], -1] != 0]
            buckets[searching] += 1
        if beyond < len(self.slots):
            at = int(self.slots[beyond]) & (2**bits - 1)
            raise KernelError(f"index is damaged: slot {beyond} names key {at - 1} of {self.count}")
        return found


def _places(hashes: Array, count: int) -> tuple[Array, Array, int]:
    """The homes of keys, int64[N], the tags of their slots, uint64[N], and the number of bits of a position."""
    bits = count.bit_length()
    homes = (hashes >> np.uint64(32)) * np.uint64(count // _KEYS_IN_BUCKET + 1) >> np.uint64(32)
    return homes.astype(np.int64), hashes & np.uint64(2 ** (32 - bits) - 1), bits
