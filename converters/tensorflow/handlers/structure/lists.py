"""tf.raw_ops.TensorList*: lists of tensors, which are tensors with a row for each element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Shape, Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import GraphNode, structure
from onnx_sparse.converters.tensorflow.handlers.structure.ragged_rows import VARIANT, concatenated_rows, of_rows
from onnx_sparse.converters.tensorflow.importing.attributes import Attributes
from onnx_sparse.converters.tensorflow.importing.values import (
    ListOfPieces,
    ListOfRows,
    ListOfTensors,
    RaggedRows,
    Resource,
    Value,
)
from onnx_sparse.converters.tensorflow.reading.element_types import onnx_type
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.tensorflow.reading.operators import operators
from onnx_sparse.converters.tensorflow.reading.scopes import Origin, Scope
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter

_LAST = np.iinfo(np.int64).max
#: What reads lists whose elements differ in length.
_LISTS = dict.fromkeys(("TensorListGetItem", "TensorListLength"), ListOfTensors | ListOfPieces)

#: Converts a node: its values, its attributes, and the type of elements.
_Convert = Callable[[list[Any], Attributes, int, InferringEmitter], Value]


def _list(op_type: str, *, ignored: tuple[str, ...] = ()) -> Callable[[_Convert], _Convert]:
    def register(function: _Convert) -> _Convert:
        @structure(op_type, ignored=ignored)
        def convert(node: GraphNode, emit: InferringEmitter) -> Value:
            values, number = _inputs(node), node.attr["element_dtype"].type
            if number == VARIANT:
                return of_rows(node.op, values, emit)
            return function(values, node.attributes, onnx_type(number), emit)

        convert.__doc__ = function.__doc__
        return function

    return register


def _inputs(node: GraphNode) -> list[Any]:
    """The inputs of a node: lists and handles where its operator takes these, and tensors elsewhere."""
    values = node.values()
    kinds: dict[str, Any] = {
        "input_handle": _LISTS.get(node.op, ListOfTensors),
        "flow_in": ListOfTensors,
        "handle": Resource,
    }
    if "element_dtype" in node.attr and node.attr["element_dtype"].type == VARIANT:
        kinds = {"input_handle": ListOfRows, "tensor": RaggedRows, "item": RaggedRows}
    for name, value in zip(operators()[node.op].inputs, values, strict=True):
        kind = kinds.get(name, Tensor)
        if not isinstance(value, kind):
            raise Unsupported(f"its input {name} is not what the operator takes")
    return values


def rows_of(value: Value, emit: InferringEmitter, element_shape: Shape | None = None) -> Tensor:
    """The elements of a list as a tensor.

    Raises:
        Unsupported: It is no list, or has been reserved only and the shape of its elements is not known.
    """
    if not isinstance(value, ListOfTensors):
        raise Unsupported("its input is not a list of tensors")
    if value.rows is not None:
        return value.rows
    shape = known_shape(value.element_shape, element_shape)
    if shape is None or None in shape:
        raise Unsupported("the shape of the elements of its list is not known")
    return zeros(value.size, emit.constant(shape), value.dtype, emit)


def known_shape(one: Shape | None, other: Shape | None) -> Shape | None:
    """What two shapes of one tensor say together."""
    if one is None or other is None or len(one) != len(other):
        return other if one is None else one
    return tuple(b if a is None else a for a, b in zip(one, other, strict=True))


def zeros(count: Tensor, sizes: Tensor, dtype: int, emit: InferringEmitter) -> Tensor:
    """So many zeros, or empty strings, of a shape."""
    nothing = emit.constant(np.array(b"", object)) if dtype == TensorProto.STRING else emit.constant(0, dtype)
    length = emit.op("Reshape", count, emit.constant([1]))
    return emit.op("Expand", nothing, emit.op("Concat", length, sizes, axis=0))


def shape_in(tensor: Tensor) -> Shape | None:
    """The shape of elements that an input says: -1 is not known."""
    if tensor.value is None or np.ndim(tensor.value) != 1:
        return None
    return tuple(None if size < 0 else int(size) for size in tensor.value)


#: Operators that write an element of a list.
WRITES = frozenset({"TensorListSetItem", "TensorArrayWriteV3"})


def written(origin: Origin) -> tuple[Any, Any, Any, bool]:
    """What a node that writes an element has: the origins of list, position and element, and whether the list grows."""
    node, origins = origin.scope.nodes[origin.node], origin.scope.origins(origin.scope.nodes[origin.node])
    if node.op == "TensorListSetItem":
        given, index, item = origins
        return (
            given,
            index,
            item,
            "resize_if_index_out_of_bounds" in node.attr and (node.attr["resize_if_index_out_of_bounds"].b),
        )
    handle, index, item, flow = origins
    is_known = isinstance(handle, Origin) and "dynamic_size" in handle.scope.nodes[handle.node].attr
    grows = is_known and handle.scope.nodes[handle.node].attr["dynamic_size"].b
    return flow, index, item, grows


@_list("TensorListReserve")
def reserve(values: list[Any], attributes: Attributes, dtype: int, emit: InferringEmitter) -> Value:
    """A list of so many elements that are not written yet."""
    return ListOfTensors(None, emit.scalar(emit.int64(values[1])), dtype, shape_in(values[0]))


@_list("EmptyTensorList")
def empty(values: list[Any], attributes: Attributes, dtype: int, emit: InferringEmitter) -> Value:
    """A list without elements."""
    return ListOfTensors(None, emit.constant(0), dtype, shape_in(values[0]))


@_list("TensorListFromTensor")
def from_tensor(values: list[Any], attributes: Attributes, dtype: int, emit: InferringEmitter) -> Value:
    """The slices of a tensor."""
    rows = values[0]
    size = emit.op("Squeeze", emit.op("Gather", emit.shape_of(rows), emit.constant([0])), emit.constant([0]))
    return ListOfTensors(rows, size, dtype, None if rows.shape is None else rows.shape[1:])


@_list("TensorListSplit")
def split(values: list[Any], attributes: Attributes, dtype: int, emit: InferringEmitter) -> Value:
    """The pieces of a tensor of some lengths; TensorFlow raises an error where these are not all of it."""
    whole, _, lengths = values
    return ListOfPieces(whole, emit.int64(lengths))


@_list("TensorListStack", ignored=("num_elements",))  # which TensorFlow checks
def stack(values: list[Any], attributes: Attributes, dtype: int, emit: InferringEmitter) -> Value:
    """The elements as a tensor."""
    return rows_of(values[0], emit, shape_in(values[1]))


@_list("TensorListGetItem")
def get_item(values: list[Any], attributes: Attributes, dtype: int, emit: InferringEmitter) -> Value:
    """One element."""
    if isinstance(values[0], ListOfPieces):
        pieces, place = values[0], emit.op("Reshape", emit.int64(values[1]), emit.constant([1]))
        starts = emit.op("CumSum", pieces.lengths, emit.constant(0), exclusive=1)
        start, length = emit.op("Gather", starts, place), emit.op("Gather", pieces.lengths, place)
        return emit.op("Slice", pieces.whole, start, emit.op("Add", start, length), emit.constant([0]))
    return emit.op("Gather", rows_of(values[0], emit, shape_in(values[2])), emit.int64(values[1]), axis=0)


@_list("TensorListGather")
def gather(values: list[Any], attributes: Attributes, dtype: int, emit: InferringEmitter) -> Value:
    """Some of the elements as a tensor."""
    return emit.op("Gather", rows_of(values[0], emit, shape_in(values[2])), emit.int64(values[1]), axis=0)


@_list("TensorListSetItem")
def set_item(values: list[Any], attributes: Attributes, dtype: int, emit: InferringEmitter) -> Value:
    """The list with another element."""
    given, index, item = values
    return with_element(given, index, item, emit, grows=bool(attributes["resize_if_index_out_of_bounds"]))


def with_element(
    given: ListOfTensors, index: Tensor, item: Tensor, emit: InferringEmitter, *, grows: bool
) -> ListOfTensors:
    """The list with another element at a position, up to which a list that grows is filled with zeros."""
    rows, size = given.rows, given.size
    if grows:
        size = emit.extreme("Max", size, emit.op("Add", emit.scalar(emit.int64(index)), emit.constant(1)), ())
    if rows is None:
        rows = zeros(size, emit.shape_of(item), given.dtype, emit)
    elif grows:
        missing = zeros(emit.op("Sub", size, given.size), emit.shape_of(item), given.dtype, emit)
        inner = known_shape(given.element_shape, item.shape)
        rows = emit.op("Concat", rows, missing, shape=None if inner is None else (None, *inner), axis=0)
    place = emit.op("Reshape", emit.int64(index), emit.constant([1, 1]))
    rows = emit.op("ScatterND", rows, place, emit.op("Unsqueeze", item, emit.constant([0])), shape=rows.shape)
    return ListOfTensors(rows, size, given.dtype, known_shape(given.element_shape, item.shape))


@_list("TensorListPushBack")
def push_back(values: list[Any], attributes: Attributes, dtype: int, emit: InferringEmitter) -> Value:
    """The list with an element more."""
    given, item = values
    row = emit.op("Unsqueeze", item, emit.constant([0]))
    if given.rows is None and given.size.value is not None and int(given.size.value) == 0:
        rows = row
    else:
        rows = emit.op("Concat", rows_of(given, emit, item.shape), row, axis=0)
    size = emit.op("Add", given.size, emit.constant(1))
    return ListOfTensors(rows, size, dtype, known_shape(given.element_shape, item.shape))


@structure("TensorListConcat", "TensorListConcatV2")
def concatenated(node: GraphNode, emit: InferringEmitter) -> tuple[Value, ...]:
    """The elements one after the other, and how many rows each has."""
    given, *_ = node.values()
    if isinstance(given, ListOfRows):
        return concatenated_rows(given, emit)
    if isinstance(given, ListOfPieces):
        return given.whole, given.lengths
    rows = rows_of(given, emit)
    if rows.rank < 2:
        raise Unsupported("the elements of its list are scalars")
    sizes = emit.shape_of(rows)
    count, length = (emit.op("Gather", sizes, emit.constant([k]), shape=(1,)) for k in (0, 1))
    inner = emit.op("Slice", sizes, emit.constant([2]), emit.constant([_LAST]), emit.constant([0]))
    target = emit.op("Concat", emit.op("Mul", count, length), inner, axis=0)
    shape = None if rows.shape is None else (None, *rows.shape[2:])
    return emit.op("Reshape", rows, target, allowzero=1, shape=shape), emit.op("Expand", length, count)


def only_concatenated(scope: Scope, node: NodeDef, position: int) -> bool:
    """Whether an output of a node is a list that is read to be concatenated only: its elements may differ in length."""
    readers = []
    for other in scope.nodes.values():
        for name in other.input:
            tensor = name.removeprefix("^").split(":")
            if tensor[0] == node.name and int(tensor[-1] if len(tensor) > 1 else 0) == position:
                readers.append(other.op)
    return bool(readers) and set(readers) <= {"TensorListConcat", "TensorListConcatV2"}


@structure("TensorListLength")
def length(node: GraphNode, emit: InferringEmitter) -> Value:
    """The number of elements."""
    (given,) = _inputs(node)
    size = emit.op("Size", given.lengths) if isinstance(given, ListOfPieces) else given.size
    return emit.cast(size, TensorProto.INT32)


@structure(
    "TensorArrayV3",  # an array that does not keep its elements refuses what is read twice
    ignored=("clear_after_read", "dynamic_size", "identical_element_shapes"),  # who writes to it reads dynamic_size
)
def array(node: GraphNode, emit: InferringEmitter) -> tuple[Value, ...]:
    """A list of TensorFlow 1. What orders the effects on it, its flow, is the list here."""
    (size,) = node.tensors()
    shape = node.attributes["element_shape"]
    known = None if shape is None else tuple(shape)
    made = ListOfTensors(None, emit.scalar(emit.int64(size)), onnx_type(node.attr["dtype"].type), known)
    return Resource(node.scope, node), made


def _array_of(values: list[Any]) -> tuple[ListOfTensors, bool]:
    """The list that is the flow, the last input, and whether it may become longer."""
    handle, given = values[0], values[-1]
    return given, "dynamic_size" in handle.node.attr and handle.node.attr["dynamic_size"].b


@structure("TensorArrayWriteV3")
def array_write(node: GraphNode, emit: InferringEmitter) -> Value:
    """The list with another element."""
    values = _inputs(node)
    given, grows = _array_of(values)
    return with_element(given, values[1], values[2], emit, grows=grows)


@structure("TensorArrayReadV3", "TensorArrayGatherV3")
def array_read(node: GraphNode, emit: InferringEmitter) -> Value:
    """One element, or some of them as a tensor."""
    values = _inputs(node)
    given, _ = _array_of(values)
    if node.op == "TensorArrayGatherV3" and (shape := node.attributes["element_shape"]):
        given = replace(given, element_shape=known_shape(given.element_shape, tuple(shape)))
    return emit.op("Gather", rows_of(given, emit), emit.int64(values[1]), axis=0)


@structure("TensorArrayScatterV3")
def array_scatter(node: GraphNode, emit: InferringEmitter) -> Value:
    """The list with the slices of a tensor at some positions."""
    values = _inputs(node)
    given, grows = _array_of(values)
    positions, rows = values[1], values[2]
    if grows:
        raise Unsupported("it may make the list longer")
    before = given.rows
    if before is None:
        sizes = emit.op("Slice", emit.shape_of(rows), emit.constant([1]), emit.constant([_LAST]), emit.constant([0]))
        before = zeros(given.size, sizes, given.dtype, emit)
    places = emit.op("Unsqueeze", emit.int64(positions), emit.constant([1]))
    inner = None if rows.shape is None else rows.shape[1:]
    size = None if given.size.value is None else int(given.size.value)
    after = emit.op("ScatterND", before, places, rows, shape=None if inner is None else (size, *inner))
    return ListOfTensors(after, given.size, given.dtype, known_shape(given.element_shape, inner))


@structure("TensorArraySizeV3")
def array_size(node: GraphNode, emit: InferringEmitter) -> Value:
    """The number of elements."""
    given, _ = _array_of(_inputs(node))
    return emit.cast(given.size, TensorProto.INT32)
