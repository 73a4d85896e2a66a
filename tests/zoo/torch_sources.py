"""Modules of torch as they are exported, and the inputs that only they have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from zoo.inputs import Array, Batch, Content, Dense, Input, Ragged, feeds, ids
from zoo.registry import EXTRAS, MODULES, model


@dataclass(frozen=True)
class BuiltModule:
    """A module that is exported.

    Attributes:
        module: The module; its arguments are the components of its inputs, in order.
        inputs: Its inputs.
        least: The smallest sizes that it is made for, by name ("rows", "nodes", "edges", "steps").
    """

    module: Any
    inputs: Sequence[Input]
    least: dict[str, int] = field(default_factory=dict)

    def batch(self, kind: str, seed: str) -> tuple[Any, ...]:
        """The arguments of a kind of batch; equal seeds give equal arguments."""
        import torch

        return tuple(map(torch.from_numpy, feeds(self.inputs, kind, seed, self.least).values()))

    def dynamic_shapes(self, *, as_varargs: bool) -> Any:
        """The axes of each argument whose sizes change from batch to batch."""
        from torch.export import Dim

        shapes = tuple(dict.fromkeys(axes, Dim.DYNAMIC) for given in self.inputs for axes in _dynamic_axes(given))
        return (shapes,) if as_varargs else shapes


@dataclass(frozen=True)
class Bags(Input):
    """Bags of ids with their offsets, the place of the first entry of each, and if asked for, weights."""

    name: str
    content: Content
    weighted: bool = False
    longest: int | None = None

    def spec(self) -> Any:
        raise NotImplementedError("TensorFlow has no bags with offsets")

    def parts(self, batch: Batch) -> list[Array]:
        values, splits = Ragged(self.name, self.content, longest=self.longest).parts(batch)
        weights = [batch.rng.random(len(values)).astype(np.float32)] if self.weighted else []
        return [values, splits[:-1], *weights]


@dataclass(frozen=True)
class KeyedBags(Input):
    """Ids of bags of several features, feature by feature, and the lengths of the bags, as torchrec has them."""

    name: str
    content: Content
    features: int

    def spec(self) -> Any:
        raise NotImplementedError("TensorFlow has no jagged tensors with keys")

    def parts(self, batch: Batch) -> list[Array]:
        lengths = np.concatenate([batch.lengths(f"{self.name} {k}", None) for k in range(self.features)])
        return [self.content.draw(batch, [int(lengths.sum())]), lengths.astype(np.int64)]


#: Nodes of a graph with 8 features, its edges (their sources and targets, in no order), and of what graph each node is.
WIDTH = 8
NODES = Dense("x", Content("float32"), ("nodes", WIDTH))
EDGES = Dense("edges", ids("nodes"), (2, "edges"))
GRAPHS = Dense("graphs", ids(3), ("nodes",), ordered=True)


def _dynamic_axes(given: Input) -> list[tuple[int, ...]]:
    """The axes of each component of an input whose sizes change from batch to batch."""
    if isinstance(given, Dense):
        return [tuple(axis for axis, size in enumerate(given.shape) if isinstance(size, str))]
    return [(0,)] * (3 if isinstance(given, Bags) and given.weighted else 2)


def module(
    name: str,
    build: Callable[[], Any],
    *inputs: Input,
    environment: str = EXTRAS,
    quick: bool = False,
    **least: int,
) -> None:
    """Register a module under its name: `build` makes it."""
    model(name, environment, quick=quick, among=MODULES)(lambda: BuiltModule(build(), inputs, least))


def calling(parts: Any, call: Callable[..., Any]) -> Any:
    """A module with these parts (a module or several by name) whose forward calls a function with them first."""
    import torch

    class Calling(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = torch.nn.ModuleDict(parts) if isinstance(parts, dict) else parts

        def forward(self, *arguments: Any) -> Any:
            return call(self.parts, *arguments)

    return Calling()
