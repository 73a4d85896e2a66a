"""Slice and StridedSlice."""

from __future__ import annotations

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.emitter import OpenVINOEmitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering import slicing


@handles("Slice-8", to="Slice")
def slice_(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Slice-8: (data, start, stop, step, axes); ONNX has axes before steps."""
    return _slice(node, emit, node[0], 1)


def _slice(node: Node, emit: OpenVINOEmitter, data: Tensor, first: int) -> Tensor:
    """A slice of a tensor; the bounds are the node's inputs from position `first` on."""
    axes = node.optional(first + 3)
    start, stop, step = (emit.vector(node[first + k]) for k in range(3))
    if axes is None:
        count = (node[first].shape or (None,))[0]
        if count is None:
            raise Unsupported("the number of axes is not known")
        axes = emit.constant(range(count))
    return emit.op("Slice", data, start, stop, emit.vector(axes), step)


@handles("SliceScatter-15", to="Slice, ScatterND")
def slice_scatter(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """SliceScatter-15: (data, updates, start, stop, step, axes). A Slice of positions finds where the updates go."""
    data, updates = node[0], emit.cast(node[1], node[0].dtype)
    column, flat = emit.constant([-1, 1]), emit.constant([-1])
    numbers = emit.op("Range", emit.constant(0), emit.op("Size", data), emit.constant(1))
    places = _slice(node, emit, emit.op("Reshape", numbers, emit.shape_of(data), allowzero=1), 2)
    made = emit.op(
        "ScatterND",
        emit.op("Reshape", data, flat),
        emit.op("Reshape", places, column),
        emit.op("Reshape", emit.op("Expand", updates, emit.shape_of(places)), flat),
    )
    return emit.op("Reshape", made, emit.shape_of(data), allowzero=1)


@handles("StridedSlice-1", to="Slice, Squeeze, Unsqueeze")
def strided_slice(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """StridedSlice-1 with its five masks, whose position k belongs to entry k of begin, not to axis k."""
    names = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    masks = {name: _mask(node.integers(f"{name}_mask", [])) for name in names}
    strides = emit.constant([1] * _entries(node)) if node.optional(3) is None else node[3]
    return slicing.strided_slice(emit, node[0], node[1], node[2], strides, masks, clamped=True)


def _mask(entries: list[int]) -> int:
    """A mask as bits; entries that the file omits at its end are not set. A set one of begin means: ignore begin."""
    return sum(1 << k for k, bit in enumerate(entries) if bit)


def _entries(node: Node) -> int:
    for part in node.inputs[1:]:
        if part.value is not None:
            return int(part.value.size)
        if part.shape and part.shape[0] is not None:
            return part.shape[0]
    raise Unsupported("the number of entries in begin is not known")
