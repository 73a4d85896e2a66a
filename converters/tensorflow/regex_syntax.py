"""Regular expressions in RE2's syntax, read into a tree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from onnx_sparse.converters.tensorflow.unicode_classes import (
    LAST_CHARACTER,
    Ranges,
    complement,
    in_every_case,
    merged,
    property_ranges,
)


class RegexError(ValueError):
    """A pattern that RE2 refuses, or one that is not read here; the message says why."""


@dataclass(frozen=True)
class Characters:
    """One character of some ranges."""

    ranges: Ranges


@dataclass(frozen=True)
class Assertion:
    """A condition on a place: `text_begin`, `text_end`, `line_begin`, `line_end`, `boundary` or `no_boundary`."""

    kind: str


@dataclass(frozen=True)
class Chain:
    """One expression after another; an empty chain matches the empty text."""

    items: tuple[Regex, ...]


@dataclass(frozen=True)
class Choice:
    """The first of several expressions that leads to a match."""

    items: tuple[Regex, ...]


@dataclass(frozen=True)
class Repeat:
    """An expression `least` to `most` times (None: any number), as often as possible if it is `greedy`."""

    item: Regex
    least: int
    most: int | None
    greedy: bool


@dataclass(frozen=True)
class Group:
    """An expression whose match is kept under a number."""

    item: Regex
    number: int


Regex = Characters | Assertion | Chain | Choice | Repeat | Group

_MOST_REPEATS = 1000
_MOST_NESTED = 100
_MOST_SHOWN = 40
#: RE2 refuses the programs of such long patterns; and how many ranges of a class are held before they are merged.
_MOST_BYTES, _MOST_HELD = 1 << 20, 1 << 12
_NAMED = {
    "alnum": "09AZaz", "alpha": "AZaz", "ascii": "\0\x7f", "blank": "\t\t  ", "cntrl": "\0\x1f\x7f\x7f", "digit": "09",
    "graph": "!~", "lower": "az", "print": " ~", "punct": "!/:@[`{~", "space": "\t\r  ", "upper": "AZ",
    "word": "09AZaz__", "xdigit": "09AFaf", "d": "09", "s": "\t\n\f\r  ", "w": "09AZaz__",
}  # fmt: skip
_ESCAPES = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NUMBER = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]+)\}|(0[0-7]{0,2}|[1-7][0-7]{1,2}))")
_PROPERTY = re.compile(r"\\([pP])(?:\{(\^?)(\w+)\}|(\w))", re.ASCII)
_REPEATS = re.compile(r"([*+?]|\{(\d+)(?:(,)(\d*))?\})(\?)?")
_FLAGS = re.compile(r"\(\?([imsU]*)(-[imsU]+)?([:)])")
_CLASS = re.compile(r"\[:(\^?)(\w{1,99}):\]")
_NAME = re.compile(r"\(\?P<(\w+)>")
_NEWLINE = ord("\n")
_EMPTY = Chain(())


@dataclass(frozen=True)
class _Flags:
    """Case is ignored (i), lines have ends (m), `.` is any character (s), repeats are lazy (U)."""

    i: bool = False
    m: bool = False
    s: bool = False
    U: bool = False


def parse(pattern: bytes) -> tuple[Regex, int]:
    """The tree of a pattern, and how many groups it has.

    Raises:
        RegexError: RE2 refuses the pattern, or it matches single bytes (`\\C`), which is not read here.
    """
    if len(pattern) > _MOST_BYTES:
        raise RegexError(f"it has {len(pattern)} bytes; up to {_MOST_BYTES} are read")
    try:
        text = pattern.decode()
    except UnicodeDecodeError:
        raise RegexError("it is not UTF-8") from None
    parser = _Parser(text)
    tree = parser.choice(_Flags(), 0)
    if parser.at < len(text):
        raise RegexError("there is a ) without a (")
    if _repeats(tree, 1) > _MOST_REPEATS:
        raise RegexError(f"nested repeats are more than {_MOST_REPEATS}")
    return tree, parser.groups


def _repeats(tree: Regex, outside: int) -> int:
    """The largest product of nested counts."""
    if isinstance(tree, Repeat):
        count = tree.least if tree.most is None else tree.most
        return _repeats(tree.item, outside * max(count, 1) if (tree.least, tree.most) != (0, 1) else outside)
    if isinstance(tree, Group):
        return _repeats(tree.item, outside)
    if isinstance(tree, Chain | Choice):
        return max([outside, *(_repeats(item, outside) for item in tree.items)])
    return outside


class _Parser:
    """Reads a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.groups = 0
        self.last_class_end = text.rfind(":]")

    def choice(self, flags: _Flags, depth: int) -> Regex:
        """Expressions with | between them, up to a parenthesis that closes them or the end."""
        if depth > _MOST_NESTED:
            raise RegexError(f"more than {_MOST_NESTED} groups are nested")
        branches: list[list[Regex]] = [[]]
        was_repeated = False
        while self.at < len(self.text) and self.text[self.at] != ")":
            here = branches[-1]
            if self.text[self.at] == "|":
                self.at += 1
                branches.append([])
                was_repeated = False
            elif found := _REPEATS.match(self.text, self.at):
                if was_repeated or not here:
                    raise RegexError(f"nothing is before {shown(found[0])!r}")
                here.append(self._repeated(here.pop(), found, flags))
                was_repeated = True
            elif found := _FLAGS.match(self.text, self.at):
                self.at = found.end()
                changed = _changed(flags, found)
                if found[3] == ")":
                    flags = changed
                    # A flag is nothing that a repeat can follow.
                    was_repeated = self._repeats_follow()
                    continue
                here.append(self._closed(changed, depth))
                was_repeated = False
            elif self.text.startswith("\\Q", self.at):
                end = self.text.find("\\E", self.at)
                literal = self.text[self.at + 2 : end if end >= 0 else None]
                self.at = len(self.text) if end < 0 else end + 2
                here += [_one(ord(character), flags) for character in literal]
                was_repeated = False
            elif self.text.startswith("\\E", self.at) and self.at + 2 <= len(self.text):
                raise RegexError("there is a \\E without a \\Q")
            else:
                here.append(self._single(flags, depth))
                was_repeated = False
        chains = [branch[0] if len(branch) == 1 else Chain(tuple(branch)) for branch in branches]
        return _chosen(chains)

    def _repeats_follow(self) -> bool:
        if _REPEATS.match(self.text, self.at):
            raise RegexError("nothing is before a repeat")
        return False

    def _repeated(self, item: Regex, found: re.Match[str], flags: _Flags) -> Regex:
        self.at = found.end()
        sign, greedy = found[1], bool(found[5]) == flags.U
        if sign in "*+?":
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
            return _squashed(item, least, most, greedy)
        least = _count(found[2])
        most = (_count(found[4]) if found[4] else None) if found[3] else least
        if least > _MOST_REPEATS or (most is not None and not least <= most <= _MOST_REPEATS):
            raise RegexError(f"the count {shown(sign)} is not in order or above {_MOST_REPEATS}")
        return Repeat(item, least, most, greedy)

    def _closed(self, flags: _Flags, depth: int) -> Regex:
        """What a group encloses."""
        inner = self.choice(flags, depth + 1)
        if self.at >= len(self.text):
            raise RegexError("a ) is missing")
        self.at += 1
        return inner

    def _single(self, flags: _Flags, depth: int) -> Regex:
        """A group, a class, an assertion or a character."""
        text, at = self.text, self.at
        character = text[at]
        if character == "(":
            named = _NAME.match(text, at)
            if text.startswith("(?", at) and named is None:
                raise RegexError(f"there is no group {text[at : at + 3]!r}")
            self.at = at + 1 if named is None else named.end()
            self.groups += 1
            number = self.groups
            return Group(self._closed(flags, depth), number)
        if character == "[":
            return self._brackets(flags)
        self.at += 1
        if character == ".":
            return Characters(((0, LAST_CHARACTER),) if flags.s else complement(((_NEWLINE, _NEWLINE),)))
        if character == "^":
            return Assertion("line_begin" if flags.m else "text_begin")
        if character == "$":
            return Assertion("line_end" if flags.m else "text_end")
        if character != "\\":
            return _one(ord(character), flags)
        kinds = {"A": "text_begin", "z": "text_end", "b": "boundary", "B": "no_boundary"}
        if (letter := text[at + 1 : at + 2]) in kinds and letter:
            self.at += 1
            return Assertion(kinds[letter])
        if letter == "C":
            raise RegexError("\\C matches single bytes")
        self.at = at
        short = self._class_escape(flags)
        return Characters(short) if short is not None else _one(self._escaped(), flags)

    def _class_escape(self, flags: _Flags) -> Ranges | None:
        """The ranges of `\\d`, `\\pL` and the like; None for another escape, which is not passed."""
        letter = self.text[self.at + 1 : self.at + 2]
        if letter and letter in "dDsSwW":
            self.at += 2
            return _named(letter.lower(), letter.isupper(), flags)
        if letter not in ("p", "P"):
            return None
        found = _PROPERTY.match(self.text, self.at)
        ranges = None if found is None else property_ranges(found[3] or found[4])
        if found is None or ranges is None:
            raise RegexError(f"there is no property {self.text[self.at : self.at + 12]!r}")
        self.at = found.end()
        if flags.i:
            ranges = in_every_case(ranges)
        return complement(ranges) if (found[1] == "P") != bool(found[2]) else ranges

    def _escaped(self) -> int:
        """The character behind a backslash."""
        if found := _NUMBER.match(self.text, self.at):
            self.at = found.end()
            number = int(found[3], 8) if found[3] else int(found[1] or found[2], 16)
            if number > LAST_CHARACTER:
                raise RegexError(f"there is no character {shown(found[0])}")
            return number
        letter = self.text[self.at + 1 : self.at + 2]
        is_sign = letter.isascii() and letter.isprintable() and not letter.isalnum() and letter not in "_ "
        if not letter or not (letter in _ESCAPES or is_sign):
            raise RegexError(f"there is no escape {self.text[self.at : self.at + 2]!r}")
        self.at += 2
        return ord(_ESCAPES.get(letter, letter))

    def _brackets(self, flags: _Flags) -> Regex:
        """A class in brackets."""
        text = self.text
        is_negated = text.startswith("[^", self.at)
        self.at += 2 if is_negated else 1
        begin, held, most_held = self.at, list[tuple[int, int]](), _MOST_HELD
        while not text.startswith("]", self.at) or self.at == begin:
            if self.at >= len(text):
                raise RegexError("a ] is missing")
            if len(held) > most_held:
                held = [*merged(held)]
                most_held = 2 * len(held) + _MOST_HELD
            if found := _CLASS.match(text, self.at):
                if len(found[2]) == 1 or found[2] not in _NAMED:
                    raise RegexError(f"there is no class {shown(found[0])}")
                self.at = found.end()
                held += _named(found[2], bool(found[1]), flags)
                continue
            if text.startswith("[:", self.at) and self.at + 2 <= self.last_class_end:
                raise RegexError("there is no such class in brackets")
            if text[self.at] == "\\" and (short := self._class_escape(flags)) is not None:
                held += short
                continue
            first = last = self._in_brackets()
            if text.startswith("-", self.at) and not text.startswith("-]", self.at) and self.at + 1 < len(text):
                self.at += 1
                last = self._in_brackets()
                if last < first:
                    raise RegexError("a range of characters is not in order")
            held += in_every_case(((first, last),)) if flags.i else [(first, last)]
        self.at += 1
        ranges = merged(held)
        return Characters(complement(ranges) if is_negated else ranges)

    def _in_brackets(self) -> int:
        if self.text[self.at] == "\\":
            return self._escaped()
        self.at += 1
        return ord(self.text[self.at - 1])


def _count(digits: str) -> int:
    """A count; one that is too large if it has more digits than matter."""
    return int(digits.lstrip("0")[:5] or 0)


def shown(text: str) -> str:
    """A part of a pattern in a message, which a hostile graph does not make long."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _chosen(items: list[Regex]) -> Regex:
    """A choice, in which classes that follow one another are one, as in RE2; those that begin the next item stay."""
    joined: list[Regex] = []
    open_class = False
    for k, item in enumerate(items):
        first = _first(item)
        is_single = isinstance(item, Characters) and first not in (_first(other) for other in items[max(k - 1, 0) : k])
        is_single &= first not in (_first(other) for other in items[k + 1 : k + 2])
        if open_class and is_single and isinstance(item, Characters) and isinstance(joined[-1], Characters):
            joined[-1] = Characters(merged([*joined[-1].ranges, *item.ranges]))
        else:
            joined.append(item)
        open_class = is_single
    return joined[0] if len(joined) == 1 else Choice(tuple(joined))


def _first(tree: Regex) -> Regex | None:
    """The class that begins an expression."""
    first = tree.items[0] if isinstance(tree, Chain) and tree.items else tree
    return first if isinstance(first, Characters) else None


def _changed(flags: _Flags, found: re.Match[str]) -> _Flags:
    """The flags that a group `(?i-s:` sets."""
    on, off = found[1], (found[2] or "")[1:]
    return replace(flags, **{**dict.fromkeys(on, True), **dict.fromkeys(off, False)})


def _one(number: int, flags: _Flags) -> Characters:
    ranges: Ranges = ((number, number),)
    return Characters(in_every_case(ranges) if flags.i else ranges)


def _named(name: str, is_negated: bool, flags: _Flags) -> Ranges:
    ends = _NAMED[name]
    ranges = merged((ord(first), ord(last)) for first, last in zip(ends[::2], ends[1::2], strict=True))
    if flags.i:
        ranges = in_every_case(ranges)
    return complement(ranges) if is_negated else ranges


def _squashed(item: Regex, least: int, most: int | None, greedy: bool) -> Regex:
    """A repeat; one of a repeat of the same kind is one repeat."""
    if isinstance(item, Repeat) and item.greedy == greedy and (item.least, item.most) in ((0, None), (1, None), (0, 1)):
        if (item.least, item.most) == (least, most):
            return item
        return Repeat(item.item, 0, None, greedy)
    return Repeat(item, least, most, greedy)


def literal_of(tree: Regex) -> bytes | None:
    """The text that an expression matches, if it is only one."""
    items: Sequence[Regex] = tree.items if isinstance(tree, Chain) else (tree,)
    texts = [chr(item.ranges[0][0]) for item in items if isinstance(item, Characters) and _is_one(item)]
    return "".join(texts).encode("utf-8", "surrogatepass") if len(texts) == len(items) and texts else None


def _is_one(item: Characters) -> bool:
    return len(item.ranges) == 1 and item.ranges[0][0] == item.ranges[0][1]
