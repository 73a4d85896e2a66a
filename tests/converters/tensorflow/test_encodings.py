"""Base64, raw numbers and compressed data in serving signatures: TensorFlow's values, and its refusals."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import onnx_sparse  # noqa: E402
from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.tensorflow import convert  # noqa: E402

ALPHABET = np.frombuffer(b"AQgwz09-_=+/ \n", "S1")


def of_strings(body: Any, shape: Any = (None,)) -> Any:
    return tf.function(body, input_signature=[tf.TensorSpec(shape, tf.string, "strings")])


def session_of(function: Any) -> Any:
    return onnx_sparse.InferenceSession(convert(function), backend="native")


def given(strings: list[bytes] | bytes) -> Any:
    """Strings of one length, whatever their bytes."""
    array = np.array(strings)
    return np.frombuffer(array.tobytes(), f"V{max(array.dtype.itemsize, 1)}").reshape(array.shape)


def outcome(run: Any) -> Any:
    try:
        return np.asarray(run())
    except (tf.errors.OpError, onnx_sparse.KernelError):
        return None


def ints_of(words: Any) -> Any:
    """What shows every byte."""
    return tf.strings.to_hash_bucket_fast(words, 2**62)


def test_base64_of_random_characters() -> None:
    """Most are refused, by both; the bytes that others stand for are compared by their hash."""
    function = of_strings(lambda words: ints_of(tf.io.decode_base64(words)))
    session, random, legal = session_of(function), np.random.default_rng(0), 0
    for _ in range(400):
        drawn = random.choice(ALPHABET[:9] if random.random() < 0.7 else ALPHABET, int(random.integers(0, 9)))
        text = b"".join(drawn) + b"=" * int(random.choice([0, 0, 1, 2]))
        ours = outcome(lambda text=text: session.run(None, {"strings": np.array([text.decode()], object)})[0])
        theirs = outcome(lambda text=text: function([text]))
        np.testing.assert_array_equal(ours, theirs)
        legal += ours is not None
    assert 50 < legal < 350


@pytest.mark.parametrize("pad", [False, True])
def test_encoding_to_base64(pad: bool) -> None:
    function = of_strings(lambda words: tf.io.encode_base64(words, pad), (None, None))
    session, random = session_of(function), np.random.default_rng(1)
    for length in range(1, 9):
        strings = [[random.bytes(length), b"\xff" * length], [b"\0" * length, random.bytes(length)]]
        flat = np.frombuffer(b"".join(text for row in strings for text in row), f"V{length}")
        (encoded,) = session.run(None, {"strings": flat.reshape(2, 2)})
        assert [text.encode() for text in encoded.ravel()] == function(strings).numpy().ravel().tolist()


TYPES = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "int64", "bool")


@pytest.mark.parametrize("little_endian", [True, False])
@pytest.mark.parametrize("name", TYPES)
def test_raw_numbers(name: str, little_endian: bool) -> None:
    dtype = tf.as_dtype(name)
    function = of_strings(
        lambda words: tf.cast(tf.io.decode_raw(words, dtype, little_endian), tf.float64), (None, None)
    )
    session, random = session_of(function), np.random.default_rng(2)
    for count in (1, 3):
        memory = random.bytes(6 * count * dtype.size)
        strings = np.frombuffer(memory, f"V{count * dtype.size}").reshape(2, 3)
        want = function([[item.tobytes() for item in row] for row in strings])
        np.testing.assert_array_equal(session.run(None, {"strings": strings})[0], want)


@pytest.mark.parametrize("name", ["float32", "uint8", "int64"])
def test_padded_raw_numbers(name: str) -> None:
    dtype = tf.as_dtype(name)
    function = of_strings(lambda words: tf.io.decode_raw(words, dtype, fixed_length=16))
    session = session_of(function)
    for text in (b"a", b"abcdefgh", b"abcdefghabcdefghabc", b"\xff\0\xff"):
        np.testing.assert_array_equal(session.run(None, {"strings": given([text] * 2)})[0], function([text] * 2))
    assert session.run(None, {"strings": np.array([], object)})[0].shape == function(np.array([], object)).shape


def test_raw_strings_without_a_common_length_are_refused() -> None:
    session = session_of(of_strings(lambda words: tf.io.decode_raw(words, tf.int32)))
    for words, message in (
        (["abcd", "abcdefgh"], "input[1] has 8 bytes but input[0] has 4; expected as many"),
        (["abc", "abc"], "input[0] has 3 bytes; a multiple of 4, the size of int32, expected"),
    ):
        with pytest.raises(onnx_sparse.KernelError) as caught:
            session.run(None, {"strings": np.array(words, object)})
        assert message in str(caught.value)
    assert session.run(None, {"strings": np.array([], object)})[0].shape == (0, 0)


@pytest.mark.parametrize("compression", ["ZLIB", "GZIP", ""])
def test_compressed_data(compression: str) -> None:
    """Of any length, also of more bytes than are decompressed at a time, and members of gzip one after another."""
    function = of_strings(lambda words: ints_of(tf.io.decode_compressed(words, compression)), ())
    session, random = session_of(function), np.random.default_rng(3)
    compress = {"ZLIB": zlib.compress, "GZIP": gzip.compress, "": bytes}[compression]
    contents = [b"a", random.bytes(300_000), b"zero\0" * 100_000]
    streams = [compress(content) for content in contents]
    if compression == "GZIP":
        streams.append(streams[0] + streams[1] + streams[2])
    elif compression == "ZLIB":
        streams.append(streams[0] + b"what is behind the end")
    for stream in streams:
        np.testing.assert_array_equal(session.run(None, {"strings": np.array(np.void(stream))})[0], function(stream))


@pytest.mark.parametrize("compression", ["ZLIB", "GZIP"])
def test_damaged_data_are_refused(compression: str) -> None:
    session = session_of(of_strings(lambda words: ints_of(tf.io.decode_compressed(words, compression)), ()))
    stream = (zlib.compress if compression == "ZLIB" else gzip.compress)(b"hello" * 100)
    for damaged in (stream[:-1], stream[:5], b"abc", stream[:-2] + b"\x77\x77"):
        with pytest.raises(onnx_sparse.KernelError, match=f"DecodeCompressed: input .* data of {compression}"):
            session.run(None, {"strings": np.array(np.void(damaged))})
    with pytest.raises(ConversionError, match="compression_type = ZSTD; ZLIB and GZIP are decompressed in ONNX"):
        convert(of_strings(lambda words: tf.io.decode_compressed(words, "ZSTD")))


def test_a_body_of_base64_and_json_rows() -> None:
    """A signature that takes images as arrays of bytes in base64."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "strings")])
    def scores(strings: Any) -> Any:
        pixels = tf.io.decode_raw(tf.io.decode_base64(strings), tf.uint8)
        return tf.reduce_mean(tf.cast(pixels, tf.float32), axis=1)

    random = np.random.default_rng(4)
    body = tf.io.encode_base64([random.bytes(48) for _ in range(3)]).numpy()
    got = session_of(scores).run(None, {"strings": np.array([text.decode() for text in body], object)})[0]
    np.testing.assert_allclose(got, scores(body), rtol=1e-6)
