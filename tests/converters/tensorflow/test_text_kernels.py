"""Tokenizers of tensorflow_text split as its kernels do: random patterns and texts, and a SavedModel with --verify."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
text = pytest.importorskip("tensorflow_text")

from support.random_expressions import expression, texts  # noqa: E402
from tensorflow_text.python.ops.regex_split_ops import gen_regex_split_ops  # noqa: E402

from onnx_sparse.cli import main  # noqa: E402
from onnx_sparse.converters.errors import Unsupported  # noqa: E402
from onnx_sparse.converters.tensorflow.regex_program import program_of  # noqa: E402
from onnx_sparse.reference.regular_expressions import regex_split  # noqa: E402

BERT = r"\s+|[!-/]|[:-@]|[\[-`]|[{-~]|[\p{P}]|[\x{4E00}-\x{9FFF}]|[\x{3400}-\x{4DBF}]"


def as_bytes(strings: Any) -> list[bytes]:
    return [s if isinstance(s, bytes) else s.encode("utf-8", "surrogateescape") for s in strings]


@pytest.mark.parametrize("seed", range(3))
def test_random_delimiters(seed: int) -> None:
    draw, compared = random.Random(seed), 0
    while compared < 40:
        pattern = f"({BERT if draw.random() < 0.1 else expression(draw, 3)})".encode()
        kept = draw.choice(["", r"\p{P}", ".*", expression(draw, 2)]).encode()
        try:
            delimiters, keeps = program_of(pattern), program_of(kept)
        except Unsupported:
            continue
        if delimiters.matches_empty:
            continue
        words = [word.replace(b"\0", b"") for word in texts(draw, 30)]  # where tensorflow_text ends a string
        wanted = gen_regex_split_ops.regex_split_with_offsets(words, pattern, kept)
        got = regex_split(np.array(words, object), *delimiters.inputs.values(), *keeps.inputs.values())
        assert as_bytes(got[0]) == wanted.tokens.numpy().tolist(), pattern
        for ours, theirs in zip(got[1:], (wanted.row_splits, wanted.begin_offsets, wanted.end_offsets), strict=True):
            assert ours.tolist() == theirs.numpy().tolist(), pattern
        compared += 1


@pytest.mark.parametrize("name", ["RegexSplitter", "WhitespaceTokenizer"])
def test_a_saved_model_is_verified(name: str, tmp_path: Path, capsys: Any) -> None:
    tokenizer = text.RegexSplitter(BERT) if name == "RegexSplitter" else text.WhitespaceTokenizer()

    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "texts")])
        def serve(self, texts):
            split = tokenizer.split if name == "RegexSplitter" else tokenizer.tokenize
            tokens = split(tf.strings.regex_replace(texts, r"\p{Cc}|(a+)b", r" \1 "))
            return {"ids": tf.strings.to_hash_bucket_fast(tokens.values, 1000), "splits": tokens.row_splits}

    module = Module()
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.serve)
    assert main(["convert", str(tmp_path / "model"), "-o", str(tmp_path / "model.onnx"), "--verify"]) == 0
    assert "ok" in capsys.readouterr().out
