"""StringToHashBucketFast: puts strings in buckets, as TensorFlow hashes categories without a vocabulary."""

from __future__ import annotations

from onnx_sparse.schemas.declaration import Example, Family, Input, Op, Output, Values

STRING_TO_HASH_BUCKET_FAST = Op(
    name="StringToHashBucketFast",
    summary="Puts strings in buckets by their hash.",
    semantics="""
`output[i]` is the fingerprint of `input[i]` modulo `num_buckets`, both taken as unsigned 64-bit integers.

- The fingerprint is FarmHash's Fingerprint64. It is the same on every machine and in every version.
- The bytes that the tensor holds are hashed, UTF-8 in ONNX. Zero bytes, and bytes that are not UTF-8, count like any
  others. The empty string has a bucket, too.
- `num_buckets` < 1 is an error, even where `input` is empty.

Strings may be changed before they reach the operator:

- ONNX Runtime's Python API takes arrays of `str` objects as they are. It cuts elements of numpy's string arrays (`<U`)
  at their first zero byte, and turns a `bytes` object into the text that Python prints for it (`b'cat'`): decode
  strings that come from TensorFlow. Its C API takes any bytes.
- onnxruntime-extensions cuts strings at their first zero byte before Python kernels see them, and ends the process on
  bytes that are not UTF-8. Native kernels see every byte.
- onnx's reference evaluator refuses initializers that are not UTF-8.
""".strip(),
    source="tf.raw_ops.StringToHashBucketFast; the fingerprint is farmhashna::Hash64 of Google's FarmHash",
    inputs=(
        Input("input", "string", "*S", "The strings."),
        Input("num_buckets", "int64", "", "The number of buckets.", Values("size", low=1)),
    ),
    outputs=(Output("output", "int64", "*S", "The bucket of each string, in [0, num_buckets)."),),
    types={},
    body_notes="It has no operator that reads the bytes of a string.",
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

FAMILY = Family(
    "hashing",
    (STRING_TO_HASH_BUCKET_FAST,),
    origin="`tf.strings.to_hash_bucket_fast`, hashed feature columns, Keras' Hashing layer",
)
