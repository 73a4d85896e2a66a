"""tf.raw_ops.RaggedTensorToVariant and -FromVariant, and lists of the rows of ragged tensors, as tf.map_fn has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Shape, Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import GraphNode, structure
from onnx_sparse.converters.tensorflow.importing.values import ListOfRows, RaggedRows, Value
from onnx_sparse.converters.tensorflow.reading.element_types import NUMBERS, onnx_type
from onnx_sparse.converters.tensorflow.reading.node_types import NodeDef
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter
from onnx_sparse.schemas.declaration import DType, numpy_dtype

VARIANT = NUMBERS["variant"]


@structure("RaggedTensorToVariant")
def to_variant(node: GraphNode, emit: InferringEmitter) -> Value:
    """A ragged tensor as one variant, or as a vector of its rows."""
    *splits, values = node.tensors()
    is_vector = bool(node.attr["batched_input"].b)
    if is_vector and not splits:
        raise Unsupported("it makes variants of the rows of a dense tensor")
    return RaggedRows(tuple(map(emit.int64, splits)), values, is_vector)


@structure("RaggedTensorFromVariant")
def from_variant(node: GraphNode, emit: InferringEmitter) -> tuple[Value, ...]:
    """The ragged or dense tensor that a variant is, or whose rows a vector of variants are."""
    (given,) = node.values()
    if not isinstance(given, RaggedRows):
        raise Unsupported("its input is not a variant of a ragged tensor")
    attributes = node.attributes
    count, rank = attributes["output_ragged_rank"], attributes["input_ragged_rank"]
    if count != len(given.splits) or rank not in (-1, count - given.is_vector):
        raise Unsupported(f"its variants have {len(given.splits)} row splits, not {count} as it says")
    if given.values.dtype != onnx_type(node.attr["Tvalues"].type):
        raise Unsupported(f"its variants hold {given.values}, not what it says")
    emit, dtype = emit, onnx_type(node.attr["Tsplits"].type or NUMBERS["int64"])
    return (*(emit.cast(splits, dtype) for splits in given.splits), given.values)


def is_shape_of_variants(node: NodeDef) -> bool:
    """Whether a node asks for the shape of variants."""
    return bool(node.op == "Shape" and node.attr["T"].type == VARIANT)


def shape_of_variants(value: Value, node: NodeDef, emit: Emitter) -> Tensor:
    """The shape of a vector of variants: the number of rows."""
    if not isinstance(value, RaggedRows) or not value.is_vector:
        raise Unsupported("its input is not a vector of variants of ragged tensors")
    return emit.cast(_count(value, emit), onnx_type(node.attr["out_type"].type or NUMBERS["int32"]))


def _count(rows: RaggedRows, emit: Emitter) -> Tensor:
    """The number of rows, int64 [1]."""
    return emit.op("Sub", emit.shape_of(rows.splits[0]), emit.constant([1]), shape=(1,))


def _row(rows: RaggedRows, index: Tensor, emit: Emitter) -> RaggedRows:
    """One row."""
    at = emit.op("Reshape", emit.int64(index), emit.constant([1]), shape=(1,))
    first, axis = at, emit.constant([0])
    last = emit.op("Add", at, emit.constant([1]), shape=(1,))
    splits: list[Tensor] = []
    for outer, inner in zip(rows.splits, (*rows.splits[1:], None), strict=True):
        first, last = (emit.op("Gather", outer, each, axis=0, shape=(1,)) for each in (first, last))
        if inner is not None:
            end = emit.op("Add", last, emit.constant([1]), shape=(1,))
            part = emit.op("Slice", inner, first, end, axis, shape=(None,))
            splits.append(emit.op("Sub", part, emit.op("Gather", inner, first, axis=0, shape=(1,)), shape=(None,)))
    shape = None if rows.values.shape is None else (None, *rows.values.shape[1:])
    return RaggedRows(tuple(splits), emit.op("Slice", rows.values, first, last, axis, shape=shape), False)


def of_rows(op_type: str, values: list[Any], emit: Emitter) -> Value:
    """What an operator of lists makes whose elements are variants.

    Raises:
        Unsupported: It is another operator, or reads what is not written.
    """
    if op_type not in _OPERATORS:
        raise Unsupported("its list has variants as elements")
    return _OPERATORS[op_type](values, emit)


def _whole(given: ListOfRows) -> RaggedRows:
    if given.rows is None:
        raise Unsupported("it reads a list of ragged tensors that has been reserved only")
    return given.rows


def concatenated_rows(given: ListOfRows, emit: Emitter) -> tuple[Tensor, ...]:
    """The elements of a list one after the other, and how many rows each has."""
    rows = _whole(given)
    one, end, zero = emit.constant([1]), emit.constant([np.iinfo(np.int64).max]), emit.constant([0])
    starts = emit.op("Slice", rows.splits[0], zero, emit.constant([-1]), zero)
    return rows.values, emit.op("Sub", emit.op("Slice", rows.splits[0], one, end, zero), starts)


def _from_tensor(values: list[Any], emit: Emitter) -> Value:
    rows: RaggedRows = values[0]
    if not rows.is_vector:
        raise Unsupported("it takes one variant")
    return ListOfRows(rows, emit.scalar(_count(rows, emit)))


def _reserve(values: list[Any], emit: Emitter) -> Value:
    return ListOfRows(None, emit.scalar(emit.int64(values[1])))


def _get_item(values: list[Any], emit: Emitter) -> Value:
    return _row(_whole(values[0]), values[1], emit)


def _stack(values: list[Any], emit: Emitter) -> Value:
    return _whole(values[0])


_OPERATORS: dict[str, Callable[[list[Any], Emitter], Value]] = {
    "TensorListFromTensor": _from_tensor,
    "TensorListReserve": _reserve,
    "TensorListGetItem": _get_item,
    "TensorListStack": _stack,
}


class Appended:
    """A list of ragged or other tensors to which each round of a loop appends one: its values and row splits grow.

    Args:
        row: What a round appends.

    Attributes:
        states: The element types and shapes of the values and of the row splits, the outermost first.

    Raises:
        Unsupported: The row is no variant, or the sizes of its values are not known.
    """

    def __init__(self, row: Value) -> None:
        if isinstance(row, Tensor):
            row = RaggedRows((), row, False)
        if not isinstance(row, RaggedRows) or row.is_vector:
            raise Unsupported("a round writes something other than a variant of a ragged tensor")
        inner = None if row.values.shape is None else row.values.shape[1:]
        if inner is None or None in inner:
            raise Unsupported("the shape of the values of its ragged tensors is not known")
        self._row = row
        splits: list[tuple[DType, Shape]] = [(TensorProto.INT64, (None,))] * (len(row.splits) + 1)
        self.states: list[tuple[DType, Shape]] = [(row.values.dtype, (None, *inner)), *splits]

    def starts(self, emit: Emitter) -> list[Tensor]:
        """The values and row splits before the first round."""
        (dtype, shape), *splits = self.states
        nothing = np.zeros([size or 0 for size in shape], object if dtype == TensorProto.STRING else numpy_dtype(dtype))
        return [emit.constant(nothing, dtype), *(emit.constant([0]) for _ in splits)]

    def after(self, states: Sequence[Tensor], emit: Emitter) -> list[Tensor]:
        """The values and row splits after a round, for those before it."""
        values, *splits = states
        one, last = emit.constant([1]), emit.constant([-1])
        made = [emit.op("Concat", values, self._row.values, shape=values.shape, axis=0)]
        size = self._row.splits[0] if self._row.splits else self._row.values
        count = emit.op("Gather", emit.shape_of(size), emit.constant([0]), axis=0, shape=(1,))
        ends = [emit.op("Sub", count, one, shape=(1,)) if self._row.splits else count]
        end = emit.constant([np.iinfo(np.int64).max])
        ends += [emit.op("Slice", inner, one, end, shape=(None,)) for inner in self._row.splits]
        for before, more in zip(splits, ends, strict=True):
            so_far = emit.op("Gather", before, last, axis=0, shape=(1,))
            more = emit.op("Add", so_far, more, shape=more.shape)
            made.append(emit.op("Concat", before, more, shape=(None,), axis=0))
        return made

    def whole(self, given: ListOfRows, results: list[Tensor]) -> ListOfRows:
        """The list after the last round; takes its values and row splits off the results of the loop."""
        values, *splits = results[: len(self.states)]
        del results[: len(self.states)]
        return ListOfRows(RaggedRows(tuple(splits), values, True), given.size)
