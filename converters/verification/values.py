"""Values for inputs and for features of messages: ordinary ones, and those at which a model's answers change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from onnx_sparse.converters.verification.constraints import Constraints
from onnx_sparse.converters.verification.dataflow import Origin

Array = np.ndarray[Any, Any]

#: Strings of every length for which the hash function has a branch of its own.
HASHED = ("日本語", "user 4711", "a word of twenty two.", "straße " * 5, "long " * 30)


class Values:
    """Draws values.

    Attributes:
        constraints: What the model demands of them.
        words: Words for text of which nothing is known.
        number_texts: The texts for those that must be numbers.
    """

    def __init__(self, constraints: Constraints, words: Sequence[str]) -> None:
        self.constraints = constraints
        self.words = list(words)
        self.number_texts: dict[Origin, list[str]] = {}

    def edge_count(self, origin: Origin) -> int:
        """How many values there are at which the model's answers may change, as far as it says."""
        known = self.constraints
        words, numbers, keys = known.words.get(origin, ()), known.numbers.get(origin, ()), known.keys.get(origin, ())
        return len(words) + len(numbers) + len(keys) + 2 * (origin in known.bounds)

    def range_of(self, origin: Origin, bound: int | None, free: int) -> tuple[int, int]:
        """The least number, and that above the largest.

        Args:
            bound: What numbers are below, as far as something else than the constraints tells.
            free: What they are below if nothing tells.
        """
        low, high = self.constraints.bounds.get(origin, (0, free - 1 if bound is None else 2**62))
        if high >= 2**62 and bound is None:  # nothing tells
            high = max(low, 0) + free - 1
        low, end = max(low, 0), high + 1 if bound is None else min(high + 1, max(bound, 1))
        return low, max(end, low + 1)

    def texts(self, rng: np.random.Generator, origin: Origin, shape: Sequence[int], *, careful: bool) -> Array:
        """Texts; careful ones are those that tables have, if there is a table."""
        known = self.constraints
        if encoded := known.encoded.get(origin):
            return rng.choice(np.array(encoded, object), shape)
        if numbers := self.number_texts.get(origin):
            return rng.choice(np.array(numbers, object), shape)
        keys = [key for key in known.keys.get(origin, ()) if isinstance(key, str)]
        words = known.words.get(origin, [])
        chosen = keys if careful and keys else list(dict.fromkeys([*keys, *words, *self.words]))
        drawn = rng.choice(np.array(self._joined(rng, origin, chosen), object), shape)
        return drawn if careful and keys else _with(rng, drawn, words)

    def _joined(self, rng: np.random.Generator, origin: Origin, words: list[str]) -> list[str]:
        """The words, and several of them with what the model splits text at in between."""
        joined = [
            separator.join(rng.choice(np.array(words, object), count))
            for separator in self.constraints.separators.get(origin, ())
            for count in (2, 3)
            if separator
        ]
        return [*words, *joined]

    def keyed(
        self, rng: np.random.Generator, origin: Origin, keys: Sequence[int], shape: Sequence[int], *, careful: bool
    ) -> Array:
        """Keys of a table; if not careful, also what the model compares with."""
        drawn = rng.choice(np.asarray(keys), shape)
        return drawn if careful else _with(rng, drawn, self._compared(origin))

    def _compared(self, origin: Origin) -> list[int]:
        """The integers that a model compares with."""
        return [int(n) for n in self.constraints.numbers.get(origin, ()) if float(n).is_integer()]

    @property
    def are_beyond_tables(self) -> bool:
        """Whether the model compares ids with numbers without a row in a table: it may replace or refuse them."""
        bounds = self.constraints.bounds
        return any(not low <= n <= high for origin, (low, high) in bounds.items() for n in self._compared(origin))

    def integers(
        self,
        rng: np.random.Generator,
        origin: Origin,
        shape: Sequence[int],
        legal: tuple[int, int],
        dtype: Any,
        *,
        careful: bool,
        beyond: bool = False,
    ) -> Array:
        """Integers of a range, among them its ends and what the model compares with, as far as that is legal.

        Careful ones are of the range, also where the model's constraints do not state it, and those that the model
        compares with are not negative and below the largest: a source may assert that. Others may be negative where
        the model takes negative numbers.

        Args:
            beyond: Whether numbers without a row in the table may be among those that the model compares with.
        """
        low, end = legal
        drawn = np.asarray(rng.integers(low, end, shape))
        if dtype == np.uint64:  # of which int64 has the lower half
            drawn = drawn.astype(dtype)
        compared = self._compared(origin)
        if np.issubdtype(dtype, np.integer):
            kinds = np.iinfo(dtype)
            compared = [n for n in compared if kinds.min <= n <= kinds.max]
        if careful:  # for a number there are its neighbors, too
            compared = [n for n in compared if 0 <= n < max(compared) - 1 and low <= n < end]
        if origin in self.constraints.bounds:
            least = low if careful else max(min(low, self.constraints.bounds[origin][0]), -(2**31))
            if careful or not beyond:
                compared = [n for n in compared if least <= n < end]
            compared = [least, low, end - 1, *compared]
        return _with(rng, drawn, compared)

    def floats(
        self,
        rng: np.random.Generator,
        origin: Origin,
        shape: Sequence[int],
        ranges: Mapping[Origin, tuple[float, float]] = MappingProxyType({}),
    ) -> Array:
        """Normally distributed numbers, or numbers of a range, among them what the model compares with."""
        compared = self.constraints.numbers.get(origin, ())
        if origin not in ranges:
            return _with(rng, rng.standard_normal(shape), compared)
        low, high = ranges[origin]
        return _with(rng, rng.uniform(low, high, shape), [number for number in compared if low < number < high])


def _with(rng: np.random.Generator, drawn: Array, edges: Sequence[Any]) -> Array:
    """The values, with edges in some places, at most every second one; one value alone is one of the edges or not."""
    drawn = np.asarray(drawn)
    edges = list(dict.fromkeys(edges))
    if drawn.dtype.kind in "iu":
        edges = [edge for edge in edges if np.iinfo(drawn.dtype).min <= edge <= np.iinfo(drawn.dtype).max]
    if not edges or not drawn.size:
        return drawn
    if drawn.ndim == 0:
        return np.asarray(edges[int(rng.integers(len(edges)))], drawn.dtype)
    rng.shuffle(edges)
    edges = edges[: drawn.size // 2 + int(rng.integers(2)) * (drawn.size % 2)]
    drawn = drawn.copy()
    places = rng.choice(drawn.size, len(edges), replace=False)
    drawn.ravel()[places] = np.array(edges, drawn.dtype)
    return drawn
