"""tf.raw_ops.Select and SelectV2, TopKV2, NthElement, InTopK and InTopKV2."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.lowering import selecting


@handles("SelectV2", to="Where", dtypes=("all",))
def select(node: Node, emit: Emitter) -> Tensor:
    """Where; arithmetic with a mask of zeros and ones would give NaN if an element that is not chosen is infinite."""
    return emit.op("Where", node["condition"], node["t"], node["e"])


@handles("Select", to="Where", dtypes=("all",))
def select_rows(node: Node, emit: Emitter) -> Tensor:
    """Where; a vector of conditions selects whole slices."""
    return selecting.select_rows(emit, node["condition"], node["t"], node["e"])


@handles("TopKV2", to="TopK", dtypes=("all numbers",),
         differs="NaN is the largest number; its place in TensorFlow depends on the order")  # fmt: skip
def top_k(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The largest elements and where they are."""
    x, k = node["input"], emit.cast(node["k"], TensorProto.INT64)
    given, ordered = [x, emit.op("Reshape", k, emit.constant([1]))], int(node.attributes.get("sorted", True))
    values, places = emit.ops("TopK", given, [x.dtype, TensorProto.INT64], sorted=ordered)
    return values, emit.cast(places, node.dtypes[1])


@handles("NthElement", to="TopK", dtypes=("all numbers",),
         differs="NaN is the largest number; its place in TensorFlow depends on the order")  # fmt: skip
def nth_element(node: Node, emit: Emitter) -> Tensor:
    """The element of each row that is at a place once the row is sorted."""
    x, place = node["input"], emit.cast(node["n"], TensorProto.INT64)
    count = emit.op("Reshape", emit.op("Add", place, emit.constant(1)), emit.constant([1]))
    given, largest = [x, count], int(node.attributes["reverse"])
    values, _ = emit.ops("TopK", given, [x.dtype, TensorProto.INT64], largest=largest)
    return emit.op("Gather", values, place, axis=x.rank - 1)


@handles("InTopK", "InTopKV2", to="Greater", dtypes=("float",))
def in_top_k(node: Node, emit: Emitter) -> Tensor:
    """Whether fewer than k predictions of a row are above the target's; never in rows that are not finite."""
    predictions, targets = node["predictions"], emit.cast(node["targets"], TensorProto.INT64)
    k = node["k"] if "k" in node.inputs else emit.constant(node.attributes["k"])
    last, zero = emit.constant([1]), emit.constant(0, TensorProto.FLOAT)
    classes = emit.op("Squeeze", emit.size(predictions, 1), emit.constant([0]))
    numbers = emit.op("Range", emit.constant(0), classes, emit.constant(1))
    is_target = emit.op("Equal", emit.op("Unsqueeze", targets, last), numbers)
    target = emit.op("ReduceSum", emit.op("Where", is_target, predictions, zero), last, keepdims=1)
    endless = emit.op("Not", emit.op("Equal", emit.op("Sub", predictions, predictions), zero))
    above = emit.op("Greater", predictions, target)
    found, bad, better = (
        emit.op("ReduceSum", emit.cast(each, TensorProto.INT64), last, keepdims=0)
        for each in (is_target, endless, above)
    )
    # A target that is no class is found nowhere, others once.
    known = emit.op("Greater", found, bad)
    return emit.op("And", known, emit.op("Less", better, emit.cast(k, TensorProto.INT64)))
