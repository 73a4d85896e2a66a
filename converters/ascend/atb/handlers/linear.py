"""ATB LinearOperation on floating types, accumulated in float32."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.ascend.atb.handlers.registry import Node, Results, handles
from onnx_sparse.converters.ascend.compositions import swapped
from onnx_sparse.converters.ascend.emitter import Emitter
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.schemas.declaration import FLOATS

_MATMUL_TYPES = {"MATMUL_UNDEFINED": 0, "EIN_SUM": 1}
_FRACTAL = 16


@handles(
    "Linear",
    to="Transpose, MatMul, Add",
    weights=(1, 2),
    notes="floating types, not quantised; weights of format FRACTAL_NZ, too",
)
def linear(node: Node, emit: Emitter) -> Results:
    """LinearOperation: op(x) @ op(weight) + bias."""
    params = node.params
    if params.integer("outDataType", -1) != -1 or params.integer("quantMode", 0):
        raise Unsupported("quantised Linear is not supported")
    accumulates, has_bias = params.flag("enAccum", False), params.flag("hasBias", True)
    x, weight, *rest = node.take(2 + has_bias + accumulates)
    if x.dtype not in FLOATS or weight.dtype not in FLOATS:
        raise Unsupported(f"{x} and {weight}: only floating types are converted")
    transpose_a, transpose_b = params.flag("transposeA", False), params.flag("transposeB", True)
    left = emit.cast(x, TensorProto.FLOAT)
    right = _plain_weight(emit, x, emit.cast(weight, TensorProto.FLOAT), node)
    try:
        if transpose_b:
            right = swapped(emit, right)
        if params.enum("matmulType", _MATMUL_TYPES, 0) == _MATMUL_TYPES["EIN_SUM"]:  # mbk,bkn->mbn
            y = emit.transpose(emit.matmul(emit.transpose(left, [1, 0, 2]), right), [1, 0, 2])
        else:
            y = emit.matmul(swapped(emit, left) if transpose_a else left, right)
    except Unsupported as reason:  # it names the tensors after casts and transpositions
        raise Unsupported(
            f"ERROR_INVALID_TENSOR_DIM: {x} and {weight} do not multiply with transposeA = {transpose_a}, "
            f"transposeB = {transpose_b}"
        ) from reason
    for addend in rest:
        y = emit.op("Add", y, emit.cast(addend, TensorProto.FLOAT))
    return (y if accumulates else emit.cast(y, x.dtype),)


def _plain_weight(emit: Emitter, x: Tensor, weight: Tensor, node: Node) -> Tensor:
    """A weight of format FRACTAL_NZ, [b, columns / 16, rows, 16], as a matrix; other weights as they are."""
    record = node.record.inputs[1] if len(node.record.inputs) > 1 else None
    is_nz = record is not None and record.format == "FRACTAL_NZ"
    if is_nz and weight.rank != 4:
        raise Unsupported(f"{weight} has the format FRACTAL_NZ but not its shape; dump it as ND")
    if weight.rank != 4 or weight.dims[3] != _FRACTAL or not (is_nz or x.rank < 4):
        return weight
    batch, blocks, rows, _ = weight.dims
    matrix = emit.reshape(emit.transpose(weight, [0, 2, 1, 3]), [batch, rows, blocks * _FRACTAL])
    return emit.reshape(matrix, [rows, blocks * _FRACTAL]) if batch == 1 else matrix
