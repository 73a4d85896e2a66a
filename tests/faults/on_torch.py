"""torch.export and torch's exporter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from onnx import ModelProto

from faults.operations import Array, Body, Named, Specs, named


class Torch(Named):
    """torch.export and torch's exporter."""

    #: Faults that it does not share, or has no operation for.
    without: ClassVar[frozenset[str]] = frozenset(
        ("one hot", "parts", "unique", "strings", "backward slice", "backward slice from before")
    )
    propagates_nan = True
    names: ClassVar[Mapping[str, str]] = named(
        "maximum minimum sign relu matmul einsum flatten", clip="clamp", transpose="permute", places="nonzero"
    )

    def __init__(self) -> None:
        import torch

        self.torch = self.library = torch
        self._layers: dict[Any, Any] = {}

    def constant(self, array: Array) -> Any:
        return self.torch.from_numpy(np.asarray(array))

    def divide(self, x: Any, y: Any) -> Any:
        return self.torch.div(x, y, rounding_mode="floor")

    def reduce(self, kind: str, x: Any, axis: int, keep: bool) -> Any:
        if kind in ("max", "min"):
            return getattr(self.torch, f"a{kind}")(x, axis, keepdim=keep)
        options = {} if kind == "mean" else {"dtype": x.dtype}
        return getattr(self.torch, kind)(x, axis, keepdim=keep, **options)

    def place(self, kind: str, x: Any, axis: int) -> Any:
        return getattr(self.torch, f"arg{kind}")(x, axis)

    def split(self, x: Any, count: int, axis: int) -> Sequence[Any]:
        return self.torch.split(x, x.shape[axis] // count, axis) if x.shape[axis] else (x,) * count

    def reverse(self, x: Any) -> Any:
        return x[self.torch.arange(x.shape[0] - 1, -1, -1)]

    def scatter_add(self, x: Any, ids: Any, updates: Any) -> Any:
        return self.torch.index_put(x, (ids,), updates, accumulate=True)

    def distinct(self, x: Any) -> Sequence[Any]:
        return self.torch.unique(x, return_inverse=True, return_counts=True)

    def grid_sample(self, x: Any, places: Any, mode: str, padding: str, aligned: bool) -> Any:
        return self.torch.nn.functional.grid_sample(x, places, mode, padding, aligned)

    def log_sigmoid(self, x: Any) -> Any:
        return self.torch.log(self.torch.sigmoid(x))

    def recurrent(self, kind: str, x: Any, weights: Sequence[Array], *, both: bool) -> Any:
        key = (kind, both, weights[0].tobytes())
        if key not in self._layers:
            torch = self.torch
            layer = getattr(torch.nn, kind)(weights[0].shape[-1], weights[1].shape[-1], bidirectional=both)
            values = dict(zip(("weight_ih", "weight_hh"), weights, strict=True))
            with torch.no_grad():
                for name, parameter in layer.named_parameters():
                    given = values.get(name.split("_l0")[0])
                    parameter.copy_(torch.zeros(()) if given is None else torch.from_numpy(given))
            self._layers[key] = layer.eval()
        return self._layers[key](x)[0]

    def run(self, body: Body, inputs: Sequence[Array]) -> list[Array]:
        with self.torch.no_grad():
            return [t.numpy() for t in body(self, *map(self.torch.from_numpy, inputs))]

    def convert(
        self, bodies: Sequence[Body], specs: Sequence[Specs], examples: Sequence[Sequence[Array]]
    ) -> ModelProto:
        from onnx_sparse.converters.torch import export

        torch, road = self.torch, self
        counts = [len(spec) for spec in specs]

        for body, example in zip(bodies, examples, strict=True):
            self.run(body, example)  # so that its layers are there

        class Module(torch.nn.Module):  # type: ignore[name-defined,misc]
            def __init__(self) -> None:
                super().__init__()
                self.layers = torch.nn.ModuleList(road._layers.values())

            def forward(self, *flat: Any) -> tuple[Any, ...]:
                results: list[Any] = []
                for body, start, count in zip(bodies, np.cumsum([0, *counts]), counts, strict=False):
                    results += body(road, *flat[start : start + count])
                return tuple(results)

        flat = tuple(torch.from_numpy(array) for example in examples for array in example)
        auto = torch.export.Dim.AUTO
        shapes = tuple(dict.fromkeys(range(t.dim()), auto) for t in flat)
        return export(Module(), flat, dynamic_shapes=(shapes,))
