"""GE's operators that move elements and change shapes."""

from __future__ import annotations

import math

from onnx import TensorProto

from onnx_sparse.converters.ascend.compositions import strided_view
from onnx_sparse.converters.ascend.dtypes import ACL
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge.handlers.registry import Node, Results, handles
from onnx_sparse.converters.ascend.shapes import broadcast, element_count, place
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Shape, Tensor
from onnx_sparse.converters.writing.lowering import blocks, reordering
from onnx_sparse.converters.writing.lowering.partitioning import merged_axes
from onnx_sparse.converters.writing.lowering.reordering import reversed_along
from onnx_sparse.converters.writing.lowering.slicing import (
    slice_of_sizes,
    split_by_sizes,
    split_equally,
    strided_slice,
)

#: Each part of a split is a result of its node; a number in a file must not make a graph of unlimited size.
_MOST_PARTS = 65536


@handles("Transpose", "TransposeD", "Permute", to="Transpose")
def transpose(node: Node, emit: AscendEmitter) -> Tensor:
    """Transpose(x, perm), TransposeD(x | perm), Permute(x | order)."""
    x, *more = node.take(1, 2)
    name = "order" if node.op_type == "Permute" else "perm"
    perm = more[0].integers(name) if more else node.integers(name)
    return emit.transpose(x, [p % len(perm) for p in perm])


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
        known = tuple(None if dim == -1 else dim for dim in wanted)
        if wanted.count(-1) == 1 and (0 in wanted or element_count(x.shape) is not None):
            shape = _with_rest(emit, x, wanted)
            wanted = wanted if shape.value is None else shape.integers("shape")
        if -1 not in wanted:
            return emit.reshape(x, wanted)
    return emit.reshaped(x, emit.cast(shape, TensorProto.INT64), known)


def _with_rest(emit: AscendEmitter, x: Tensor, wanted: list[int]) -> Tensor:
    """The shape with its -1 inferred from the sizes that are not 0, as in TensorFlow; ONNX takes no 0 next to a -1."""
    sizes, one = emit.shape_of(x), emit.constant(1)
    sizes = emit.op("Where", emit.op("Equal", sizes, emit.constant(0)), one, sizes)
    total = emit.op("ReduceProd", sizes, emit.constant([0]), keepdims=1)
    rest = emit.op("Div", total, emit.constant([math.prod(dim for dim in wanted if dim > 0)]))
    return emit.op("Concat", *(rest if dim == -1 else emit.constant([dim]) for dim in wanted), axis=0)


@handles("Shape", to="Shape")
def shape_of(node: Node, emit: AscendEmitter) -> Tensor:
    """Shape(x | dtype), int32 unless the attribute says int64."""
    (x,) = node.take(1)
    dims = emit.shape_of(x)
    return emit.cast(dims, ACL.get(node.integer("dtype", 3), TensorProto.INT32))


@handles("ShapeN", to="Shape")
def shapes_of(node: Node, emit: AscendEmitter) -> Results:
    """ShapeN(x... | dtype): the shape of each."""
    dtype = ACL.get(node.integer("dtype", 3), TensorProto.INT32)
    return tuple(emit.cast(emit.shape_of(x), dtype) for x in node.take(1, max(len(node.inputs), 1)))


@handles("Size", to="Size")
def size_of(node: Node, emit: AscendEmitter) -> Tensor:
    """Size(x | dtype): the number of elements."""
    (x,) = node.take(1)
    count = element_count(x.shape)
    known = emit.op("Size", x, shape=()) if count is None else emit.constant(count)
    return emit.cast(known, ACL.get(node.integer("dtype", 3), TensorProto.INT32))


@handles("Rank", to="Shape, Size")
def rank_of(node: Node, emit: AscendEmitter) -> Tensor:
    """Rank(x): the number of dimensions, int32."""
    (x,) = node.take(1)
    if x.shape is not None:
        return emit.constant(x.rank, TensorProto.INT32)
    return emit.cast(emit.op("Size", emit.shape_of(x), shape=()), TensorProto.INT32)


@handles("ExpandDims", "Unsqueeze", to="Unsqueeze")
def unsqueeze(node: Node, emit: AscendEmitter) -> Tensor:
    """ExpandDims(x, axis), Unsqueeze(x | axes)."""
    if node.op_type == "ExpandDims":
        x, axis = node.take(2)
        axes = [axis.integer("axis")]
    else:
        (x,) = node.take(1)
        axes = node.integers("axes")
    rank = None if x.shape is None else x.rank + len(axes)
    if rank is not None and any(not -rank <= axis < rank for axis in axes):
        raise Unsupported(f"axes {axes} are out of range for {x}")
    places = axes if rank is None else sorted(axis % rank for axis in axes)
    return emit.op("Unsqueeze", x, emit.constant(places))


@handles("Squeeze", to="Squeeze")
def squeeze(node: Node, emit: AscendEmitter) -> Tensor:
    """Squeeze(x | axis); without an axis, all axes of size 1."""
    (x,) = node.take(1)
    axes = [place(x, axis) for axis in node.integers("axis")]
    if not axes and (x.shape is None or None in x.shape):
        return emit.op("Squeeze", x)
    return squeezed(emit, x, axes or [i for i, dim in enumerate(x.dims) if dim == 1])


def squeezed(emit: AscendEmitter, x: Tensor, axes: list[int]) -> Tensor:
    """The tensor without these axes, which must be of size 1."""
    if any(x.dim(axis) not in (1, None) for axis in axes):
        raise Unsupported(f"axes {axes} of {x} are not all of size 1")
    return emit.op("Squeeze", x, emit.constant(axes)) if axes else x


@handles("ConcatV2", "ConcatD", "Concat", to="Concat")
def concat(node: Node, emit: AscendEmitter) -> Tensor:
    """ConcatV2(x..., concat_dim), Concat(concat_dim, x...), ConcatD(x... | concat_dim)."""
    tensors = list(node.take(1, max(len(node.inputs), 1)))
    if node.op_type == "ConcatD":
        axis = node.integer("concat_dim")
    else:
        axis = tensors.pop(-1 if node.op_type == "ConcatV2" else 0).integer("concat_dim")
    if not tensors:
        raise Unsupported("it has no inputs")
    ranked = next((tensor for tensor in tensors if tensor.shape is not None), tensors[0])
    return emit.concat(tensors, place(ranked, axis))


@handles("SplitV", "SplitVD", "SplitD", "Split", to="Split")
def split(node: Node, emit: AscendEmitter) -> Results:
    """SplitV(x, size_splits, split_dim), SplitVD(x | size_splits, split_dim), and two kinds of equal parts.

    SplitD(x | split_dim, num_split), Split(split_dim, x | num_split).
    """
    if node.op_type.startswith("SplitV"):
        if node.op_type == "SplitV":
            x, given, dim = node.take(3)
            axis = place(x, dim.integer("split_dim"))
        else:
            (x,), given = node.take(1), emit.constant(node.integers("size_splits"))
            axis = place(x, node.integer("split_dim"))
        if given.value is None:
            return split_by_sizes(emit, x, axis, given, _parts(node.integer("num_split", len(node.results))))
        sizes, total = given.integers("size_splits"), x.dim(axis)
        if sizes.count(-1) == 1 and total is not None:
            sizes[sizes.index(-1)] = total - sum(sizes) - 1
        if sizes.count(-1) == 1 and min([0, *(size for size in sizes if size != -1)]) == 0:
            return split_by_sizes(emit, x, axis, given, _parts(len(sizes)))
        return emit.split(x, axis, sizes)
    if node.op_type == "SplitD":
        (x,) = node.take(1)
        axis = place(x, node.integer("split_dim"))
    else:
        dim, x = node.take(2)
        axis = place(x, dim.integer("split_dim"))
    return split_equally(emit, x, axis, _parts(node.integer("num_split")))


def _parts(count: int) -> int:
    if not 0 < count <= _MOST_PARTS:
        raise Unsupported(f"{count} parts; 1 to {_MOST_PARTS} are supported")
    return count


@handles("Slice", "SliceD", to="Slice", differs="beyond an axis whose size is not known, a slice is cut; GE raises")
def slice_(node: Node, emit: AscendEmitter) -> Tensor:
    """Slice(x, offsets, size), SliceD(x | offsets, size); a size of -1 is the rest."""
    if node.op_type == "SliceD":
        (x,) = node.take(1)
        offsets, size = (emit.constant(node.integers(name)) for name in ("offsets", "size"))
    else:
        x, offsets, size = node.take(3)
    if offsets.value is None or size.value is None:
        return slice_of_sizes(emit, x, offsets, size)
    starts, sizes = (t.integers(what) for t, what in ((offsets, "offsets"), (size, "size")))
    if not len(starts) == len(sizes) == (len(starts) if x.shape is None else x.rank) or min([0, *starts]) < 0:
        raise Unsupported(f"offsets {starts} and size {sizes} are not of the rank of {x}")
    for axis, (start, count) in enumerate(zip(starts, sizes, strict=True)):
        known = x.dim(axis)
        if count < -1 or (known is not None and start + max(count, 0) > known):
            raise Unsupported(f"offset {start} and size {count} of axis {axis} are not within {x}")
    shape = tuple(
        count if count >= 0 else None if (known := x.dim(axis)) is None else known - start
        for axis, (start, count) in enumerate(zip(starts, sizes, strict=True))
    )
    return x if shape == x.shape and None not in shape else slice_of_sizes(emit, x, offsets, size)


_SLICE_MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


@handles("StridedSlice", to="Slice, Squeeze, Unsqueeze")
def strided(node: Node, emit: AscendEmitter) -> Tensor:
    """StridedSlice(x, begin, end, strides | begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)."""
    x, begin, end, *strides = node.take(3, 4)
    return _strided(node, emit, x, begin, end, *strides)


@handles("StridedSliceD", to="Slice, Squeeze, Unsqueeze")
def strided_slice_d(node: Node, emit: AscendEmitter) -> Tensor:
    """StridedSliceD(x | begin, end, strides and StridedSlice's masks)."""
    (x,) = node.take(1)
    begin, end, strides = (node.integers(name) for name in ("begin", "end", "strides"))
    return _strided(node, emit, x, *map(emit.constant, (begin, end, strides or [1] * len(begin))))


@handles("StridedSliceV2", to="Slice, Squeeze, Unsqueeze")
def strided_slice_v2(node: Node, emit: AscendEmitter) -> Tensor:
    """StridedSliceV2(x, begin, end, axes, strides and StridedSlice's masks)."""
    (x, begin, end), (given, steps) = node.optional(3, 5)
    if given is None:
        return _strided(node, emit, x, begin, end, *(() if steps is None else (steps,)))
    axes = [place(x, axis) for axis in given.integers("axes")]
    strides = [1] * len(axes) if steps is None else steps.integers("strides")
    sizes = [size for bound in (begin, end) for size in (bound.shape or ())]
    if any(size != len(axes) for size in (*filter(None, sizes), len(strides))) or len(set(axes)) < len(axes):
        raise Unsupported(f"axes {axes} do not fit begin {begin}, end {end} and strides {strides}")
    # By axis; begin and end of other axes are masked out, which no mask of the node's own can do.
    if any(node.integer(f"{name}_mask", 0) for name in _SLICE_MASKS):
        raise Unsupported("axes and masks together are not supported")
    if 0 in strides:
        raise Unsupported(f"strides {strides} have a 0")
    bounds = (emit.cast(bound, TensorProto.INT64) for bound in (begin, end))
    return emit.op("Slice", x, *bounds, emit.constant(axes), emit.constant(strides))


def _strided(
    node: Node, emit: AscendEmitter, x: Tensor, begin: Tensor, end: Tensor, strides: Tensor | None = None
) -> Tensor:
    if strides is None:
        if not begin.shape or begin.shape[0] is None:
            raise Unsupported("the number of entries in begin is not known")
        strides = emit.constant([1] * begin.shape[0])
    lengths = {bound.shape[0] for bound in (begin, end, strides) if bound.shape} - {None}
    if len(lengths) > 1:
        raise Unsupported(f"{begin}, {end} and {strides} do not fit together")
    masks = {name: node.integer(f"{name}_mask", 0) for name in _SLICE_MASKS}
    return strided_slice(emit, x, begin, end, strides, masks)


@handles("Tile", "TileD", to="Tile")
def tile(node: Node, emit: AscendEmitter) -> Tensor:
    """Tile(x, multiples), TileD(x | multiples)."""
    x, *given = node.take(1, 2)
    times = given[0] if given else emit.constant(node.integers("multiples"))
    known = times.integers("multiples") if times.value is not None else [0]
    if (times.value is not None and x.shape is not None and len(known) != x.rank) or min(known, default=0) < 0:
        raise Unsupported(f"multiples {known} do not fit {x}")
    return emit.cast(emit.op("Tile", emit.wide(x), emit.cast(times, TensorProto.INT64)), x.dtype)


@handles("Pack", to="Unsqueeze, Concat")
def pack(node: Node, emit: AscendEmitter) -> Tensor:
    """Pack(x... | axis): the tensors along a new axis."""
    tensors = node.take(1, max(len(node.inputs), 1))
    axis = node.integer("axis", 0)
    ranked = next((tensor.rank + 1 for tensor in tensors if tensor.shape is not None), None)
    if ranked is not None and not -ranked <= axis < ranked:
        raise Unsupported(f"axis {axis} is out of range for a result of rank {ranked}")
    axis = axis if ranked is None else axis % ranked
    return emit.concat([emit.op("Unsqueeze", tensor, emit.constant([axis])) for tensor in tensors], axis)


@handles("Unpack", to="Split, Squeeze")
def unpack(node: Node, emit: AscendEmitter) -> Results:
    """Unpack(x | num, axis): the parts of x along an axis, which they do not have."""
    (x,) = node.take(1)
    axis = place(x, node.integer("axis", 0))
    size = x.dim(axis)
    count = node.integer("num", len(node.results) if size is None else size)
    if size not in (None, count):
        raise Unsupported(f"axis {axis} of {x} has not {count} parts")
    return tuple(squeezed(emit, part, [axis]) for part in split_equally(emit, x, axis, _parts(count)))


@handles("FlattenV2", "Flatten", to="Reshape")
def flatten(node: Node, emit: AscendEmitter) -> Tensor:
    """FlattenV2(x | axis, end_axis), Flatten(x | axis): the axes between as one."""
    (x,) = node.take(1)
    if x.rank == 0:
        return emit.reshape(x, [1])
    first, last = x.axis(node.integer("axis", 1)), x.axis(node.integer("end_axis", -1))
    if first > last:
        raise Unsupported(f"axis {first} is after end_axis {last}")
    return merged_axes(emit, x, first, last + 1 - first)


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
    return reversed_along(emit, x, sorted({place(x, axis) for axis in given.integers("axis")}))


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


@handles("PadV3", to="Pad", notes="modes constant, reflect and edge")
@handles("Pad", "PadV2", to="Pad")
def pad(node: Node, emit: AscendEmitter) -> Tensor:
    """PadV3(x, paddings, constant_values | mode), Pad(x, paddings), PadV2 with a value."""
    x, paddings, *value = node.take(2, 3)
    mode = str(node.attributes.get("mode", "constant") or "constant")
    if mode not in ("constant", "reflect", "edge"):
        raise Unsupported(f"mode {mode} is none of constant, reflect, edge")
    wide = emit.wide(x)
    fill = [emit.scalar(emit.cast(one, wide.dtype)) for one in value]
    if paddings.value is None:
        if not node.flag("paddings_contiguous", True):
            raise Unsupported("paddings is not a constant, and not contiguous")
        pairs = emit.op("Reshape", emit.cast(paddings, TensorProto.INT64), emit.constant([-1, 2]))
        pads = emit.op("Reshape", emit.op("Transpose", pairs, perm=[1, 0]), emit.constant([-1]))
        shape = None if x.shape is None else (None,) * x.rank
        return emit.cast(emit.op("Pad", wide, pads, *fill, mode=mode, shape=shape), x.dtype)
    amounts = paddings.integers("paddings")
    count = len(amounts) // 2
    if len(amounts) != 2 * (count if x.shape is None else x.rank) or min(amounts, default=0) < 0:
        raise Unsupported(f"paddings {amounts} do not fit {x}")
    is_pairs = node.flag("paddings_contiguous", True)
    before, after = (amounts[::2], amounts[1::2]) if is_pairs else (amounts[:count], amounts[count:])
    return emit.cast(emit.op("Pad", wide, emit.constant([*before, *after]), *fill, mode=mode), x.dtype)


@handles("MirrorPad", to="Slice, Concat", notes="paddings are a constant")
def mirror_pad(node: Node, emit: AscendEmitter) -> Tensor:
    """MirrorPad(x, paddings | mode): a border that mirrors x, with its outermost elements if SYMMETRIC."""
    x, paddings = node.take(2)
    mode = str(node.attributes.get("mode", ""))
    if mode not in ("REFLECT", "SYMMETRIC"):
        raise Unsupported(f"mode {mode} is neither REFLECT nor SYMMETRIC")
    amounts = paddings.integers("paddings")
    pairs = list(zip(amounts[::2], amounts[1::2], strict=True))
    return reordering.mirrored(emit, x, pairs, symmetric=mode == "SYMMETRIC")


@handles("Roll", to="Slice, Concat")
def roll(node: Node, emit: AscendEmitter) -> Tensor:
    """Roll(x | shifts, dims): elements that leave at one end enter at the other; without dims, of all as a vector."""
    (x,) = node.take(1)
    moves, axes = node.integers("shifts"), [place(x, axis) for axis in node.integers("dims")]
    if len(moves) != (len(axes) or 1):
        raise Unsupported(f"shifts {moves} do not fit dims {axes}")
    shifts = [emit.constant([move]) for move in moves]
    if axes:
        return reordering.rolled(emit, x, shifts, axes)
    flat = reordering.rolled(emit, emit.op("Reshape", x, emit.constant([-1])), shifts, [0])
    return emit.reshaped(flat, emit.shape_of(x), x.shape)


@handles("RollV2", to="Slice, Concat", notes="axis is a constant")
def roll_v2(node: Node, emit: AscendEmitter) -> Tensor:
    """RollV2(x, shift, axis)."""
    x, shift, axis = node.take(3)
    axes = [place(x, each) for each in axis.integers("axis")]
    moves = emit.op("Reshape", emit.cast(shift, TensorProto.INT64), emit.constant([-1]))
    shifts = [emit.op("Gather", moves, emit.constant([k]), axis=0) for k in range(len(axes))]
    return reordering.rolled(emit, x, shifts, axes)


@handles("ReverseSequence", to="ReverseSequence")
def reverse_sequence(node: Node, emit: AscendEmitter) -> Tensor:
    """ReverseSequence(x, seq_lengths | seq_dim, batch_dim): the first elements of each row from last to first."""
    x, lengths = node.take(2)
    time, batch = x.axis(node.integer("seq_dim")), x.axis(node.integer("batch_dim", 0))
    return reordering.reverse_sequence(emit, x, lengths, batch=batch, time=time)


@handles("SpaceToDepth", "DepthToSpace", to="Reshape, Transpose")
def space_to_depth(node: Node, emit: AscendEmitter) -> Tensor:
    """SpaceToDepth(x | block_size, data_format), DepthToSpace(x | block_size, mode, data_format)."""
    (x,) = node.take(1)
    layout = str(node.attributes.get("data_format", "NHWC") or "NHWC")
    if layout not in ("NHWC", "NCHW"):
        raise Unsupported(f"data_format {layout} is neither NHWC nor NCHW")
    size, is_last = node.integer("block_size"), layout == "NHWC"
    if node.op_type == "SpaceToDepth":
        return blocks.space_to_depth(emit, x, size, channels_last=is_last)
    mode = str(node.attributes.get("mode", "DCR") or "DCR")
    if mode not in ("DCR", "CRD"):
        raise Unsupported(f"mode {mode} is neither DCR nor CRD")
    return blocks.depth_to_space(emit, x, size, channels_last=is_last, depth_first=mode == "CRD")


@handles("BatchToSpaceND", to="Reshape, Transpose, Slice", notes="block_shape is a constant")
def batch_to_space(node: Node, emit: AscendEmitter) -> Tensor:
    """BatchToSpaceND(x, block_shape, crops)."""
    x, sizes, crops = node.take(3)
    wide = emit.cast(crops, TensorProto.INT64)
    ends = tuple(emit.op("Gather", wide, emit.constant(k), axis=1) for k in (0, 1))
    return blocks.batch_to_space(emit, x, sizes.integers("block_shape"), (ends[0], ends[1]))


@handles("SpaceToBatchND", to="Pad, Reshape, Transpose", notes="block_shape is a constant")
def space_to_batch(node: Node, emit: AscendEmitter) -> Tensor:
    """SpaceToBatchND(x, block_shape, paddings)."""
    x, sizes, paddings = node.take(3)
    given = sizes.integers("block_shape")
    border = emit.op("Transpose", emit.cast(paddings, TensorProto.INT64), perm=[1, 0])
    axes = emit.constant([*range(1, len(given) + 1)])
    padded = emit.op("Pad", x, emit.op("Reshape", border, emit.constant([-1])), emit.like(0, x), axes)
    return blocks.space_to_batch(emit, padded, given)
