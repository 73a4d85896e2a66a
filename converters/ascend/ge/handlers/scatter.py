"""GE's operators that write or add slices at places; several updates of one place are all added."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge.handlers.registry import Node, handles
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering.segment_reductions import scattered
from onnx_sparse.schemas.declaration import NUMBERS

_KINDS = {"Add": "add", "Sub": "sub", "Mul": "mul", "Max": "max", "Min": "min"}
_SEGMENTS = "UnsortedSegmentSum"
_SUMS = "half floats are summed as float32 and rounded once"
_NAN = "NaN propagates, from every position"


def reduced_into(emit: AscendEmitter, kind: str, var: Tensor, places: Tensor, updates: Tensor) -> Tensor:
    """A tensor with updates reduced into it at coordinates; half floats as float32, rounded once.

    Args:
        emit: Receives the nodes.
        kind: `add`, `sub`, `mul`, `max` or `min`.
        var: The tensor.
        places: The coordinates of each update [..., depth].
        updates: The updates.
    """
    if var.dtype not in NUMBERS or updates.dtype != var.dtype:
        raise Unsupported(f"{var} and {updates}: numbers of one element type expected")
    wide, more = emit.wide(var), emit.wide(updates)
    if kind == "sub":
        kind, more = "add", emit.op("Sub", emit.like(0, more), more)
    made = scattered(emit, kind, emit.shape_of(var), emit.cast(places, TensorProto.INT64), more, wide)
    return emit.cast(made, var.dtype)


@handles("ScatterAdd", "ScatterSub", to=_SEGMENTS, differs=_SUMS, ignored=("use_locking",))
@handles("ScatterMul", to="UnsortedSegmentProd, Mul", ignored=("use_locking",))
@handles("ScatterMax", to="UnsortedSegmentMax, Max", differs=_NAN, ignored=("use_locking",))
@handles("ScatterMin", to="UnsortedSegmentMin, Min", differs=_NAN, ignored=("use_locking",))
def scatter_rows(node: Node, emit: AscendEmitter) -> Tensor:
    """ScatterAdd(var, indices, updates) and similar: rows of var, reduced with the updates."""
    var, indices, updates = node.take(3)
    places = emit.op("Unsqueeze", indices, emit.constant([-1]))
    return reduced_into(emit, _KINDS[node.op_type.removeprefix("Scatter")], var, places, updates)


@handles("ScatterNdAdd", "ScatterNdSub", to=_SEGMENTS, differs=_SUMS, ignored=("use_locking",))
@handles("TensorScatterAdd", "TensorScatterSub", to=_SEGMENTS, differs=_SUMS)
@handles("TensorScatterMax", to="UnsortedSegmentMax, Max", differs=_NAN)
@handles("TensorScatterMin", to="UnsortedSegmentMin, Min", differs=_NAN)
def scatter_nd(node: Node, emit: AscendEmitter) -> Tensor:
    """ScatterNdAdd(var, indices, updates), TensorScatterAdd and similar: slices at coordinates."""
    var, indices, updates = node.take(3)
    return reduced_into(emit, _KINDS[node.op_type[-3:]], var, indices, updates)


@handles("ScatterNd", to=_SEGMENTS, differs=_SUMS)
def scattered_zeros(node: Node, emit: AscendEmitter) -> Tensor:
    """ScatterNd(indices, x, shape): zeros to which x is added at coordinates."""
    indices, x, shape = node.take(3)
    if x.dtype not in NUMBERS:
        raise Unsupported(f"{x} is not of numbers")
    places, sizes = (emit.cast(tensor, TensorProto.INT64) for tensor in (indices, shape))
    return emit.cast(scattered(emit, "add", sizes, places, emit.wide(x)), x.dtype)


@handles("InplaceIndexAdd", to=_SEGMENTS, differs=_SUMS)
def index_add(node: Node, emit: AscendEmitter) -> Tensor:
    """InplaceIndexAdd(var, indices, updates, alpha | axis): alpha * updates are added to slices along an axis."""
    (var, indices, updates), (alpha,) = node.optional(3, 4)
    axis = var.axis(node.integer("axis"))
    if alpha is not None:
        wide = emit.wide(updates)
        updates = emit.cast(emit.op("Mul", wide, emit.cast(alpha, wide.dtype)), updates.dtype)
    order = [axis, *(k for k in range(var.rank) if k != axis)]
    places = emit.op("Unsqueeze", indices, emit.constant([-1]))
    moved = (emit.transpose(tensor, order) for tensor in (var, updates))
    first, rows = moved
    made = reduced_into(emit, "add", first, places, rows)
    return emit.transpose(made, [order.index(k) for k in range(var.rank)])
