"""Regular expressions that need no regular expressions: literal texts, and classes of characters.

Which characters a class has is RE2's syntax; only Unicode's properties are asked of TensorFlow's own RE2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from onnx_sparse.converters.errors import ConversionError, Unsupported
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


#: The characters of the classes that have names, by those and by the letter of their short form.
_NAMED = {
    "alnum": "09AZaz", "alpha": "AZaz", "ascii": "\0\x7f", "blank": "\t\t  ", "cntrl": "\0\x1f\x7f\x7f", "digit": "09",
    "graph": "!~", "lower": "az", "print": " ~", "punct": "!/:@[`{~", "space": "\t\r  ", "upper": "AZ",
    "word": "09AZaz__", "xdigit": "09AFaf", "d": "09", "s": "\t\n\f\r  ", "w": "09AZaz__",
}  # fmt: skip
_ESCAPES = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
#: An element of a class in brackets: a named class, a short form, a number, an escaped character, or a character.
_ELEMENT = re.compile(
    r"\[:(?P<no>\^?)(?P<named>\w+):\]|\\(?P<short>[dDsSwW])|\\x(?:(?P<hex>[0-9A-Fa-f]{2})|\{(?P<long>[0-9A-Fa-f]{1,6})\})"
    r"|\\(?P<escaped>[afnrtv!-/:-@\[-`{-~])|(?P<plain>[^\\])",
    re.DOTALL,
)
_Ranges = list[tuple[int, int]]


@lru_cache(maxsize=64)
def _ranges(characters: bytes) -> tuple[tuple[int, int], ...] | None:
    """The ranges of the characters that RE2 matches; None if it refuses the class.

    Classes of Unicode's properties are asked of TensorFlow's own RE2.
    """
    text = characters.decode()
    if not text.startswith("["):
        found = _ELEMENT.fullmatch(text)
        ranges = None if found is None else _element(found)
        return None if ranges is None else tuple(_merged(ranges))
    if "\\p" in text or "\\P" in text:
        return _asked(characters)
    body = text[1:-1]
    is_negated = body.startswith("^")
    position, held = int(is_negated), []
    while position < len(body):
        found = _ELEMENT.match(body, position)
        ranges = None if found is None else _element(found)
        if found is None or ranges is None:
            return None
        position = found.end()
        is_one = found["named"] is None and found["short"] is None
        if is_one and body[position : position + 1] == "-" and position + 1 < len(body):
            end = _ELEMENT.match(body, position + 1)
            ends = None if end is None else _element(end)
            if end is None or ends is None or end["named"] or end["short"] or ends[0][0] < ranges[0][0]:
                return None
            ranges, position = [(ranges[0][0], ends[0][0])], end.end()
        held += ranges
    merged = _merged(held)
    return tuple(_complement(merged) if is_negated else merged)


def _element(found: re.Match[str]) -> _Ranges | None:
    """The ranges of an element of a class; None if there is no such class or character."""
    name = found["named"] or (found["short"] or "").lower()
    if name:
        ends = _NAMED.get(name)
        if ends is None:
            return None
        ranges = [(ord(first), ord(last)) for first, last in zip(ends[::2], ends[1::2], strict=True)]
        is_negated = bool(found["no"]) or bool(found["short"] and found["short"].isupper())
        return _complement(_merged(ranges)) if is_negated else ranges
    if number := found["hex"] or found["long"]:
        return [(int(number, 16),) * 2] if int(number, 16) <= _LAST_CHARACTER else None
    character = found["plain"] or _ESCAPES.get(found["escaped"], found["escaped"])
    return [(ord(character),) * 2]


def _merged(ranges: _Ranges) -> _Ranges:
    """The ranges in order, those that touch as one; no text has a surrogate, so they part nothing."""
    merged: _Ranges = []
    for first, last in sorted(ranges):
        before = merged[-1][1] + 1 if merged else -1
        if merged and (first <= before or (before == _SURROGATES.start and first == _SURROGATES.stop)):
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def _complement(ranges: _Ranges) -> _Ranges:
    """The ranges between merged ones."""
    starts = [0, *(last + 1 for _, last in ranges)]
    ends = [*(first - 1 for first, _ in ranges), _LAST_CHARACTER]
    return [(first, last) for first, last in zip(starts, ends, strict=True) if first <= last]


def _asked(characters: bytes) -> tuple[tuple[int, int], ...] | None:
    """The ranges of the characters that RE2 matches; None if it refuses the class."""
    last = 0x80 if _OF_ASCII.fullmatch(characters) else _LAST_CHARACTER
    numbers = [number for number in range(last + 1) if number not in _SURROGATES]
    try:
        tf = require("tensorflow")
    except ConversionError as error:
        raise Unsupported(f"only TensorFlow knows the characters of {characters.decode()}; {error}") from error
    texts = np.array([chr(number).encode() for number in numbers], object)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        try:
            matched = session.run(tf.strings.regex_full_match(texts, characters))
        except (tf.errors.InvalidArgumentError, ValueError):  # which TensorFlow raises for the text of its error
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
