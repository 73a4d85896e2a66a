"""The operators that hash strings give TensorFlow's buckets: recorded ones, and TensorFlow's own if it is installed.

`python tests/contract/test_hash_buckets.py` records them.
"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from contract.backends import BACKENDS, REPORTING, Call
from contract.fingerprint import fingerprint64
from contract.siphash import siphash

from onnx_sparse import KernelError
from onnx_sparse.reference.farmhash import fingerprint64 as many_fingerprints
from onnx_sparse.reference.siphash import siphash as many_hashes
from onnx_sparse.schemas import OPS

RECORD = Path(__file__).parents[1] / "data" / "hash_buckets.json"

#: The largest number of buckets, so that a bucket shows all bits of the fingerprint.
MOST = 2**63 - 1

WORDS = [
    "ß",
    "naïve",
    "日本語",
    "Привет, мир",
    "😀",
    "e\N{COMBINING ACUTE ACCENT}",
    "\N{LATIN SMALL LETTER E WITH ACUTE}",
]


def text(length: int) -> str:
    """A string of that many bytes."""
    return "".join(chr(33 + (i * i * 7 + i * length + length) % 94) for i in range(length))


TEXTS = [text(length) for length in (*range(201), 1000, 4096)] + WORDS


def hashed(backend: str, texts: list[Any], num_buckets: int = MOST) -> list[int]:
    inputs = {"input": np.array(texts, object), "num_buckets": np.array(num_buckets)}
    call = Call.of(OPS["StringToHashBucketFast"], {}, {}, inputs)
    (output,) = BACKENDS[backend](call, inputs)
    assert output.dtype == np.int64
    return [int(bucket) for bucket in output]


def tensorflows(texts: list[Any], num_buckets: int = MOST) -> list[int]:
    tf = pytest.importorskip("tensorflow")
    return [int(bucket) for bucket in tf.strings.to_hash_bucket_fast(texts, num_buckets).numpy()]


@pytest.mark.parametrize("backend", REPORTING)
def test_recorded_buckets_of_strings_of_every_length(backend: str) -> None:
    assert hashed(backend, TEXTS) == json.loads(RECORD.read_text())["buckets"]


@pytest.mark.parametrize("backend", REPORTING)
@pytest.mark.parametrize("num_buckets", [1, 2, 1000, 2**40 + 1])
def test_tensorflows_buckets(num_buckets: int, backend: str) -> None:
    assert hashed(backend, TEXTS, num_buckets) == tensorflows(TEXTS, num_buckets)


BYTES = [np.random.default_rng(length).bytes(length % 200) for length in range(400)]


def test_fingerprints_of_any_bytes() -> None:
    with np.errstate(over="ignore"):
        fingerprints = many_fingerprints(BYTES)
    assert [int(f) for f in fingerprints] == [fingerprint64(content) for content in BYTES]


def test_tensorflows_buckets_of_any_bytes() -> None:
    assert [fingerprint64(content) % MOST for content in BYTES] == tensorflows(BYTES)


KEYS = [(0, 0), (1, 2), (-1, 2**63 - 1), (2**62 + 12345, -(2**63))]


def strongly_hashed(backend: str, texts: list[Any], key: tuple[int, int]) -> list[int]:
    given = {"num_buckets": MOST, "key_0": key[0], "key_1": key[1]}
    inputs = {"input": np.array(texts, object), **{name: np.array(value) for name, value in given.items()}}
    (output,) = BACKENDS[backend](Call.of(OPS["StringToHashBucketStrong"], {}, {}, inputs), inputs)
    assert output.dtype == np.int64
    return [int(bucket) for bucket in output]


def test_the_authors_test_vectors_of_siphash() -> None:
    """The key is the bytes 0 to 15; the hashes of nothing, of the bytes 0 to 7, and of the bytes 0 to 14."""
    key = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
    texts = [bytes(range(length)) for length in (0, 8, 15)]
    known = [0x726FDB47DD0E0E31, 0x93F5F5799A932462, 0xA129CA6149BE45E5]
    assert [siphash(text, key) for text in texts] == known
    assert [int(h) for h in many_hashes(texts, key)] == known


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_strong_hashes_of_any_bytes(key: tuple[int, int]) -> None:
    unsigned = (key[0] % 2**64, key[1] % 2**64)
    assert [int(h) for h in many_hashes(BYTES, unsigned)] == [siphash(content, key) for content in BYTES]


@pytest.mark.parametrize("backend", REPORTING)
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_strong_hashes_of_strings_of_every_length(key: tuple[int, int], backend: str) -> None:
    assert strongly_hashed(backend, TEXTS, key) == [siphash(t.encode(), key) % MOST for t in TEXTS]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_tensorflows_strong_buckets_of_any_bytes(key: tuple[int, int]) -> None:
    tf = pytest.importorskip("tensorflow")
    buckets = tf.strings.to_hash_bucket_strong(BYTES, MOST, list(key))
    assert [siphash(content, key) % MOST for content in BYTES] == [int(bucket) for bucket in buckets.numpy()]


ZEROS = ["a\0b", "a", "\0", "", "ab\0"]


@pytest.mark.parametrize("backend", [b for b in REPORTING if b != "ORT Python"])
def test_zero_bytes_count(backend: str) -> None:
    assert hashed(backend, ZEROS) == [fingerprint64(word.encode()) % MOST for word in ZEROS]


def test_python_kernels_refuse_strings_with_zero_bytes() -> None:
    """onnxruntime-extensions would pass them on cut off."""
    with pytest.raises(KernelError, match=r"input: string . has a zero byte; onnxruntime-extensions cannot pass it on"):
        hashed("ORT Python", ZEROS)


def model_of_bytes(content: bytes) -> onnx.ModelProto:
    """A model that hashes an initializer whose bytes need not be UTF-8."""
    from contract.models import model

    m = model("g () => (int64[1] y) { y = onnx_sparse.StringToHashBucketFast (content, n) }")
    initializer = m.graph.initializer.add(name="content", data_type=onnx.TensorProto.STRING, dims=[1])
    initializer.string_data.append(content)
    m.graph.initializer.append(onnx.numpy_helper.from_array(np.array(MOST), "n"))
    return m


@pytest.mark.skipif("ORT native" not in BACKENDS, reason="the native library is not built")
def test_native_kernels_hash_bytes_that_are_not_text() -> None:
    import onnx_sparse

    content = b"\xff\xfe\0\x80"
    (bucket,) = onnx_sparse.InferenceSession(model_of_bytes(content), backend="native").run(None, {})[0]
    assert bucket == fingerprint64(content) % MOST


def test_numpys_text_arrays_are_cut_at_a_zero_byte_by_onnx_runtime() -> None:
    """The semantics document this; if the test fails, they are out of date."""
    inputs = {"input": np.array(["a\0b"]), "num_buckets": np.array(MOST)}
    call = Call.of(OPS["StringToHashBucketFast"], {}, {}, inputs)
    (output,) = BACKENDS["ORT native" if "ORT native" in BACKENDS else "ORT Python"](call, inputs)
    assert output[0] == fingerprint64(b"a") % MOST


if __name__ == "__main__":
    record = {
        "texts": "TEXTS of tests/contract/test_hash_buckets.py",
        "num_buckets": MOST,
        "buckets": tensorflows(TEXTS),
    }
    RECORD.write_text(textwrap.fill(json.dumps(record), 120, break_long_words=False) + "\n")
