"""Decoders of CTC: the classes of each step without repetitions and blanks."""

from __future__ import annotations

from onnx_sparse.converters.openvino.emitter import Emitter
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor


@handles("CTCGreedyDecoderSeqLen-6", to="ArgMax, CumSum, ScatterElements")
def ctc_greedy_decoder_seq_len(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """CTCGreedyDecoderSeqLen-6: (scores [batch, time, classes], lengths, blank) to classes and their numbers."""
    blank = node.optional(2)
    if blank is None:
        blank = emit.op("Sub", _size(emit, node[0], 2), emit.constant(1))
    lengths = emit.op("Unsqueeze", emit.int64(node[1]), emit.constant([1]))
    steps = emit.op("Range", emit.constant(0), _size(emit, node[0], 1), emit.constant(1))
    is_step = emit.op("Less", steps, lengths)
    return _decoded(node, emit, node[0], is_step, emit.int64(emit.scalar(blank)), "merge_repeated")


@handles("CTCGreedyDecoder-1", to="ArgMax, CumSum, ScatterElements")
def ctc_greedy_decoder(node: Node, emit: Emitter) -> Tensor:
    """CTCGreedyDecoder-1: (scores [time, batch, classes], a mask that ends each sequence at its first 0)."""
    scores = emit.op("Transpose", node[0], perm=[1, 0, 2])
    mask = emit.op("Transpose", node[1], perm=[1, 0])
    ends = emit.op("CumSum", emit.int64(emit.op("Equal", mask, emit.like(0, mask))), emit.constant(1))
    is_step = emit.op("Equal", ends, emit.constant(0))
    blank = emit.op("Sub", _size(emit, node[0], 2), emit.constant(1))
    classes, _ = _decoded(node, emit, scores, is_step, blank, "ctc_merge_repeated")
    return emit.op("Unsqueeze", emit.cast(classes, node[0].dtype), emit.constant([2, 3]))


def _decoded(
    node: Node, emit: Emitter, scores: Tensor, is_step: Tensor, blank: Tensor, merging: str
) -> tuple[Tensor, Tensor]:
    """The best classes [batch, time], moved together and followed by -1, and their numbers."""
    best = emit.op("ArgMax", scores, axis=2, keepdims=0)
    kept = emit.op("And", is_step, emit.op("Not", emit.op("Equal", best, blank)))
    if node.flag(merging, True):
        shifted = emit.op("Pad", best, emit.constant([0, 1, 0, -1]), emit.constant(-1))
        kept = emit.op("And", kept, emit.op("Not", emit.op("Equal", best, shifted)))
    counted = emit.int64(kept)
    time = _size(emit, scores, 1)
    place = emit.op("Sub", emit.op("CumSum", counted, emit.constant(1)), emit.constant(1))
    none = emit.op("Pad", emit.op("Expand", emit.constant(-1), emit.shape_of(best)), emit.constant([0, 0, 0, 1]))
    # What is not kept goes to a column behind the last one.
    made = emit.op("ScatterElements", none, emit.op("Where", kept, place, time), best, axis=1)
    first, end = emit.constant([0]), emit.op("Unsqueeze", time, emit.constant([0]))
    columns = emit.op("Slice", made, first, end, emit.constant([1]))
    return columns, emit.op("ReduceSum", counted, emit.constant([1]), keepdims=0)


def _size(emit: Emitter, tensor: Tensor, axis: int) -> Tensor:
    return emit.op("Squeeze", emit.shape_of(tensor, axis, axis + 1), emit.constant([0]))
