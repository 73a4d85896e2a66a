"""Decoders: CTC, which drops repetitions and blanks, its loss, and the beams of a search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.openvino.handlers.scanning import scan
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter

_F32 = TensorProto.FLOAT


@handles("CTCGreedyDecoderSeqLen-6", to="ArgMax, CumSum, ScatterElements")
def ctc_greedy_decoder_seq_len(node: Node, emit: InferringEmitter) -> tuple[Tensor, ...]:
    """CTCGreedyDecoderSeqLen-6: (scores [batch, time, classes], lengths, blank) to classes and their numbers."""
    blank = node.optional(2)
    if blank is None:
        blank = emit.op("Sub", _size(emit, node[0], 2), emit.constant(1))
    lengths = emit.op("Unsqueeze", emit.int64(node[1]), emit.constant([1]))
    steps = emit.op("Range", emit.constant(0), _size(emit, node[0], 1), emit.constant(1))
    is_step = emit.op("Less", steps, lengths)
    return _decoded(node, emit, node[0], is_step, emit.int64(emit.scalar(blank)), "merge_repeated")


@handles("CTCGreedyDecoder-1", to="ArgMax, CumSum, ScatterElements")
def ctc_greedy_decoder(node: Node, emit: InferringEmitter) -> Tensor:
    """CTCGreedyDecoder-1: (scores [time, batch, classes], a mask that ends each sequence at its first 0)."""
    scores = emit.op("Transpose", node[0], perm=[1, 0, 2])
    mask = emit.op("Transpose", node[1], perm=[1, 0])
    ends = emit.op("CumSum", emit.int64(emit.op("Equal", mask, emit.like(0, mask))), emit.constant(1))
    is_step = emit.op("Equal", ends, emit.constant(0))
    blank = emit.op("Sub", _size(emit, node[0], 2), emit.constant(1))
    classes, _ = _decoded(node, emit, scores, is_step, blank, "ctc_merge_repeated")
    return emit.op("Unsqueeze", emit.cast(classes, node[0].dtype), emit.constant([2, 3]))


def _decoded(
    node: Node, emit: InferringEmitter, scores: Tensor, is_step: Tensor, blank: Tensor, merging: str
) -> tuple[Tensor, Tensor]:
    """The best classes [batch, time], moved together and followed by -1, and their numbers."""
    best = emit.op("ArgMax", scores, axis=2, keepdims=0)
    kept = emit.op("And", is_step, emit.op("Not", emit.op("Equal", best, blank)))
    if node.flag(merging, True):
        shifted = emit.op("Pad", best, emit.constant([0, 1, 0, -1]), emit.constant(-1))
        kept = emit.op("And", kept, emit.op("Not", emit.op("Equal", best, shifted)))
    return _together(emit, best, kept, emit.constant(-1))


def _together(emit: InferringEmitter, elements: Tensor, kept: Tensor, filler: Tensor) -> tuple[Tensor, Tensor]:
    """The elements of each row that are kept, moved together and followed by a filler, and their numbers."""
    counted = emit.int64(kept)
    time = _size(emit, elements, 1)
    place = emit.op("Sub", emit.op("CumSum", counted, emit.constant(1)), emit.constant(1))
    none = emit.op(
        "Pad", emit.op("Expand", filler, emit.shape_of(elements)), emit.constant([0, 0, 0, 1]), emit.like(0, filler)
    )
    # What is not kept goes to a column behind the last one.
    made = emit.op("ScatterElements", none, emit.op("Where", kept, place, time), elements, axis=1)
    first, end = emit.constant([0]), emit.op("Unsqueeze", time, emit.constant([0]))
    columns = emit.op("Slice", made, first, end, emit.constant([1]))
    return columns, emit.op("ReduceSum", counted, emit.constant([1]), keepdims=0)


@handles("GatherTree-1", to="Scan, GatherElements", notes="Parents out of range are an error.")
def gather_tree(node: Node, emit: InferringEmitter) -> Tensor:
    """GatherTree-1: (steps [time, batch, beams], parents [time, batch, beams], lengths [batch], the end's token).

    Each beam is followed from its last step back through its parents; behind the first end there are only ends.
    """
    steps, parents = node[0], emit.int64(node[1])
    end = emit.scalar(emit.cast(node[3], steps.dtype))
    times = emit.op("Range", emit.constant(0), _size(emit, steps, 0), emit.constant(1))
    is_step = emit.op("Less", emit.op("Unsqueeze", times, emit.constant([1])), emit.int64(node[2]))
    beams = emit.op("Range", emit.constant(0), _size(emit, steps, 2), emit.constant(1))
    first = emit.op("Expand", beams, emit.shape_of(steps, 1, 3))
    outside = _size(emit, steps, 2)

    def step(
        inner: InferringEmitter, states: Sequence[Tensor], elements: Sequence[Tensor]
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        (beam,), (token, parent, is_reached) = states, elements
        # A negative index, which would count from the end, becomes one that is refused.
        checked = inner.op("Where", inner.op("Less", beam, inner.constant(0)), outside, beam)
        reached = inner.op("Unsqueeze", is_reached, inner.constant([1]))
        made = inner.op("Where", reached, inner.op("GatherElements", token, checked, axis=1), end)
        return [inner.op("Where", reached, inner.op("GatherElements", parent, checked, axis=1), beam)], [made]

    _, (tokens,) = scan(emit, "beams", [first], [steps, parents, is_step], step, backwards=True)
    is_end = emit.int64(emit.op("Equal", tokens, end))
    ended = emit.op("Greater", emit.op("CumSum", is_end, emit.constant(0), exclusive=1), emit.constant(0))
    return emit.op("Where", ended, end, tokens)


@handles("CTCLoss-4", to="LogSoftmax, Scan")
def ctc_loss(node: Node, emit: InferringEmitter) -> Tensor:
    """CTCLoss-4: (logits [batch, time, classes], their lengths, labels [batch, time], their lengths, blank).

    The logarithm of the probability that a path is decoded to the labels, with its sign changed: the paths' are added
    up step by step, for each place in the labels with blanks between them. A loss that no path has is infinite.
    """
    logits = node[0]
    last = emit.op("Sub", _size(emit, logits, 2), emit.constant(1))
    blank = last if len(node.inputs) < 5 else emit.int64(emit.scalar(node[4]))
    labels, count = _labels(node, emit, emit.int64(node[2]), blank)
    # A label follows a blank, and after the last one there is another blank.
    blanks = emit.op("Expand", blank, emit.shape_of(labels))
    pairs = [emit.op("Unsqueeze", t, emit.constant([2])) for t in (blanks, labels)]
    joined = emit.op("Reshape", emit.op("Concat", *pairs, axis=2), emit.constant([0, -1]))
    path = emit.op("Pad", joined, emit.constant([0, 0, 0, 1]), blank)
    # A negative class, which would count from the end, becomes one that is refused.
    path = emit.op("Where", emit.op("Less", path, emit.constant(0)), _size(emit, logits, 2), path)
    is_blank = emit.op("Equal", path, blank)
    before = emit.op("Pad", emit.op("Slice", path, *(emit.constant([k]) for k in (0, -2, 1))),
                     emit.constant([0, 2, 0, 0]), blank)  # fmt: skip
    merges = node.flag("ctc_merge_repeated", True)
    stays = is_blank if not merges else None
    skips = emit.op("Not", emit.op("Equal", before, blank))
    if merges:
        skips = emit.op("And", skips, emit.op("Not", emit.op("Equal", before, path)))
    floor = emit.constant(-np.inf, _F32)
    times = emit.op("Range", emit.constant(0), _size(emit, logits, 1), emit.constant(1))
    is_step = emit.op("Less", emit.op("Unsqueeze", times, emit.constant([1])), emit.int64(node[1]))
    likely = emit.op("LogSoftmax", emit.op("Transpose", emit.cast(logits, _F32), perm=[1, 0, 2]), axis=2)
    places = emit.op("Range", emit.constant(0), _size(emit, path, 1), emit.constant(1))
    start = emit.op("Where", emit.op("Equal", places, emit.constant(0)), emit.constant(0, _F32), floor)
    start = emit.op("Expand", start, emit.shape_of(path))

    def step(
        inner: InferringEmitter, states: Sequence[Tensor], elements: Sequence[Tensor]
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        (total,), (classes, is_reached) = states, elements
        moved = [inner.op("Pad", total, inner.constant([0, distance, 0, -distance]), floor) for distance in (1, 2)]
        ways = [total if stays is None else inner.op("Where", stays, total, floor), moved[0],
                inner.op("Where", skips, moved[1], floor)]  # fmt: skip
        columns = [inner.op("Unsqueeze", way, inner.constant([2])) for way in ways]
        together = _added(inner, inner.op("Concat", *columns, axis=2), 2)
        more = inner.op("Add", together, inner.op("GatherElements", classes, path, axis=1))
        reached = inner.op("Unsqueeze", is_reached, inner.constant([1]))
        return [inner.op("Where", reached, more, total)], []

    (total,), _ = scan(emit, "paths", [start], [likely, is_step], step, backwards=False)
    # A path ends with the last label or with the blank after it.
    ends = emit.op("Unsqueeze", emit.op("Mul", count, emit.constant(2)), emit.constant([1]))
    label = emit.op("Sub", ends, emit.constant(1))
    is_last = emit.op("Or", emit.op("Equal", places, ends), emit.op("Equal", places, label))
    return emit.op("Neg", _added(emit, emit.op("Where", is_last, total, floor), 1))


def _added(emit: InferringEmitter, logarithms: Tensor, axis: int) -> Tensor:
    """The logarithm of a sum along an axis, given logarithms; -inf is that of 0."""
    along = emit.constant([axis])
    best = emit.op("ReduceMax", logarithms, along)
    # Of zeros only, the differences would not be numbers.
    base = emit.op("Where", emit.op("IsInf", best), emit.like(0, best), best)
    sums = emit.op("ReduceSum", emit.op("Exp", emit.op("Sub", logarithms, base)), along)
    return emit.op("Squeeze", emit.op("Add", emit.op("Log", sums), base), along)


def _labels(node: Node, emit: InferringEmitter, labels: Tensor, blank: Tensor) -> tuple[Tensor, Tensor]:
    """The labels that count, moved together and followed by blanks, and their numbers."""
    places = emit.op("Range", emit.constant(0), _size(emit, labels, 1), emit.constant(1))
    kept = emit.op("Less", places, emit.op("Unsqueeze", emit.int64(node[3]), emit.constant([1])))
    if node.flag("unique", False):
        node.disregard("preprocess_collapse_repeated")
        is_same = emit.op("Equal", *(emit.op("Unsqueeze", labels, emit.constant([k])) for k in (1, 2)))
        is_before = emit.op("Less", places, emit.op("Unsqueeze", places, emit.constant([1])))
        earlier = emit.int64(emit.op("And", is_same, is_before))
        is_first = emit.op("Equal", emit.op("ReduceSum", earlier, emit.constant([2]), keepdims=0), emit.constant(0))
        kept = emit.op("And", kept, is_first)
    elif node.flag("preprocess_collapse_repeated", False):
        shifted = emit.op("Pad", labels, emit.constant([0, 1, 0, -1]))
        is_new = emit.op("Or", emit.op("Equal", places, emit.constant(0)),
                         emit.op("Not", emit.op("Equal", labels, shifted)))  # fmt: skip
        kept = emit.op("And", kept, is_new)
    return _together(emit, labels, kept, blank)


def _size(emit: InferringEmitter, tensor: Tensor, axis: int) -> Tensor:
    return emit.op("Squeeze", emit.shape_of(tensor, axis, axis + 1), emit.constant([0]))
