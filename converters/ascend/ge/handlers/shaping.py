"""GE's operators that move elements and change shapes."""

from __future__ import annotations

import math

from onnx import TensorProto

from onnx_sparse.converters.ascend.compositions import strided_view
from onnx_sparse.converters.ascend.dtypes import ACL
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge.handlers.registry import Node, Results, handles
from onnx_sparse.converters.ascend.shapes import broadcast, element_count
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Shape, Tensor
from onnx_sparse.converters.writing.lowering import slicing

#: Each part of a split is a result of its node; a number in a file must not make a graph of unlimited size.
_MOST_PARTS = 65536


@handles("Transpose", "TransposeD", "Permute", to="Transpose")
def transpose(node: Node, emit: AscendEmitter) -> Tensor:
    """Transpose(x, perm), TransposeD(x | perm), Permute(x | order)."""
    x, *more = node.take(1, 2)
    name = "order" if node.op_type == "Permute" else "perm"
    perm = more[0].integers(name) if more else node.integers(name)
    if sorted(p % max(x.rank, 1) for p in perm) != list(range(x.rank)):
        raise Unsupported(f"perm {perm} is not a permutation of the axes of {x}")
    return emit.transpose(x, [p % x.rank for p in perm])


@handles("Reshape", to="Reshape", notes="axis = 0 and num_axes = -1 only")
def reshape(node: Node, emit: AscendEmitter) -> Tensor:
    """Reshape(x, shape)."""
    x, shape = node.take(2)
    if node.integer("axis", 0) or node.integer("num_axes", -1) != -1:
        raise Unsupported("axis and num_axes are not supported")
    if shape.shape is not None and len(shape.shape) != 1:
        raise Unsupported(f"shape is {shape}; a list of dimensions expected")
    known: Shape | None = node.results[0].shape if node.results else None
    if shape.value is not None:
        wanted = shape.integers("shape")
        count = element_count(x.shape)
        if wanted.count(-1) == 1 and count is not None and 0 not in wanted:
            rest = -math.prod(wanted)
            wanted = [count // rest if dim == -1 else dim for dim in wanted]
        if -1 not in wanted:
            return emit.reshape(x, wanted)
        known = tuple(None if dim == -1 else dim for dim in wanted)
    as_int64 = emit.cast(shape, TensorProto.INT64)
    return emit.op("Reshape", x, as_int64, shape=known, allowzero=int(shape.value is None))


@handles("Shape", to="Shape")
def shape_of(node: Node, emit: AscendEmitter) -> Tensor:
    """Shape(x | dtype), int32 unless the attribute says int64."""
    (x,) = node.take(1)
    dims = emit.shape_of(x)
    return emit.cast(dims, ACL.get(node.integer("dtype", 3), TensorProto.INT32))


@handles("ExpandDims", "Unsqueeze", to="Unsqueeze")
def unsqueeze(node: Node, emit: AscendEmitter) -> Tensor:
    """ExpandDims(x, axis), Unsqueeze(x | axes)."""
    if node.op_type == "ExpandDims":
        x, axis = node.take(2)
        axes = [axis.integer("axis")]
    else:
        (x,) = node.take(1)
        axes = node.integers("axes")
    rank = x.rank + len(axes)
    if any(not -rank <= axis < rank for axis in axes):
        raise Unsupported(f"axes {axes} are out of range for {x}")
    places = sorted(axis % rank for axis in axes)
    dims = list(x.shape or ())
    for place in places:
        dims.insert(place, 1)
    return emit.op("Unsqueeze", x, emit.constant(places), shape=tuple(dims))


@handles("Squeeze", to="Squeeze")
def squeeze(node: Node, emit: AscendEmitter) -> Tensor:
    """Squeeze(x | axis); without an axis, all axes of size 1."""
    (x,) = node.take(1)
    axes = [x.axis(axis) for axis in node.integers("axis")] or [i for i, dim in enumerate(x.dims) if dim == 1]
    return squeezed(emit, x, axes)


def squeezed(emit: AscendEmitter, x: Tensor, axes: list[int]) -> Tensor:
    """The tensor without these axes (>= 0), which must be of size 1."""
    dims = x.shape or ()
    if any(dims[axis] not in (1, None) for axis in axes):
        raise Unsupported(f"axes {axes} of {x} are not all of size 1")
    left = tuple(dim for axis, dim in enumerate(dims) if axis not in axes)
    return emit.op("Squeeze", x, emit.constant(axes), shape=left) if axes else x


@handles("ConcatV2", "ConcatD", to="Concat")
def concat(node: Node, emit: AscendEmitter) -> Tensor:
    """ConcatV2(x..., concat_dim), ConcatD(x... | concat_dim)."""
    tensors = list(node.take(1, len(node.inputs)))
    axis = tensors.pop().integer("concat_dim") if node.op_type == "ConcatV2" else node.integer("concat_dim")
    if not tensors:
        raise Unsupported("it has no inputs")
    return emit.concat(tensors, tensors[0].axis(axis))


@handles("SplitV", "SplitD", "Split", to="Split")
def split(node: Node, emit: AscendEmitter) -> Results:
    """SplitV(x, size_splits, split_dim), SplitD(x | split_dim, num_split), Split(split_dim, x | num_split)."""
    if node.op_type == "SplitV":
        x, given, dim = node.take(3)
        axis = x.axis(dim.integer("split_dim"))
        sizes = given.integers("size_splits")
        if sizes.count(-1) == 1:
            rest = x.dims[axis] - sum(sizes) - 1
            sizes = [rest if size == -1 else size for size in sizes]
        return emit.split(x, axis, sizes)
    if node.op_type == "SplitD":
        (x,) = node.take(1)
        axis = x.axis(node.integer("split_dim"))
    else:
        dim, x = node.take(2)
        axis = x.axis(dim.integer("split_dim"))
    count = node.integer("num_split")
    size = x.dims[axis]
    if not 0 < count <= _MOST_PARTS or size % count:
        raise Unsupported(f"axis {axis} of {x} does not split into {count} equal parts (at most {_MOST_PARTS})")
    return emit.split(x, axis, [size // count] * count)


@handles("Slice", to="Slice")
def slice_(node: Node, emit: AscendEmitter) -> Tensor:
    """Slice(x, offsets, size); a size of -1 is the rest."""
    x, offsets, size = node.take(3)
    starts, sizes = (t.integers(what) for t, what in ((offsets, "offsets"), (size, "size")))
    if not len(starts) == len(sizes) == x.rank:
        raise Unsupported(f"offsets {starts} and size {sizes} are not of the rank of {x}")
    ends = [dim if n == -1 else start + n for start, n, dim in zip(starts, sizes, x.dims, strict=True)]
    return emit.slice(x, starts, ends, [*range(x.rank)])


@handles("StridedSlice", to="Slice, Squeeze, Unsqueeze", notes="begin, end and strides are constants")
def strided_slice(node: Node, emit: AscendEmitter) -> Results:
    """StridedSlice(x, begin, end, strides | begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)."""
    x, *rest = node.take(3, 4)
    begin, end = (t.integers(what) for t, what in zip(rest, ("begin", "end"), strict=False))
    strides = rest[2].integers("strides") if len(rest) == 3 else [1] * len(begin)
    return _strided(node, emit, x, begin, end, strides)


@handles("StridedSliceD", to="Slice, Squeeze, Unsqueeze")
def strided_slice_d(node: Node, emit: AscendEmitter) -> Results:
    """StridedSliceD(x | begin, end, strides and StridedSlice's masks)."""
    (x,) = node.take(1)
    begin, end = node.integers("begin"), node.integers("end")
    return _strided(node, emit, x, begin, end, node.integers("strides") or [1] * len(begin))


@handles("StridedSliceV2", to="Slice, Squeeze, Unsqueeze", notes="begin, end, axes and strides are constants")
def strided_slice_v2(node: Node, emit: AscendEmitter) -> Results:
    """StridedSliceV2(x, begin, end, axes, strides and StridedSlice's masks)."""
    (x, first, last), (given, steps) = node.optional(3, 5)
    begin, end = first.integers("begin"), last.integers("end")
    strides = [1] * len(begin) if steps is None else steps.integers("strides")
    if given is None:
        return _strided(node, emit, x, begin, end, strides)
    axes = [x.axis(axis) for axis in given.integers("axes")]
    if not len(axes) == len(begin) == len(end) == len(strides) or len(set(axes)) < len(axes):
        raise Unsupported(f"axes {axes} do not fit begin {begin}, end {end} and strides {strides}")
    # By axis; begin and end of other axes are masked out, which no mask of the node's own can do.
    if any(node.integer(f"{name}_mask", 0) for name in slicing.MASKS):
        raise Unsupported("axes and masks together are not supported")
    spans = dict(zip(axes, zip(begin, end, strides, strict=True), strict=True))
    whole = [spans.get(axis, (0, size, 1)) for axis, size in enumerate(x.dims)]
    starts, ends, steps_ = (list(values) for values in zip(*whole, strict=True))
    return _strided(node, emit, x, starts, ends, steps_)


def _strided(
    node: Node, emit: AscendEmitter, x: Tensor, begin: list[int], end: list[int], strides: list[int]
) -> Tensor:
    if not len(begin) == len(end) == len(strides):
        raise Unsupported(f"begin {begin}, end {end} and strides {strides} do not fit together")
    masks = {name: slicing.bits(node.integer(f"{name}_mask", 0), len(begin)) for name in slicing.MASKS}
    first, last, steps = (emit.constant(bounds) for bounds in (begin, end, strides))
    return slicing.strided_slice(emit, x, first, last, steps, masks)


@handles("Tile", to="Tile")
def tile(node: Node, emit: AscendEmitter) -> Tensor:
    """Tile(x, multiples)."""
    x, multiples = node.take(2)
    times = multiples.integers("multiples")
    if len(times) != x.rank or min(times, default=0) < 0:
        raise Unsupported(f"multiples {times} do not fit {x}")
    shape = tuple(None if dim is None else dim * n for dim, n in zip(x.shape or (), times, strict=True))
    return emit.cast(emit.op("Tile", emit.wide(x), emit.constant(times), shape=shape), x.dtype)


@handles("Pack", to="Unsqueeze, Concat")
def pack(node: Node, emit: AscendEmitter) -> Tensor:
    """Pack(x... | axis): the tensors along a new axis."""
    tensors = node.take(1, len(node.inputs))
    rank = tensors[0].rank + 1
    axis = node.integer("axis", 0)
    if not -rank <= axis < rank:
        raise Unsupported(f"axis {axis} is out of range for a result of rank {rank}")
    axis %= rank
    widened = []
    for tensor in tensors:
        dims = tensor.shape or ()
        widened.append(emit.op("Unsqueeze", tensor, emit.constant([axis]), shape=(*dims[:axis], 1, *dims[axis:])))
    return emit.concat(widened, axis)


@handles("Unpack", to="Split, Squeeze")
def unpack(node: Node, emit: AscendEmitter) -> Results:
    """Unpack(x | num, axis): the parts of x along an axis, which they do not have."""
    (x,) = node.take(1)
    axis = x.axis(node.integer("axis", 0))
    count = x.dims[axis]
    if node.integer("num", count) != count or not 0 < count <= _MOST_PARTS:
        raise Unsupported(f"axis {axis} of {x} has not {node.integer('num', count)} parts (at most {_MOST_PARTS})")
    parts = emit.split(x, axis, [1] * count) if count > 1 else (x,)
    return tuple(squeezed(emit, part, [axis]) for part in parts)


@handles("FlattenV2", "Flatten", to="Reshape")
def flatten(node: Node, emit: AscendEmitter) -> Tensor:
    """FlattenV2(x | axis, end_axis), Flatten(x | axis): the axes between as one."""
    (x,) = node.take(1)
    if x.rank == 0:
        return emit.reshape(x, [1])
    first, last = x.axis(node.integer("axis", 1)), x.axis(node.integer("end_axis", -1))
    if first > last:
        raise Unsupported(f"axis {first} is after end_axis {last}")
    dims = x.dims
    return emit.reshape(x, [*dims[:first], math.prod(dims[first : last + 1]), *dims[last + 1 :]])


@handles("AsStrided", to="Reshape, Gather", notes="size, stride and storage_offset are constants")
def as_strided(node: Node, emit: AscendEmitter) -> Tensor:
    """AsStrided(x, size, stride, storage_offset) of a contiguous tensor."""
    x, size, stride, *offset = node.take(3, 4)
    dims, steps = size.integers("size"), stride.integers("stride")
    return strided_view(emit, x, dims, steps, offset[0].integer("storage_offset") if offset else 0)


@handles("ReverseV2", to="Slice")
def reverse(node: Node, emit: AscendEmitter) -> Tensor:
    """ReverseV2(x, axis)."""
    x, given = node.take(2)
    return slicing.reversed_along(emit, x, sorted({x.axis(axis) for axis in given.integers("axis")}))


@handles("BroadcastTo", "Expand", to="Expand")
def broadcast_to(node: Node, emit: AscendEmitter) -> Tensor:
    """BroadcastTo(x, shape), Expand(x, shape)."""
    x, shape = node.take(2)
    known = node.results[0].shape if node.results else None
    if shape.shape is not None and len(shape.shape) != 1:
        raise Unsupported(f"shape is {shape}; a list of dimensions expected")
    if shape.value is not None:
        dims = tuple(shape.integers("shape"))
        if min(dims, default=0) < 0:
            raise Unsupported(f"shape {list(dims)} has a negative dimension")
        known = broadcast(x.shape, dims)
        if known is not None and known != dims:
            raise Unsupported(f"{x} is not broadcast to {list(dims)}")
    wide = emit.op("Expand", emit.wide(x), emit.cast(shape, TensorProto.INT64), shape=known)
    return emit.cast(wide, x.dtype)


@handles("PadV3", to="Pad", notes="constant mode with paddings that are a constant")
def pad(node: Node, emit: AscendEmitter) -> Tensor:
    """PadV3(x, paddings, constant_values | mode)."""
    x, paddings, *value = node.take(2, 3)
    if node.attributes.get("mode", "constant") not in ("constant", ""):
        raise Unsupported(f"mode {node.attributes['mode']} is not supported")
    amounts = paddings.integers("paddings")
    if len(amounts) != 2 * x.rank or min(amounts, default=0) < 0:
        raise Unsupported(f"paddings {amounts} do not fit {x}")
    pairs = list(zip(amounts[::2], amounts[1::2], strict=True))
    if not node.flag("paddings_contiguous", True):
        pairs = list(zip(amounts[: x.rank], amounts[x.rank :], strict=True))
    shape = tuple(
        None if d is None else d + before + after for d, (before, after) in zip(x.shape or (), pairs, strict=True)
    )
    pads = emit.constant([before for before, _ in pairs] + [after for _, after in pairs])
    wide = emit.wide(x)
    fill = [emit.reshape(emit.cast(value[0], wide.dtype), [])] if value else []
    return emit.cast(emit.op("Pad", wide, pads, *fill, shape=shape), x.dtype)
