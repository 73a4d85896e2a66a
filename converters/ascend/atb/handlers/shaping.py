"""ATB operations that move elements: Transpose, Concat, Split, Slice, Repeat, AsStrided, SetValue."""

from __future__ import annotations

from onnx_sparse.converters.ascend.atb.handlers.registry import Node, Results, handles, refuse
from onnx_sparse.converters.ascend.compositions import strided_view
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor


@handles("Transpose", to="Transpose", exact=True)
def transpose(node: Node, emit: AscendEmitter) -> Tensor:
    """TransposeOperation: axis i of the result is axis perm[i] of x."""
    (x,) = node.take(1)
    perm = node.params.integers("perm")
    if sorted(perm) != list(range(x.rank)):
        refuse("ERROR_INVALID_PARAM", f"perm {perm} is not a permutation of the axes of {x}")
    return emit.transpose(x, perm)


@handles("Concat", to="Concat", exact=True)
def concat(node: Node, emit: AscendEmitter) -> Tensor:
    """ConcatOperation of two tensors along concatDim."""
    x, y = node.take(2)
    return emit.concat([x, y], x.axis(node.params.integer("concatDim", 0)))


@handles("Split", to="Split", exact=True)
def split(node: Node, emit: AscendEmitter) -> Results:
    """SplitOperation into 2 or 3 parts along splitDim; equal parts if splitSizes is empty."""
    (x,) = node.take(1)
    axis = x.axis(node.params.integer("splitDim", 0))
    count = node.params.integer("splitNum", 2)
    sizes = node.params.integers("splitSizes")
    if count not in (2, 3) or (sizes and len(sizes) != count):
        refuse("ERROR_INVALID_PARAM", f"splitNum {count} with splitSizes {sizes}; 2 or 3 parts expected")
    if not sizes:
        total = (x.shape or ())[axis]
        if total is None:
            raise Unsupported(f"needs the size of axis {axis} of {x}")
        if total % count:
            refuse("ERROR_INVALID_TENSOR_DIM", f"axis {axis} of {x} does not split into {count} equal parts")
        sizes = [total // count] * count
    return emit.split(x, axis, sizes)


@handles("Slice", to="Slice", exact=True)
def slice_(node: Node, emit: AscendEmitter) -> Tensor:
    """SliceOperation: `size` elements from `offsets` on, per axis; size -1 is the rest, negative offsets count back."""
    (x,) = node.take(1)
    dims = x.shape or ()
    offsets, sizes = node.params.integers("offsets"), node.params.integers("size")
    if not len(offsets) == len(sizes) == x.rank:
        refuse("ERROR_INVALID_PARAM", f"offsets {offsets} and size {sizes} are not of the rank of {x}")
    starts, ends, axes = [], [], []
    for axis, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        if offset == 0 and size in (-1, dims[axis]):
            continue
        dim = dims[axis]
        if dim is None:
            raise Unsupported(f"needs the size of axis {axis} of {x}")
        start = offset + dim if offset < 0 else offset
        starts.append(start)
        ends.append(dim if size == -1 else start + size)
        axes.append(axis)
    return emit.slice(x, starts, ends, axes) if axes else x


@handles("Repeat", to="Tile", exact=True)
def repeat(node: Node, emit: AscendEmitter) -> Tensor:
    """RepeatOperation, equal to torch's repeat: `multiples` may have more axes than x."""
    (x,) = node.take(1)
    multiples = node.params.integers("multiples")
    if len(multiples) < x.rank or any(m <= 0 for m in multiples):
        refuse("ERROR_INVALID_PARAM", f"multiples {multiples} do not fit {x}")
    dims = (1,) * (len(multiples) - x.rank) + (x.shape or ())
    if len(dims) > x.rank:
        x = emit.op("Unsqueeze", x, emit.constant([*range(len(dims) - x.rank)]), shape=dims)
    shape = tuple(None if dim is None else dim * m for dim, m in zip(dims, multiples, strict=True))
    return emit.cast(emit.op("Tile", emit.wide(x), emit.constant(multiples), shape=shape), x.dtype)


@handles("AsStrided", to="Reshape, Gather", notes="up to 2^25 elements in a graph", exact=True)
def as_strided(node: Node, emit: AscendEmitter) -> Tensor:
    """AsStridedOperation of a contiguous tensor: element i is at offset + sum(i * stride)."""
    (x,) = node.take(1)
    size, stride, offset = (node.params.integers(key) for key in ("size", "stride", "offset"))
    if len(size) != len(stride) or len(offset) > 1 or not size or min(size) <= 0:
        refuse("ERROR_INVALID_PARAM", f"size {size}, stride {stride} and offset {offset} do not fit together")
    try:
        return strided_view(emit, x, size, stride, offset[0] if offset else 0)
    except Unsupported as reason:
        refuse("ERROR_INVALID_PARAM", str(reason))


@handles("SetValue", to="Slice, Concat", writes=(0,), exact=True)
def set_value(node: Node, emit: AscendEmitter) -> Tensor:
    """SetValueOperation: writes src into dst[starts:ends] in place; it has no output of its own."""
    dst, src = node.take(2)
    starts, ends, strides = (node.params.integers(key) for key in ("starts", "ends", "strides"))
    if len(starts) != len(ends) or len(starts) > dst.rank:
        refuse("ERROR_INVALID_PARAM", f"starts {starts} and ends {ends} do not fit {dst}")
    if any(stride != 1 for stride in strides):
        refuse("ERROR_INVALID_PARAM", f"strides {strides} are not all 1")
    if src.dtype != dst.dtype:
        raise Unsupported(f"{src} is written into {dst}, another element type")
    box = [
        (start, end, axis)
        for axis, (start, end) in enumerate(zip(starts, ends, strict=True))
        if (start, end) != (0, dst.dims[axis])
    ]
    region = list(dst.dims)
    for start, end, axis in box:
        if not 0 <= start < end <= dst.dims[axis]:
            refuse("ERROR_INVALID_PARAM", f"{start}:{end} is not within axis {axis} of {dst}")
        region[axis] = end - start
    return _with_box(emit, dst, emit.reshape(src, region), box)


def _with_box(emit: AscendEmitter, dst: Tensor, src: Tensor, box: list[tuple[int, int, int]]) -> Tensor:
    """Put src into a box of dst: along the first axis, join the parts before, with and after the box."""
    if not box:
        return src
    (start, end, axis), *rest = box
    parts = []
    if start:
        parts.append(emit.slice(dst, [0], [start], [axis]))
    inner = emit.slice(dst, [start], [end], [axis]) if rest else dst
    parts.append(_with_box(emit, inner, src, rest))
    if end < dst.dims[axis]:
        parts.append(emit.slice(dst, [end], [dst.dims[axis]], [axis]))
    return emit.concat(parts, axis)
