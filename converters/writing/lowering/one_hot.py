"""OneHot, for every type and for indices out of range."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter


def one_hot(emit: Emitter, indices: Tensor, depth: Tensor, on: Tensor, off: Tensor, axis: int) -> Tensor:
    """On at the index along a new axis, off elsewhere; off everywhere if the index is out of range.

    So is a negative one, as the -1 of padding: ONNX's OneHot would count it from the end. NaN and infinities are
    selected, not computed with.

    Args:
        emit: Receives the nodes.
        indices: The indices, integers of any shape.
        depth: The size of the new axis.
        on: What is at the index, a scalar.
        off: What is elsewhere, a scalar.
        axis: The new axis; -1 is the last one.

    Raises:
        Unsupported: The axis is out of range.
    """
    wide, size = (emit.cast(tensor, TensorProto.INT64) for tensor in (indices, depth))
    places = emit.op("Range", emit.constant(0), emit.scalar(size), emit.constant(1), shape=_length(depth))
    if indices.shape is not None and not -indices.rank - 1 <= axis <= indices.rank:
        raise Unsupported(f"axis {axis} is out of range for a result of rank {indices.rank + 1}")
    if axis != -1 and (after := (indices.rank - axis if axis >= 0 else -1 - axis)):
        places = emit.op("Unsqueeze", places, emit.constant([*range(1, after + 1)]))
    hit = emit.op("Equal", emit.op("Unsqueeze", wide, emit.constant([axis])), places)
    return emit.op("Where", hit, on, off)


def _length(depth: Tensor) -> tuple[int | None]:
    return (None if depth.value is None else int(depth.value.reshape(())),)
