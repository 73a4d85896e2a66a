"""ATB's rotary embeddings, alone and fused, and FaUpdateOperation."""

from __future__ import annotations

import math

from onnx import TensorProto

from onnx_sparse.converters.ascend.atb.handlers.caches import written_slots
from onnx_sparse.converters.ascend.atb.handlers.registry import Node, Results, dims_of, handles, refuse
from onnx_sparse.converters.ascend.compositions import rms_normalized
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor


@handles(
    "Rope", to="Reshape, Split, Neg, Concat, Mul, Add", notes="seqlen, which describes the packing of tokens, is unused"
)
def rope(node: Node, emit: AscendEmitter) -> Results:
    """RopeOperation of q and k: x * cos + rotated(x) * sin on each head."""
    q, k, cos, sin, _ = node.take(5)
    coefficient = node.params.integer("rotaryCoeff", 4)
    return tuple(_rotated(emit, x, cos, sin, coefficient) for x in (q, k))


def _rotated(emit: AscendEmitter, x: Tensor, cos: Tensor, sin: Tensor, coefficient: int) -> Tensor:
    """The head is split into coefficient / 2 groups; in each, the second half, negated, is moved before the first.

    So a coefficient of 2 rotates halves of the head, 4 does so in each half, and the head size swaps neighbors.
    """
    if cos.rank != 2 or cos.dims != sin.dims:
        raise Unsupported(f"cos and sin are {cos} and {sin}; [tokens, head size] expected")
    tokens, head = cos.dims
    if coefficient < 2 or coefficient % 2 or head % coefficient:
        refuse("ERROR_INVALID_PARAM", f"rotaryCoeff {coefficient} does not divide the head size {head}")
    total = math.prod(x.dims)
    if total % (tokens * head):
        refuse("ERROR_INVALID_TENSOR_DIM", f"{x} does not fit {cos}")
    groups, half = coefficient // 2, head // coefficient
    inner = [tokens, total // (tokens * head), groups, 2 * half]
    wide = emit.reshape(emit.cast(x, TensorProto.FLOAT), inner)
    first, second = emit.split(wide, 3, [half, half])
    turned = emit.concat([emit.op("Neg", second), first], 3)
    factors = [emit.reshape(emit.cast(t, TensorProto.FLOAT), [tokens, 1, groups, 2 * half]) for t in (cos, sin)]
    result = emit.op("Add", emit.op("Mul", wide, factors[0]), emit.op("Mul", turned, factors[1]))
    return emit.cast(emit.reshape(result, x.dims), x.dtype)


@handles("FaUpdate", to="Softmax, Mul, ReduceSum")
def fa_update(node: Node, emit: AscendEmitter) -> Tensor:
    """FaUpdateOperation: partial results of attention, weighted by the softmax of their log-sum-exp."""
    lse, parts = node.take(2)
    if (lse.rank, parts.rank) != (2, 3):
        refuse("ERROR_INVALID_TENSOR_DIM", f"{lse} and {parts}; [sp, n] and [sp, n, head size] expected")
    if (count := node.params.integer("sp", lse.dims[0])) != lse.dims[0]:
        refuse("ERROR_INVALID_PARAM", f"sp is {count}, for {lse}")
    weights = emit.op("Softmax", emit.cast(lse, TensorProto.FLOAT), axis=0)
    column = emit.op("Unsqueeze", weights, emit.constant([2]), shape=(*(lse.shape or ()), 1))
    weighted = emit.op("Mul", emit.cast(parts, TensorProto.FLOAT), column)
    return emit.cast(emit.reduce("ReduceSum", weighted, [0], keepdims=False), parts.dtype)


@handles("RopeQConcat", to="Split, Neg, Concat, Mul, Add")
def rope_q_concat(node: Node, emit: AscendEmitter) -> Tensor:
    """RopeQConcatOperation: q [tokens, heads * size] rotated by halves, each head behind that of another tensor."""
    q, cos, sin, other = node.take(4)
    _, heads, _ = dims_of(other, "tokens, heads, size")
    turned = _rotated(emit, q, cos, sin, 2)
    tokens, size = dims_of(cos, "tokens, head size")
    parts = emit.reshape(emit.cast(turned, other.dtype), [tokens, heads, size])
    return emit.concat([parts, other], 2)


@handles("NormRopeReshape", to="Mul, ReduceMean, Sqrt, Concat, ScatterND")
def norm_rope_reshape(node: Node, emit: AscendEmitter) -> Tensor:
    """NormRopeReshapeOperation: x normalized, and a key rotated, are written together into slots of a cache."""
    x, gamma, key, cos, sin, slots, cache = node.take(7)
    wide, scale = (emit.cast(tensor, TensorProto.FLOAT) for tensor in (x, gamma))
    y, _ = rms_normalized(emit, wide, scale, node.params.number("epsilon", 1e-5))
    tokens, size = dims_of(cos, "tokens, head size")
    turned = emit.reshape(_rotated(emit, key, cos, sin, 2), [tokens, math.prod(key.dims) // (tokens * size), size])
    normed = emit.reshape(
        emit.cast(y, x.dtype), [tokens, turned.dims[1], math.prod(x.dims) // (tokens * turned.dims[1])]
    )
    rows = emit.cast(emit.concat([normed, turned], 2), cache.dtype)
    return written_slots(emit, cache, rows, slots)
