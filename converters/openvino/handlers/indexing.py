"""Operators that read or write by index: Gather and Scatter, TopK, NonZero, OneHot, Range and others."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.compression import gathered_rows
from onnx_sparse.converters.openvino.emitter import OpenVINOEmitter
from onnx_sparse.converters.openvino.handlers.arithmetic import quotient
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.model_ports import element_type
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering import one_hot as lowering
from onnx_sparse.converters.writing.lowering.gathering import gathered
from onnx_sparse.converters.writing.lowering.reordering import rolled
from onnx_sparse.converters.writing.lowering.scattering import scatter_elements, scatter_rows
from onnx_sparse.converters.writing.lowering.searching import count_below
from onnx_sparse.converters.writing.lowering.segment_reductions import scattered
from onnx_sparse.schemas.segment_body import highest, lowest


def _axis(node: Node, position: int) -> int:
    return node[position].integer("the axis")


@handles("Gather-1", to="Gather", notes="The axis must be a constant.")
def gather_1(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Gather-1."""
    weight = emit.weights.get(node[0].name)
    if weight is not None:
        _axis(node, 2)
        return emit.cast(gathered_rows(weight, emit.index(node[1]), node.weights, emit), node[0].dtype)
    return emit.op("Gather", node[0], emit.index(node[1]), axis=_axis(node, 2))


@handles("Gather-7", "Gather-8", to="Gather", notes="The axis must be a constant. Indices out of range are an error.")
def gather_7(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Gather-7 and Gather-8. Rows of a compressed weight become floats after they are gathered."""
    weight = emit.weights.get(node[0].name)
    if weight is not None:
        node.disregard("batch_dims")
        _axis(node, 2)
        return emit.cast(gathered_rows(weight, emit.index(node[1]), node.weights, emit), node[0].dtype)
    return gathered(emit, node[0], node[1], _axis(node, 2), node.integer("batch_dims", 0))


@handles("GatherElements-6", to="GatherElements")
def gather_elements(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """GatherElements-6."""
    return emit.op("GatherElements", node[0], emit.index(node[1]), axis=node.integer("axis"))


@handles("GatherND-8", to="GatherND")
def gather_nd_8(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """GatherND-8."""
    batch = node.integer("batch_dims", 0)
    if batch < 0 or any(tensor.shape is not None and batch >= len(tensor.shape) for tensor in (node[0], node[1])):
        raise Unsupported(f"batch_dims = {batch} does not fit the data and the indices")
    return emit.op("GatherND", node[0], emit.int64(node[1]), batch_dims=batch)


@handles("GatherND-5", to="GatherND", notes="At most one batch dimension.")
def gather_nd_5(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """GatherND-5, whose result merges its batch dimensions into one."""
    if node.integer("batch_dims", 0) > 1:
        raise Unsupported("more than one batch dimension, which this version puts into one")
    return gather_nd_8(node, emit)


@handles("ScatterUpdate-3", to="ScatterND", notes="The axis must be a constant.")
def scatter_update(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """ScatterUpdate-3: data[.., indices, ..] = updates, along an axis."""
    return scatter_rows(emit, node[0], node[1], node[2], node[0].axis(_axis(node, 3)))


@handles("ScatterElementsUpdate-3", to="ScatterElements", notes="The axis must be a constant.")
def scatter_elements_3(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """ScatterElementsUpdate-3."""
    return scatter_elements(emit, node[0], emit.index(node[1]), node[2], _axis(node, 3))


@handles("ScatterElementsUpdate-12", to="ScatterElements")
def scatter_elements_12(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """ScatterElementsUpdate-12. Without `use_init_val`, the elements are first set to the reduction's neutral value."""
    is_mean = node.text("reduction", "none") == "mean"
    reduction, axis = "add" if is_mean else _reduction(node), _axis(node, 3)
    data, indices, updates = node[0], emit.index(node[1]), node[2]
    is_counted = node.flag("use_init_val", True)
    if reduction != "none" and data.dtype in (TensorProto.BOOL, TensorProto.STRING):
        raise Unsupported("a reduction of booleans or strings")
    if reduction != "none" and not is_counted:
        neutral = {"add": 0, "mul": 1, "min": highest(data.dtype), "max": lowest(data.dtype)}[reduction]
        neutrals = emit.op("Expand", emit.like(neutral, data), emit.shape_of(indices))
        data = emit.op("ScatterElements", data, indices, neutrals, axis=axis)
    made = scatter_elements(emit, data, indices, updates, axis, reduction)
    if not is_mean:
        return made
    ones, none = (emit.op("Expand", emit.constant(n), emit.shape_of(t)) for n, t in ((1, indices), (0, data)))
    counts = emit.op("ScatterElements", none, indices, ones, axis=axis, reduction="add")
    extra = emit.op("Min", counts, emit.constant(1)) if is_counted else None
    counts = emit.op("Add", counts, extra) if extra is not None else counts
    return quotient(emit, made, emit.cast(emit.op("Max", counts, emit.constant(1)), data.dtype))


def _reduction(node: Node, also: tuple[str, ...] = ()) -> str:
    names = {"none": "none", "sum": "add", "prod": "mul", "min": "min", "max": "max"}
    return names[node.choice("reduction", (*names, *also), "none")]


@handles("ScatterNDUpdate-3", to="ScatterND")
def scatter_nd_3(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """ScatterNDUpdate-3."""
    return emit.op("ScatterND", node[0], emit.int64(node[1]), node[2])


@handles("ScatterNDUpdate-15", to="ScatterND, UnsortedSegment*", notes="sub: the updates are negated and added.")
def scatter_nd_15(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """ScatterNDUpdate-15."""
    data, indices, updates = node[0], emit.int64(node[1]), node[2]
    is_difference = node.text("reduction", "none") == "sub"
    reduction = "add" if is_difference else _reduction(node)
    if reduction == "none":
        return emit.op("ScatterND", data, indices, updates)
    updates = emit.op("Neg", updates) if is_difference else updates
    return scattered(emit, reduction, emit.shape_of(data), indices, updates, data)


@handles("NonZero-3", to="NonZero")
def non_zero(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """NonZero-3."""
    return emit.op("NonZero", node[0])


@handles(
    "OneHot-1", "OneHot-16", to="Equal, Where", notes="Negative indices count from the end only in mode normalize."
)
def one_hot(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """OneHot-1 and OneHot-16, of which only the latter may count negative indices from the end."""
    indices, depth = emit.int64(node[0]), emit.int64(emit.scalar(node[1]))
    on, off = (emit.scalar(node[k]) for k in (2, 3))
    if node.choice("negative_indices_mode", ("ignore_negative", "normalize"), "ignore_negative") == "normalize":
        from_end = emit.op("Add", indices, depth)
        indices = emit.op("Where", emit.op("Less", indices, emit.constant(0)), from_end, indices)
    return lowering.one_hot(emit, indices, depth, on, off, node.integer("axis"))


@handles(
    "TopK-1",
    "TopK-3",
    "TopK-11",
    to="TopK",
    notes="Of equal values, the lower index is taken; sort = index sorts by index.",
    ignored=("stable",),  # it is always stable
)
def top_k(node: Node, emit: OpenVINOEmitter) -> tuple[Tensor, ...]:
    """TopK-1, TopK-3 and TopK-11."""
    x, k = node[0], emit.vector(node[1])
    axis, largest = node.integer("axis"), int(node.choice("mode", ("max", "min")) == "max")
    by_index = node.choice("sort", ("value", "index", "none")) == "index"
    values, indices = emit.ops("TopK", [x, k], [x.dtype, TensorProto.INT64], axis=axis, largest=largest, sorted=1)
    if by_index:
        descending = emit.node("TopK", [indices, k], [TensorProto.INT64] * 2, axis=axis, largest=0, sorted=1)
        indices = descending[0]
        values = emit.op("GatherElements", values, descending[1], axis=axis)
    return values, indices


@handles("Bucketize-3", to="Less, ReduceSum")
def bucketize(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Bucketize-3: the number of boundaries below, or with `with_right_bound` = false not above; none is above NaN."""
    bounds, x = _comparable(emit, node[1], node[0])
    return count_below(emit, bounds, x, or_equal=not node.flag("with_right_bound", True))


@handles("SearchSorted-15", to="Less, ReduceSum")
def search_sorted(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """SearchSorted-15: the positions of values in sorted rows, that of NaN being 0; one row may serve all."""
    rows = node[0]
    if rows.rank > 1:
        rows = emit.op("Unsqueeze", rows, emit.constant([-2]))
    bounds, x = _comparable(emit, rows, node[1])
    return count_below(emit, bounds, x, or_equal=node.flag("right_mode", False), nan_first=True)


def _comparable(emit: OpenVINOEmitter, bounds: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    if bounds.dtype == x.dtype:
        return bounds, x
    return emit.cast(bounds, TensorProto.DOUBLE), emit.cast(x, TensorProto.DOUBLE)


@handles("Range-1", to="Range")
def range_1(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Range-0, whose layers are of opset1."""
    return emit.op("Range", *(emit.scalar(node[k]) for k in range(3)))


@handles("Range-4", to="Range")
def range_4(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Range-4. For an integer result, float bounds are truncated first."""
    to = element_type(node.text("output_type"), "output_type")
    return emit.op("Range", *(emit.cast(emit.scalar(node[k]), to) for k in range(3)))


@handles("Eye-9", to="EyeLike", notes="Without batch dimensions.")
def eye(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Eye-9."""
    if node.optional(3) is not None:
        raise Unsupported("batch dimensions")
    to = element_type(node.text("output_type"), "output_type")
    shift = node[2].integer("the diagonal")
    shape = emit.op("Concat", emit.vector(node[0]), emit.vector(node[1]), axis=0)
    zeros = emit.op("Expand", emit.constant(0, TensorProto.FLOAT), shape)
    return emit.cast(emit.op("EyeLike", zeros, dtype=zeros.dtype, k=shift), to)


@handles("Unique-10", to="Unique", notes="The axis must be a constant.")
def unique(node: Node, emit: OpenVINOEmitter) -> tuple[Tensor, ...]:
    """Unique-10."""
    axis = None if node.optional(1) is None else _axis(node, 1)
    dtypes = [node[0].dtype, *[TensorProto.INT64] * 3]
    return emit.ops("Unique", [node[0]], dtypes, axis=axis, sorted=int(node.flag("sorted", True)))


@handles("Roll-7", to="Slice, Concat", notes="The axes must be a constant.")
def roll(node: Node, emit: OpenVINOEmitter) -> Tensor:
    """Roll-7: what is shifted off the end comes in at the start."""
    shifts, axes = emit.vector(node[1]), node[2].integers("the axes")
    # One shift may serve all axes.
    places = [0 if node[1].shape in ((), (1,)) else k for k in range(len(axes))]
    return rolled(emit, node[0], [emit.op("Gather", shifts, emit.constant([k])) for k in places], axes)
