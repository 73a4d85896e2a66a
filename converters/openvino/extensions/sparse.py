"""SparseFillEmptyRows, RaggedFillEmptyRows, SparseReshape, ValidateSparseIndices and ValidateRowSplits.

Of OpenVINO's operators, only its own SparseFillEmptyRows sorts quickly (TopK is quadratic). It is unstable, takes two
columns and fails without entries. So it is used to sort keys: distinct pairs, with an extra first one that is removed
at the end.
"""

from __future__ import annotations

import numpy as np

from onnx_sparse.converters.openvino.extensions.subgraph import Subgraph, Value, Write

_LARGEST = 2**31 - 1


def _sort(b: Subgraph, first: Value, second: Value, count: Value, sources: Value) -> tuple[Value, Value, Value]:
    """Sort pairs of int32.

    Args:
        b: Receives the nodes.
        first: int32 [N], N > 0.
        second: int32 [N].
        count: int32 [1]. For each smaller number that is not in `first`, a pair with second = 0 is added.
        sources: int32 [N], a value that goes along with each pair; it is 0 for the added ones.

    Returns:
        pairs: int32 [M, 2].
        sources: int32 [M].
        added: bool [count], which numbers were not in `first`.
    """
    ops = b.ops
    pairs = b.concat([ops.unsqueeze(first, b.ints(1)), ops.unsqueeze(second, b.ints(1))], 1)
    shape = b.concat([count, _int32(b, [_LARGEST])])
    filled = ops.sparse_fill_empty_rows(sources, shape, pairs, _int32(b, 0))
    # The plugin's Select and NonZero fail on the indicator unless it is converted.
    added = ops.not_equal(ops.convert(filled.output(2), "i32"), _int32(b, 0))
    return filled.output(0), filled.output(1), added


def _int32(b: Subgraph, value: int | list[int]) -> Value:
    return b.ops.constant(np.array(value, np.int32))


def _numbers_of_groups(b: Subgraph, pairs: Value) -> Value:
    """For each sorted pair, the number of distinct pairs before it. int32 [M]."""
    ops = b.ops
    before = b.slice(pairs, b.ints(0), b.ints(-1))
    differs = ops.reduce_max(ops.convert(ops.not_equal(b.rest(pairs), before), "i32"), b.ints(1), False)
    return ops.cum_sum(b.concat([_int32(b, [0]), differs]), b.integer(0))


def _fill_rows(b: Subgraph, rows: Value, count: Value, columns: list[Value]) -> tuple[Value, Value, Value]:
    """The order of the given entries and of the entries added to empty rows.

    Args:
        b: Receives the nodes.
        rows: int [N].
        count: int [1], the number of rows.
        columns: int [N] each; entries are sorted stably by rows, then by these.

    Returns:
        rows: int32 [M], the rows of the output's entries.
        sources: int32 [M], where each comes from: k for input entry k - 1, or 0 for an added entry.
        empty: bool [count], the rows without an entry.
    """
    ops = b.ops
    one = _int32(b, [1])
    # The extra first entry, which is removed again, has a row of its own before the others.
    rows = b.concat([_int32(b, [0]), ops.add(ops.convert(rows, "i32"), one)])
    keys = [b.concat([_int32(b, [0]), ops.convert(column, "i32")]) for column in columns]
    entries = b.positions(rows, "i32")
    first, *others = [*keys, entries]
    pairs, sources, empty = _sort(b, rows, first, ops.add(ops.convert(count, "i32"), one), entries)
    sorted_rows = b.gather(pairs, b.integer(0), 1)
    for key in others:
        groups = _numbers_of_groups(b, pairs)
        number = ops.add(b.slice(groups, b.ints(-1), b.ints(_LARGEST)), one)
        pairs, sources, _ = _sort(b, groups, b.gather(key, sources), number, sources)
    return ops.subtract(b.rest(sorted_rows), one), b.rest(sources), b.rest(empty)


def _inverse(b: Subgraph, sources: Value, entries: Value) -> Value:
    """Where each input entry went."""
    ops = b.ops
    places = b.full(_int32(b, 0), ops.add(b.size(entries), b.ints(1)))
    return b.rest(ops.scatter_update(places, sources, b.positions(sources, "i32"), b.integer(0)))


def _values(b: Subgraph, sources: Value) -> Value:
    return b.gather(b.concat([b.vector(b.input("default_value")), b.input("values")]), sources)


def _sparse_fill_empty_rows(b: Subgraph) -> list[Value]:
    ops = b.ops
    indices, shape = b.input("indices"), b.input("dense_shape")
    columns: list[Value] = []
    if b.attribute("order") == "row_major":
        columns = [b.gather(indices, b.integer(c), 1) for c in range(1, _rank(b, indices, shape))]
    count = b.slice(shape, b.ints(0), b.ints(1))
    rows, sources, empty = _fill_rows(b, b.gather(indices, b.integer(0), 1), count, columns)
    rest = b.slice(indices, b.ints(1), b.ints(_LARGEST), axis=1)
    zeros = b.full(b.like(0, indices), b.ints(1), b.slice(ops.shape_of(rest), b.ints(1), b.ints(2)))
    filled = b.concat(
        [ops.unsqueeze(ops.convert_like(rows, indices), b.ints(1)), b.gather(b.concat([zeros, rest]), sources)], 1
    )
    inverse = ops.convert_like(_inverse(b, sources, indices), indices)
    return [filled, _values(b, sources), empty, inverse]


def _rank(b: Subgraph, indices: Value, shape: Value) -> int:
    """The rank of the sparse tensor.

    Raises:
        ValueError: It is not known in the model.
    """
    for tensor, axis in ((indices, 1), (shape, 0)):
        size = b.known_size(tensor, axis)
        if size is not None:
            return size
    raise ValueError(
        f"{b.op.name} with order row_major must know how many columns indices has, the tensor {b.name('indices')!r}: "
        f"give it a shape such as [?, 2], or {b.name('dense_shape')!r}, the dense_shape, one such as [2]"
    )


def _ragged_fill_empty_rows(b: Subgraph) -> list[Value]:
    ids = b.input("value_rowids")
    rows, sources, empty = _fill_rows(b, ids, b.vector(b.input("nrows")), [])
    inverse = _inverse(b, sources, ids)
    return [b.int64(rows), _values(b, sources), empty, b.int64(inverse)]


def _product(b: Subgraph, rows: Value) -> Value:
    """The product of int64 rows, [1, ...]. ReduceProd and ReduceSum would go through float32."""
    return b.scatter("prod", b.integer(1), b.full(b.integer(0), b.size(rows)), rows, b.ints(1))


def _strides(b: Subgraph, shape: Value) -> Value:
    """The row-major strides of a shape: the product of the dimensions after each."""
    ops = b.ops
    axes = b.positions(shape)
    after = ops.greater(ops.unsqueeze(axes, b.ints(1)), ops.unsqueeze(axes, b.ints(0)))
    factors = b.where(after, ops.unsqueeze(shape, b.ints(1)), b.integer(1))
    return ops.squeeze(_product(b, factors), b.ints(0))


def _sparse_reshape(b: Subgraph) -> list[Value]:
    ops = b.ops
    indices, before, after = b.input("input_indices"), b.input("input_shape"), b.input("new_shape")
    one = b.integer(1)
    # The inferred dimension is the number of elements divided by the product of the other dimensions.
    inferred = ops.less(after, b.integer(0))
    others = _product(b, b.where(inferred, one, after))
    shape = b.where(inferred, b.quotient(_product(b, before), ops.maximum(others, one)), after)
    zero = b.full(b.integer(0), b.size(indices), b.ints(1))
    places = ops.cum_sum(b.concat([zero, ops.multiply(indices, _strides(b, before))], 1), one)
    place = b.slice(places, b.ints(-1), b.ints(_LARGEST), 1)
    # Column c is place / stride[c], less the multiples that the columns before account for.
    strides = ops.maximum(_strides(b, shape), one)
    whole = b.quotient(place, strides)
    if b.known_size(after, 0) == 1:  # no columns before: OpenVINO finds that out, and fails without entries
        return [whole, shape]
    carried = b.concat([zero, b.slice(whole, b.ints(0), b.ints(-1), 1)], 1)
    return [ops.subtract(whole, ops.multiply(carried, shape)), shape]


def _passed_on(name: str) -> Write:
    """OpenVINO reports no illegal values."""
    return lambda b: [b.ops.convert_like(b.input(name), b.input(name))]


WRITERS: dict[str, Write] = {
    "SparseFillEmptyRows": _sparse_fill_empty_rows,
    "RaggedFillEmptyRows": _ragged_fill_empty_rows,
    "SparseReshape": _sparse_reshape,
    "ValidateSparseIndices": _passed_on("indices"),
    "ValidateRowSplits": _passed_on("row_splits"),
}
