"""The boxes of a detector's first stage whose anchors are an input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.handlers.vision.box_selection import Candidates, nothing, suppressed_in_rounds
from onnx_sparse.converters.openvino.handlers.vision.boxes import Box, overlap
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter

_F32, _I64 = TensorProto.FLOAT, TensorProto.INT64
#: A box grows by no more than this, as a logarithm.
_MOST_GROWTH = math.log(1000 / 16)
_NOTES = "Of equal scores, the first in the image comes first."


@dataclass(frozen=True)
class _Image:
    """The sizes of images and those of their smallest boxes, each [images, 1, 1, 1]."""

    height: Tensor
    width: Tensor
    least_height: Tensor
    least_width: Tensor


@dataclass(frozen=True)
class _Kept:
    """The best boxes of each image: [images, boxes, 4], and their scores [images, boxes], -inf for those not kept."""

    boxes: Tensor
    scores: Tensor


@handles("GenerateProposals-9", to="TopK, Loop", notes=f"nms_eta must be 1. {_NOTES}")
def generate_proposals(node: Node, emit: InferringEmitter) -> tuple[Tensor, ...]:
    """GenerateProposals-9: (image sizes [images, 3 or 4], anchors [height, width, anchors, 4], moves, scores).

    Returns the boxes of all images, one after the other, their scores, and how many each image has.
    """
    if node.number("nms_eta", 1) != 1:
        raise Unsupported(f"nms_eta = {node.number('nms_eta')}")
    info = emit.cast(node.ranked(0, 2, 2), _F32)
    height, width, high, wide = (
        emit.op("Reshape", emit.op("Gather", info, emit.constant(k), axis=1), emit.constant([-1, 1, 1, 1]))
        for k in (0, 1, 2, -1)
    )
    least = emit.constant(node.number("min_size"), _F32)
    image = _Image(height, width, *(emit.op("Mul", least, scale) for scale in (high, wide)))
    anchors = emit.cast(node.ranked(1, 4, 4), _F32)
    moves, scores = (emit.cast(node.ranked(k, 4, 4), _F32) for k in (2, 3))
    kept = _kept(node, emit, image, anchors, moves, scores, 0.0 if node.flag("normalized", True) else 1.0)
    is_kept = emit.op("Greater", kept.scores, nothing(emit))
    at = emit.op("Transpose", emit.op("NonZero", is_kept), perm=[1, 0])
    counts = emit.op("ReduceSum", emit.int64(is_kept), emit.constant([1]), keepdims=0)
    boxes, found = (emit.op("GatherND", t, at) for t in (kept.boxes, kept.scores))
    return emit.cast(boxes, node[0].dtype), emit.cast(found, node[0].dtype), counts


@handles("ExperimentalDetectronGenerateProposalsSingleImage-6", to="TopK, Loop", notes=_NOTES)
def generate_proposals_of_one_image(node: Node, emit: InferringEmitter) -> tuple[Tensor, ...]:
    """ExperimentalDetectronGenerateProposalsSingleImage-6: (image size [3], anchors [.., 4], moves, scores).

    Returns `post_nms_count` boxes and scores, which are 0 behind the last box. Boxes that are too small have score 0.
    """
    info = emit.cast(node.ranked(0, 1, 1), _F32)
    height, width = (emit.op("Gather", info, emit.constant([[[[k]]]]), axis=0) for k in (0, 1))
    least = emit.constant(node.number("min_size"), _F32)
    moves, scores = (emit.op("Unsqueeze", emit.cast(node.ranked(k, 3, 3), _F32), emit.constant([0])) for k in (2, 3))
    space = emit.op("Concat", emit.shape_of(scores, 2, 4), emit.shape_of(scores, 1, 2), emit.constant([4]), axis=0)
    anchors = emit.op("Reshape", emit.cast(node.ranked(1, 2, 2), _F32), space, allowzero=1)
    kept = _kept(node, emit, _Image(height, width, least, least), anchors, moves, scores, 1.0, is_single=True)
    most = node.integer("post_nms_count")
    count = emit.op("Min", emit.shape_of(kept.scores, 1, 2), emit.constant([most]))
    values, places = emit.node("TopK", [kept.scores, count], [_F32, _I64])
    is_kept = emit.op("Greater", values, nothing(emit))
    chosen = emit.op("GatherND", kept.boxes, emit.op("Unsqueeze", places, emit.constant([2])), batch_dims=1)
    zero, first = emit.constant(0, _F32), emit.constant([0])
    boxes = emit.op("Where", emit.op("Unsqueeze", is_kept, emit.constant([2])), chosen, zero)
    found = emit.op("Where", is_kept, values, zero)
    missing = emit.op("Sub", emit.constant([most]), count)
    made = []
    for tensor, after in ((boxes, [0]), (found, [])):
        none = emit.constant([0] * (1 + len(after)))
        pads = [none, missing, *([emit.constant(after)] if after else [])]
        whole = emit.op("Squeeze", tensor, first)
        made.append(emit.op("Pad", whole, emit.op("Concat", *pads, axis=0)))
    return tuple(emit.cast(t, node[0].dtype) for t in made)


def _kept(
    node: Node,
    emit: InferringEmitter,
    image: _Image,
    anchors: Tensor,
    moves: Tensor,
    scores: Tensor,
    offset: float,
    *,
    is_single: bool = False,
) -> _Kept:
    """What is kept of the best boxes of each image: the first ones suppress those that overlap them.

    Args:
        node: The node.
        emit: Receives the nodes.
        image: The images.
        anchors: [height, width, anchors, 4].
        moves: [images, anchors * 4, height, width].
        scores: [images, anchors, height, width].
        offset: What is added to the sizes of boxes.
        is_single: Whether it is the operator on one image: it adds nothing to the sizes of boxes that are compared, and
            those that are too small have score 0. Else these are dropped, but after the best boxes have been found.
    """
    before, most = (node.integer(key) for key in ("pre_nms_count", "post_nms_count"))
    if before < 1 or most < 1:
        raise Unsupported(f"pre_nms_count = {before}, post_nms_count = {most}")
    boxes, fits = _moved(emit, image, anchors, moves, offset)
    batch = emit.shape_of(scores, 0, 1)
    count = emit.op("ReduceProd", emit.shape_of(scores, 1, 4))
    flat = emit.op("Concat", batch, count, axis=0)
    by_cell = emit.op("Transpose", scores, perm=[0, 2, 3, 1])
    chances, are_large = (emit.op("Reshape", t, flat, allowzero=1) for t in (by_cell, fits))
    every = emit.op("Reshape", boxes, emit.op("Concat", flat, emit.constant([4]), axis=0), allowzero=1)
    if is_single:
        chances = emit.op("Where", are_large, chances, emit.constant(0, _F32))
    values, places = emit.node("TopK", [chances, emit.op("Min", count, emit.constant([before]))], [_F32, _I64])
    at = emit.op("Unsqueeze", places, emit.constant([2]))
    best, is_large = (emit.op("GatherND", t, at, batch_dims=1) for t in (every, are_large))
    if not is_single:
        values = emit.op("Where", is_large, values, nothing(emit))
    limit = emit.constant(node.number("nms_threshold"), _F32)

    def rule(
        inner: InferringEmitter, box: Tensor, others: Tensor, states: Sequence[Tensor]
    ) -> tuple[Tensor, Sequence[Tensor]]:
        more = 0.0 if is_single else offset
        common = overlap(inner, Box.of(inner, others), Box.of(inner, box), more, touching=True)
        return inner.op("Less", limit, common), []

    found = Candidates(places, values, places, best)
    return _Kept(best, suppressed_in_rounds(emit, found, emit.constant(most), [], rule))


def _moved(
    emit: InferringEmitter, image: _Image, anchors: Tensor, moves: Tensor, offset: float
) -> tuple[Tensor, Tensor]:
    """The boxes [images, height, width, anchors, 4], and whether they are large enough."""
    split = emit.op("Concat", emit.shape_of(moves, 0, 1), emit.shape_of(anchors, 2, 4), emit.shape_of(moves, 2, 4),
                    axis=0)  # fmt: skip
    by_cell = emit.op("Transpose", emit.op("Reshape", moves, split, allowzero=1), perm=[0, 3, 4, 1, 2])
    shifts = [emit.op("Gather", by_cell, emit.constant(k), axis=4) for k in range(4)]
    corners = [emit.op("Gather", anchors, emit.constant(k), axis=3) for k in range(4)]
    half, zero, more = (emit.constant(number, _F32) for number in (0.5, 0, offset))
    lows, highs, fits = [], [], []
    ends, least = (image.width, image.height), (image.least_width, image.least_height)
    for axis in (0, 1):
        low, high, shift, growth = corners[axis], corners[axis + 2], shifts[axis], shifts[axis + 2]
        size = emit.op("Add", emit.op("Sub", high, low), more)
        center = emit.op("Add", emit.op("Mul", shift, size), emit.op("Add", low, emit.op("Mul", half, size)))
        grown = emit.op("Exp", emit.op("Min", growth, emit.constant(_MOST_GROWTH, _F32)))
        reach = emit.op("Mul", half, emit.op("Mul", grown, size))
        end = emit.op("Sub", ends[axis], more)
        first, last = emit.op("Sub", center, reach), emit.op("Sub", emit.op("Add", center, reach), more)
        low, high = (emit.op("Max", emit.op("Min", t, end), zero) for t in (first, last))
        fits.append(emit.op("LessOrEqual", least[axis], emit.op("Add", emit.op("Sub", high, low), more)))
        lows.append(low)
        highs.append(high)
    numbers = [emit.op("Unsqueeze", t, emit.constant([4])) for t in (*lows, *highs)]
    return emit.op("Concat", *numbers, axis=4), emit.op("And", *fits)
