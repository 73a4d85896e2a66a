"""The example of a program, and what it is with other sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.torch.lazy_imports import require
from onnx_sparse.converters.torch.source import Source, to_numpy


class Example:
    """The inputs with which a program was exported.

    Args:
        source: The program, which has an example.

    Attributes:
        feeds: The inputs by name.
        places: An input and an axis of each size that is dynamic, by its symbol.
        sizes: These sizes in the example.
    """

    def __init__(self, source: Source) -> None:
        leaves = require("torch").utils._pytree.tree_leaves(source.program.example_inputs)
        self.feeds = {
            argument.name: to_numpy(require("torch").as_tensor(value))
            for argument, value in zip(source.arguments, leaves, strict=True)
            if not hasattr(argument, "value")
        }
        nodes = {node.name: node for node in source.program.graph.nodes if node.op == "placeholder"}
        values = {name: nodes[name].meta.get("val") if name in nodes else None for name in self.feeds}
        self._shapes = {name: getattr(value, "shape", ()) for name, value in values.items()}
        self.places = {
            size.node.expr: (name, axis)
            for name, shape in self._shapes.items()
            for axis, size in enumerate(shape)
            if not isinstance(size, int) and size.node.expr.is_Symbol
        }
        self.sizes = {symbol: self.feeds[name].shape[axis] for symbol, (name, axis) in self.places.items()}

    def resized(self, sizes: Mapping[Any, int]) -> dict[str, Array]:
        """The inputs with other values of some symbols; their elements are repeated or omitted, in their order."""
        return {name: self._resized(name, sizes) for name in self.feeds}

    def _resized(self, name: str, sizes: Mapping[Any, int]) -> Array:
        array, known = self.feeds[name], {**self.sizes, **sizes}
        for axis, size in enumerate(self._shapes[name]):
            if not isinstance(size, int) and not size.node.expr.free_symbols.isdisjoint(sizes):
                count = int(size.node.expr.subs(known))
                if array.shape[axis] == 0:
                    array = np.zeros((*array.shape[:axis], count, *array.shape[axis + 1 :]), array.dtype)
                # In their order, as bounds and sorted ids must be.
                array = array.take(np.arange(count) * array.shape[axis] // max(count, 1), axis)
        return array
