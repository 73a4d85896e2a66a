"""Attention over packed sequences as whole-tensor ONNX, without loops, for ATB, GE and torch_npu.

All tokens of all sequences attend to all keys at once; a key of another sequence has a score of -inf. So the cost is
that of one sequence of all tokens, and no length needs to be a constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Shape, Tensor


@dataclass(frozen=True)
class Tokens:
    """The tokens of packed sequences.

    Attributes:
        segment: The sequence of each, int64 [tokens]; the number of sequences for tokens behind the last one.
        position: The position of each in its sequence, int64 [tokens].
    """

    segment: Tensor
    position: Tensor


def vector(emit: AscendEmitter, tensor: Tensor) -> Tensor:
    """A tensor of integers as an int64 vector."""
    return emit.reshape(emit.cast(tensor, TensorProto.INT64), [math.prod(tensor.dims)])


def numbers(emit: AscendEmitter, count: int) -> Tensor:
    """0, 1, ..., count - 1 as int64."""
    emit.spend(count)
    return emit.constant(np.arange(count, dtype=np.int64))


def column(emit: AscendEmitter, tensor: Tensor) -> Tensor:
    """A vector as a column."""
    return emit.op("Unsqueeze", tensor, emit.constant([1]), shape=(*(tensor.shape or ()), 1))


def packed(emit: AscendEmitter, lengths: Tensor, count: int) -> Tokens:
    """The tokens of sequences that are one after the other.

    Args:
        emit: Receives the nodes.
        lengths: The length of each sequence, of an integer type.
        count: The number of tokens, at least the sum of the lengths.
    """
    sizes = vector(emit, lengths)
    ends = emit.op("CumSum", sizes, emit.constant(0), shape=sizes.shape)
    starts = emit.concat([emit.op("Sub", ends, sizes), emit.slice(ends, [sizes.dims[0] - 1], [sizes.dims[0]], [0])], 0)
    token = numbers(emit, count)
    passed = emit.cast(emit.op("GreaterOrEqual", column(emit, token), ends), TensorProto.INT64)
    segment = emit.reduce("ReduceSum", passed, [1], keepdims=False)
    return Tokens(segment, emit.op("Sub", token, emit.op("Gather", starts, segment, shape=(count,), axis=0)))


def cached(emit: AscendEmitter, lengths: Tensor, most: int) -> tuple[Tokens, Tensor]:
    """The tokens of sequences in a cache [sequences, most, ...]: the first `lengths` of each, and their row numbers."""
    sizes = vector(emit, lengths)
    count = sizes.dims[0]
    emit.spend(count * most)
    inside = emit.op("Less", numbers(emit, most), column(emit, sizes))
    found = emit.op("NonZero", inside, shape=(2, None))
    segment, position = (emit.op("Gather", found, emit.constant(i), shape=(None,), axis=0) for i in range(2))
    rows = emit.op("Add", emit.op("Mul", segment, emit.constant(most)), position)
    return Tokens(segment, position), rows


def taken_rows(emit: AscendEmitter, table: Tensor, rows: Tensor) -> Tensor:
    """Rows of a tensor."""
    shape = None if rows.shape is None or table.shape is None else (*rows.shape, *table.shape[1:])
    return emit.op("Gather", table, rows, shape=shape, axis=0)


def same_sequence(emit: AscendEmitter, queries: Tokens, keys: Tokens) -> Tensor:
    """Whether a query and a key are of one sequence, bool [queries, keys]."""
    return emit.op("Equal", column(emit, queries.segment), keys.segment)


def causal(emit: AscendEmitter, queries: Tokens, keys: Tokens, *, window: int = 0) -> Tensor:
    """Whether a key is at most at the query's position and, with a window, fewer than that many before it."""
    behind = emit.op("Sub", column(emit, queries.position), keys.position)
    reached = emit.op("GreaterOrEqual", behind, emit.constant(0))
    return emit.op("And", reached, emit.op("Less", behind, emit.constant(window))) if window > 0 else reached


def masked_scores(
    emit: AscendEmitter, mask: Tensor, queries: Tokens, keys: Tokens, *, heads: int, batch: int, by_head: bool
) -> Tensor:
    """What a mask adds to the scores, float32 [queries, keys] or [heads, queries, keys].

    Args:
        emit: Receives the nodes.
        mask: [rows, columns], [batch or heads, rows, columns] or [batch, heads, rows, columns].
        queries: Their positions are rows of the mask.
        keys: Their positions are its columns.
        heads: The number of heads.
        batch: The number of sequences.
        by_head: Whether a mask of rank 3 is by head, not by sequence.
    """
    dims = mask.dims
    if len(dims) not in (2, 3, 4):
        raise Unsupported(f"the mask is {mask}; 2 to 4 axes expected")
    count = (1, 1, *dims)[-4:]
    if len(dims) == 3:
        per_head = (by_head and dims[0] == heads) or dims[0] not in (1, batch)
        count = (1, dims[0], *dims[1:]) if per_head else (dims[0], 1, *dims[1:])
    sequences, own_heads, rows, columns = count
    if sequences not in (1, batch) or own_heads not in (1, heads):
        raise Unsupported(f"the mask is {mask}; {batch} sequences and {heads} heads expected")
    by_heads = emit.transpose(emit.reshape(mask, list(count)), [1, 0, 2, 3])
    flat = emit.reshape(by_heads, [own_heads, sequences * rows, columns])
    row = emit.extreme("Min", queries.position, emit.constant(rows - 1))
    if sequences > 1:
        first = emit.extreme("Min", queries.segment, emit.constant(sequences - 1))
        row = emit.op("Add", emit.op("Mul", first, emit.constant(rows)), row)
    place = emit.extreme("Min", keys.position, emit.constant(columns - 1))
    size, wide = (row.shape or (None,))[0], (place.shape or (None,))[0]
    picked = emit.op("Gather", flat, row, shape=(own_heads, size, columns), axis=1)
    whole = emit.op("Gather", picked, place, shape=(own_heads, size, wide), axis=2)
    return whole if own_heads > 1 else emit.op("Squeeze", whole, emit.constant([0]), shape=(size, wide))


def attention(
    emit: AscendEmitter,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    clamp: tuple[float, float] | None = None,
    addend: Tensor | None = None,
    allowed: Tensor | None = None,
    last_scale: float = 1.0,
) -> Tensor:
    """softmax((q k^T * scale, clamped, + addend) * last_scale) @ v, float32 [queries, heads, value size].

    Args:
        emit: Receives the nodes.
        q: float32 [queries, heads, size].
        k: float32 [keys, key heads, size]; as many query heads share a key head as there are more of them.
        v: float32 [keys, key heads, value size].
        scale: Multiplies the scores first.
        clamp: Their bounds after that.
        addend: Is added to them: [queries, keys] or [heads, queries, keys].
        allowed: bool [queries, keys]: other keys have no weight.
        last_scale: Multiplies the scores before the softmax.
    """
    (queries, heads, size), (_, groups, own) = (q.shape or ()), (k.shape or ())
    keys, width = (k.shape or ())[0], (v.shape or ())[2]
    if queries is None or heads is None or size is None or width is None or not groups or own != size or heads % groups:
        raise Unsupported(f"{heads} heads of {size} do not share {groups} key heads of {own}")
    together = _shaped(emit, emit.transpose(q, [1, 0, 2]), (groups, heads // groups * queries, size))
    scores = emit.matmul(together, emit.transpose(k, [1, 2, 0]))
    scores = _shaped(emit, scores, (heads, queries, keys))
    if scale != 1.0:
        scores = emit.op("Mul", scores, emit.like(scale, scores))
    if clamp is not None:
        scores = emit.op("Clip", scores, *(emit.like(bound, scores) for bound in clamp), shape=scores.shape)
    if addend is not None:
        scores = emit.op("Add", scores, addend)
    if last_scale != 1.0:
        scores = emit.op("Mul", scores, emit.like(last_scale, scores))
    if allowed is not None:
        scores = emit.op("Where", allowed, scores, emit.like(-math.inf, scores))
    weights = emit.op("Softmax", scores, axis=2, shape=scores.shape)
    weights = _shaped(emit, weights, (groups, heads // groups * queries, keys))
    result = emit.matmul(weights, emit.transpose(v, [1, 0, 2]))
    return emit.transpose(_shaped(emit, result, (heads, queries, width)), [1, 0, 2])


def _shaped(emit: AscendEmitter, tensor: Tensor, shape: Shape) -> Tensor:
    """Reshape to a shape of which one dimension may be unknown."""
    if tensor.shape == shape:
        return tensor
    return emit.op("Reshape", tensor, emit.constant([-1 if d is None else d for d in shape]), shape=shape)
