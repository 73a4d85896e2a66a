"""pad in all its modes; of torch's exporter, pads that crop fail, and circular ones need a later operator set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter

#: ONNX's names of modes.
_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


@handles("aten.pad.default", to="Pad or Gather")
def pad(node: Node, emit: TorchEmitter) -> Tensor:
    """Elements before and after the last dimensions; numbers below 0 crop them.

    Raises:
        Unsupported: The mode is not known.
    """
    x, mode, given = node.tensor("self"), node.text("mode"), node.numbers("pad")
    pairs = dict(zip(range(x.rank - 1, -1, -1), zip(given[::2], given[1::2], strict=True), strict=False))
    if mode not in (*_MODES, "circular"):
        raise Unsupported(f"the mode {mode!r}; {', '.join((*_MODES, 'circular'))} expected")
    if mode == "constant":
        value = node.optional_number("value", 0)
        fill = emit.cast(value, x.dtype) if isinstance(value, Tensor) else emit.like(value, x)
        return _padded(emit, x, pairs, mode, fill)
    node.disregard("value")
    if mode != "circular" and all(isinstance(number, int) and number >= 0 for number in given):
        return _padded(emit, x, pairs, mode)
    for axis, (before, after) in pairs.items():
        shape = None if x.shape is None else (*x.shape[:axis], None, *x.shape[axis + 1 :])
        x = emit.op("Gather", x, _places(emit, x, axis, before, after, mode), axis=axis, shape=shape)
    return x


def _padded(
    emit: TorchEmitter, x: Tensor, pairs: Mapping[int, Sequence[Tensor | int]], mode: str, fill: Tensor | None = None
) -> Tensor:
    numbers = [pairs.get(axis, (0, 0))[end] for end in (0, 1) for axis in range(x.rank)]
    known = [number for number in numbers if isinstance(number, int)]
    pads = emit.constant(known)
    if len(known) < len(numbers):
        pads = emit.op("Concat", *map(emit.vector, numbers), axis=0, shape=(len(numbers),))
    shape = None if x.shape is None else tuple(None if axis in pairs else size for axis, size in enumerate(x.shape))
    return emit.op("Pad", x, pads, fill, mode=_MODES[mode], shape=shape)


def _places(emit: TorchEmitter, x: Tensor, axis: int, before: Tensor | int, after: Tensor | int, mode: str) -> Tensor:
    """The place along a dimension from which each element of the result is taken."""
    size, (before, after) = emit.scalar(emit.count(x, axis)), (emit.scalar(emit.vector(n)) for n in (before, after))
    places = emit.op("Range", emit.op("Neg", before), emit.op("Add", size, after), emit.constant(1), shape=(None,))
    zero, last = emit.constant(0), emit.op("Sub", size, emit.constant(1))
    if mode == "replicate":
        return emit.op("Max", emit.op("Min", places, last), zero, shape=(None,))
    # Where torch refuses a pad, as it turns more than once, there is no such place: Gather refuses it, too.
    most = size if mode == "circular" else last
    too_long = emit.op("Greater", emit.op("Max", before, after, shape=()), most, shape=())
    return emit.op("Where", too_long, size, _turned(emit, places, size, before, after, mode), shape=(None,))


def _turned(emit: TorchEmitter, places: Tensor, size: Tensor, before: Tensor, after: Tensor, mode: str) -> Tensor:
    """Places beyond the ends, as they turn there or begin again."""
    zero, last = emit.constant(0), emit.op("Sub", size, emit.constant(1))
    if mode == "circular":  # of what is left
        cropped = [emit.op("Min", number, zero) for number in (before, after)]
        left = emit.op("Max", emit.op("Add", size, emit.op("Add", *cropped)), emit.constant(1))
        from_first = emit.op("Mod", emit.op("Add", places, cropped[0]), left)
        return emit.op("Sub", from_first, cropped[0], shape=(None,))
    from_end = emit.op("Abs", emit.op("Sub", last, emit.op("Abs", places)))
    return emit.op("Sub", last, from_end, shape=(None,))
