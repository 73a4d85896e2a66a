"""DeformableConvolution: a convolution whose windows reach for any points of the image."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.handlers.windows import window
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter

_F32 = TensorProto.FLOAT


@handles("DeformableConvolution-1", "DeformableConvolution-8", to="GatherElements, MatMul")
def deformable_convolution(node: Node, emit: Emitter) -> Tensor:
    """DeformableConvolution: (images, offsets [batch, groups * points * 2, rows, columns], kernel, mask).

    ONNX's DeformConv needs a newer operator set than ONNX Runtime had kernels for; the points are gathered instead.
    """
    images, offsets, kernel = (emit.cast(node[k], _F32) for k in range(3))
    groups, parts = node.integer("group", 1), node.integer("deformable_group", 1)
    if groups < 1 or parts < 1:
        raise Unsupported(f"{groups} groups, {parts} deformable groups")
    node.ranked(2, 4, 4)
    _, _, *size = kernel.dims
    found = window(node, size)
    if "pads" not in found:
        raise Unsupported("auto_pad with sizes that are not known")
    points = size[0] * size[1]
    batch, height, width = (emit.shape_of(images, k, k + 1) for k in (0, 2, 3))
    space = emit.shape_of(offsets, 2, 4)  # of the result
    count = emit.op("ReduceProd", space)
    shape = emit.op("Concat", batch, emit.constant([parts, points, 2]), space, axis=0)
    moves = emit.op("Reshape", offsets, shape, allowzero=1)
    places = []
    for axis in (0, 1):
        stride, dilation = found["strides"][axis], found["dilations"][axis]
        end = emit.op("Squeeze", emit.shape_of(offsets, 2 + axis, 3 + axis), emit.constant([0]))
        starts = emit.cast(emit.op("Range", emit.constant(0), end, emit.constant(1)), _F32)
        starts = emit.op("Sub", emit.op("Mul", starts, emit.like(stride, starts)),
                         emit.like(found["pads"][axis], starts))  # fmt: skip
        if axis == 0:
            starts = emit.op("Unsqueeze", starts, emit.constant([1]))
        within = np.indices(size)[axis].reshape(-1, 1, 1) * dilation
        fixed = emit.op("Add", emit.constant(within.astype(np.float32)), starts)
        places.append(emit.op("Add", emit.op("Gather", moves, emit.constant(axis), axis=3), fixed))
    is_padded = node.flag("bilinear_interpolation_pad", False)
    sampled = _sampled(emit, images, places, (height, width), parts, count, is_padded=is_padded)
    if len(node.inputs) > 3:
        mask = emit.op("Concat", batch, emit.constant([parts, 1, points]), count, axis=0)
        sampled = emit.op("Mul", sampled, emit.op("Reshape", emit.cast(node[3], _F32), mask, allowzero=1))
    rows = kernel.dims[0] // groups
    inner = emit.constant([groups, kernel.dims[1] * points])
    columns = emit.op("Reshape", sampled, emit.op("Concat", batch, inner, count, axis=0), allowzero=1)
    weights = emit.op("Reshape", kernel, emit.constant([1, groups, rows, kernel.dims[1] * points]))
    result = emit.op("Concat", batch, emit.constant([rows * groups]), space, axis=0)
    return emit.op("Reshape", emit.op("MatMul", weights, columns), result, allowzero=1)


def _sampled(
    emit: Emitter,
    images: Tensor,
    places: list[Tensor],
    sizes: tuple[Tensor, Tensor],
    parts: int,
    count: Tensor,
    *,
    is_padded: bool,
) -> Tensor:
    """Values between pixels, [batch, parts, channels of a part, points, count].

    Args:
        emit: Receives the nodes.
        images: [batch, channels, height, width].
        places: The rows and the columns, [batch, parts, points, rows, columns].
        sizes: The height and the width.
        parts: How many parts of the channels have places of their own.
        count: How many places a point has.
        is_padded: Whether zeros are around the image; else what begins beyond it is 0, and its edges are repeated.
    """
    lows, weights, insides = [], [], []
    for place, size in zip(places, sizes, strict=True):
        low = emit.op("Floor", place)
        end = emit.cast(size, _F32)
        first = emit.op("Greater", place, emit.like(-1, place)) if is_padded else emit.op(
            "GreaterOrEqual", place, emit.like(0, place))  # fmt: skip
        insides.append(emit.op("And", first, emit.op("Less", place, end)))
        lows.append(emit.int64(low))
        weights.append(emit.op("Sub", place, low))
    inside = emit.op("And", *insides)
    channels = emit.op("Div", emit.shape_of(images, 1, 2), emit.constant([parts]))
    flat = emit.op("Concat", emit.shape_of(images, 0, 1), emit.constant([parts]), channels,
                   emit.op("Mul", *sizes), axis=0)  # fmt: skip
    pixels = emit.op("Reshape", images, flat, allowzero=1)
    points = emit.shape_of(places[0], 2, 3)
    line = emit.op("Concat", emit.shape_of(places[0], 0, 2), emit.constant([1]), emit.op("Mul", points, count), axis=0)
    every = emit.op("Concat", emit.shape_of(places[0], 0, 2), channels, emit.op("Mul", points, count), axis=0)
    values = []
    for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
        shares, indices, is_there = [], [], inside
        for step, low, part, size in zip(corner, lows, weights, sizes, strict=True):
            at = emit.op("Add", low, emit.constant(step)) if step else low
            nearest = emit.op("Max", emit.op("Min", at, emit.op("Sub", size, emit.constant([1]))), emit.constant([0]))
            if is_padded:
                is_there = emit.op("And", is_there, emit.op("Equal", at, nearest))
            shares.append(part if step else emit.op("Sub", emit.like(1, part), part))
            indices.append(nearest)
        weight = emit.op("Where", is_there, emit.op("Mul", *shares), emit.constant(0, _F32))
        index = emit.op("Add", emit.op("Mul", indices[0], sizes[1]), indices[1])
        at = emit.op("Expand", emit.op("Reshape", index, line, allowzero=1), every)
        picked = emit.op("GatherElements", pixels, at, axis=3)
        values.append(emit.op("Mul", picked, emit.op("Reshape", weight, line, allowzero=1)))
    total = emit.op("Add", emit.op("Add", *values[:2]), emit.op("Add", *values[2:]))
    split = emit.op("Concat", emit.shape_of(places[0], 0, 2), channels, points, count, axis=0)
    return emit.op("Reshape", total, split, allowzero=1)
