"""tf.raw_ops.SparseCross, SparseCrossV2, RaggedCross: crossed feature columns, tf.sparse.cross, HashedCrossing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.tensorflow.handlers.texts.joining import concatenated
from onnx_sparse.converters.writing.coordinates import column, one_for_each, valid_indices
from onnx_sparse.converters.writing.emitter import Emitter
from onnx_sparse.converters.writing.partitions import Partition, of_rowids, of_splits, splits_of

_U64 = TensorProto.UINT64
_MULTIPLIER = 0xC6A4A7935BD1E995  # of TensorFlow's FingerprintCat64


#: What TensorFlow puts between features that it joins.
_SEPARATOR = b"_X_"


class _Crossed(ABC):
    """What stands for a combination of features: each next feature is mixed into those before."""

    @abstractmethod
    def first(self, features: Tensor) -> Tensor:
        """What stands for the features of the first column."""

    @abstractmethod
    def joined(self, before: Tensor, features: Tensor) -> Tensor:
        """What stands for combinations with those of another column."""

    @abstractmethod
    def result(self, combined: Tensor) -> Tensor:
        """The values of the result."""


class _Buckets(_Crossed):
    """Fingerprints, and in the end their buckets."""

    def __init__(self, node: Node, emit: Emitter) -> None:
        self._emit = emit
        self._start = emit.constant(node.attributes["hash_key"], _U64)
        self._buckets = emit.constant(node.attributes["num_buckets"] or np.iinfo(np.int64).max, _U64)

    def first(self, features: Tensor) -> Tensor:
        return self.joined(self._start, features)

    def joined(self, before: Tensor, features: Tensor) -> Tensor:
        return _mixed(before, _fingerprints(features, self._emit), self._emit)

    def result(self, combined: Tensor) -> Tensor:
        return self._emit.cast(self._emit.op("Mod", combined, self._buckets), TensorProto.INT64)


class _Texts(_Crossed):
    """The features as text, with a separator between them."""

    def __init__(self, separator: Tensor, emit: Emitter) -> None:
        self._emit = emit
        self._separator = separator

    def first(self, features: Tensor) -> Tensor:
        return self._emit.cast(features, TensorProto.STRING)

    def joined(self, before: Tensor, features: Tensor) -> Tensor:
        return concatenated(before, self._separator, self.first(features), emit=self._emit)

    def result(self, combined: Tensor) -> Tensor:
        return combined


def _crossed_by(node: Node, emit: Emitter) -> _Crossed:
    node.disregard("hashed_output")  # TensorFlow chooses the kernel by the type of the result
    if TensorProto.STRING not in node.dtypes:
        return _Buckets(node, emit)
    node.disregard("hash_key", "num_buckets")
    return _Texts(emit.constant(np.array(_SEPARATOR, object), TensorProto.STRING), emit)


@handles("SparseCross", inputs=("inputs*",), to="StringToHashBucketFast", dtypes=("int64", "string"))
def sparse_cross(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """A bucket for every combination of one feature from each column, row by row; the last column varies fastest."""
    return _sparse_cross(node, _crossed_by(node, emit), emit)


@handles("SparseCrossV2", inputs=("inputs*", "sep"), to="StringConcat", dtypes=("int64", "string"))
def sparse_cross_v2(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The features of every combination joined."""
    return _sparse_cross(node, _Texts(node["sep"], emit), emit)


def _sparse_cross(node: Node, crossed: _Crossed, emit: Emitter) -> tuple[Tensor, ...]:
    given, count = node.all("inputs"), int(node.attributes["N"])
    indices, values, shapes, dense = (given[k * count : None if k == 3 else (k + 1) * count] for k in range(4))
    if not count and all(features.shape is not None and features.shape[1] == 1 for features in dense):
        first, *others = (_flat(features, emit) for features in dense)
        combined = crossed.first(first)
        for features in others:
            combined = crossed.joined(combined, features)
        rows = emit.size(dense[0], 0)
        row = _numbers(rows, emit)
        place, longest = emit.op("Mul", row, emit.constant(0)), emit.op("Min", rows, emit.constant(1))
    else:
        rows = emit.op("Slice", shapes[0], emit.constant([0]), emit.constant([1])) if count else emit.size(dense[0], 0)
        partitions = [_rows_of_entries(where, rows, emit) for where in indices]
        partitions += [_each_row(features, rows, emit) for features in dense]
        values = [one_for_each(each, where, emit) for each, where in zip(values, indices, strict=True)]
        columns = [*values, *(_flat(features, emit) for features in dense)]
        partition, combined = _every_combination(crossed, partitions, columns, rows, emit)
        row, place, longest = partition.row, partition.place, partition.longest
    places = [emit.op("Unsqueeze", vector, emit.constant([1])) for vector in (row, place)]
    return emit.op("Concat", *places, axis=1), crossed.result(combined), emit.op("Concat", rows, longest, axis=0)


@handles("RaggedCross", inputs=("inputs*",), to="StringToHashBucketFast", dtypes=("int64", "string"))
def ragged_cross(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """A bucket for every combination of one feature from each column, row by row; the last column varies fastest."""
    attributes, crossed = node.attributes, _crossed_by(node, emit)
    order = attributes["input_order"].decode()
    given, count, sparse = iter(node.all("inputs")), order.count("R"), order.count("S")
    ragged_values, splits = ([next(given) for _ in range(count)] for _ in range(2))
    indices, sparse_values, shapes = ([next(given) for _ in range(sparse)] for _ in range(3))
    dense = [*given]
    if order[0] == "R":
        rows = emit.op("Sub", emit.shape_of(splits[0]), emit.constant([1]))
    elif order[0] == "S":
        rows = emit.op("Slice", shapes[0], emit.constant([0]), emit.constant([1]))
    else:
        rows = emit.size(dense[0], 0)
    columns = {
        "R": [(of_splits(each, emit, emit.size(v, 0)), v) for each, v in zip(splits, ragged_values, strict=True)],
        "S": [
            (_rows_of_entries(where, rows, emit), one_for_each(v, where, emit))
            for where, v in zip(indices, sparse_values, strict=True)
        ],
        "D": [(_each_row(features, rows, emit), _flat(features, emit)) for features in dense],
    }
    partitions, features = zip(*(columns[kind].pop(0) for kind in order), strict=True)
    partition, combined = _every_combination(crossed, partitions, features, rows, emit)
    return crossed.result(combined), emit.cast(partition.splits, int(attributes["out_row_splits_type"]))


def _every_combination(
    crossed: _Crossed, partitions: Sequence[Partition], features: Sequence[Tensor], rows: Tensor, emit: Emitter
) -> tuple[Partition, Tensor]:
    """What stands for the combinations, and the rows in which they are."""
    (partition, *others), (first, *rest) = partitions, features
    combined = crossed.first(first)
    for other, each in zip(others, rest, strict=True):
        partition, before, taken = _product(partition, combined, other, each, rows, emit)
        combined = crossed.joined(before, taken)
    return partition, combined


def _product(
    partition: Partition, combined: Tensor, others: Partition, features: Tensor, rows: Tensor, emit: Emitter
) -> tuple[Partition, Tensor, Tensor]:
    """Every combination of what there is with a feature of its row: the rows, the former and the latter."""
    counts = emit.op("Gather", others.lengths, partition.row)
    pairs = of_splits(splits_of(counts, emit), emit)
    row = emit.op("Gather", partition.row, pairs.row)
    chosen = emit.op("Add", emit.op("Gather", others.splits, row), pairs.place)
    taken = emit.op("Gather", features, chosen)
    return of_rowids(row, rows, emit), emit.op("Gather", combined, pairs.row), taken


def _fingerprints(features: Tensor, emit: Emitter) -> Tensor:
    """The 64 bits that represent a feature: an integer itself, or FarmHash's Fingerprint64 of a string.

    StringToHashBucketFast gives the fingerprint modulo any number. Modulo 2**62 that is its lower bits b. The upper two
    bits u follow from fingerprint = b + u * 2**62: modulo 5, 2**62 is -1, so u = b - fingerprint.
    """
    if features.dtype != TensorProto.STRING:
        return emit.cast(features, _U64)
    lower, rest = (
        emit.domain_op("StringToHashBucketFast", {"input": features, "num_buckets": emit.constant(number)})[0]
        for number in (2**62, 5)
    )
    five = emit.constant(5)
    upper = emit.op("Mod", emit.op("Sub", emit.op("Mod", lower, five), rest), five)
    shifted = emit.op("Mul", emit.cast(upper, _U64), emit.constant(2**62, TensorProto.UINT64))
    return emit.op("Add", emit.cast(lower, _U64), shifted)


def _mixed(left: Tensor, right: Tensor, emit: Emitter) -> Tensor:
    """TensorFlow's FingerprintCat64, which mixes one fingerprint into another."""
    by = emit.constant(_MULTIPLIER, TensorProto.UINT64)
    mixed = emit.op("Mul", _folded(emit.op("Mul", right, by), emit), by)
    both = emit.op("Mul", emit.op("BitwiseXor", emit.op("BitwiseXor", left, by), mixed), by)
    return _folded(emit.op("Mul", _folded(both, emit), by), emit)


def _folded(bits: Tensor, emit: Emitter) -> Tensor:
    high = emit.op("BitShift", bits, emit.constant(47, TensorProto.UINT64), direction="RIGHT")
    return emit.op("BitwiseXor", bits, high)


def _flat(features: Tensor, emit: Emitter) -> Tensor:
    return emit.op("Reshape", features, emit.constant([-1]))


def _numbers(rows: Tensor, emit: Emitter) -> Tensor:
    return emit.op("Range", emit.constant(0), emit.op("Squeeze", rows), emit.constant(1))


def _rows_of_entries(indices: Tensor, rows: Tensor, emit: Emitter) -> Partition:
    """The row of each entry of a sparse tensor, of which TensorFlow takes those of a row from one position on.

    The model refuses rows in another order, which would get the entries of others.
    """
    count = emit.size(indices, 0)
    places = emit.op("Unsqueeze", _numbers(count, emit), emit.constant([1]))
    entries = emit.op("Concat", emit.op("Slice", indices, *map(emit.constant, ([0], [1], [1]))), places, axis=1)
    valid = valid_indices(entries, emit.op("Concat", rows, count, axis=0), emit, "row_major")
    return of_rowids(column(valid, 0, emit), rows, emit)


def _each_row(features: Tensor, rows: Tensor, emit: Emitter) -> Partition:
    """The row of each element of a matrix."""
    spread = emit.op("Expand", emit.op("Unsqueeze", _numbers(rows, emit), emit.constant([1])), emit.shape_of(features))
    return of_rowids(_flat(spread, emit), rows, emit)
