"""Regular expressions that need no program: literal texts, and classes of characters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from onnx_sparse.converters.tensorflow.regex_syntax import Characters, RegexError, Repeat, literal_of, parse
from onnx_sparse.converters.tensorflow.unicode_classes import Ranges


@dataclass(frozen=True)
class LiteralPattern:
    """A text that matches itself."""

    text: bytes


@dataclass(frozen=True)
class CharacterPattern:
    """Matches one character of a class, or (`is_run`) as many as there are; `ranges` are first and last characters."""

    ranges: Ranges
    is_run: bool


def pattern_of(pattern: bytes) -> LiteralPattern | CharacterPattern | None:
    """What a pattern of RE2 matches; None if it is of neither kind, or RE2 refuses it."""
    try:
        tree, _ = parse(pattern)
    except RegexError:
        return None
    is_run = isinstance(tree, Repeat) and tree.greedy and (tree.least, tree.most) == (1, None)
    matched = tree.item if isinstance(tree, Repeat) and is_run else tree
    if isinstance(matched, Characters) and matched.ranges:
        return CharacterPattern(matched.ranges, is_run)
    text = literal_of(tree)
    return None if text is None else LiteralPattern(text)


def rewrite_of(rewrite: bytes) -> tuple[tuple[bytes, ...], tuple[int, ...]] | None:
    r"""The texts around and between groups, and the numbers of these (`\1`); None if RE2 refuses it."""
    pieces, groups = [b""], []
    for text, escaped in re.findall(rb"([^\\]+)|\\(.?)", rewrite, re.DOTALL):
        if text or escaped == b"\\":
            pieces[-1] += text or escaped
        elif escaped.isdigit():
            pieces.append(b"")
            groups.append(int(escaped))
        else:
            return None
    return tuple(pieces), tuple(groups)
