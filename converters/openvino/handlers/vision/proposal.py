"""Proposal: the boxes of a detector's first stage, of anchors that are moved, sorted, and suppressed by each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.handlers.vision.box_selection import Candidates, nothing, suppressed_in_rounds
from onnx_sparse.converters.openvino.handlers.vision.boxes import Box, overlap
from onnx_sparse.converters.tensor import Array, Tensor
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter

_F32, _I64 = TensorProto.FLOAT, TensorProto.INT64


@dataclass(frozen=True)
class _Image:
    """The size of the images, and what their smallest boxes are scaled by: scalars.

    With the framework `tensorflow`, which has rows for columns, the two axes are swapped.
    """

    height: Tensor
    width: Tensor
    vertical: Tensor
    horizontal: Tensor


@handles("Proposal-1", "Proposal-4", to="TopK, Loop", notes="Of equal scores, the first in the image comes first.")
def proposal(node: Node, emit: InferringEmitter) -> tuple[Tensor, ...]:
    """Proposal-1 and Proposal-4: (chances [batch, 2 * anchors, height, width], moves [batch, 4 * ..], image size).

    Returns for each image `post_nms_topn` rows of its number and a box, and their chances. Behind the last box are
    zeros, of which the first has the number -1.
    """
    is_swapped = node.choice("framework", ("", "tensorflow"), "") == "tensorflow"
    offset = 0.0 if is_swapped else 1.0
    info = [emit.op("Gather", emit.cast(node[2], _F32), emit.constant(k)) for k in (0, 1, 2, -1)]
    height, width = (info[1], info[0]) if is_swapped else (info[0], info[1])
    image = _Image(height, width, info[2], info[3])
    boxes, scores = _moved(node, emit, image, offset, is_swapped=is_swapped)
    before, most = (node.integer(key) for key in ("pre_nms_topn", "post_nms_topn"))
    if before < 1 or most < 1:
        raise Unsupported(f"pre_nms_topn = {before}, post_nms_topn = {most}")
    count = emit.op("Min", emit.shape_of(scores, 1, 2), emit.constant([before]))
    values, places = emit.node("TopK", [scores, count], [_F32, _I64])
    best = emit.op("GatherND", boxes, emit.op("Unsqueeze", places, emit.constant([2])), batch_dims=1)
    limit = emit.constant(node.number("nms_thresh"), _F32)

    def rule(
        inner: InferringEmitter, box: Tensor, others: Tensor, states: Sequence[Tensor]
    ) -> tuple[Tensor, Sequence[Tensor]]:
        common = overlap(inner, Box.of(inner, others), Box.of(inner, box), offset, touching=True)
        return inner.op("Less", limit, common), []

    kept = suppressed_in_rounds(emit, Candidates(places, values, places, best), emit.constant(most), [], rule)
    return _rows(node, emit, image, kept, best, most)


def _anchors(node: Node, offset: float, *, is_swapped: bool) -> Array:
    """The boxes around the first cell, [anchors, 4]; all scales of a ratio come together."""
    base = np.float32(node.integer("base_size"))
    ratios, scales = (np.array(node.numbers(key, []), np.float32) for key in ("ratio", "scale"))
    if not ratios.size or not scales.size or (ratios <= 0).any():
        raise Unsupported(f"ratios {ratios.tolist()} and scales {scales.tolist()}")
    widths = np.sqrt(base * base / ratios)
    if not is_swapped:
        widths = np.floor(widths.astype(np.float64) + 0.5).astype(np.float32)
    heights = widths * ratios
    if not is_swapped:
        heights = np.floor(heights.astype(np.float64) + 0.5).astype(np.float32)
    half, less = np.float32(0.5), np.float32(offset)
    center = half * (base - less)
    sizes = [half * (np.outer(t, scales).ravel() - less) for t in (widths, heights)]
    corners = [center - sizes[0], center - sizes[1], center + sizes[0], center + sizes[1]]
    made = np.stack(corners, 1)
    return made - base * half if is_swapped else made


def _moved(
    node: Node, emit: InferringEmitter, image: _Image, offset: float, *, is_swapped: bool
) -> tuple[Tensor, Tensor]:
    """The boxes [batch, cells * anchors, 4] and their chances, which are 0 for small boxes."""
    chances, moves = (emit.cast(node[k], _F32) for k in (0, 1))
    anchors = _anchors(node, offset, is_swapped=is_swapped)
    batch, cells = emit.shape_of(chances, 0, 1), emit.shape_of(chances, 2, 4)
    split = emit.op("Reshape", moves, emit.op("Concat", batch, emit.constant([len(anchors), 4]), cells, axis=0),
                    allowzero=1)  # fmt: skip
    dx, dy, dw, dh = (
        emit.op("Transpose", emit.op("Gather", split, emit.constant(k), axis=2), perm=[0, 2, 3, 1]) for k in range(4)
    )
    grid = []  # [height, 1, 1] and [width, 1]
    for k in (0, 1):
        end = emit.op("Squeeze", emit.shape_of(chances, 2 + k, 3 + k), emit.constant([0]))
        steps = emit.op("Range", emit.constant(0), end, emit.constant(1))
        starts = emit.cast(emit.op("Mul", steps, emit.constant(node.integer("feat_stride"))), _F32)
        grid.append(emit.op("Unsqueeze", starts, emit.constant([1, 2] if k == 0 else [1])))
    along, down = grid if is_swapped else grid[::-1]
    lows = [emit.op("Add", place, emit.constant(anchors[:, k])) for place, k in ((along, 0), (down, 1))]
    highs = [emit.op("Add", place, emit.constant(anchors[:, k + 2])) for place, k in ((along, 0), (down, 1))]
    ends = [image.width, image.height]
    if is_swapped:
        lows, highs = ([_clipped(emit, t, end) for t, end in zip(pair, ends, strict=True)] for pair in (lows, highs))
    scales = [emit.constant(node.number(key, 1), _F32) for key in ("box_coordinate_scale", "box_size_scale")]
    half = emit.constant(0.5, _F32)
    corners: list[list[Tensor]] = [[], []]
    for low, high, shift, growth, end in zip(lows, highs, (dx, dy), (dw, dh), ends, strict=True):
        size = _longer(emit, emit.op("Sub", high, low), offset)
        center = emit.op("Add", low, emit.op("Mul", half, size))
        center = emit.op("Add", emit.op("Mul", emit.op("Div", shift, scales[0]), size), center)
        reach = emit.op("Mul", half, emit.op("Mul", emit.op("Exp", emit.op("Div", growth, scales[1])), size))
        for made, op in zip(corners, ("Sub", "Add"), strict=True):
            corner = emit.op(op, center, reach)
            if node.flag("clip_before_nms", True):
                corner = _clipped(emit, corner, _longer(emit, end, -offset))
            made.append(corner)
    least = emit.constant(node.integer("min_size"), _F32)
    fits = [
        emit.op("LessOrEqual", emit.op("Mul", least, scale), _longer(emit, emit.op("Sub", high, low), offset))
        for low, high, scale in zip(*corners, (image.horizontal, image.vertical), strict=True)
    ]
    first = emit.op("Slice", chances, emit.constant([len(anchors)]), emit.constant([2**62]), emit.constant([1]))
    score = emit.op("Transpose", first, perm=[0, 2, 3, 1])
    score = emit.op("Where", emit.op("And", *fits), score, emit.like(0, score))
    numbers = [emit.op("Unsqueeze", t, emit.constant([4])) for t in (*corners[0], *corners[1])]
    count = emit.op("Mul", emit.op("ReduceProd", cells), emit.constant([len(anchors)]))
    boxes = emit.op("Reshape", emit.op("Concat", *numbers, axis=4),
                    emit.op("Concat", batch, count, emit.constant([4]), axis=0), allowzero=1)  # fmt: skip
    return boxes, emit.op("Reshape", score, emit.op("Concat", batch, count, axis=0), allowzero=1)


def _rows(
    node: Node, emit: InferringEmitter, image: _Image, kept: Tensor, boxes: Tensor, most: int
) -> tuple[Tensor, Tensor]:
    """The rows of what is kept, and its chances."""
    count = emit.op("Min", emit.shape_of(kept, 1, 2), emit.constant([most]))
    values, places = emit.node("TopK", [kept, count], [_F32, _I64])
    found = emit.op("Greater", values, nothing(emit))
    chosen = emit.op("GatherND", boxes, emit.op("Unsqueeze", places, emit.constant([2])), batch_dims=1)
    ends = [image.width, image.height] * 2
    numbers = [emit.op("Gather", chosen, emit.constant(k), axis=2) for k in range(4)]
    if node.flag("clip_after_nms", False):
        numbers = [_clipped(emit, t, end) for t, end in zip(numbers, ends, strict=True)]
    if node.flag("normalize", False):
        numbers = [emit.op("Div", t, end) for t, end in zip(numbers, ends, strict=True)]
    missing = emit.op("Sub", emit.constant([most]), count)
    pads = emit.op("Concat", emit.constant([0, 0, 0]), missing, axis=0)
    zero = emit.constant(0, _F32)
    full = [emit.op("Pad", emit.op("Where", found, t, zero), pads) for t in (*numbers, values)]
    counts = emit.op("ReduceSum", emit.int64(found), emit.constant([1]))
    ranks = emit.op("Range", emit.constant(0), emit.constant(most), emit.constant(1))
    batch = emit.op("Squeeze", emit.shape_of(kept, 0, 1), emit.constant([0]))
    images = emit.op("Unsqueeze", emit.op("Range", emit.constant(0), batch, emit.constant(1)), emit.constant([1]))
    rest = emit.op("Where", emit.op("Equal", ranks, counts), emit.constant(-1), emit.constant(0))
    label = emit.cast(emit.op("Where", emit.op("Less", ranks, counts), images, rest), _F32)
    columns = [emit.op("Reshape", t, emit.constant([-1, 1])) for t in (label, *full[:4])]
    return emit.op("Concat", *columns, axis=1), emit.op("Reshape", full[4], emit.constant([-1]))


def _longer(emit: InferringEmitter, size: Tensor, offset: float) -> Tensor:
    return emit.op("Add", size, emit.like(offset, size)) if offset else size


def _clipped(emit: InferringEmitter, value: Tensor, end: Tensor) -> Tensor:
    return emit.op("Max", emit.like(0, value), emit.op("Min", value, end))
