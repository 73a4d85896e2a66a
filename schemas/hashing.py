"""StringToHashBucketFast and Strong: put strings in buckets, as TensorFlow hashes categories without a vocabulary."""

from __future__ import annotations

from functools import partial

from onnx_sparse.schemas.declaration import Example, Family, Input, Op, Output, Values

#: What both have in common.
_STRINGS = """
- The bytes that the tensor holds are hashed, UTF-8 in ONNX. Zero bytes, and bytes that are not UTF-8, count like any
  others. The empty string has a bucket, too.
- `num_buckets` < 1 is an error, even if `input` is empty.

See [text is bytes](../text.md) for programs that change strings before they reach the operator."""

_INPUTS = (
    Input("input", "string", "*S", "The strings."),
    Input("num_buckets", "int64", "", "The number of buckets.", Values("size", low=1)),
)
_OUTPUT = Output("output", "int64", "*S", "The bucket of each string, in [0, num_buckets).", holds_data=True)
#: What both have in common.
_op = partial(Op, outputs=(_OUTPUT,), types={}, body_notes="It has no operator that reads the bytes of a string.")

STRING_TO_HASH_BUCKET_FAST = _op(
    name="StringToHashBucketFast",
    summary="Puts strings in buckets by their hash.",
    semantics="""
`output[i]` is the fingerprint of `input[i]` modulo `num_buckets`, both taken as unsigned 64-bit integers.

- The fingerprint is FarmHash's Fingerprint64. It is the same on every machine and in every version.
""".strip()
    + _STRINGS,
    source="tf.raw_ops.StringToHashBucketFast; the fingerprint is farmhashna::Hash64 of Google's FarmHash",
    inputs=_INPUTS,
    examples=(
        Example(
            "strings of any language in ten buckets",
            {},
            {"input": [["", "a"], ["cat", "日本語"]], "num_buckets": 10},
            {"output": [[3, 9], [6, 3]]},
        ),
        Example(
            "one string for each range of lengths that is hashed differently",
            {},
            {
                "input": [
                    "",
                    "user_4711",
                    "a string of more than 16 bytes",
                    "one of more than thirty-two bytes, which is mixed twice",
                    "x" * 100,
                ],
                "num_buckets": 1000,
            },
            {"output": [263, 194, 862, 112, 719]},
        ),
        Example(
            "a scalar, and the largest number of buckets",
            {},
            {"input": "TensorFlow", "num_buckets": 2**63 - 1},
            {"output": 4265654129848386254},
        ),
    ),
)

STRING_TO_HASH_BUCKET_STRONG = _op(
    name="StringToHashBucketStrong",
    summary="Puts strings in buckets by a hash with a key.",
    semantics="""
`output[i]` is the hash of `input[i]` modulo `num_buckets`, both taken as unsigned 64-bit integers.

- The hash is SipHash-2-4 with the key (`key_0`, `key_1`), whose halves are also taken as unsigned. Without the
  key, nobody can choose strings that fall into one bucket.
""".strip()
    + _STRINGS,
    source="tf.raw_ops.StringToHashBucketStrong; the hash is SipHash-2-4 of Aumasson and Bernstein (2012)",
    inputs=(
        *_INPUTS,
        Input("key_0", "int64", "", "The first half of the key."),
        Input("key_1", "int64", "", "The second half of the key."),
    ),
    examples=(
        Example(
            "strings of any language in ten buckets",
            {},
            {"input": [["", "a"], ["cat", "日本語"]], "num_buckets": 10, "key_0": 1, "key_1": 2},
            {"output": [[5, 6], [8, 6]]},
        ),
        Example(
            "strings that end before, at and after a word of eight bytes, and a key with all its bits",
            {},
            {"input": ["", "1234567", "12345678", "x" * 100], "num_buckets": 1000, "key_0": -1, "key_1": 2**62},
            {"output": [551, 850, 840, 42]},
        ),
        Example(
            "a scalar, and the largest number of buckets",
            {},
            {"input": "TensorFlow", "num_buckets": 2**63 - 1, "key_0": 123, "key_1": 456},
            {"output": 3876270404901353656},
        ),
    ),
)

FAMILY = Family(
    "hashing",
    (STRING_TO_HASH_BUCKET_FAST, STRING_TO_HASH_BUCKET_STRONG),
    origin="`tf.strings.to_hash_bucket_fast` and `_strong`, hashed feature columns, Keras' Hashing layer",
)
