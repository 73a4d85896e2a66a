"""Regular expressions as the programs that the operators of onnx_sparse run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.tensorflow.regex_syntax import (
    Assertion,
    Chain,
    Characters,
    Choice,
    Group,
    Regex,
    RegexError,
    Repeat,
    parse,
    shown,
)
from onnx_sparse.converters.tensorflow.unicode_classes import Ranges
from onnx_sparse.schemas.regular_expressions import MOST_GROUPS, MOST_INSTRUCTIONS, Condition, Instruction


@dataclass(frozen=True)
class Program:
    """A program.

    Attributes:
        inputs: What the operators take, by name.
        groups: How many groups the pattern has.
        is_group: Whether it is one group.
        matches_empty: Whether it may match the empty text.
    """

    inputs: dict[str, Array]
    groups: int
    is_group: bool
    matches_empty: bool


@lru_cache(maxsize=64)
def program_of(pattern: bytes) -> Program:
    """The program of a pattern.

    Raises:
        Unsupported: RE2 refuses the pattern, or its program has too many instructions.
    """
    try:
        tree, groups = parse(pattern)
    except RegexError as error:
        raise Unsupported(f"the pattern {shown(pattern.decode(errors='replace'))!r}: {error}") from None
    writer = _Writer()
    writer.write(tree)
    writer.add(Instruction.MATCH)
    ranges = [bounds for some in writer.classes for bounds in some]
    inputs = {
        "program": np.array(writer.instructions, np.int64),
        "ranges": np.array(ranges, np.int64).reshape(-1, 2),
        "class_splits": np.cumsum([0, *map(len, writer.classes)], dtype=np.int64),
    }
    return Program(inputs, groups, isinstance(tree, Group), _is_nullable(tree))


def _is_nullable(tree: Regex) -> bool:
    """Whether an expression matches an empty text somewhere."""
    if isinstance(tree, Chain):
        return all(map(_is_nullable, tree.items))
    if isinstance(tree, Choice):
        return any(map(_is_nullable, tree.items))
    if isinstance(tree, Repeat):
        return tree.least == 0 or _is_nullable(tree.item)
    return _is_nullable(tree.item) if isinstance(tree, Group) else isinstance(tree, Assertion)


class _Writer:
    """Writes instructions one after another."""

    def __init__(self) -> None:
        self.instructions: list[list[int]] = []
        self.classes: dict[Ranges, int] = {}

    def add(self, code: Instruction, x: int = 0, y: int = 0) -> list[int]:
        """Add an instruction."""
        if len(self.instructions) == MOST_INSTRUCTIONS:
            raise Unsupported(f"the pattern's program has more than {MOST_INSTRUCTIONS} instructions")
        self.instructions.append([int(code), x, y])
        return self.instructions[-1]

    def write(self, tree: Regex) -> None:
        """Add the instructions of an expression."""
        if isinstance(tree, Characters):
            self.add(Instruction.CHARACTERS, self.classes.setdefault(tree.ranges, len(self.classes)))
        elif isinstance(tree, Assertion):
            self.add(Instruction.ASSERT, Condition[tree.kind.upper()])
        elif isinstance(tree, Chain):
            for item in tree.items:
                self.write(item)
        elif isinstance(tree, Choice):
            self.choose(tree.items)
        elif isinstance(tree, Repeat):
            self.repeat(tree)
        elif tree.number >= MOST_GROUPS:  # which no rewrite can name
            self.write(tree.item)
        else:
            self.add(Instruction.SAVE, 2 * tree.number)
            self.write(tree.item)
            self.add(Instruction.SAVE, 2 * tree.number + 1)

    def choose(self, items: tuple[Regex, ...]) -> None:
        """The items by forks, each with a jump behind it."""
        jumps = []
        for item in items[:-1]:
            fork = self.add(Instruction.FORK, len(self.instructions) + 1)
            self.write(item)
            jumps.append(self.add(Instruction.FORK))
            fork[2] = len(self.instructions)
        self.write(items[-1])
        for jump in jumps:
            jump[1:] = [len(self.instructions)] * 2

    def repeat(self, tree: Repeat) -> None:
        """The item as often as it must be there, and then as often as it may."""
        item, greedy = tree.item, tree.greedy
        if tree.most is None and tree.least > 0:
            for _ in range(tree.least - 1):
                self.write(item)
            self.plus(item, greedy)
        elif tree.most is None and _is_nullable(item):
            self.optional(lambda: self.plus(item, greedy), greedy)  # RE2's order of preference
        elif tree.most is None:
            begin = len(self.instructions)
            fork = self.add(Instruction.FORK)
            self.write(item)
            self.add(Instruction.FORK, begin, begin)
            fork[1:] = self.preferred(begin + 1, len(self.instructions), greedy)
        else:
            for _ in range(tree.least):
                self.write(item)
            self.up_to(item, tree.most - tree.least, greedy)

    def plus(self, item: Regex, greedy: bool) -> None:
        """The item once or more often."""
        begin = len(self.instructions)
        self.write(item)
        fork = self.add(Instruction.FORK)
        fork[1:] = self.preferred(begin, len(self.instructions), greedy)

    def up_to(self, item: Regex, most: int, greedy: bool) -> None:
        """The item at most so often: `(x(x)?)?`."""
        forks = []
        for _ in range(most):
            forks.append(self.add(Instruction.FORK, len(self.instructions) + 1))
            self.write(item)
        for fork in forks:
            fork[1:] = self.preferred(fork[1], len(self.instructions), greedy)

    def optional(self, write: Callable[[], None], greedy: bool) -> None:
        """What is written, or nothing."""
        fork = self.add(Instruction.FORK, len(self.instructions) + 1)
        write()
        fork[1:] = self.preferred(fork[1], len(self.instructions), greedy)

    @staticmethod
    def preferred(inside: int, outside: int, greedy: bool) -> list[int]:
        """The two ways of a fork in their order."""
        return [inside, outside] if greedy else [outside, inside]
