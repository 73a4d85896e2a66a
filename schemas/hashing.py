"""StringToHashBucketFast: strings to buckets, as TensorFlow hashes categories that have no vocabulary."""

from __future__ import annotations

from onnx_sparse.schemas.declaration import Example, Input, Op, Output, Values

STRING_TO_HASH_BUCKET_FAST = Op(
    name="StringToHashBucketFast",
    summary="Puts strings in buckets by their hash.",
    law="""
`output[i]` is the fingerprint of `input[i]` modulo `num_buckets`, both taken as unsigned integers of 64 bits.

- The fingerprint is FarmHash's Fingerprint64. It never changes: not between machines, not between versions.
- Hashed are the bytes that the tensor holds, UTF-8 in ONNX. Zero bytes, and bytes that are no UTF-8, count like others.
  The empty string has a bucket, too.
- `num_buckets` < 1 is an error, also where `input` is empty.

What happens to strings on their way to the operator:

- ONNX Runtime's Python interface takes arrays of `str` objects as they are. It cuts elements of numpy's text arrays
  (`<U`) at their first zero byte, and takes a `bytes` object for the text that Python prints it as (`b'cat'`): decode
  what TensorFlow gives. Its C interface takes any bytes.
- onnxruntime-extensions cuts strings at their first zero byte before Python kernels see them, and ends the process on
  bytes that are no UTF-8. Native kernels see every byte.
- onnx's reference evaluator refuses initializers that are no UTF-8.
""".strip(),
    source="tf.raw_ops.StringToHashBucketFast; the fingerprint is farmhashna::Hash64 of Google's FarmHash",
    inputs=(
        Input("input", "string", "*S", "The strings."),
        Input("num_buckets", "int64", "", "The number of buckets.", Values("size", low=1)),
    ),
    outputs=(Output("output", "int64", "*S", "The bucket of each string, in [0, num_buckets)."),),
    types={},
    body_notes="It has no operator that looks at the bytes of a string.",
    examples=(
        Example(
            "strings of any language in ten buckets",
            {},
            {"input": [["", "a"], ["cat", "日本語"]], "num_buckets": 10},
            {"output": [[3, 9], [6, 3]]},
        ),
        Example(
            "one string of each length that is hashed in its own way",
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
            "a scalar, and as many buckets as there can be",
            {},
            {"input": "TensorFlow", "num_buckets": 2**63 - 1},
            {"output": 4265654129848386254},
        ),
    ),
)

OPS = (STRING_TO_HASH_BUCKET_FAST,)
