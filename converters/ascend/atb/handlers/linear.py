"""ATB LinearOperation: floats accumulated in float32, int8 in int32."""

from __future__ import annotations

from collections.abc import Callable

from onnx import TensorProto

from onnx_sparse.converters.ascend.atb.handlers.layouts import from_nz
from onnx_sparse.converters.ascend.atb.handlers.registry import Node, check_types, handles, refuse
from onnx_sparse.converters.ascend.compositions import swapped
from onnx_sparse.converters.ascend.dtypes import ACL
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.quantization import dequantization_scale, integer_matmul
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.schemas.declaration import FLOATS, DType

_MATMUL_TYPES = {"MATMUL_UNDEFINED": 0, "EIN_SUM": 1}
_QUANT_MODES = {"QUANT_UNDEFINED": 0, "PER_CHANNEL": 1, "PER_TOKEN": 2}
#: float16 and bfloat16, by aclDataType number.
_FLOAT16 = 1
_QUANTISED_RESULTS = (_FLOAT16, 27)
#: Chips whose scales are always bits, as `SocVersion` names them.
_WITH_BITS = ("Ascend910B", "Ascend910_93", "Ascend310P")
#: Columns of a block of FRACTAL_NZ.
_FRACTAL, _FRACTAL_INT8 = 16, 32


@handles(
    "Linear",
    to="Transpose, MatMul, Add, Mul",
    weights=(1, 2),
    sums=True,
    notes="quantized: int8 weights with outDataType float16 or bfloat16; weights of format FRACTAL_NZ, too",
)
def linear(node: Node, emit: AscendEmitter) -> Tensor:
    """LinearOperation: op(x) @ op(weight) + bias, of floats, or of int8 with scales."""
    params = node.params
    number = params.integer("outDataType", -1)
    accumulates, has_bias = params.flag("enAccum", False), params.flag("hasBias", True)
    if number == -1:
        x, weight, *rest = node.take(2 + has_bias + accumulates)
        if x.dtype not in FLOATS or weight.dtype not in FLOATS:
            raise Unsupported(f"{x} and {weight}: only floating types are converted without outDataType")
        y = _product(node, emit, x, weight, emit.matmul, TensorProto.FLOAT)
        if has_bias:
            y = _with_bias(node, emit, x, weight, y, rest.pop(0))
        for addend in rest:
            y = emit.op("Add", y, emit.cast(addend, TensorProto.FLOAT))
        return y if accumulates else emit.cast(y, x.dtype)
    if number not in _QUANTISED_RESULTS:
        raise Unsupported(f"outDataType {number} is neither float16 nor bfloat16")
    return emit.cast(_quantized(node, emit, has_bias=has_bias), ACL[number])


def linear_of_one_rank(node: Node, emit: AscendEmitter) -> Tensor:
    """LinearParallelOperation among one rank: x @ op(weight) + residual."""
    x, weight, *rest = node.take(2 + node.params.flag("hasResidual", False))
    right = _plain_weight(emit, x, emit.cast(weight, TensorProto.FLOAT), node)
    if node.params.flag("transWeight", True):
        right = swapped(emit, right)
    y = emit.matmul(emit.cast(x, TensorProto.FLOAT), right)
    for addend in rest:
        y = emit.op("Add", y, emit.cast(addend, TensorProto.FLOAT))
    return emit.cast(y, x.dtype)


def _quantized(node: Node, emit: AscendEmitter, *, has_bias: bool) -> Tensor:
    """(x @ weight + bias in int32) * deqScale * perTokenScale."""
    per_token = node.params.enum("quantMode", _QUANT_MODES, 0) == _QUANT_MODES["PER_TOKEN"]
    x, weight, *rest = node.take(3 + has_bias + per_token)
    if x.dtype != TensorProto.INT8 or weight.dtype != TensorProto.INT8:
        refuse("ERROR_INVALID_TENSOR_INI_MATCH", f"{x} and {weight} are multiplied as integers; int8 expected")
    total = _product(node, emit, x, weight, lambda a, b: integer_matmul(emit, a, b), TensorProto.INT8)
    if has_bias:
        bias = rest.pop(0)
        check_types(bias=(bias, [TensorProto.INT32]))
        total = emit.op("Add", total, _by_batch(emit, x, weight, bias, total))
    stored = rest.pop(0)
    check_types(deqScale=(stored, _scale_types(node, per_token=per_token)))
    scale = dequantization_scale(emit, stored)
    if not per_token:  # in PER_TOKEN one row of scales is for all batches
        scale = _by_batch(emit, x, weight, scale, total)
    y = emit.op("Mul", emit.cast(total, TensorProto.FLOAT), scale)
    if per_token:
        own = emit.cast(rest.pop(0), TensorProto.FLOAT)
        y = emit.op("Mul", y, emit.reshape(own, [*own.dims, 1]))
    return y


def _scale_types(node: Node, *, per_token: bool) -> tuple[DType, ...]:
    """A float16 result has the bits of its scales in 64-bit integers, but not on 910A; others have the scales."""
    if per_token or node.params.integer("outDataType", -1) != _FLOAT16:
        return (TensorProto.FLOAT,)
    bits = (TensorProto.INT64, TensorProto.UINT64)
    return bits if node.record.soc.startswith(_WITH_BITS) else (*bits, TensorProto.FLOAT)


def _product(
    node: Node,
    emit: AscendEmitter,
    x: Tensor,
    weight: Tensor,
    matmul: Callable[[Tensor, Tensor], Tensor],
    dtype: DType,
) -> Tensor:
    params = node.params
    transpose_a, transpose_b = params.flag("transposeA", False), params.flag("transposeB", True)
    left = emit.cast(x, dtype)
    right = _plain_weight(emit, x, emit.cast(weight, dtype), node)
    try:
        if transpose_b:
            right = swapped(emit, right)
        if _is_einsum(node):  # mbk,bkn->mbn
            return emit.transpose(matmul(emit.transpose(left, [1, 0, 2]), right), [1, 0, 2])
        return matmul(swapped(emit, left) if transpose_a else left, right)
    except Unsupported as reason:  # it names the tensors after casts and transpositions
        raise Unsupported(
            f"ERROR_INVALID_TENSOR_DIM: {x} and {weight} do not multiply with transposeA = {transpose_a}, "
            f"transposeB = {transpose_b}"
        ) from reason


def _is_einsum(node: Node) -> bool:
    return node.params.enum("matmulType", _MATMUL_TYPES, 0) == _MATMUL_TYPES["EIN_SUM"]


def _with_bias(node: Node, emit: AscendEmitter, x: Tensor, weight: Tensor, y: Tensor, bias: Tensor) -> Tensor:
    if bias.dtype == TensorProto.BFLOAT16:  # the product is rounded before the bias is added
        y = emit.cast(emit.cast(y, TensorProto.BFLOAT16), TensorProto.FLOAT)
    wide = emit.cast(bias, TensorProto.FLOAT)
    return emit.op("Add", y, wide if _is_einsum(node) else _by_batch(emit, x, weight, wide, y))


def _by_batch(emit: AscendEmitter, x: Tensor, weight: Tensor, rows: Tensor, y: Tensor) -> Tensor:
    """Rows [batch, columns] of a product of batches [batch, m, columns], one row for each batch."""
    is_batched = x.rank == 3 and weight.rank in (3, 4) and y.rank == 3 and rows.rank == 2
    if not is_batched or rows.dims[0] != y.dims[0]:
        return rows
    return emit.reshape(rows, [rows.dims[0], 1, rows.dims[1]])


def _plain_weight(emit: AscendEmitter, x: Tensor, weight: Tensor, node: Node) -> Tensor:
    """A weight of format FRACTAL_NZ, [b, columns / 16, rows, 16] (32 of int8), as a matrix; others as they are."""
    record = node.record.inputs[1] if len(node.record.inputs) > 1 else None
    is_nz = record is not None and record.format == "FRACTAL_NZ"
    if is_nz and weight.rank != 4:
        raise Unsupported(f"{weight} has the format FRACTAL_NZ but not its shape; dump it as ND")
    size = _FRACTAL_INT8 if weight.dtype == TensorProto.INT8 else _FRACTAL
    if weight.rank != 4 or weight.dims[3] != size or not (is_nz or x.rank < 4):
        return weight
    matrix = _cropped(node, emit, x, from_nz(emit, weight))
    return emit.reshape(matrix, list(matrix.dims[1:])) if matrix.dims[0] == 1 else matrix


def _cropped(node: Node, emit: AscendEmitter, x: Tensor, matrix: Tensor) -> Tensor:
    """The matrix without what fills its blocks up: x has as many columns as it has rows, the result its columns."""
    transposed = node.params.flag("transposeB", node.params.flag("transWeight", True))
    terms = x.dims[-2 if node.params.flag("transposeA", False) else -1]
    record = node.record.outputs[0] if node.record.outputs else None
    columns = record.shape[-1] if record is not None and record.shape else None
    wanted = [terms, matrix.dims[1 if transposed else 2] if columns is None else columns]
    ends = [min(*pair) for pair in zip(reversed(wanted) if transposed else wanted, matrix.dims[1:], strict=True)]
    return emit.slice(matrix, [0, 0], ends, [1, 2])
