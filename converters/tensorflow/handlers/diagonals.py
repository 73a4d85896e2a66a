"""tf.raw_ops.MatrixSetDiag and its V2 and V3: one or several diagonals of matrices are replaced."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.emitter import Emitter
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.tensorflow.handlers.registry import Node, handles

_TYPES = ("all numbers", "bool")


@handles("MatrixSetDiag", inputs=("input", "diagonal"), to="Where", dtypes=_TYPES)
@handles("MatrixSetDiagV2", "MatrixSetDiagV3", inputs=("input", "diagonal", "k"), to="Where", dtypes=_TYPES)
def matrix_set_diag(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """Every element inside of the band is taken from the diagonals, by the number of its diagonal and its place there.

    Diagonal k, counted from the main one upward, is row `k_upper - k` of the diagonals; one that is shorter than the
    longest is aligned with it to the left or right.
    """
    matrices, diagonals = node["input"], node["diagonal"]
    k = emit.cast(node["k"], TensorProto.INT64) if "k" in node.inputs else emit.constant([0])
    k = emit.op("Reshape", k, emit.constant([-1]))
    lower, upper = (emit.op("Gather", k, emit.constant([at])) for at in (0, -1))
    rows, columns = (emit.size(matrices, matrices.rank - 2 + at) for at in range(2))
    zero, one = emit.constant([0]), emit.constant([1])
    i, j = (
        emit.op("Range", emit.constant(0), emit.op("Squeeze", size, emit.constant([0])), emit.constant(1))
        for size in (rows, columns)
    )
    i = emit.op("Unsqueeze", i, one)
    number = emit.op("Sub", j, i)
    in_band = emit.op("And", emit.op("LessOrEqual", lower, number), emit.op("LessOrEqual", number, upper))
    longest, place = emit.size(diagonals, diagonals.rank - 1), emit.op("Min", i, j)
    align = node.attributes.get("align", b"LEFT_LEFT").decode()
    to_right = [kind == "RIGHT" for kind in align.split("_")]
    if any(to_right):
        length = emit.op(
            "Min",
            emit.op("Add", rows, emit.op("Min", number, zero)),
            emit.op("Sub", columns, emit.op("Max", number, zero)),
        )
        missing = emit.op("Sub", longest, length)
        # The main diagonal is on both sides: it is moved only if both are.
        above, below = (emit.op(op_type, number, zero) for op_type in (("Greater", "Less")))
        moved = emit.constant(all(to_right), TensorProto.BOOL)
        for side, is_moved in zip((above, below), to_right, strict=True):
            moved = emit.op("Or", moved, side) if is_moved else emit.op("And", moved, emit.op("Not", side))
        place = emit.op("Add", place, emit.op("Where", moved, missing, zero))
    place = emit.op("Add", place, emit.op("Mul", emit.op("Sub", upper, number), longest))
    # Outside of the band anything is taken; there is something if there are elements.
    place = emit.op("Where", in_band, place, zero)
    batch = emit.op("Slice", emit.shape_of(matrices), zero, emit.constant([-2]))
    band = emit.op("Mul", emit.op("Add", emit.op("Sub", upper, lower), one), longest)
    flat = emit.op("Reshape", diagonals, emit.op("Concat", batch, band, axis=0), allowzero=1)
    taken = emit.op("Gather", flat, place, axis=matrices.rank - 2)
    return (emit.op("Where", in_band, taken, matrices),)
