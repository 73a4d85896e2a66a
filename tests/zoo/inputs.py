"""The inputs of the zoo's models: what each is fed with in every kind of batch.

A model declares its inputs; the batches follow from that. Ids stay inside their vocabulary, sparse entries are in
order, and edges join nodes that exist, so TensorFlow accepts every batch that the model is made for.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: The kinds of batches that each model is compared on.
KINDS = ("rows", "one row", "no rows", "empty features", "extremes")

#: A larger batch, on which the runs are timed.
TIMED = "timed"

#: Rows of a batch, and the sizes that shapes refer to by name: nodes and edges of a graph, steps of a sequence.
_SIZES = {
    "rows": {"rows": 5, "nodes": 6, "edges": 9, "steps": 4},
    "one row": {"rows": 1, "nodes": 1, "edges": 1, "steps": 1},
    "no rows": {"rows": 0, "nodes": 0, "edges": 0, "steps": 4},
    "empty features": {"rows": 3, "nodes": 4, "edges": 0, "steps": 0},
    "extremes": {"rows": 4, "nodes": 9, "edges": 40, "steps": 11},
    TIMED: {"rows": 256, "nodes": 256, "edges": 1024, "steps": 8},
}

_LONGEST = 40

Size = int | str


@dataclass
class Batch:
    """A batch in the making: its sizes and the lengths of its ragged rows."""

    kind: str
    rng: np.random.Generator
    least: dict[str, int] = field(default_factory=dict)
    _lengths: dict[str, Array] = field(default_factory=dict)

    def size(self, size: Size) -> int:
        """A size by its name."""
        if isinstance(size, int):
            return size
        return max(_SIZES[self.kind][size], self.least.get(size, 0))

    def shape(self, shape: Sequence[Size]) -> list[int]:
        """A shape with its named sizes filled in."""
        return [self.size(size) for size in shape]

    def lengths(self, key: str, longest: int | None) -> Array:
        """The lengths of the rows of ragged inputs with this key."""
        if key not in self._lengths:
            rows = self.size("rows")
            most = _LONGEST if longest is None else longest
            lengths = self.rng.integers(0, min(4, most + 1), rows)
            if self.kind == "rows":
                lengths[:3] = min(2, most), 0, min(3, most)
            elif self.kind == "one row":
                lengths[:] = min(2, most)
            elif self.kind == "empty features":
                lengths[:] = 0
            elif self.kind == "extremes":
                lengths[:] = 0
                lengths[1] = most
            self._lengths[key] = lengths
        return self._lengths[key]


@dataclass(frozen=True)
class Content:
    """What the elements of an input are: floats, ids below a number, booleans, or words."""

    dtype: str
    high: Size | None = None
    low: int = 0
    words: tuple[str, ...] = ()
    scale: float = 1.0

    def draw(self, batch: Batch, shape: Sequence[int]) -> Array:
        """Elements of this kind; in a batch of extremes the smallest and largest ones."""
        if self.dtype == "string":
            return batch.rng.choice(np.array([word.encode() for word in self.words], object), shape)
        if self.dtype == "bool":
            return batch.rng.integers(0, 2, shape).astype(bool)
        if self.high is None:
            values = batch.rng.standard_normal(shape) * self.scale
            if batch.kind == "extremes":
                values = np.where(batch.rng.random(shape) < 0.3, 0.0, values * 20)
            return values.astype(self.dtype)
        high = max(batch.size(self.high), self.low + 1)
        values = batch.rng.integers(self.low, high, shape)
        if batch.kind == "extremes":
            values = np.where(batch.rng.random(shape) < 0.5, high - 1, self.low)
        return values.astype(self.dtype)


def floats(dtype: str = "float32", scale: float = 1.0) -> Content:
    """Floats around 0."""
    return Content(dtype, scale=scale)


def ids(high: Size, dtype: str = "int64", low: int = 0) -> Content:
    """Integers from `low` to below `high`."""
    return Content(dtype, high, low)


def words(*choices: str) -> Content:
    """Strings."""
    return Content("string", words=choices)


def booleans() -> Content:
    """True and False."""
    return Content("bool")


class Input(ABC):
    """An input of a model."""

    name: str

    @abstractmethod
    def spec(self) -> Any:
        """Its TypeSpec."""

    @abstractmethod
    def parts(self, batch: Batch) -> list[Array]:
        """Its components in a batch, in the order of `tf.nest.flatten(..., expand_composites=True)`."""


@dataclass(frozen=True)
class Dense(Input):
    """A tensor; a shape's sizes are numbers or the names "rows", "nodes", "edges" and "steps"."""

    name: str
    content: Content
    shape: tuple[Size, ...] = ("rows",)
    ordered: bool = False
    made: Callable[[Batch], Array] | None = None

    def spec(self) -> Any:
        import tensorflow as tf

        shape = [size if isinstance(size, int) else None for size in self.shape]
        return tf.TensorSpec(shape, self.content.dtype, self.name)

    def parts(self, batch: Batch) -> list[Array]:
        if self.made is not None:
            return [self.made(batch)]
        values = self.content.draw(batch, batch.shape(self.shape))
        return [np.sort(values, axis=0) if self.ordered else values]


@dataclass(frozen=True)
class Ragged(Input):
    """A ragged tensor; inputs of one key have rows of equal lengths."""

    name: str
    content: Content
    inner: tuple[int, ...] = ()
    key: str = ""
    longest: int | None = None

    def spec(self) -> Any:
        import tensorflow as tf

        return tf.RaggedTensorSpec([None, None, *self.inner], self.content.dtype, ragged_rank=1)

    def parts(self, batch: Batch) -> list[Array]:
        lengths = batch.lengths(self.key or self.name, self.longest)
        values = self.content.draw(batch, [int(lengths.sum()), *self.inner])
        return [values, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)]


@dataclass(frozen=True)
class Sparse(Input):
    """A sparse matrix with one row for each row of the batch; inputs of one key have entries in equal places."""

    name: str
    content: Content
    width: int | None = None
    key: str = ""

    def spec(self) -> Any:
        import tensorflow as tf

        return tf.SparseTensorSpec([None, self.width], self.content.dtype)

    def parts(self, batch: Batch) -> list[Array]:
        lengths = batch.lengths(self.key or self.name, self.width)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        columns = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        width = max(lengths.max(initial=0), 1) if self.width is None else self.width
        values = self.content.draw(batch, [len(rows)])
        return [np.stack([rows, columns], 1).astype(np.int64), values, np.array([len(lengths), width], np.int64)]


@dataclass(frozen=True)
class Adjacency(Input):
    """The sparse adjacency matrix of a graph, with a weight for each edge."""

    name: str
    dtype: str = "float32"

    def spec(self) -> Any:
        import tensorflow as tf

        return tf.SparseTensorSpec([None, None], self.dtype)

    def parts(self, batch: Batch) -> list[Array]:
        nodes, edges = batch.size("nodes"), batch.size("edges")
        cells = np.sort(batch.rng.choice(nodes * nodes, min(edges, nodes * nodes), replace=False))
        pairs = np.stack([cells // max(nodes, 1), cells % max(nodes, 1)], 1)
        return [pairs.astype(np.int64), np.ones(len(pairs), self.dtype), np.array([nodes, nodes], np.int64)]


def feeds(inputs: Sequence[Input], kind: str, seed: str, least: dict[str, int]) -> dict[str, Array]:
    """The arrays of a batch, by the names that a SavedModel gives to the components of its inputs.

    Args:
        inputs: The model's inputs.
        kind: One of `KINDS`, or `TIMED`.
        seed: Equal text gives equal arrays.
        least: The smallest sizes that the model is made for.
    """
    batch = Batch(kind, np.random.default_rng(zlib.crc32(f"{seed} {kind}".encode())), least)
    made = {}
    for given in inputs:
        for k, array in enumerate(given.parts(batch)):
            made[f"{given.name}_{k}" if k else given.name] = array
    return made
