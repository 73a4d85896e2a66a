"""tf.raw_ops.SparseCross, hashed: crossed feature columns, tf.sparse.cross_hashed, Keras' HashedCrossing layer."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensorflow.handlers.coordinates import column
from onnx_sparse.converters.tensorflow.handlers.emitter import Emitter
from onnx_sparse.converters.tensorflow.handlers.partitions import Partition, of_rowids, of_splits, splits_of
from onnx_sparse.converters.tensorflow.handlers.registry import SourceNode, Tensor, Unsupported, handles

_U64 = TensorProto.UINT64
_MULTIPLIER = 0xC6A4A7935BD1E995  # of TensorFlow's FingerprintCat64


@handles("SparseCross", inputs=("inputs*",), to="StringToHashBucketFast", dtypes=("int64", "string"))
def sparse_cross(node: SourceNode, emit: Emitter) -> tuple[Tensor, ...]:
    """A bucket for every combination of one feature from each column, row by row; the last column varies fastest."""
    attributes = node.attributes
    if not attributes["hashed_output"]:
        raise Unsupported("ONNX does not join strings; tf.sparse.cross_hashed is converted")
    given, count = node.all("inputs"), int(attributes["N"])
    indices, values, shapes, dense = (given[k * count : None if k == 3 else (k + 1) * count] for k in range(4))
    start = emit.constant(np.array(attributes["hash_key"], np.uint64))
    if not count and all(features.shape is not None and features.shape[1] == 1 for features in dense):
        fingerprints = start
        for features in dense:
            fingerprints = _joined(fingerprints, _fingerprints(_flat(features, emit), emit), emit)
        rows = emit.size(dense[0], 0)
        row = _numbers(rows, emit)
        place, longest = emit.ints("Mul", row, emit.integer(0)), emit.ints("Min", rows, emit.integer(1))
    else:
        rows = emit.ints("Slice", shapes[0], emit.integers(0), emit.integers(1)) if count else emit.size(dense[0], 0)
        partitions = [of_rowids(column(where, 0, emit), rows, emit) for where in indices]
        partitions += [_each_row(features, rows, emit) for features in dense]
        partition, *others = partitions
        first, *rest = (_fingerprints(f, emit) for f in (*values, *(_flat(features, emit) for features in dense)))
        fingerprints = _joined(start, first, emit)
        for other, features in zip(others, rest, strict=True):
            partition, fingerprints = _product(partition, fingerprints, other, features, rows, emit)
        row, place, longest = partition.row, partition.place, partition.longest
    buckets = emit.constant(np.array(attributes["num_buckets"] or np.iinfo(np.int64).max, np.uint64))
    crossed = emit.cast(emit.like("Mod", fingerprints, buckets), TensorProto.INT64)
    places = [emit.ints("Unsqueeze", vector, emit.integers(1)) for vector in (row, place)]
    return emit.ints("Concat", *places, axis=1), crossed, emit.ints("Concat", rows, longest, axis=0)


def _product(
    partition: Partition, fingerprints: Tensor, others: Partition, features: Tensor, rows: Tensor, emit: Emitter
) -> tuple[Partition, Tensor]:
    """Combine every fingerprint with every feature of its row."""
    counts = emit.ints("Gather", others.lengths, partition.row)
    pairs = of_splits(splits_of(counts, emit), emit)
    row = emit.ints("Gather", partition.row, pairs.row)
    chosen = emit.ints("Add", emit.ints("Gather", others.splits, row), pairs.place)
    taken = emit.like("Gather", features, chosen)
    joined = _joined(emit.like("Gather", fingerprints, pairs.row), taken, emit)
    return of_rowids(row, rows, emit), joined


def _fingerprints(features: Tensor, emit: Emitter) -> Tensor:
    """The 64 bits that represent a feature: an integer itself, or FarmHash's Fingerprint64 of a string.

    StringToHashBucketFast gives the fingerprint modulo any number. Modulo 2**62 that is its lower bits b. The upper two
    bits u follow from fingerprint = b + u * 2**62: modulo 5, 2**62 is -1, so u = b - fingerprint.
    """
    if features.dtype != TensorProto.STRING:
        return emit.cast(features, _U64)
    lower, rest = (
        emit.domain_op("StringToHashBucketFast", {"input": features, "num_buckets": emit.integer(number)})[0]
        for number in (2**62, 5)
    )
    five = emit.integer(5)
    upper = emit.ints("Mod", emit.ints("Sub", emit.ints("Mod", lower, five), rest), five)
    shifted = emit.like("Mul", emit.cast(upper, _U64), emit.constant(np.array(2**62, np.uint64)))
    return emit.like("Add", emit.cast(lower, _U64), shifted)


def _joined(left: Tensor, right: Tensor, emit: Emitter) -> Tensor:
    """TensorFlow's FingerprintCat64, which mixes one fingerprint into another."""
    by = emit.constant(np.array(_MULTIPLIER, np.uint64))
    mixed = emit.like("Mul", _folded(emit.like("Mul", right, by), emit), by)
    both = emit.like("Mul", emit.like("BitwiseXor", emit.like("BitwiseXor", left, by), mixed), by)
    return _folded(emit.like("Mul", _folded(both, emit), by), emit)


def _folded(bits: Tensor, emit: Emitter) -> Tensor:
    high = emit.like("BitShift", bits, emit.constant(np.array(47, np.uint64)), direction="RIGHT")
    return emit.like("BitwiseXor", bits, high)


def _flat(features: Tensor, emit: Emitter) -> Tensor:
    return emit.like("Reshape", features, emit.integers(-1))


def _numbers(rows: Tensor, emit: Emitter) -> Tensor:
    return emit.ints("Range", emit.integer(0), emit.ints("Squeeze", rows), emit.integer(1))


def _each_row(features: Tensor, rows: Tensor, emit: Emitter) -> Partition:
    """The row of each element of a matrix."""
    spread = emit.ints(
        "Expand", emit.ints("Unsqueeze", _numbers(rows, emit), emit.integers(1)), emit.ints("Shape", features)
    )
    return of_rowids(_flat(spread, emit), rows, emit)
