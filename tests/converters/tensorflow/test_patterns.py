"""Classes of characters, read as RE2 reads them: no model runs here, TensorFlow's own RE2 is asked instead."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("tensorflow")

import tensorflow as tf

from onnx_sparse.converters.tensorflow.patterns import CharacterPattern, pattern_of

CLASSES = [
    *(rf"\{letter}" for letter in "dDsSwWafnrtv.-]"),
    *("a", "-", "[]a]", "[^]a]", "[a-]", "[-a]", "[[]", r"[\n\t]", r"[\-\]]", r"[\x41-\x{5a}]", "[^a-z]", "[a-c-e]"),
    *(
        "[[:punct:]]",
        "[[:^alpha:]x]",
        r"[[:space:]\w]",
        "[[:graph:][:cntrl:]]",
        "[^[:print:]]",
        "[[:blank:][:xdigit:]]",
    ),
    *(r"[\W_]", r"[^\s\d]", r"[\S\d]", "[日-本]", "[^é]", r"[!\"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']"),
]
REFUSED = [r"[a-\d]", "[z-a]", "[[:foo:]]", r"[\x{110000}]"]


def assert_matches_as_re2(characters: str) -> None:
    pattern = pattern_of(characters.encode())
    assert pattern is None or isinstance(pattern, CharacterPattern)  # None has no characters
    ranges = pattern.ranges if pattern else ()
    ends = {end + step for both in ranges for end in both for step in (-1, 0, 1)}
    numbers = [n for n in sorted({*range(0x250), *ends}) if 0 <= n <= 0x10FFFF and not 0xD800 <= n < 0xE000]
    matched = tf.strings.regex_full_match([chr(number) for number in numbers], characters).numpy().tolist()
    assert [any(first <= n <= last for first, last in ranges) for n in numbers] == matched


@pytest.mark.parametrize("characters", CLASSES)
def test_class_is_that_of_re2(characters):
    assert_matches_as_re2(characters)


def test_random_classes():
    draw = random.Random(5)
    elements = ["a", "f-q", r"\d", r"\S", "[:upper:]", "[:^word:]", r"\]", r"\x{e9}", "é-ü", "0-9", "_", r"\t"]
    for _ in range(50):
        assert_matches_as_re2(f"[{draw.choice(['', '^'])}{''.join(draw.sample(elements, 3))}]")


@pytest.mark.parametrize("pattern", REFUSED)
def test_refused_class_is_no_pattern(pattern):
    assert pattern_of(pattern.encode()) is None


def test_run_of_a_class():
    assert pattern_of(rb"\s+") == CharacterPattern(((9, 10), (12, 13), (32, 32)), is_run=True)
