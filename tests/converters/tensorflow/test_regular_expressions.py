"""Random regular expressions replace what TensorFlow's RE2 replaces: the reference, and the native kernel."""

from __future__ import annotations

import contextlib
import random

import numpy as np
import pytest
from contract.backends import BACKENDS, Call
from support.random_expressions import expression, texts

tf = pytest.importorskip("tensorflow")

from onnx_sparse.converters.errors import Unsupported  # noqa: E402
from onnx_sparse.converters.tensorflow.regex_program import program_of  # noqa: E402
from onnx_sparse.schemas import OPS  # noqa: E402

OP = OPS["RegexReplace"]


@pytest.mark.parametrize("backend", [name for name in ("reference", "ORT native") if name in BACKENDS])
@pytest.mark.parametrize("seed", range(5))
def test_random_expressions(backend: str, seed: int) -> None:
    draw = random.Random(seed)
    refused = 0
    for _ in range(40):
        pattern, everywhere, words = expression(draw, 3).encode(), draw.random() < 0.8, texts(draw, 20)
        try:
            program = program_of(pattern)
        except Unsupported:
            with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
                tf.strings.regex_replace(words, pattern, "")
            refused += 1
            continue
        group = draw.randint(0, min(program.groups, 9))
        wanted = tf.strings.regex_replace(words, pattern, rf"<\{group}|\0>", replace_global=everywhere).numpy()
        strings = np.array([word.decode("utf-8", "surrogateescape") for word in words], object)
        rewrite, groups = np.array(["<", "|", ">"], object), np.array([group, 0])
        inputs = {"input": strings, **program.inputs, "rewrite": rewrite, "groups": groups}
        call = Call.of(OP, {}, {"matches": "ALL" if everywhere else "FIRST"}, inputs)
        (got,) = BACKENDS[backend](call, inputs)
        actual = [text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape") for text in got]
        assert actual == wanted.tolist(), pattern
    assert refused < 20


def test_a_repeat_of_a_repeat_is_no_exponential_search() -> None:
    """A search that tries every way would take years."""
    program = program_of(b"(a*)*b|(?:a|a)+c")
    strings = np.array(["a" * 2000], object)
    inputs = {"input": strings, **program.inputs, "rewrite": np.array([""], object), "groups": np.zeros(0, np.int64)}
    for backend in ("reference", "ORT native"):
        if backend in BACKENDS:
            (got,) = BACKENDS[backend](Call.of(OP, {}, {"matches": "ALL"}, inputs), inputs)
            assert got.tolist() == strings.tolist()


def test_damaged_patterns_are_refused_by_name() -> None:
    """Cut, mixed and nested ones: no error but that of a pattern that is refused."""
    draw = random.Random(3)
    signs = r"\\()[]{}*+?|^$.-:,<>PpQEx0179aA" + "\n\0日"
    for _ in range(3000):
        pattern = expression(draw, 3)
        place = draw.randint(0, len(pattern))
        pattern = pattern[:place] + "".join(draw.choice(signs) for _ in range(draw.randint(0, 4))) + pattern[place:]
        with contextlib.suppress(Unsupported):
            program_of(pattern.encode()[draw.choice([0, 0, 1]) : draw.choice([None, None, -1])])
    for pattern in (
        "(" * 5000 + ")" * 5000,
        "(" * 99 + "a" + ")*" * 99,
        "(a{30}){34}",
        "(?:a|b|c){1000}" * 30,
        "\\",
        "[",
    ):
        with contextlib.suppress(Unsupported):
            program_of(pattern.encode())
