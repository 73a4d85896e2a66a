"""Axes that are known only when the model runs: what is before and after one is folded into a dimension each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

import numpy as np

from onnx_sparse.converters.errors import UnknownShape
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node
from onnx_sparse.converters.tensorflow.importing.emitter import TensorFlowEmitter
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.reads import Attributes

_LAST = np.iinfo(np.int64).max

Results = Tensor | tuple[Tensor, ...]
Convert = Callable[[Node, TensorFlowEmitter], Results]


def any_axis(
    axis: str, *along: str, may_be_several: bool = False, results: int | None = None
) -> Callable[[Convert], Convert]:
    """Let a handler that needs its axis as a constant convert nodes where it is computed, too.

    Args:
        axis: The input that is the axis, or a vector with one axis.
        along: The inputs that have it, of one rank. The handler sees them with three dimensions, and 1 as the axis.
        may_be_several: Whether the operator takes several axes, of which the number must be known.
        results: How many of the results have the axis, the first ones; all when omitted.
    """

    def decorated(function: Convert) -> Convert:
        @wraps(function)
        def convert(node: Node, emit: TensorFlowEmitter) -> Results:
            given = node[axis] if axis in node.inputs else None
            if may_be_several and given is not None and given.value is None and given.shape == (None,):
                raise UnknownShape(f"the number of axes in {axis} must be known")
            is_one = given is not None and given.value is None and given.shape in ((), (1,), (None,))
            if given is None or not is_one or node.attributes.get("batch_dims", 0):
                return function(node, emit)
            inputs = {name: node[name] for name in node.inputs}
            folded = [name for name in inputs if name in along or name.rpartition("_")[0] in along]
            sizes = {name: emit.shape_of(inputs[name]) for name in folded}
            first = inputs[folded[0]]
            rank = emit.constant([first.rank]) if first.shape is not None else emit.shape_of(sizes[folded[0]])
            place = emit.op("Reshape", emit.int64(given), emit.constant([1]))
            is_counted_back = emit.op("Less", place, emit.constant([0]))
            place = emit.op("Where", is_counted_back, emit.op("Add", place, rank), place)
            after = emit.op("Add", place, emit.constant([1]))
            ends = {
                name: (
                    emit.op("Slice", size, emit.constant([0]), place),
                    emit.op("Slice", size, after, emit.constant([_LAST])),
                )
                for name, size in sizes.items()
            }
            for name in folded:
                before, behind = (_product(each, emit) for each in ends[name])
                target = emit.op("Concat", before, emit.op("Gather", sizes[name], place), behind, axis=0)
                inputs[name] = emit.op("Reshape", inputs[name], target, allowzero=1, shape=(None, None, None))
            inputs[axis] = emit.constant([1] if given.shape else 1, given.dtype)
            made = function(replace(node, inputs=Attributes(inputs, "input")), emit)

            def unfolded(tensor: Tensor) -> Tensor:
                inner = emit.op("Slice", emit.shape_of(tensor), emit.constant([1]), emit.constant([-1]))
                before, behind = ends[folded[0]]
                shape = None if first.shape is None else (None,) * (first.rank + tensor.rank - 3)
                return emit.op(
                    "Reshape", tensor, emit.op("Concat", before, inner, behind, axis=0), allowzero=1, shape=shape
                )

            if isinstance(made, Tensor):
                return unfolded(made)
            return (*map(unfolded, made[:results]), *(() if results is None else made[results:]))

        return convert

    return decorated


def _product(sizes: Tensor, emit: Emitter) -> Tensor:
    """The number of elements of a shape, as a vector."""
    return emit.op("ReduceProd", emit.op("Concat", emit.constant([1]), sizes, axis=0), emit.constant([0]), keepdims=1)
