"""Operators that find regular expressions, in Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from onnx_sparse.reference.implementation import Array, implements
from onnx_sparse.reference.requirements import require_in_range, require_row_splits
from onnx_sparse.reference.string_tensor import bytes_of, text_of
from onnx_sparse.schemas import regular_expressions as declarations
from onnx_sparse.schemas.regular_expressions import (
    MOST_GROUPS,
    MOST_INSTRUCTIONS,
    Condition,
    Instruction,
)
from onnx_sparse.schemas.validation import KernelError

_LAST_CHARACTER = 0x10FFFF
_WORD = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")

#: Where the match and each group begin and end, 20 positions; -1 where a group is not part of the match.
_Saved = tuple[int, ...]

_CONDITIONS: dict[int, Callable[[bytes, int], bool]] = {
    Condition.TEXT_BEGIN: lambda text, at: at == 0,
    Condition.TEXT_END: lambda text, at: at == len(text),
    Condition.LINE_BEGIN: lambda text, at: at == 0 or text[at - 1 : at] == b"\n",
    Condition.LINE_END: lambda text, at: at == len(text) or text[at : at + 1] == b"\n",
    Condition.BOUNDARY: lambda text, at: _is_boundary(text, at),
    Condition.NO_BOUNDARY: lambda text, at: not _is_boundary(text, at),
}


def _is_boundary(text: bytes, at: int) -> bool:
    before, after = at > 0 and text[at - 1] in _WORD, at < len(text) and text[at] in _WORD
    return before != after


@dataclass(frozen=True)
class _Program:
    """A program that is legal."""

    instructions: list[list[int]]
    classes: list[list[list[int]]]

    def search(self, text: bytes, begin: int = 0, whole: bool = False) -> _Saved | None:
        """The first match from a position on; one of the `whole` text."""
        failed: set[tuple[int, int]] = set()
        for start in range(begin, begin + 1 if whole else len(text) + 1):
            # The ways to go on, of which the last is the first to be tried.
            ways: list[tuple[int, int, _Saved]] = [(0, start, (start, *[-1] * (2 * MOST_GROUPS - 1)))]
            while ways:
                number, at, saved = ways.pop()
                if (number, at) in failed:
                    continue
                failed.add((number, at))
                code, x, y = self.instructions[number]
                if code == Instruction.MATCH:
                    if at == len(text) or not whole:
                        return (saved[0], at, *saved[2:])
                elif code == Instruction.CHARACTERS:
                    size = character_size(text, at, self.classes[x])
                    ways += [(number + 1, at + size, saved)] if size else []
                elif code == Instruction.FORK:
                    ways += [(y, at, saved), (x, at, saved)]
                elif code == Instruction.SAVE:
                    ways.append((number + 1, at, (*saved[:x], at, *saved[x + 1 :])))
                elif _CONDITIONS[x](text, at):
                    ways.append((number + 1, at, saved))
        return None


def character_size(text: bytes, at: int, ranges: list[list[int]]) -> int:
    """How many bytes the character at a position has, if it is in one of the ranges; 0 if it is not."""
    if at == len(text):
        return 0
    lead = text[at]
    size = 1 + (lead >= 0xC2) + (lead >= 0xE0) + (lead >= 0xF0)
    piece = text[at : at + size]
    if lead >= 0x80:
        if not 0xC2 <= lead <= 0xF4 or len(piece) < size or any(byte & 0xC0 != 0x80 for byte in piece[1:]):
            return 0
        if any(first <= 0x80 and last >= _LAST_CHARACTER for first, last in ranges):
            return size
    try:
        number = ord(piece.decode("utf-8", "surrogatepass"))
    except UnicodeDecodeError:
        return 0
    return size if any(first <= number <= last for first, last in ranges) else 0


def _program(instructions: Array, ranges: Array, class_splits: Array, prefix: str = "") -> _Program:
    """The program of three inputs, whose names have a prefix.

    Raises:
        KernelError: It is not legal.
    """
    name = f"{prefix}program"
    for input_name, given, columns in ((f"{prefix}ranges", ranges, 2), (name, instructions, 3)):
        if given.shape[1] != columns:
            raise KernelError(f"dimension 1 of {input_name} is {given.shape[1]}; expected {columns}")
    require_row_splits(f"{prefix}class_splits", class_splits, len(ranges))
    classes = [ranges[a:b].tolist() for a, b in itertools.pairwise(class_splits)]
    count = len(instructions)
    if not 1 <= count <= MOST_INSTRUCTIONS:
        raise KernelError(f"{name} has {count} instructions; 1 to {MOST_INSTRUCTIONS} expected")
    for number, (code, x, y) in enumerate(instructions.tolist()):

        def require(column: int, value: int, high: int, low: int = 0, number: int = number) -> None:
            if not low <= value < high:
                raise KernelError(f"{name}[{number},{column}] = {value} is out of range [{low}, {high})")

        require(0, code, len(Instruction))
        if code == Instruction.CHARACTERS:
            require(1, x, len(classes))
        elif code == Instruction.FORK:
            require(1, x, count)
            require(2, y, count)
        elif code == Instruction.SAVE:
            require(1, x, 2 * MOST_GROUPS, 2)
        elif code == Instruction.ASSERT:
            require(1, x, len(Condition))
        if number == count - 1 and code not in (Instruction.MATCH, Instruction.FORK):
            raise KernelError(f"{name}[{number},0] = {code} continues at the next instruction, but there is none")
    return _Program(instructions.tolist(), classes)


@implements(declarations.REGEX_REPLACE)
def regex_replace(
    strings: Array,
    program: Array,
    ranges: Array,
    class_splits: Array,
    rewrite: Array,
    groups: Array,
    *,
    matches: str = "ALL",
) -> Array:
    """Strings of the same shape with the matches replaced; see the semantics of RegexReplace."""
    expression = _program(program, ranges, class_splits)
    require_in_range("groups", groups, MOST_GROUPS)
    if len(rewrite) != len(groups) + 1:
        raise KernelError(f"rewrite has {len(rewrite)} elements; {len(groups) + 1}, one more than groups, expected")
    first, *others = bytes_of(rewrite)
    following = list(zip(groups.tolist(), others, strict=True))

    def replaced(text: bytes) -> Iterator[bytes]:
        at, last_end = 0, -1
        while at <= len(text) and (found := expression.search(text, at)) is not None:
            begin, end = found[:2]
            yield text[at:begin]
            if begin == end == last_end:
                size = character_size(text, at, [[0, 0x80], [0x80, _LAST_CHARACTER - 1], [_LAST_CHARACTER] * 2]) or 1
                yield text[at : at + size]
                at += size
                continue
            yield first
            for group, piece in following:
                low, high = found[2 * group : 2 * group + 2]
                yield text[low:high] if low >= 0 and high >= 0 else b""
                yield piece
            at = last_end = end
            if matches == "FIRST":
                break
        yield text[at:]

    return text_of((b"".join(replaced(text)) for text in bytes_of(strings)), strings.shape)


@implements(declarations.REGEX_SPLIT)
def regex_split(
    strings: Array,
    program: Array,
    ranges: Array,
    class_splits: Array,
    kept_program: Array,
    kept_ranges: Array,
    kept_class_splits: Array,
) -> tuple[Array, Array, Array, Array]:
    """The tokens of strings [N], their row splits, starts and ends; see the semantics of RegexSplit."""
    delimiters = _program(program, ranges, class_splits)
    kept = _program(kept_program, kept_ranges, kept_class_splits, "kept_")
    texts, places, splits = [], [], [0]
    for i, text in enumerate(bytes_of(strings)):
        for start, end in _tokens(text, f"input[{i}]", delimiters, kept):
            texts.append(text[start:end])
            places.append((start, end))
        splits.append(len(texts))
    starts, ends = np.array(places, np.int64).reshape(-1, 2).T
    return text_of(texts), np.array(splits, np.int64), starts, ends


def _tokens(text: bytes, name: str, delimiters: _Program, kept: _Program) -> Iterator[tuple[int, int]]:
    """Where the tokens of a string begin and end."""
    at = 0
    while (found := delimiters.search(text[at:])) is not None:
        begin, end = at + found[0], at + found[1]
        if begin == end:
            raise KernelError(
                f"{name}: the empty text at byte {begin} is a delimiter; expected ones that are not empty"
            )
        if at < begin:
            yield at, begin
        if kept.search(text[begin:end], whole=True):
            yield begin, end
        at = end
    if at < len(text):
        yield at, len(text)
