"""Regular expressions that need no regular expressions: literal texts, and classes of characters.

Only the outer form of a pattern is read here. Which characters a class has is asked of TensorFlow's own RE2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from onnx_sparse.converters.tensorflow.lazy_imports import require

_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)

#: One character of a text: any but those with a meaning, or one of the latter behind a backslash.
_LITERAL = re.compile(rb"(?:[^\\.^$|?*+()\[\]{}]|\\[!-/:-@\[-`{-~])+")
#: A class in brackets, in which a bracket may come first, be escaped, or enclose a named class; or its short form.
_CLASS = re.compile(
    rb"(\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|\\[dDsSwWafnrtv!-/:-@\[-`{-~]|(?![\\.^$|?*+()\[\]{}])[\0-\x7f])(\+?)",
    re.DOTALL,
)
#: Classes in which all characters beyond ASCII are, or none: no such character stands there, by itself or by number.
_OF_ASCII = re.compile(rb"(?:[\0-\x5b\x5d-\x7f]|\\[^pPx0-9])*", re.DOTALL)


@dataclass(frozen=True)
class LiteralPattern:
    """A text that matches itself."""

    text: bytes


@dataclass(frozen=True)
class CharacterPattern:
    """Matches one character of a class, or (`is_run`) as many as there are; `ranges` are first and last characters."""

    ranges: tuple[tuple[int, int], ...]
    is_run: bool


def pattern_of(pattern: bytes) -> LiteralPattern | CharacterPattern | None:
    """What a pattern of RE2 matches; None if it is of neither kind."""
    try:
        pattern.decode()
    except UnicodeDecodeError:
        return None  # RE2 refuses it
    if found := _CLASS.fullmatch(pattern):
        ranges = _ranges(found[1])
        return CharacterPattern(ranges, bool(found[2])) if ranges else None
    if _LITERAL.fullmatch(pattern):
        return LiteralPattern(re.sub(rb"\\(.)", rb"\1", pattern, flags=re.DOTALL))
    return None


@lru_cache(maxsize=64)
def _ranges(characters: bytes) -> tuple[tuple[int, int], ...] | None:
    """The ranges of the characters that RE2 matches; None if it refuses the class."""
    last = 0x80 if _OF_ASCII.fullmatch(characters) else _LAST_CHARACTER
    numbers = [number for number in range(last + 1) if number not in _SURROGATES]
    tf = require("tensorflow")
    texts = np.array([chr(number).encode() for number in numbers], object)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        try:
            matched = session.run(tf.strings.regex_full_match(texts, characters))
        except tf.errors.InvalidArgumentError:
            return None
    ranges: list[list[int]] = []
    for number in np.array(numbers)[matched].tolist():
        before = ranges[-1][1] + 1 if ranges else -1
        if number == before or (before == _SURROGATES.start and number == _SURROGATES.stop):
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    if ranges and ranges[-1][1] == last:
        ranges[-1][1] = _LAST_CHARACTER
    return tuple((first, end) for first, end in ranges)


def rewrite_of(rewrite: bytes) -> tuple[bytes, ...] | None:
    r"""The texts around and between the copies of the match (`\0`); None if there are other groups."""
    pieces = [b""]
    for text, escaped in re.findall(rb"([^\\]+)|\\(.?)", rewrite, re.DOTALL):
        if text or escaped == b"\\":
            pieces[-1] += text or escaped
        elif escaped == b"0":
            pieces.append(b"")
        else:
            return None
    return tuple(pieces)
