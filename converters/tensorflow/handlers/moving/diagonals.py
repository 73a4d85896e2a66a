"""tf.raw_ops.MatrixBandPart, MatrixDiagPart, MatrixDiag and MatrixSetDiag: diagonals are kept, taken, made, replaced.

Diagonal k is counted from the main one upward. Of several diagonals, k is row `k_upper - k`; one that is shorter than
the longest is aligned with it to the left or right.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles
from onnx_sparse.converters.writing.emitter import Emitter

_TYPES = ("all numbers", "bool")


@handles(
    "MatrixBandPart",
    to="Where",
    dtypes=_TYPES,
    differs="more diagonals than there are is not an error; TensorFlow raises",
)
def matrix_band_part(node: Node, emit: Emitter) -> Tensor:
    """The elements on the main diagonal and so many below and above it; zeros elsewhere, whatever was there.

    A negative number of diagonals stands for all of them.
    """
    matrices, zero = node["input"], emit.constant(0)
    i, j = _places(*_sizes(matrices, emit), emit)
    number = emit.op("Sub", j, i)
    below, above = (emit.cast(node[name], TensorProto.INT64) for name in ("num_lower", "num_upper"))
    in_band = emit.op(
        "And",
        emit.op("Or", emit.op("Less", below, zero), emit.op("LessOrEqual", emit.op("Neg", below), number)),
        emit.op("Or", emit.op("Less", above, zero), emit.op("LessOrEqual", number, above)),
    )
    return emit.op("Where", in_band, matrices, emit.like(0, matrices))


@handles("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3", to="Gather", dtypes=_TYPES)
def matrix_diag_part(node: Node, emit: Emitter) -> Tensor:
    """The elements of the diagonals, and the padding where one is shorter than the longest."""
    matrices, (lower, upper, is_one) = node["input"], _band(node, emit)
    rows, columns = _sizes(matrices, emit)
    zero = emit.constant([0])
    longest = emit.op(
        "Min",
        emit.op("Add", rows, emit.op("Min", upper, zero)),
        emit.op("Sub", columns, emit.op("Max", lower, zero)),
    )
    longest = emit.op("Max", longest, zero)
    below = emit.op("Sub", lower, emit.constant([1]))
    number = emit.op("Range", *(emit.scalar(each) for each in (upper, below, emit.constant(-1))))
    number = emit.op("Unsqueeze", number, emit.constant([1]))
    place = emit.op("Range", emit.constant(0), emit.op("Squeeze", longest, zero), emit.constant(1))
    place = emit.op("Sub", place, _moved(node, number, rows, columns, longest, emit))
    in_matrix = emit.op(
        "And", emit.op("LessOrEqual", zero, place), emit.op("Less", place, _length(number, rows, columns, emit))
    )
    row, column = (emit.op("Add", place, emit.op("Max", step, zero)) for step in (emit.op("Neg", number), number))
    taken = emit.op("Where", in_matrix, emit.op("Add", emit.op("Mul", row, columns), column), zero)
    batch = emit.op("Slice", emit.shape_of(matrices), zero, emit.constant([-2]))
    flat = emit.op("Reshape", matrices, emit.op("Concat", batch, emit.op("Mul", rows, columns), axis=0), allowzero=1)
    padding = node["padding_value"] if "padding_value" in node.inputs else emit.like(0, matrices)
    parts = emit.op("Where", in_matrix, emit.op("Gather", flat, taken, axis=matrices.rank - 2), padding)
    if is_one is not None:
        return emit.op("Squeeze", parts, emit.constant([matrices.rank - 2])) if is_one else parts
    # Several diagonals have a dimension of their own.
    count = emit.op("Add", emit.op("Sub", upper, lower), emit.constant([1]))
    kept = emit.op("Compress", count, emit.op("Less", lower, upper))
    return emit.op("Reshape", parts, emit.op("Concat", batch, kept, longest, axis=0), allowzero=1)


@handles("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3", to="Where", dtypes=_TYPES)
def matrix_diag(node: Node, emit: Emitter) -> Tensor:
    """Matrices of the padding with these diagonals: square ones, unless a number of rows or columns is given."""
    diagonals, (lower, upper, is_one) = node["diagonal"], _band(node, emit)
    longest, zero = _last_size(diagonals, emit), emit.constant([0])
    least = [emit.op("Add", longest, emit.op("Max", more, zero)) for more in (emit.op("Neg", upper), lower)]
    sizes = _matrix_sizes(node, least, emit)
    rank = None if is_one is None or diagonals.shape is None else diagonals.rank - (1 if is_one else 2)
    if rank is None:
        own = emit.op("Add", emit.constant([1]), emit.cast(emit.op("Less", lower, upper), TensorProto.INT64))
        end = emit.op("Sub", emit.shape_of(emit.shape_of(diagonals)), own)
    else:
        end = emit.constant([rank])
    batch = emit.op("Slice", emit.shape_of(diagonals), emit.constant([0]), end)
    padding = node["padding_value"] if "padding_value" in node.inputs else emit.like(0, diagonals)
    shape = emit.op("Concat", batch, *sizes, axis=0)
    matrices = emit.op("Expand", padding, shape, shape=None if rank is None else (None,) * (rank + 2))
    return _with_diagonals(node, matrices, diagonals, emit)


@handles("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3", to="Where", dtypes=_TYPES)
def matrix_set_diag(node: Node, emit: Emitter) -> Tensor:
    """The matrices with these diagonals in place of their own."""
    return _with_diagonals(node, node["input"], node["diagonal"], emit)


def _with_diagonals(node: Node, matrices: Tensor, diagonals: Tensor, emit: Emitter) -> Tensor:
    """Every element inside of the band from the diagonals, by the number of its diagonal and its place there."""
    k = emit.cast(node["k"], TensorProto.INT64) if "k" in node.inputs else emit.constant([0])
    k = emit.op("Reshape", k, emit.constant([-1]))
    lower, upper = (emit.op("Gather", k, emit.constant([at])) for at in (0, -1))
    rows, columns = _sizes(matrices, emit)
    zero, one = emit.constant([0]), emit.constant([1])
    i, j = _places(rows, columns, emit)
    number = emit.op("Sub", j, i)
    in_band = emit.op("And", emit.op("LessOrEqual", lower, number), emit.op("LessOrEqual", number, upper))
    longest = _last_size(diagonals, emit)
    place = emit.op("Add", emit.op("Min", i, j), _moved(node, number, rows, columns, longest, emit))
    place = emit.op("Add", place, emit.op("Mul", emit.op("Sub", upper, number), longest))
    batch = emit.op("Slice", emit.shape_of(matrices), zero, emit.constant([-2]))
    band = emit.op("Mul", emit.op("Add", emit.op("Sub", upper, lower), one), longest)
    flat = emit.op("Reshape", diagonals, emit.op("Concat", batch, band, axis=0), allowzero=1)
    # Outside of the band something is taken, too: there may be no diagonals.
    nothing = emit.op("Expand", emit.like(0, diagonals), emit.op("Concat", batch, one, axis=0))
    flat = emit.op("Concat", flat, nothing, axis=-1)
    taken = emit.op("Gather", flat, emit.op("Where", in_band, place, band), axis=-1)
    return emit.op("Where", in_band, taken, matrices)


def _sizes(matrices: Tensor, emit: Emitter) -> tuple[Tensor, Tensor]:
    """The numbers of rows and columns, each int64 [1]."""
    if matrices.shape is not None:
        return emit.size(matrices, matrices.rank - 2), emit.size(matrices, matrices.rank - 1)
    return emit.op("Slice", emit.shape_of(matrices), emit.constant([-2]), emit.constant([-1])), _last_size(
        matrices, emit
    )


def _last_size(tensor: Tensor, emit: Emitter) -> Tensor:
    """The size of the last dimension, int64 [1]."""
    if tensor.shape is not None:
        return emit.size(tensor, tensor.rank - 1)
    return emit.op("Slice", emit.shape_of(tensor), emit.constant([-1]), emit.constant([np.iinfo(np.int64).max]))


def _places(rows: Tensor, columns: Tensor, emit: Emitter) -> tuple[Tensor, Tensor]:
    """The row [rows, 1] and the column [columns] of each element."""
    i, j = (
        emit.op("Range", emit.constant(0), emit.op("Squeeze", size, emit.constant([0])), emit.constant(1))
        for size in (rows, columns)
    )
    return emit.op("Unsqueeze", i, emit.constant([1])), j


def _length(number: Tensor, rows: Tensor, columns: Tensor, emit: Emitter) -> Tensor:
    """How many elements the diagonals of these numbers have."""
    zero = emit.constant([0])
    return emit.op(
        "Min",
        emit.op("Add", rows, emit.op("Min", number, zero)),
        emit.op("Sub", columns, emit.op("Max", number, zero)),
    )


def _moved(node: Node, number: Tensor, rows: Tensor, columns: Tensor, longest: Tensor, emit: Emitter) -> Tensor:
    """By how many places the diagonals of these numbers are moved to the right."""
    zero = emit.constant([0])
    to_right = [kind == "RIGHT" for kind in node.attributes.get("align", b"LEFT_LEFT").decode().split("_")]
    if not any(to_right):
        return zero
    missing = emit.op("Sub", longest, _length(number, rows, columns, emit))
    # The main diagonal is on both sides: it is moved only if both are.
    above, below = (emit.op(op_type, number, zero) for op_type in ("Greater", "Less"))
    is_moved = emit.constant(all(to_right), TensorProto.BOOL)
    for side, moves in zip((above, below), to_right, strict=True):
        is_moved = emit.op("Or", is_moved, side) if moves else emit.op("And", is_moved, emit.op("Not", side))
    return emit.op("Where", is_moved, missing, zero)


def _band(node: Node, emit: Emitter) -> tuple[Tensor, Tensor, bool | None]:
    """The numbers of the lowest and the highest diagonal, each int64 [1], and whether they are one if that is known.

    The rank of the diagonals depends on it.
    """
    if "k" not in node.inputs:
        return emit.constant([0]), emit.constant([0]), True
    k = node["k"]
    if k.value is not None:
        numbers = np.ravel(k.value).astype(np.int64)
        return emit.constant(numbers[:1]), emit.constant(numbers[-1:]), bool(numbers[0] == numbers[-1])
    given = emit.op("Reshape", emit.cast(k, TensorProto.INT64), emit.constant([-1]))
    if k.shape in ((), (1,)):
        return given, given, True
    lower, upper = (emit.op("Gather", given, emit.constant([at])) for at in (0, -1))
    return lower, upper, None


def _matrix_sizes(node: Node, least: list[Tensor], emit: Emitter) -> list[Tensor]:
    """The numbers of rows and columns, each int64 [1]: the given ones; at least so many where one is -1."""
    names = [name for name in ("num_rows", "num_cols") if name in node.inputs]
    square = emit.op("Max", *least)
    if not names:
        return [square, square]
    one = emit.constant([1])
    given = [emit.op("Reshape", emit.cast(node[name], TensorProto.INT64), one) for name in names]
    is_open = [emit.op("Less", size, emit.constant([0])) for size in given]
    is_square = emit.op("And", *is_open)
    return [
        emit.op("Where", is_square, square, emit.op("Where", none, fewest, size))
        for none, fewest, size in zip(is_open, least, given, strict=True)
    ]
