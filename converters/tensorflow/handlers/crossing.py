"""tf.raw_ops.SparseCross, RaggedCross, hashed: crossed feature columns, tf.sparse.cross_hashed, HashedCrossing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.emitter import Emitter
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.coordinates import column
from onnx_sparse.converters.tensorflow.handlers.partitions import Partition, of_rowids, of_splits, splits_of
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles

_U64 = TensorProto.UINT64
_MULTIPLIER = 0xC6A4A7935BD1E995  # of TensorFlow's FingerprintCat64


@handles("SparseCross", inputs=("inputs*",), to="StringToHashBucketFast", dtypes=("int64", "string"))
def sparse_cross(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """A bucket for every combination of one feature from each column, row by row; the last column varies fastest."""
    attributes = node.attributes
    if not attributes["hashed_output"]:
        raise Unsupported("ONNX does not join strings; tf.sparse.cross_hashed is converted")
    given, count = node.all("inputs"), int(attributes["N"])
    indices, values, shapes, dense = (given[k * count : None if k == 3 else (k + 1) * count] for k in range(4))
    start = emit.constant(attributes["hash_key"], TensorProto.UINT64)
    if not count and all(features.shape is not None and features.shape[1] == 1 for features in dense):
        fingerprints = start
        for features in dense:
            fingerprints = _joined(fingerprints, _fingerprints(_flat(features, emit), emit), emit)
        rows = emit.size(dense[0], 0)
        row = _numbers(rows, emit)
        place, longest = emit.op("Mul", row, emit.constant(0)), emit.op("Min", rows, emit.constant(1))
    else:
        rows = emit.op("Slice", shapes[0], emit.constant([0]), emit.constant([1])) if count else emit.size(dense[0], 0)
        partitions = [of_rowids(column(where, 0, emit), rows, emit) for where in indices]
        partitions += [_each_row(features, rows, emit) for features in dense]
        columns = [*values, *(_flat(features, emit) for features in dense)]
        partition, fingerprints = _every_combination(start, partitions, columns, rows, emit)
        row, place, longest = partition.row, partition.place, partition.longest
    crossed = _buckets(node, fingerprints, emit)
    places = [emit.op("Unsqueeze", vector, emit.constant([1])) for vector in (row, place)]
    return emit.op("Concat", *places, axis=1), crossed, emit.op("Concat", rows, longest, axis=0)


@handles("RaggedCross", inputs=("inputs*",), to="StringToHashBucketFast", dtypes=("int64", "string"))
def ragged_cross(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """A bucket for every combination of one feature from each column, row by row; the last column varies fastest."""
    attributes = node.attributes
    if not attributes["hashed_output"]:
        raise Unsupported("ONNX does not join strings; tf.ragged.cross_hashed is converted")
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
        "R": [(of_splits(each, emit), v) for each, v in zip(splits, ragged_values, strict=True)],
        "S": [
            (of_rowids(column(where, 0, emit), rows, emit), v) for where, v in zip(indices, sparse_values, strict=True)
        ],
        "D": [(_each_row(features, rows, emit), _flat(features, emit)) for features in dense],
    }
    partitions, features = zip(*(columns[kind].pop(0) for kind in order), strict=True)
    start = emit.constant(attributes["hash_key"], TensorProto.UINT64)
    partition, fingerprints = _every_combination(start, partitions, features, rows, emit)
    out = emit.cast(partition.splits, int(attributes["out_row_splits_type"]))
    return _buckets(node, fingerprints, emit), out


def _every_combination(
    start: Tensor, partitions: Sequence[Partition], features: Sequence[Tensor], rows: Tensor, emit: Emitter
) -> tuple[Partition, Tensor]:
    """The fingerprints of the combinations, and the rows in which they are."""
    (partition, *others), (first, *rest) = partitions, (_fingerprints(each, emit) for each in features)
    fingerprints = _joined(start, first, emit)
    for other, each in zip(others, rest, strict=True):
        partition, fingerprints = _product(partition, fingerprints, other, each, rows, emit)
    return partition, fingerprints


def _buckets(node: Node, fingerprints: Tensor, emit: Emitter) -> Tensor:
    buckets = emit.constant(node.attributes["num_buckets"] or np.iinfo(np.int64).max, TensorProto.UINT64)
    return emit.cast(emit.op("Mod", fingerprints, buckets), TensorProto.INT64)


def _product(
    partition: Partition, fingerprints: Tensor, others: Partition, features: Tensor, rows: Tensor, emit: Emitter
) -> tuple[Partition, Tensor]:
    """Combine every fingerprint with every feature of its row."""
    counts = emit.op("Gather", others.lengths, partition.row)
    pairs = of_splits(splits_of(counts, emit), emit)
    row = emit.op("Gather", partition.row, pairs.row)
    chosen = emit.op("Add", emit.op("Gather", others.splits, row), pairs.place)
    taken = emit.op("Gather", features, chosen)
    joined = _joined(emit.op("Gather", fingerprints, pairs.row), taken, emit)
    return of_rowids(row, rows, emit), joined


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


def _joined(left: Tensor, right: Tensor, emit: Emitter) -> Tensor:
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


def _each_row(features: Tensor, rows: Tensor, emit: Emitter) -> Partition:
    """The row of each element of a matrix."""
    spread = emit.op("Expand", emit.op("Unsqueeze", _numbers(rows, emit), emit.constant([1])), emit.shape_of(features))
    return of_rowids(_flat(spread, emit), rows, emit)
