"""Serialized messages as arrays for ONNX Runtime's Python API."""

from __future__ import annotations

import onnxruntime as ort
import pytest
from contract.example_messages import INT64, entry, example_class, feature, message
from onnx import parser

from onnx_sparse import example_array

IDENTITY = parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 18]> g (string[n] x) => (string[n] y) { y = Identity (x) }'
)


@pytest.mark.parametrize("size", [*range(2, 6), *range(126, 136), 16_380, 16_390, 2**21 + 5])
def test_a_filling_of_any_size(size: int) -> None:
    short = message(entry(b"k", feature(INT64, [b"\7"])))
    made, _ = example_array([short, b"x" * (len(short) + size)]).tolist()
    assert len(made) == len(short) + size
    assert example_class().FromString(made).features == example_class().FromString(short).features


def test_no_message_is_one_byte_short() -> None:
    """No field has a single byte, so the array is wider than the longest message."""
    array = example_array([b"\x10\x01", b"\x10\x80\x00"])
    assert [example_class().FromString(made).features.feature for made in array.tolist()] == [{}, {}]
    assert array.dtype.itemsize == 5


def test_a_single_message_and_none() -> None:
    assert example_array(b"\x10\x01").shape == ()
    assert example_array([]).shape == (0,)


def test_onnx_runtime_passes_the_bytes_on() -> None:
    session = ort.InferenceSession(IDENTITY.SerializeToString())
    (got,) = session.run(None, {"x": example_array([b"\n\x00\x10\x00", b"\x10\x00\x10\x00"])})
    assert got.tolist() == ["\n\x00\x10\x00", "\x10\x00\x10\x00"]


def test_text_is_refused() -> None:
    with pytest.raises(TypeError, match="a message is str; bytes expected"):
        example_array(["text"])  # type: ignore[list-item]
