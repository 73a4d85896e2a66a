"""Regular expressions: drawing legal programs, and the oracles, which list all ways to match in their order."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping

import numpy as np
from contract.expected import Expected, Inputs, elements

Array = np.ndarray

MATCH, CHARACTERS, FORK, SAVE, ASSERT = range(5)
SHAPES: tuple[tuple[int, ...], ...] = ((3,), (), (0,), (9,), (3, 2), (2, 0))
TEXTS = ("", "a", "b", "ab", "aab ba", "日本 a日", "a_1-b\nab", "é\n\na", "aaabb", " ", "ßaß")
#: Ranges of which classes are made; one has numbers that no character has, one none, one all characters but ASCII.
RANGES = ([97, 97], [97, 98], [0, 47], [48, 57], [128, 0x10FFFF], [-5, 96], [98, 97], [0x65E5, 0x65E5], [200, 2**40])

Ways = Iterator[tuple[int, dict[int, int]]]


def legal_program(random: np.random.Generator, prefix: str = "", consumes: bool = False) -> dict[str, Array]:
    """Random instructions, which may go round in circles; if it `consumes`, every match passes a character first."""
    count, classes = int(random.integers(2, 9)), int(random.integers(1, 4))
    ranges = [RANGES[k] for k in random.integers(0, len(RANGES), int(random.integers(0, 6)))]
    inner = np.sort(random.integers(0, len(ranges) + 1, classes - 1))
    program = []
    for k in range(count):
        last = k == count - 1
        code = MATCH if last else int(random.choice([MATCH, CHARACTERS, CHARACTERS, FORK, FORK, SAVE, ASSERT]))
        if consumes and k == 0:
            code = CHARACTERS
        # Where a match must not be empty, no way leads back to the first instruction, which is as good.
        ways = random.integers(0, count, 2).tolist()
        x, y = {
            MATCH: (-1, 7),
            CHARACTERS: (int(random.integers(0, classes)), -3),
            FORK: ways,
            SAVE: (int(random.integers(2, 20)), 0),
            ASSERT: (int(random.integers(0, 6)), 0),
        }[code]
        program.append([code, x, y])
    return {
        f"{prefix}program": np.array(program, np.int64),
        f"{prefix}ranges": np.array(ranges, np.int64).reshape(-1, 2),
        f"{prefix}class_splits": np.array([0, *inner, len(ranges)], np.int64),
    }


def _texts(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    drawn = random.integers(0, len(TEXTS), shape)
    return np.array([TEXTS[k] for k in np.reshape(drawn, -1)], object).reshape(shape)


def legal_replace(random: np.random.Generator) -> dict[str, Array]:
    groups = random.integers(0, 10, int(random.integers(0, 3)))
    texts = [["", "-", "<ß>"][k] for k in random.integers(0, 3, len(groups) + 1)]
    given = {"input": _texts(random, SHAPES[random.integers(len(SHAPES))])} | legal_program(random)
    return given | {"rewrite": np.array(texts, object), "groups": groups}


def legal_split(random: np.random.Generator) -> dict[str, Array]:
    given = {"input": _texts(random, (int(random.choice([0, 1, 4, 30])),))}
    return given | legal_program(random, consumes=True) | legal_program(random, "kept_")


def character(text: bytes, at: int) -> bytes:
    """The character that begins at a byte of UTF-8; none within one, and at the end."""
    lead = text[at] if at < len(text) else 0x80
    return b"" if 0x80 <= lead < 0xC0 else text[at : at + 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)]


class Oracle:
    """A program, run on text by listing all ways to match, in their order.

    The text is bytes: an empty match may lie within a character, as in TensorFlow.
    """

    def __init__(self, inputs: Inputs, prefix: str = "") -> None:
        self.program = inputs[f"{prefix}program"].tolist()
        splits, ranges = inputs[f"{prefix}class_splits"].tolist(), inputs[f"{prefix}ranges"].tolist()
        self.classes = [ranges[a:b] for a, b in itertools.pairwise(splits)]

    def ways(self, text: bytes, at: int, number: int, saved: dict[int, int], come: frozenset[int]) -> Ways:
        """The ends of all ways from an instruction on, with what they saved; `come` are the ones since this place."""
        if number in come:
            return
        come |= {number}
        code, x, y = self.program[number]
        if code == MATCH:
            yield at, saved
        elif code == CHARACTERS:
            passed = character(text, at)
            if passed and any(low <= ord(passed.decode()) <= high for low, high in self.classes[x]):
                yield from self.ways(text, at + len(passed), number + 1, saved, frozenset())
        elif code == FORK:
            yield from self.ways(text, at, x, saved, come)
            yield from self.ways(text, at, y, saved, come)
        elif code == SAVE:
            yield from self.ways(text, at, number + 1, saved | {x: at}, come)
        elif re.compile((rb"\A", rb"\Z", rb"(?m:^)", rb"(?m:$)", rb"\b", rb"(?!\b)")[x]).match(text, at):
            yield from self.ways(text, at, number + 1, saved, come)

    def search(self, text: bytes, begin: int) -> dict[int, int] | None:
        """What the first match saves, its begin and end among that."""
        for start in range(begin, len(text) + 1):
            for end, saved in self.ways(text, start, 0, {0: start}, frozenset()):
                return saved | {1: end}
        return None


def regex_replace(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    oracle, (first, *pieces) = Oracle(inputs), [piece.encode() for piece in inputs["rewrite"]]
    replaced = []
    for text in map(str.encode, elements(inputs["input"])):
        at, result, ended = 0, b"", -1
        while at <= len(text) and (saved := oracle.search(text, at)) is not None:
            begin, end = saved[0], saved[1]
            result += text[at:begin]
            if begin == end == ended:
                kept = character(text, at) or text[at : at + 1]
                result, at = result + kept, at + max(len(kept), 1)
                continue
            result += first
            for group, piece in zip(inputs["groups"].tolist(), pieces, strict=True):
                low, high = saved.get(2 * group), saved.get(2 * group + 1)
                result += (text[low:high] if low is not None and high is not None else b"") + piece
            at = ended = end
            if attributes["matches"] == "FIRST":
                break
        replaced.append(result + text[at:])
    return {"output": Expected.exactly(object, inputs["input"].shape, replaced)}


def regex_split(inputs: Inputs, attributes: Mapping[str, str]) -> dict[str, Expected]:
    delimiters, kept = Oracle(inputs), Oracle(inputs, "kept_")
    tokens: list[tuple[bytes, int, int]] = []
    splits = [0]
    for text in map(str.encode, elements(inputs["input"])):
        at = 0
        while (saved := delimiters.search(text[at:], 0)) is not None:
            begin, end = at + saved[0], at + saved[1]
            if at < begin:
                tokens.append((text[at:begin], at, begin))
            delimiter = text[begin:end]
            if any(stop == len(delimiter) for stop, _ in kept.ways(delimiter, 0, 0, {}, frozenset())):
                tokens.append((delimiter, begin, end))
            at = end
        if at < len(text):
            tokens.append((text[at:], at, len(text)))
        splits.append(len(tokens))
    words, starts, ends = zip(*tokens, strict=True) if tokens else ((), (), ())
    count = (len(tokens),)
    return {
        "tokens": Expected.exactly(object, count, list(words)),
        "row_splits": Expected.exactly(np.int64, (len(splits),), splits),
        "starts": Expected.exactly(np.int64, count, list(starts)),
        "ends": Expected.exactly(np.int64, count, list(ends)),
    }
