"""Text put together: tf.strings.join, format, reduce_join, unsorted_segment_join."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.computed_axes import any_axis
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.coordinates import one_for_each
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.partitions import of_rowids
from onnx_sparse.schemas import OPS
from onnx_sparse.schemas.declaration import dtype_name

_STRING = TensorProto.STRING
_OPSET_20 = "the model has opset 20"


@handles("StringJoin", to="StringConcat", dtypes=("string",), notes=_OPSET_20)
def string_join(node: Node, emit: Emitter) -> Tensor:
    """The inputs, which may be scalars, with the separator between them."""
    joined, *others = node.all("inputs")
    separator = node.attributes.get("separator", b"")
    for other in others:
        joined = concatenated(joined, *([text_constant(separator, emit)] if separator else []), other, emit=emit)
    return joined


@handles(
    "StringFormat",
    to="SummarizeTensor",
    dtypes=tuple(map(dtype_name, OPS["SummarizeTensor"].types["T"])),
    notes=_OPSET_20,
)
def string_format(node: Node, emit: Emitter) -> Tensor:
    """The texts of tensors in the places of a template."""
    given = node.all("inputs")
    template, placeholder = (node.attributes.get(name, b"%s") for name in ("template", "placeholder"))
    if not placeholder:
        raise Unsupported("the placeholder is empty")
    first, *pieces = template.split(placeholder)
    if len(pieces) != len(given):
        raise Unsupported(f"the template has {len(pieces)} placeholders for {len(given)} inputs")
    summarize = emit.constant(node.attributes.get("summarize", 3))
    texts = [text_constant(first, emit)]
    for tensor, piece in zip(given, pieces, strict=True):
        (text,) = emit.domain_op("SummarizeTensor", {"input": tensor, "summarize": summarize})
        texts += [text, text_constant(piece, emit)]
    return concatenated(*texts, emit=emit)


@handles("ReduceJoin", to="RaggedReduceJoin", dtypes=("string",))
@any_axis("reduction_indices", "inputs", may_be_several=True)
def reduce_join(node: Node, emit: Emitter) -> Tensor:
    """Joins along axes; of several, the first varies fastest."""
    words, given = node["inputs"], node["reduction_indices"]
    if words.rank is None or given.value is None:
        raise Unsupported("the rank of the strings, and the axes, must be known")
    axes = [int(axis) % max(words.rank, 1) for axis in given.value.reshape(-1)]
    if not axes:
        node.disregard("separator", "keep_dims")
        return words
    kept = [axis for axis in range(words.rank) if axis not in axes]
    order = [*kept, *reversed(axes)]
    shape = emit.shape_of(words)
    if order != sorted(order):
        words = emit.op("Transpose", words, perm=order)
    count, rows = (
        emit.op("ReduceProd", emit.op("Gather", shape, emit.constant(np.array(some, np.int64))), keepdims=0)
        if some
        else emit.constant(1)
        for some in (axes, kept)
    )
    numbers = emit.op("Range", emit.constant(0), emit.op("Add", rows, emit.constant(1)), emit.constant(1))
    joined = joined_rows(
        emit.op("Reshape", words, emit.constant([-1])),
        emit.op("Mul", numbers, count),
        node.attributes.get("separator", b""),
        emit,
    )
    if node.attributes.get("keep_dims", 0):
        reduced = emit.constant(np.isin(np.arange(node["inputs"].rank), axes))
        shape = emit.op("Where", reduced, emit.constant(1), shape)
    else:
        shape = emit.op("Gather", shape, emit.constant(np.array(kept, np.int64)))
    return emit.op("Reshape", joined, shape, allowzero=1)


@handles("UnsortedSegmentJoin", to="RaggedReduceJoin", dtypes=("string",), notes="ids must not be negative")
def unsorted_segment_join(node: Node, emit: Emitter) -> Tensor:
    """Joins the strings of each id, in their order; TensorFlow drops empty ones at the beginning, with separators."""
    words, ids = node["inputs"], emit.cast(node["segment_ids"], TensorProto.INT64)
    if words.rank != 1 or ids.rank != 1:
        raise Unsupported("strings and ids must be vectors")
    by_id, order = emit.node("TopK", [ids, emit.shape_of(ids)], [TensorProto.INT64] * 2, largest=0, axis=0)
    rows = emit.op("Reshape", emit.cast(node["num_segments"], TensorProto.INT64), emit.constant([1]))
    words, separator = emit.op("Gather", one_for_each(words, ids, emit), order), node.attributes.get("separator", b"")
    partition = of_rowids(by_id, rows, emit)
    if separator:
        has_text = emit.op("Not", is_empty(words, emit))
        counted = emit.op("CumSum", emit.cast(has_text, TensorProto.INT64), emit.constant(0))
        before = emit.op("Concat", emit.constant([0]), counted, axis=0)
        begun = emit.op("Greater", counted, emit.op("Gather", before, emit.op("Gather", partition.splits, by_id)))
        words = emit.op("Compress", words, begun, axis=0)
        partition = of_rowids(emit.op("Compress", by_id, begun, axis=0), rows, emit)
    return joined_rows(words, partition.splits, separator, emit)


def joined_rows(values: Tensor, splits: Tensor, separator: bytes, emit: Emitter) -> Tensor:
    """The strings of each row as one, with the separator between them."""
    inputs = {"values": values, "row_splits": splits, "separator": text_constant(separator, emit)}
    return emit.domain_op("RaggedReduceJoin", inputs)[0]


def concatenated(first: Tensor, *others: Tensor, emit: Emitter) -> Tensor:
    """Strings one after another; shapes are broadcast."""
    for other in others:
        (first,) = emit.node("StringConcat", [first, other], [_STRING])
    return first


def text_constant(text: bytes, emit: Emitter) -> Tensor:
    """A scalar of text."""
    return emit.constant(np.array(text, object), _STRING)


def is_empty(words: Tensor, emit: Emitter) -> Tensor:
    """Which strings have no bytes."""
    return emit.node("Equal", [words, text_constant(b"", emit)], [TensorProto.BOOL])[0]
