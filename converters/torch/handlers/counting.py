"""Counts of elements, and bincount and one_hot: counts, sums of weights, or places by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles
from onnx_sparse.converters.torch.handlers.segment_ids import never_negative

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.sym_numel.default", to="Size")
def number_of_elements(node: Node, emit: TorchEmitter) -> Tensor:
    """How many elements a tensor has."""
    return emit.op("Size", node.tensor("self"), shape=())


@handles("aten.one_hot.default", to="OneHot", notes="The number of classes is given.")
def one_hot(node: Node, emit: TorchEmitter) -> Tensor:
    """1 at the place of each id, and 0 elsewhere; an id that is no class is an error."""
    ids, classes = emit.int64(node.tensor("self")), node.integer("num_classes")
    if classes < 1:
        raise Unsupported("the number of classes is that of the largest id; give num_classes")
    if ids.rank == 0:  # which OneHot does not take
        return emit.op(
            "Reshape",
            _one_hot(emit, emit.op("Reshape", ids, emit.constant([1]), shape=(1,)), classes),
            emit.constant([classes]),
            shape=(classes,),
        )
    return _one_hot(emit, ids, classes)


def _one_hot(emit: TorchEmitter, ids: Tensor, classes: int) -> Tensor:
    places = emit.constant(list(range(classes)))
    checked = emit.op("Gather", places, never_negative(emit, ids, emit.constant([classes])), axis=0, shape=ids.shape)
    shape = None if ids.shape is None else (*ids.shape, classes)
    return emit.op("OneHot", checked, emit.constant(classes), emit.constant([0, 1]), axis=-1, shape=shape)


@handles(
    "aten.bincount.default",
    to="UnsortedSegmentSum",
    notes="Sums of no weights have the type that other sums have; in torch they are int64.",
)
def bincount(node: Node, emit: TorchEmitter) -> Tensor:
    """Counts by id, as many as the largest id demands and at least `minlength`."""
    ids, weights = emit.int64(node.tensor("self")), node.optional("weights")
    least = emit.vector(node.number("minlength"))
    largest = emit.op(
        "ReduceMax", emit.op("Concat", emit.constant([-1]), ids, axis=0, shape=(None,)), keepdims=1, shape=(1,)
    )
    size = emit.op("Max", emit.op("Add", largest, emit.constant([1]), shape=(1,)), least, shape=(1,))
    if weights is None:
        data = emit.full(1, TensorProto.INT64, emit.shape_of(ids))
    else:
        data = weights if weights.dtype == TensorProto.FLOAT else emit.cast(weights, TensorProto.DOUBLE)
    inputs = {"data": data, "segment_ids": never_negative(emit, ids, size), "num_segments": emit.scalar(size)}
    (counts,) = emit.domain_op("UnsortedSegmentSum", inputs)
    return counts
