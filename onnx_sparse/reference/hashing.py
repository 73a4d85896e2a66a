"""StringToHashBucketFast in numpy."""

from __future__ import annotations

import numpy as np

from onnx_sparse.reference.farmhash import fingerprint64
from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.schemas import hashing as declarations


@implements(declarations.STRING_TO_HASH_BUCKET_FAST)
def string_to_hash_bucket_fast(strings: Array, num_buckets: Array) -> Array:
    """The bucket of each string; see the semantics of StringToHashBucketFast.

    Args:
        strings: Text, which is hashed as UTF-8, or bytes.
        num_buckets: int64[].
    """
    texts = [s if isinstance(s, bytes) else str(s).encode() for s in strings.reshape(-1)]
    buckets = fingerprint64(texts) % num_buckets.astype(np.uint64)
    return buckets.astype(np.int64).reshape(strings.shape)
