"""The windows of adaptive pools: as many as are asked for, of nearly equal sizes."""

from __future__ import annotations

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter


class AdaptiveWindows:
    """The windows along one axis: window i is from floor(i * size / count) to ceil((i + 1) * size / count).

    Attributes:
        size: The axis's size.
        lengths: Those of the windows, [count, 1].
        places: The places of each window's numbers, [count, longest]; a shorter window repeats its last place.
        inside: Whether a place is not repeated.
    """

    def __init__(self, emit: Emitter, size: Tensor, count: Tensor) -> None:
        """Args: the emitter, and two int64 scalars."""
        self.size, one = size, emit.constant(1)
        order = emit.op("Range", emit.constant(0), count, one, shape=(None,))
        windows = emit.op("Unsqueeze", order, emit.constant([1]), shape=(None, 1))
        begin = emit.op("Div", emit.op("Mul", windows, size), count)
        after = emit.op("Mul", emit.op("Add", windows, one), size)
        end = emit.op("Div", emit.op("Add", after, emit.op("Sub", count, one)), count)
        self.lengths = emit.op("Sub", end, begin)
        steps = emit.op("Range", emit.constant(0), emit.op("ReduceMax", self.lengths, keepdims=0), one, shape=(None,))
        self.inside = emit.op("Less", steps, self.lengths, shape=(None, None))
        self.places = emit.op("Min", emit.op("Add", begin, steps), emit.op("Sub", end, one), shape=(None, None))
