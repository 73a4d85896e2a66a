"""Modules of torch as they are exported, and the inputs that only they have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from zoo.inputs import Array, Batch, Content, Dense, Input, Ragged, Size, ids
from zoo.registry import EXTRAS, TORCH, Built, model


@dataclass(frozen=True)
class Bags(Input):
    """Bags of ids with their offsets, the first entry of each; bags of one key have equal lengths.

    Attributes:
        weighted: Whether each entry has a weight, the third component.
    """

    name: str
    content: Content
    key: str = ""
    longest: int | None = None
    weighted: bool = False

    def spec(self) -> Any:
        raise NotImplementedError("TensorFlow has no bags with offsets")

    def parts(self, batch: Batch) -> list[Array]:
        values, splits = Ragged(self.name, self.content, key=self.key, longest=self.longest).parts(batch)
        weights = [batch.rng.random(len(values)).astype(np.float32)] if self.weighted else []
        return [values, splits[:-1], *weights]


@dataclass(frozen=True)
class Lengths(Input):
    """Bags of ids of several features, and their lengths [features * rows], as torchrec has them."""

    name: str
    content: Content
    features: int

    def spec(self) -> Any:
        raise NotImplementedError("TensorFlow has no jagged tensors of several keys")

    def parts(self, batch: Batch) -> list[Array]:
        lengths = np.concatenate([batch.lengths(f"{self.name} {k}", None) for k in range(self.features)])
        return [self.content.draw(batch, [int(lengths.sum())]), lengths.astype(np.int64)]


def edges(nodes: str = "nodes") -> Dense:
    """The edges of a graph, in no order: their sources and their targets."""
    return Dense("edges", ids(nodes), (2, "edges"))


def dynamic_axes(given: Input) -> list[tuple[int, ...]]:
    """The axes of each component of an input whose sizes change from batch to batch."""
    if isinstance(given, Dense):
        return [tuple(axis for axis, size in enumerate(given.shape) if isinstance(size, str))]
    return [(0,)] * (3 if isinstance(given, Bags) and given.weighted else 2)


@dataclass
class Exported:
    """What is exported of a module: a call, which takes the components of its inputs in order."""

    call: Callable[..., Any]
    inputs: Sequence[Input]
    owner: Any = None
    least: dict[str, int] = field(default_factory=dict)


def layer(name: str, build: Callable[[], Any], *inputs: Input, environment: str = EXTRAS, quick: bool = False) -> None:
    """Register a module that takes the components of its inputs as they are."""

    def built() -> Built:
        module = build()
        return Built(module, inputs, module)

    model(name, environment, quick=quick, among=TORCH)(built)


def sized(size: Size) -> Size:
    """A size."""
    return size
