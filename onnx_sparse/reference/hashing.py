"""StringToHashBucketFast and StringToHashBucketStrong in numpy."""

from __future__ import annotations

import numpy as np

from onnx_sparse.reference.farmhash import fingerprint64
from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.reference.siphash import siphash
from onnx_sparse.reference.string_tensor import bytes_of
from onnx_sparse.schemas import hashing as declarations


@implements(declarations.STRING_TO_HASH_BUCKET_FAST)
def string_to_hash_bucket_fast(strings: Array, num_buckets: Array) -> Array:
    """The bucket of each string; see the semantics of StringToHashBucketFast.

    Args:
        strings: Text, which is hashed as UTF-8, or bytes.
        num_buckets: int64[].
    """
    return _buckets(fingerprint64(bytes_of(strings)), strings, num_buckets)


@implements(declarations.STRING_TO_HASH_BUCKET_STRONG)
def string_to_hash_bucket_strong(strings: Array, num_buckets: Array, key_0: Array, key_1: Array) -> Array:
    """The bucket of each string by a key; see the semantics of StringToHashBucketStrong.

    Args:
        strings: Text, which is hashed as UTF-8, or bytes.
        num_buckets: int64[].
        key_0: The first half of the key, int64[].
        key_1: The second half, int64[].
    """
    key = (int(key_0) % 2**64, int(key_1) % 2**64)
    return _buckets(siphash(bytes_of(strings), key), strings, num_buckets)


def _buckets(hashes: Array, strings: Array, num_buckets: Array) -> Array:
    buckets = hashes % num_buckets.astype(np.uint64)
    return buckets.astype(np.int64).reshape(strings.shape)
