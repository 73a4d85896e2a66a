"""Jagged tensors, rows of different lengths one after the other, made to padded ones and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.converters.torch.handlers.segment_ids import ids_of_starts

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter

_ONE = "One level of offsets."


@handles("aten._jagged_to_padded_dense_forward.default", to="Gather", notes=f"{_ONE} Longer rows are cut off.")
def to_padded(node: Node, emit: TorchEmitter) -> Tensor:
    """The rows of values between offsets [rows, longest, ...], with padding after each."""
    values, offsets = node.tensor("values"), _only(node.tensors("offsets"))
    (longest,) = node.numbers("max_lengths")
    end = emit.scalar(emit.int64(longest)) if isinstance(longest, Tensor) else emit.constant(longest)
    steps = emit.op("Range", emit.constant(0), end, emit.constant(1), shape=(None,))
    starts, ends = _bounds(emit, offsets)
    places = emit.op("Add", starts, steps)
    is_value = emit.op("Less", places, ends)
    # The padding is before the values, so that offsets beyond these are an error.
    one = emit.constant([1])
    rest = emit.op("Slice", emit.shape_of(values), one, emit.constant([2**62]), shape=(values.rank - 1,))
    padding_shape = emit.op("Concat", one, rest, axis=0, shape=(values.rank,))
    padding = emit.full(_number(node), values.dtype, padding_shape)
    padded = emit.op("Concat", padding, values, axis=0, shape=(None, *(values.shape or (None,))[1:]))
    chosen = emit.op("Where", is_value, emit.op("Add", places, one), emit.constant([0]))
    sizes = None if values.shape is None else (None, None, *values.shape[1:])
    return emit.op("Gather", padded, chosen, axis=0, shape=sizes)


@handles(
    "aten._padded_dense_to_jagged_forward.default",
    to="Gather",
    notes=f"{_ONE} Rows longer than the padded are 0.",
    ignored=("total_L",),  # which the offsets say
)
def to_jagged(node: Node, emit: TorchEmitter) -> Tensor:
    """The elements of padded rows [rows, longest, ...] without their padding, by offsets."""
    dense, offsets = node.tensor("dense"), _only(node.tensors("offsets"))
    wide = emit.int64(offsets)
    count = emit.op("Slice", wide, emit.constant([-1]), emit.constant([2**62]), shape=(1,))
    places = emit.op("Range", emit.constant(0), emit.scalar(count), emit.constant(1), shape=(None,))
    starts = emit.op("Slice", wide, emit.constant([0]), emit.constant([-1]), shape=(None,))
    rows = ids_of_starts(emit, starts, places, TensorProto.INT64)
    inside = emit.op("Sub", places, emit.op("Gather", starts, rows, axis=0, shape=(None,)), shape=(None,))
    longest = emit.count(dense, 1)
    number = emit.op("Add", emit.op("Mul", rows, longest, shape=(None,)), inside, shape=(None,))
    is_there = emit.op("Less", inside, longest, shape=(None,))
    # Zeros are before the elements, for rows that are longer than the padded ones.
    one, shape = emit.constant([1]), emit.shape_of(dense)
    rest = emit.op("Slice", shape, emit.constant([2]), emit.constant([2**62]), shape=(dense.rank - 2,))
    flat = emit.op("Reshape", dense, emit.op("Concat", emit.constant([-1]), rest, axis=0, shape=(dense.rank - 1,)))
    zeros = emit.full(0, dense.dtype, emit.op("Concat", one, rest, axis=0, shape=(dense.rank - 1,)))
    elements = emit.op("Concat", zeros, flat, axis=0)
    chosen = emit.op("Where", is_there, emit.op("Add", number, one, shape=(None,)), emit.constant([0]), shape=(None,))
    sizes = None if dense.shape is None else (None, *dense.shape[2:])
    return emit.op("Gather", elements, chosen, axis=0, shape=sizes)


def _only(offsets: list[Tensor | None]) -> Tensor:
    if len(offsets) != 1 or offsets[0] is None:
        raise Unsupported(f"{len(offsets)} levels of offsets")
    return offsets[0]


def _bounds(emit: TorchEmitter, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Where each row begins and ends, both as columns."""
    wide, zero, one, far = emit.int64(offsets), emit.constant([0]), emit.constant([1]), emit.constant([2**62])
    starts = emit.op("Slice", wide, zero, emit.constant([-1]), shape=(None,))
    ends = emit.op("Slice", wide, one, far, shape=(None,))
    axis = emit.constant([1])
    return emit.op("Unsqueeze", starts, axis, shape=(None, 1)), emit.op("Unsqueeze", ends, axis, shape=(None, 1))


def _number(node: Node) -> float:
    value = node.number("padding_value")
    if isinstance(value, Tensor):
        raise Unsupported("a padding value that is computed")
    return value
