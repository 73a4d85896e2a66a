"""FindKeys and FindStrings look keys up in a table; IndexKeys and IndexStrings build the index that they search.

An index is data like the keys: an initializer that lies in a file, is mapped by all processes of a machine, and is
ready when a session starts. `INDEX_FORMAT` says what its bytes are.
"""

from __future__ import annotations

import itertools
import struct
from functools import partial
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.schemas.declaration import Example, Family, Input, Op, Output, Values
from onnx_sparse.schemas.function_body import ML_DOMAIN, Body

KEY_TYPES = (TensorProto.INT32, TensorProto.INT64, TensorProto.UINT64)

#: The format of an index, which the pages of its operators have.
INDEX_FORMAT = """
An index is little-endian, and depends on the keys alone: neither on threads nor on the machine. A header of 64 bytes is
followed by slots of 4 bytes. 16 slots are a bucket, as large as a cache line:

| bytes | type | what |
|---|---|---|
| 0 to 7 | text | `OSKEYIDX` |
| 8 to 11 | uint32 | the version, 1 |
| 12 to 15 | uint32 | the kind of keys: 1 integers of 4 bytes, 2 of 8 bytes, 3 text |
| 16 to 23 | uint64 | `n`, the number of keys |
| 24 to 31 | uint64 | the number of slots, a multiple of 16 |
| 32 to 39 | uint64 | the most buckets that one search reads |
| 40 to 47 | uint64 | the checksum of the keys |
| 48 to 55 | uint64 | the checksum of the slots |
| 56 to 63 | | zeros |

- The hash `h` of an integer is `mix` of its 64 bits; int32 is sign-extended. `mix` is the finalizer of SplitMix64. That
  of text is FarmHash's Fingerprint64.
- The home of a key is the bucket `floor((h >> 32) * (n / 12 + 1) / 2^32)`, where `n / 12` is rounded down. Slots are
  taken in order of (home, position): each the first slot of its home, or the one after the key before, whichever is
  later. So a search ends at the first bucket whose last slot is empty.
- An empty slot is 0. Another one has the position of its key plus 1 in its lowest bits, as many as `n` has, and the
  lowest bits of the hash above.
- The checksum of the keys is the sum of `mix(h + i * 0x9E3779B97F4A7C15)` over the keys `i`, and that of the slots the
  sum of `mix(j * 2^32 + slot)` over the slots `j`, both modulo 2^64.
""".strip()

_FOUND = """
`positions[i]` is the position of `queries[i]` in the keys, or -1 where it is not among them.

- No value is reserved: every {key} may be a key.
- Of equal keys, the first position is given. `{build}` refuses duplicates.
- Without `index`, one is built: once when the session starts, if the keys are an initializer, and else in each run.
  That refuses duplicates, too.
- An index of another version, type or number of keys is an error, as is one of another size, or one that names a key
  beyond the last. An index of other keys misses keys: `onnx-sparse check` compares its checksums, and so
  does a session if the environment has `ONNX_SPARSE_CHECK_INDEX=1`. Whatever an index holds, nothing is read outside of
  the inputs, and each search ends.
- No keys, and no queries, are legal.
- Absent queries are not counted. Positions below 0 say which they are, and one table may be asked after another, so
  only the model knows which absences matter: Less, Cast and ReduceSum count these."""

_INDEX = Input("index", "uint8", "B", "The index of the keys.", Values("key_index", of="keys"), sentinel=())
_KEYS = Input("keys", "T", "N", "The keys.")
_KEY_BYTES = Input("key_bytes", "uint8", "M", "The bytes of all keys, one key after the other.")
_KEY_OFFSETS = Input(
    "key_offsets",
    "int64",
    "L",
    "Where each key begins in `key_bytes`, and where the last one ends.",
    Values("row_splits", of="M", checked=False),
    sparsely_read=True,
)
_POSITIONS = Output("positions", "int64", "*S", "The position of each query among the keys, or -1.")
_BUILT = Output("index", "uint8", "B", "The index.", holds_data=True)
_SOURCE = "tf.raw_ops.LookupTableFindV2; ai.onnx.ml's LabelEncoder, whose keys are attributes"


def _find_keys_body(b: Body) -> None:
    """Binary search: in the sorted keys, which a TopK sorts; equal keys keep their order."""
    count = b.size("keys")
    keys, queries = b.int64("keys"), b.int64("queries")
    total = b.Shape(keys)
    size = b.Squeeze(total)
    keys, places = b.node("TopK", keys, total, outputs=2, axis=0, largest=0, sorted=1)
    keys = b.Concat(keys, b.constant([2**63 - 1]), axis=0)  # no query is greater, and there is always a key to read
    places = b.Concat(places, b.constant([-1]), axis=0)
    less = b.filled(b.Shape(queries), 0)  # so many keys are known to be less than the query
    for bit in reversed(range(32 if count is None else count.bit_length())):
        more = b.Add(less, b.constant(2**bit))
        before = b.smaller(b.Sub(more, b.constant(1)), size)
        less = b.Where(b.Less(b.Gather(keys, before), queries), more, less)
    found = b.And(b.Equal(b.Gather(keys, less), queries), b.Less(less, size))
    b.output("positions", b.Where(found, b.Gather(places, less), b.constant(-1)))


#: A LabelEncoder has its keys as attributes, and a model holds less than 2 GB.
_MOST_BYTES = 2**31 - 2**24


def _fits(count: int, key_bytes: int = 0) -> bool:
    """Whether keys and their positions can be attributes."""
    return 20 * count + key_bytes < _MOST_BYTES


def _label_encoder(b: Body, queries: str, keys: list[Any], attribute: str) -> None:
    """Writes a LabelEncoder; of equal keys, the first one counts."""
    first = {key: position for position, key in reversed([*enumerate(keys)])}
    lists: dict[str, Any] = {attribute: [*first], "values_int64s": [*first.values()]}
    (found,) = b.node("LabelEncoder", queries, domain=ML_DOMAIN, default_int64=-1, **lists) if keys else [""]
    b.output("positions", found or b.filled(b.Shape("queries"), -1))


def _find_constant_keys_body(b: Body) -> None:
    keys = b.known.constants["keys"].astype(np.int64)
    if _fits(len(keys)):
        _label_encoder(b, b.int64("queries"), keys.tolist(), "keys_int64s")
    else:
        _find_keys_body(b)


def _find_constant_strings_body(b: Body) -> None:
    key_bytes, offsets = b.known.constants["key_bytes"], b.known.constants["key_offsets"].tolist()
    if not _fits(len(offsets) - 1, len(key_bytes)):
        raise ValueError(
            f"{b.op.name}: {len(offsets) - 1} keys of {len(key_bytes)} bytes are more than the attributes of a "
            "LabelEncoder hold"
        )
    data = key_bytes.tobytes()
    keys = [data[begin:end] for begin, end in itertools.pairwise(offsets)]
    _label_encoder(b, "queries", keys, "keys_strings")


FIND_KEYS = Op(
    name="FindKeys",
    summary="Finds integers in a table of keys.",
    semantics=_FOUND.format(key="integer", build="IndexKeys").strip(),
    source=_SOURCE,
    inputs=(_KEYS, _INDEX, Input("queries", "T", "*S", "What is looked up.")),
    outputs=(_POSITIONS,),
    types={"T": KEY_TYPES},
    body=_find_keys_body,
    body_of_constants=_find_constant_keys_body,
    read_by_body=("keys",),
    body_notes="It ignores `index`, and sorts the keys in each run. Where the keys are an initializer, `lower` writes "
    "a LabelEncoder. Then the keys are attributes: a model holds less than 2 GB of them, and each session builds its "
    "dictionary anew. More than 10^8 keys are sorted in each run.",
    examples=(
        Example(
            "keys of 64 bits, one of them absent",
            {"T": TensorProto.INT64},
            {"keys": [7, -1, 2**62, 0], "index": [], "queries": [[2**62, 0], [1, 7]]},
            {"positions": [[2, 3], [-1, 0]]},
        ),
        Example(
            "no keys",
            {"T": TensorProto.UINT64},
            {"keys": [], "index": [], "queries": [0, 2**64 - 1]},
            {"positions": [-1, -1]},
        ),
    ),
)

FIND_STRINGS = Op(
    name="FindStrings",
    summary="Finds strings in a table of keys.",
    semantics=_FOUND.format(key="string", build="IndexStrings").strip()
    + """
- Key `i` is `key_bytes[key_offsets[i]:key_offsets[i+1]]`. Bytes are compared: UTF-8 in ONNX, but zero bytes and bytes
  that are not UTF-8 are like any others, and the empty string may be a key.
- `key_offsets` begins with 0, does not decrease, and ends with the size of `key_bytes`. With an index, only the
  offsets of keys that are compared are checked.

See [text is bytes](../text.md) for programs that change strings before they reach the operator.""",
    source=_SOURCE,
    inputs=(_KEY_BYTES, _KEY_OFFSETS, _INDEX, Input("queries", "string", "*S", "What is looked up.")),
    outputs=(_POSITIONS,),
    types={},
    body_of_constants=_find_constant_strings_body,
    read_by_body=("key_bytes", "key_offsets"),
    body_notes="It has no operator that reads the bytes of a string. Where the keys are initializers, `lower` writes a "
    "LabelEncoder: see [FindKeys](FindKeys.md#function-body).",
    examples=(
        Example(
            "the keys 'cat', '' and '日'",
            {},
            {
                "key_bytes": list("cat日".encode()),
                "key_offsets": [0, 3, 3, 6],
                "index": [],
                "queries": [["", "dog"], ["日", "cat"]],
            },
            {"positions": [[1, -1], [2, 0]]},
        ),
    ),
)


def _small_index(kind: int, count: int, checksum_of_keys: int, checksum_of_slots: int, *slots: int) -> list[int]:
    """The bytes of an index of one bucket."""
    header = struct.pack("<8s2I6Q", b"OSKEYIDX", 1, kind, count, 16, 1, checksum_of_keys, checksum_of_slots, 0)
    return [*header, *struct.pack(f"<{len(slots)}I", *slots), *bytes(4 * (16 - len(slots)))]


_build = partial(Op, outputs=(_BUILT,), source="the format is our own", body_notes="Its operators hash nothing.")
_SEMANTICS = """
`index` is the index of the keys for `{find}`.

- A duplicate is an error, which names the first key that equals one before it, and both positions.
- The number of keys is at most 2^32 - 2, and may be 0. An index has 5.4 bytes for each of many keys.

## The index

{format}""".strip()

INDEX_KEYS = _build(
    name="IndexKeys",
    summary="Builds the index that FindKeys searches.",
    semantics=_SEMANTICS.format(find="FindKeys", format=INDEX_FORMAT),
    inputs=(Input("keys", "T", "N", "The keys.", Values("distinct")),),
    types={"T": KEY_TYPES},
    examples=(
        Example(
            "no keys",
            {"T": TensorProto.INT64},
            {"keys": []},
            {"index": _small_index(2, 0, 0, 0xD69505FC20B1FFA2)},
        ),
    ),
)

INDEX_STRINGS = _build(
    name="IndexStrings",
    summary="Builds the index that FindStrings searches.",
    semantics=_SEMANTICS.format(find="FindStrings", format="[IndexKeys](IndexKeys.md#the-index) has the format."),
    inputs=(_KEY_BYTES, Input(_KEY_OFFSETS.name, "int64", "L", _KEY_OFFSETS.doc, Values("row_splits", of="M"))),
    types={},
    examples=(
        Example(
            "the keys 'a' and ''",
            {},
            {"key_bytes": [97], "key_offsets": [0, 1, 1]},
            {"index": _small_index(3, 2, 0xB32104C6691C75BB, 0xF45A35B8323A1576, 0xDB7DD78D, 0xBE41013E)},
        ),
    ),
)

FAMILY = Family(
    "keyed_tables",
    (FIND_KEYS, FIND_STRINGS, INDEX_KEYS, INDEX_STRINGS),
    origin="`tf.lookup`'s tables, Keras' lookup layers, LabelEncoder, embeddings that are keyed by hashes",
)
