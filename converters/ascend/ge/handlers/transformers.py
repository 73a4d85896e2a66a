"""GE's fused operators of transformers: rotary embeddings, masked softmax, residual norms, quantized products."""

from __future__ import annotations

from onnx import TensorProto

from onnx_sparse.converters.ascend.compositions import rms_normalized, rotated_by_halves, scaled_masked_softmax, swapped
from onnx_sparse.converters.ascend.dtypes import ACL
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.ge.handlers.registry import Node, Results, handles
from onnx_sparse.converters.ascend.quantization import (
    dequantization_scale,
    dynamic_symmetric,
    integer_matmul,
)
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering.bits import float_bits


@handles("RotaryMul", to="Split, Neg, Concat, Mul, Add")
def rotary_mul(node: Node, emit: AscendEmitter) -> Tensor:
    """RotaryMul(x, r1, r2): x * r1 + rotated(x) * r2, by halves of the last axis."""
    return emit.in_float32(lambda x, cos, sin: rotated_by_halves(emit, x, cos, sin), *node.take(3))


# cos and sin broadcast in every layout.
@handles("ApplyRotaryPosEmb", to="Split, Neg, Concat, Mul, Add", notes="rotary_mode half", ignored=("layout",))
def apply_rotary_pos_emb(node: Node, emit: AscendEmitter) -> Results:
    """ApplyRotaryPosEmb(query, key, cos, sin | layout, rotary_mode)."""
    query, key, cos, sin = node.take(4)
    mode = node.attributes.get("rotary_mode", "half")
    if mode not in ("half", b"half", ""):
        raise Unsupported(f"rotary_mode {mode} is not half")
    return tuple(
        emit.in_float32(lambda x, c, s: rotated_by_halves(emit, x, c, s), tensor, cos, sin) for tensor in (query, key)
    )


@handles("ScaledMaskedSoftmax", to="Mul, Where, Softmax")
def scaled_masked(node: Node, emit: AscendEmitter) -> Tensor:
    """ScaledMaskedSoftmax(x, mask | scale, fixed_triu_mask)."""
    (x,), (mask,) = node.optional(1, 2)
    scale, triangle = node.number("scale", 1.0), node.flag("fixed_triu_mask")
    return scaled_masked_softmax(emit, x, mask, scale, upper_triangle=triangle)


@handles("AddRmsNorm", to="Add, Mul, ReduceMean, Sqrt, Div")
def add_rms_norm(node: Node, emit: AscendEmitter) -> Results:
    """AddRmsNorm(x1, x2, gamma | epsilon): y, 1 / root in float32, and x1 + x2."""
    x, residual, gamma = node.take(3)
    total = emit.op("Add", emit.cast(x, TensorProto.FLOAT), emit.cast(residual, TensorProto.FLOAT))
    scale = emit.cast(gamma, TensorProto.FLOAT)
    y, rstd = rms_normalized(emit, total, scale, node.number("epsilon", 1e-6), gamma.rank)
    return (emit.cast(y, x.dtype), rstd, emit.cast(total, x.dtype))


@handles("DynamicQuant", to="Abs, ReduceMax, Div, Round", notes="to int8, without groups")
def dynamic_quant(node: Node, emit: AscendEmitter) -> Results:
    """DynamicQuant(x, smooth_scales): int8 rows, and the scale of each."""
    (x,), (smooth, groups) = node.optional(1, 3)
    if groups is not None or node.integer("dst_type", 2) != 2:
        raise Unsupported("groups of scales, or another type than int8")
    wide = emit.cast(x, TensorProto.FLOAT)
    if smooth is not None:
        wide = emit.op("Mul", wide, emit.cast(smooth, TensorProto.FLOAT))
    return dynamic_symmetric(emit, wide)


@handles("TransQuantParamV2", to="LessOrEqual, Gather, Div, Add", notes="without an offset, round_mode 0")
def trans_quant_param(node: Node, emit: AscendEmitter) -> Tensor:
    """TransQuantParamV2(scale, offset | round_mode): the upper 19 bits of a float32 scale as int64, and bit 46."""
    (scale,), (offset,) = node.optional(1, 2)
    if offset is not None or node.integer("round_mode", 0):
        raise Unsupported("an offset, or a round_mode other than 0")
    if scale.dtype != TensorProto.FLOAT:
        raise Unsupported(f"its scale {scale} is not float32")
    bits = float_bits(emit, scale)
    upper = emit.op("Sub", bits, emit.op("Mod", bits, emit.constant(2**13)))
    return emit.op("Add", upper, emit.constant(2**46))


@handles("QuantBatchMatmulV3", to="MatMul, Add, Mul", notes="int8 to float16, bfloat16 or int32, without an offset")
def quant_batch_matmul(node: Node, emit: AscendEmitter) -> Tensor:
    """QuantBatchMatmulV3(x1, x2, scale, offset, bias, pertoken_scale | dtype, transpose_x1, transpose_x2)."""
    (x, weight, scale), (offset, bias, per_token) = node.optional(3, 6)
    if offset is not None:
        raise Unsupported("an offset is not supported")
    number = node.integer("dtype")
    if number not in (1, 3, 27):
        raise Unsupported(f"dtype {number} is none of float16, bfloat16, int32")
    factors = [swapped(emit, tensor) if node.flag(f"transpose_x{i}") else tensor for i, tensor in ((1, x), (2, weight))]
    total: Tensor = integer_matmul(emit, *factors)
    late = None if bias is None or bias.dtype == TensorProto.INT32 else bias
    if bias is not None and late is None:
        total = emit.op("Add", total, bias)
    if number == 3:
        return total
    wide = emit.cast(scale, TensorProto.FLOAT) if scale.dtype == TensorProto.BFLOAT16 else scale
    y = emit.op("Mul", emit.cast(total, TensorProto.FLOAT), dequantization_scale(emit, wide))
    if per_token is not None:
        own = emit.cast(per_token, TensorProto.FLOAT)
        y = emit.op("Mul", y, emit.op("Unsqueeze", own, emit.constant([-1])))
    if late is not None:
        y = emit.op("Add", y, emit.cast(late, TensorProto.FLOAT))
    return emit.cast(y, ACL[number])
