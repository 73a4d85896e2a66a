"""Graphs of tensorflow_text, read without it; `test_text_kernels.py` compares with its kernels."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.tensorflow import convert, verify
from onnx_sparse.converters.tensorflow.reading.element_types import NUMBERS
from onnx_sparse.converters.tensorflow.reading.messages import GraphDef

TEXTS = np.array(["to be, or not", "", " \u3000", "日本 語\nx\x0by"], object)


def graph(folder: Path, op: str, **constants: bytes) -> Path:
    """A file with one node, whose other inputs are constants."""
    made = GraphDef()
    placeholder = made.node.add(name="texts", op="Placeholder")
    placeholder.attr["dtype"].type = NUMBERS["string"]
    placeholder.attr["shape"].shape.dim.add(size=-1)
    for name, value in constants.items():
        constant = made.node.add(name=name, op="Const")
        constant.attr["dtype"].type = NUMBERS["string"]
        tensor = constant.attr["value"].tensor
        tensor.dtype = NUMBERS["string"]
        tensor.tensor_shape.SetInParent()
        tensor.string_val.append(value)
    made.node.add(name="split", op=op, input=["texts", *constants])
    path = folder / "graph.pb"
    path.write_bytes(made.SerializeToString())
    return path


def split(folder: Path, delimiters: str, kept: str) -> Path:
    return graph(folder, "RegexSplitWithOffsets", delim=delimiters.encode(), keep=kept.encode())


def whitespace(folder: Path) -> Path:
    """The configuration has the bits of the whitespace up to U+3000."""
    bits = np.zeros(0x3008, bool)
    bits[
        [9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
    ] = 1
    config = np.packbits(bits, bitorder="little").tobytes()
    return graph(folder, "TFText>WhitespaceTokenizeWithOffsetsV2", config=config)


def outputs(count: int = 4) -> list[str]:
    return [f"split:{k}" for k in range(count)]


def test_delimiters_of_which_some_are_kept(run: Any, tmp_path: Path) -> None:
    model = convert(split(tmp_path, r"(\s+|[,日])", r"([,日])"), outputs=outputs())
    tokens, starts, ends, splits = run(model, texts=TEXTS).values()
    assert tokens.tolist() == ["to", "be", ",", "or", "not", "\u3000", "日", "本", "語", "x\x0by"]
    assert splits.tolist() == [0, 5, 5, 6, 10]
    assert starts.tolist() == [0, 3, 5, 7, 10, 1, 0, 3, 7, 11]
    assert ends.tolist() == [2, 5, 6, 9, 13, 4, 3, 6, 10, 14]


def test_whitespace(run: Any, tmp_path: Path) -> None:
    model = convert(whitespace(tmp_path), outputs=outputs())
    tokens, splits, starts, ends = run(model, texts=TEXTS).values()
    assert tokens.tolist() == ["to", "be,", "or", "not", "日本", "語", "x", "y"]
    assert splits.tolist() == [0, 4, 4, 4, 8]
    assert starts.dtype == ends.dtype == np.int32
    assert (starts.tolist(), ends.tolist()) == ([0, 3, 7, 10, 0, 7, 11, 13], [2, 6, 9, 13, 6, 10, 12, 14])


def test_no_whitespace_at_all(run: Any, tmp_path: Path) -> None:
    model = convert(graph(tmp_path, "TFText>WhitespaceTokenizeWithOffsetsV2", config=b""), outputs=outputs(1))
    (tokens,) = run(model, texts=TEXTS).values()
    assert tokens.tolist() == [text for text in TEXTS if text]


@pytest.mark.parametrize(
    ("delimiters", "reason"),
    [(r"\s+", "is not one group"), (r"(\s)|,", "is not one group"), (r"(\s*)", "matches the empty text"), ("(", "a )")],
)
def test_delimiters_that_are_refused(delimiters: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=re.escape(reason)):
        convert(split(tmp_path, delimiters, ""))


@pytest.mark.skipif(importlib.util.find_spec("tensorflow_text") is not None, reason="tensorflow_text is installed")
def test_verification_says_what_to_install(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    source = split(tmp_path, r"(\s)", "")
    with pytest.raises(ConversionError, match=r"no operator RegexSplitWithOffsets.*pip install 'tensorflow-text=="):
        verify(source, convert(source))
