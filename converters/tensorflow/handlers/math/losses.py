"""tf.raw_ops.SoftmaxCrossEntropyWithLogits, SparseSoftmaxCrossEntropyWithLogits and CTCGreedyDecoder."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter

_FLOATS = ("float16", "bfloat16", "float", "double")


@handles("SoftmaxCrossEntropyWithLogits", to="LogSoftmax", dtypes=_FLOATS)
def softmax_cross_entropy(node: Node, emit: Emitter) -> tuple[Tensor, Tensor]:
    """The loss of each row, and its gradient by the features."""
    features, labels = node["features"], node["labels"]
    shape = emit.op("Max", emit.shape_of(features), emit.shape_of(labels))
    features, labels = (emit.op("Expand", each, shape, shape=(None, None)) for each in (features, labels))
    parts = emit.op("Mul", labels, emit.op("LogSoftmax", features, axis=-1))
    loss = emit.op("Neg", emit.op("ReduceSum", parts, emit.constant([1]), keepdims=0))
    return loss, emit.op("Sub", emit.op("Softmax", features, axis=-1), labels)


@handles("SparseSoftmaxCrossEntropyWithLogits", to="LogSoftmax", dtypes=_FLOATS,
         differs="a label that is not a class makes NaN")  # fmt: skip
def sparse_softmax_cross_entropy(node: Node, emit: Emitter) -> tuple[Tensor, Tensor]:
    """The loss of each row, whose label is the number of a class, and its gradient by the features."""
    features, labels = node["features"], emit.int64(node["labels"])
    classes = emit.op("Range", emit.constant(0), emit.scalar(emit.size(features, 1)), emit.constant(1))
    is_label = emit.op("Equal", emit.op("Unsqueeze", labels, emit.constant([1])), classes)
    zero, one = emit.like(0, features), emit.like(1, features)
    taken = emit.op("Where", is_label, emit.op("LogSoftmax", features, axis=-1), zero)
    loss = emit.op("Neg", emit.op("ReduceSum", taken, emit.constant([1]), keepdims=0))
    in_range = emit.op(
        "And",
        emit.op("LessOrEqual", emit.constant(0), labels),
        emit.op("Less", labels, emit.scalar(emit.size(features, 1))),
    )
    loss = emit.op("Where", in_range, loss, emit.like(float("nan"), features))
    gradient = emit.op("Sub", emit.op("Softmax", features, axis=-1), emit.op("Where", is_label, one, zero))
    return loss, gradient


@handles("CTCGreedyDecoder", to="ArgMax", dtypes=("float", "double"),
         differs="NaN propagates into the scores; in TensorFlow it depends on its class")  # fmt: skip
def ctc_greedy_decoder(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The best class of each step without blanks, as a sparse tensor, and minus the sum of their scores."""
    scores, lengths = node["inputs"], emit.int64(node["sequence_length"])
    zero, one, first = emit.constant(0), emit.constant(1), emit.constant([0])
    steps, batch, classes = (emit.size(scores, k) for k in range(3))
    blank = emit.constant(int(node.attributes["blank_index"]))
    if int(node.attributes["blank_index"]) < 0:
        blank = emit.op("Add", blank, emit.scalar(classes))
    by_batch = emit.op("Transpose", scores, perm=[1, 0, 2])
    best = emit.op("ArgMax", by_batch, axis=2, keepdims=0)
    time = emit.op("Range", zero, emit.scalar(steps), one)
    is_run = emit.op("Less", time, emit.op("Unsqueeze", lengths, emit.constant([1])))
    highest = emit.op("ReduceMax", by_batch, emit.constant([2]), keepdims=0)
    highest = emit.op("Where", is_run, highest, emit.like(0, highest))
    score = emit.op("Neg", emit.op("ReduceSum", highest, emit.constant([1]), keepdims=1))
    kept = emit.op("And", is_run, emit.op("Not", emit.op("Equal", best, blank)))
    if node.attributes["merge_repeated"]:
        none = emit.op("Expand", emit.constant([[-1]]), emit.op("Concat", batch, emit.constant([1]), axis=0))
        before = emit.op("Concat", none, emit.op("Slice", best, first, emit.constant([-1]), emit.constant([1])), axis=1)
        kept = emit.op("And", kept, emit.op("Not", emit.op("Equal", best, before)))
    numbers = emit.cast(kept, TensorProto.INT64)
    places = emit.op("CumSum", numbers, emit.constant(1), exclusive=1, shape=best.shape)
    found = emit.op("Transpose", emit.op("NonZero", kept), perm=[1, 0], shape=(None, 2))
    row = emit.op("Gather", found, first, axis=1)
    column = emit.op("Unsqueeze", emit.op("GatherND", places, found), emit.constant([1]))
    counts = emit.op("ReduceSum", numbers, emit.constant([1]), keepdims=0)
    longest = emit.op("ReduceMax", emit.op("Concat", first, counts, axis=0), first, keepdims=1)
    return (
        emit.op("Concat", row, column, axis=1),
        emit.op("GatherND", best, found),
        emit.op("Concat", batch, longest, axis=0),
        emit.cast(score, scores.dtype),
    )
