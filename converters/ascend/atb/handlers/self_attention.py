"""ATB SelfAttentionOperation: packed sequences (PA_ENCODER), and sequences with a cache of keys and values."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnx import TensorProto

from onnx_sparse.converters.ascend.atb.handlers.layouts import from_nz
from onnx_sparse.converters.ascend.atb.handlers.registry import INTEGERS, Node, check_types, handles, refuse
from onnx_sparse.converters.ascend.attention import (
    Tokens,
    attention,
    cached,
    causal,
    column,
    masked_scores,
    numbers,
    packed,
    same_sequence,
    taken_rows,
    vector,
)
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.schemas.declaration import FLOATS, DType

_CALC_TYPES = {"UNDEFINED": 0, "ENCODER": 1, "DECODER": 2, "PA_ENCODER": 3, "PREFIX_ENCODER": 4}
_KERNELS = {"KERNELTYPE_DEFAULT": 0, "KERNELTYPE_HIGH_PRECISION": 1, "KERNELTYPE_EXP_M8V2": 2}
_MASKS = {
    "MASK_TYPE_UNDEFINED": 0,
    "MASK_TYPE_NORM": 1,
    "MASK_TYPE_ALIBI": 2,
    "MASK_TYPE_NORM_COMPRESS": 3,
    "MASK_TYPE_ALIBI_COMPRESS": 4,
    "MASK_TYPE_ALIBI_COMPRESS_SQRT": 5,
    "MASK_TYPE_ALIBI_COMPRESS_LEFT_ALIGN": 6,
    "MASK_TYPE_SLIDING_WINDOW_NORM": 7,
    "MASK_TYPE_SLIDING_WINDOW_COMPRESS": 8,
    "MASK_TYPE_CAUSAL_MASK": 9,
}
_NONE, _NORM, _ALIBI, _NORM_COMPRESS = 0, 1, 2, 3
_WINDOWS, _CAUSAL = (7, 8), 9
_ALIBI_COMPRESS = 4
_UNKNOWN_MASKS = (5, 6)
#: Old dumps have isEncoder in place of calcType: the attention with a cache has more inputs than this.
_MOST_PACKED = 5
_CACHE_CONFIGS = {"K_CACHE_V_CACHE": 0, "K_BYPASS_V_BYPASS": 1}
#: Masks of other types than float16 are 1 where a key has no weight, and are multiplied by this.
_COEFFICIENT = -3e38
#: What the kernel adds to the scores of masked keys where it ignores the tensor.
_MASKED: dict[DType, float] = {TensorProto.FLOAT16: -10000.0}
#: What is refused, and why, if a parameter is not 0.
_UNSUPPORTED = {
    "quantType": "quantized attention",
    "batchRunStatusEnable": "a batch that runs only in part",
    "scaleType": "scaling by the logarithm of the length",
    "cacheType": "a sliding-window cache",
}


@handles(
    "SelfAttention",
    to="MatMul, Softmax, CumSum, Gather, Where",
    lacks="quantized attention, ALiBi masks compressed by slopes, PREFIX_ENCODER, BNSD, LOGN",
    # Those of old dumps the number and the sizes of inputs say, too; and a mask has its numbers, triangular or not.
    ignored=("headDim", "isEncoder", "coderType", "isTriuMask"),
    defaults={"qScale": 1.0, "qkScale": 1.0, "outDataType": -1},
)
def self_attention(node: Node, emit: AscendEmitter) -> Tensor:
    """SelfAttentionOperation: softmax(q k^T * scale + mask) @ v for each sequence and head."""
    params = node.params
    for name, what in _UNSUPPORTED.items():
        if params.number(name, 0):
            raise Unsupported(f"{name}: {what} is not supported")
    if params.integer("inputLayout", 0):
        raise Unsupported("inputLayout: only BSND is supported")
    if params.integer("headNum", 0) <= 0:
        refuse("ERROR_INVALID_PARAM", f"headNum is {params.integer('headNum', 0)}")
    if _mask_type(node) in _UNKNOWN_MASKS:
        raise Unsupported("maskType: ALiBi masks that are compressed by slopes have no definition that is known")
    kind = params.enum("calcType", _CALC_TYPES, 0)
    if kind == _CALC_TYPES["PREFIX_ENCODER"]:
        raise Unsupported("calcType: PREFIX_ENCODER is not supported")
    if kind == _CALC_TYPES["PA_ENCODER"] or (kind == 0 and len(node.inputs) <= _MOST_PACKED):
        return _packed_encoder(node, emit)
    if params.enum("kvcacheCfg", _CACHE_CONFIGS, 0) == _CACHE_CONFIGS["K_BYPASS_V_BYPASS"]:
        return _bypass(node, emit)
    return _with_cache(node, emit)


def _packed_encoder(node: Node, emit: AscendEmitter) -> Tensor:
    """q, k, v [tokens, ...], [mask], seqlen: the prefill of paged models."""
    q, k, *rest = node.inputs if len(node.inputs) >= 3 else node.take(4, 5)
    width = node.params.integer("mlaVHeadSize", 0)
    heads, groups = _heads(node)
    keys = _by_head(emit, k, groups)
    values = _by_head(emit, rest.pop(0), groups) if not width else _first_columns(emit, keys, width)
    mask = rest.pop(0) if rest and rest[0].dtype in FLOATS else None
    if len(rest) != 1:
        refuse("ERROR_INVALID_IN_TENSOR_NUM", f"it has {len(node.inputs)} inputs; q, k, v, [mask], seqlen expected")
    check_types(key=(k, [q.dtype]), seqLen=(rest[0], INTEGERS))
    queries = _by_head(emit, q, heads)
    lengths = _lengths(emit, rest[0])
    tokens = packed(emit, lengths, queries.dims[0])
    result = attention(
        emit,
        queries,
        keys,
        values,
        scale=node.params.number("qkScale", 1.0),
        clamp=_clamp(node),
        addend=_addend(node, emit, mask, 3, tokens, tokens, lengths),
        allowed=same_sequence(emit, tokens, tokens),
    )
    return _as_query(emit, result, q)


def _with_cache(node: Node, emit: AscendEmitter) -> Tensor:
    """q, k, v of the new tokens, kCache, vCache, [mask], tokenOffset, seqLen, layerId."""
    q, k, v, k_cache, v_cache, *rest = node.take(8, 9)
    mask = rest.pop(0) if len(rest) == 4 else None
    check_types(key=(k, [q.dtype]), value=(v, [q.dtype]), cacheK=(k_cache, [q.dtype]), cacheV=(v_cache, [q.dtype]))
    check_types(tokenOffset=(rest[0], INTEGERS), seqLen=(rest[1], INTEGERS), layerId=(rest[2], INTEGERS))
    offsets, lengths, layer = (vector(emit, tensor) for tensor in rest)
    heads, groups = _heads(node)
    queries = _by_head(emit, q, heads)
    tokens = packed(emit, lengths, queries.dims[0])
    past = emit.op("Sub", offsets, lengths)
    keys, values = (
        _joined(emit, _layer(node, emit, cache, layer, place), new, past, tokens)
        for cache, new, place in ((k_cache, k, 3), (v_cache, v, 4))
    )
    batch, most = keys.dims[:2]
    known, rows = cached(emit, offsets, most)
    params = node.params
    first = params.number("qScale", 1.0)
    result = attention(
        emit,
        queries,
        *(_grouped(emit, taken_rows(emit, emit.reshape(t, [batch * most, t.dims[2]]), rows), groups)
          for t in (keys, values)),
        scale=first,
        clamp=_clamp(node),
        addend=_addend(node, emit, mask, 5, tokens, known, lengths),
        allowed=same_sequence(emit, tokens, known),
        last_scale=params.number("qkScale", 1.0),
    )  # fmt: skip
    return _as_query(emit, result, q)


def _bypass(node: Node, emit: AscendEmitter) -> Tensor:
    """q, kCache, vCache, [mask], kvSeqLen, qSeqLen, layerId: the caches hold the new tokens already."""
    q, k_cache, v_cache, *rest = node.take(6, 7)
    mask = rest.pop(0) if len(rest) == 4 else None
    key_lengths, lengths, layer = (vector(emit, tensor) for tensor in rest)
    heads, groups = _heads(node)
    node.disregard("qkScale", "qScale")  # the scale is that of the heads' size
    queries = _by_head(emit, q, heads)
    tokens = packed(emit, lengths, queries.dims[0])
    keys, values = (_layer(node, emit, cache, layer, place) for cache, place in ((k_cache, 1), (v_cache, 2)))
    batch, most = keys.dims[:2]
    known, rows = cached(emit, key_lengths, most)
    result = attention(
        emit,
        queries,
        *(_grouped(emit, taken_rows(emit, emit.reshape(t, [batch * most, t.dims[2]]), rows), groups)
          for t in (keys, values)),
        scale=1.0 / math.sqrt(queries.dims[2]),
        clamp=_clamp(node),
        addend=_addend(node, emit, mask, 3, tokens, known, lengths),
        allowed=same_sequence(emit, tokens, known),
    )  # fmt: skip
    return _as_query(emit, result, q)


# --- heads and caches ------------------------------------------------------------------------------------------------


def _heads(node: Node) -> tuple[int, int]:
    heads = node.params.integer("headNum", 0)
    groups = node.params.integer("kvHeadNum", 0) or heads
    if groups < 0 or heads % groups:
        refuse("ERROR_INVALID_PARAM", f"kvHeadNum {groups} does not divide headNum {heads}")
    return heads, groups


def _by_head(emit: AscendEmitter, x: Tensor, heads: int) -> Tensor:
    """float32 [tokens, heads, size] of [tokens, heads, size], [tokens, hidden] or [batch, sequence, heads, size]."""
    dims = x.dims
    total = math.prod(dims)
    if x.rank == 2:
        tokens = dims[0]
    elif x.rank in (3, 4) and dims[-2] == heads:
        tokens = math.prod(dims[:-2])
    elif x.rank == 3:
        tokens = dims[0] * dims[1]
    else:
        tokens = 0
    if not tokens or total % (tokens * heads):
        refuse("ERROR_INVALID_TENSOR_DIM", f"{x} does not fit {heads} heads")
    return emit.cast(emit.reshape(x, [tokens, heads, total // (tokens * heads)]), TensorProto.FLOAT)


def _grouped(emit: AscendEmitter, rows: Tensor, groups: int) -> Tensor:
    """[keys, hidden] as [keys, groups, size]; the number of keys may be unknown."""
    hidden = (rows.shape or ())[1]
    if hidden is None or hidden % groups:
        refuse("ERROR_INVALID_TENSOR_DIM", f"{rows} does not fit {groups} heads")
    shape = ((rows.shape or ())[0], groups, hidden // groups)
    return emit.op("Reshape", rows, emit.constant([-1, groups, hidden // groups]), shape=shape)


def _first_columns(emit: AscendEmitter, keys: Tensor, width: int) -> Tensor:
    """The values of MLA, which are the first columns of the keys."""
    return emit.slice(keys, [0], [width], [2])


def _as_query(emit: AscendEmitter, result: Tensor, q: Tensor) -> Tensor:
    """The result [tokens, heads, size] in q's rank and element type."""
    tokens, heads, size = result.dims
    shapes = {2: [tokens, heads * size], 3: [tokens, heads, size]}
    shape: Sequence[int] = shapes.get(q.rank, [tokens, heads * size])
    if q.rank == 3 and q.dims[0] != tokens:  # [batch, sequence, hidden]
        shape = [*q.dims[:2], heads * size]
    return emit.cast(emit.reshape(result, shape), q.dtype)


def _layer(node: Node, emit: AscendEmitter, cache: Tensor, layer: Tensor, place: int) -> Tensor:
    """The cache of one layer, float32 [batch, most, hidden]."""
    if cache.rank == 5:  # [layers, batch, hidden / 16, most, 16], the format of 310P
        cache = from_nz(emit, cache)
    if cache.rank == 3:
        raise Unsupported(f"{cache}: [layers, batch, most, hidden] expected")
    if cache.rank != 4:
        refuse("ERROR_INVALID_TENSOR_DIM", f"input {place} is {cache}; [layers, batch, most, hidden] expected")
    one = emit.op("Gather", cache, emit.scalar(layer), shape=cache.dims[1:], axis=0)
    return emit.cast(one, TensorProto.FLOAT)


def _joined(emit: AscendEmitter, cache: Tensor, new: Tensor, past: Tensor, tokens: Tokens) -> Tensor:
    """A layer's cache [batch, most, hidden] with the new tokens behind the past ones of their sequence."""
    batch, most, hidden = cache.dims
    rows = emit.cast(emit.reshape(new, [math.prod(new.dims) // hidden, hidden]), TensorProto.FLOAT)
    first = emit.op("Add", emit.op("Mul", numbers(emit, batch), emit.constant(most)), past)
    place = emit.op("Add", taken_rows(emit, first, tokens.segment), tokens.position)
    flat = emit.reshape(cache, [batch * most, hidden])
    where = emit.op("Unsqueeze", place, emit.constant([1]), shape=(rows.dims[0], 1))
    return emit.reshape(emit.op("ScatterND", flat, where, rows, shape=flat.shape), [batch, most, hidden])


# --- masks -----------------------------------------------------------------------------------------------------------


def _mask_type(node: Node) -> int:
    """`maskType`; old dumps say isSupportAlibi, and a mask among the inputs is one otherwise."""
    if "maskType" in node.params:
        return node.params.enum("maskType", _MASKS, 0)
    return _ALIBI if node.params.flag("isSupportAlibi", False) else _NORM


def _lengths(emit: AscendEmitter, lengths: Tensor) -> Tensor:
    if lengths.rank == 2 and 1 not in lengths.dims:
        raise Unsupported(f"{lengths}: sequences whose keys have lengths of their own are not supported")
    return vector(emit, lengths)


def _clamp(node: Node) -> tuple[float, float] | None:
    params = node.params
    if not (params.integer("clampType", 0) or params.flag("isClamp", False)):
        return None
    return params.number("clampMin", 0.0), params.number("clampMax", 0.0)


def _addend(
    node: Node, emit: AscendEmitter, mask: Tensor | None, place: int, queries: Tokens, keys: Tokens, lengths: Tensor
) -> Tensor | None:
    """What is added to the scores; float32."""
    kind = _mask_type(node)
    dtype = node.inputs[0].dtype
    masked = emit.constant(_MASKED.get(dtype, _COEFFICIENT), TensorProto.FLOAT)
    zero = emit.constant(0.0, TensorProto.FLOAT)
    window = node.params.integer("windowSize", 0) if kind in _WINDOWS else 0
    if kind in (_NORM_COMPRESS, _CAUSAL) or (kind == _WINDOWS[1] and window > 0):
        return emit.op("Where", causal(emit, queries, keys, window=window), zero, masked)
    if kind == _NONE or mask is None:
        return None
    record = node.record.inputs[place] if place < len(node.record.inputs) else None
    plain = from_nz(emit, mask) if record is not None and record.format == "FRACTAL_NZ" else mask
    heads, _ = _heads(node)
    if kind == _ALIBI_COMPRESS:
        return _unrolled(emit, plain, heads, queries, keys)
    by_head = kind == _ALIBI
    factor = _factor(node, emit, plain, by_head=by_head)
    batch = lengths.dims[0]
    addend = masked_scores(emit, factor, queries, keys, heads=heads, batch=batch, by_head=by_head)
    rows = plain.dims[-2]
    tokens = (queries.segment.shape or (None,))[0]
    if by_head or plain.rank != 2 or rows == 1 or (tokens is not None and tokens <= rows):
        return addend
    # A sequence that is longer than the mask has the causal mask.
    own = taken_rows(emit, emit.concat([lengths, emit.constant([0])], 0), queries.segment)
    is_longer = emit.op("Unsqueeze", emit.op("Greater", own, emit.constant(rows)), emit.constant([1]),
                        shape=(tokens, 1))  # fmt: skip
    triangle = emit.op("Where", causal(emit, queries, keys, window=window), zero, masked)
    return emit.op("Where", is_longer, triangle, addend)


def _unrolled(emit: AscendEmitter, mask: Tensor, heads: int, queries: Tokens, keys: Tokens) -> Tensor:
    """The scores of a compressed ALiBi mask [heads, rows, width].

    They depend on the distance alone: the next `width` keys have those of the first ones, as many rows further down.
    """
    if mask.rank != 3 or mask.dims[0] != heads:
        raise Unsupported(f"maskType: the compressed ALiBi mask is {mask}; [{heads}, rows, width] expected")
    _, rows, width = mask.dims
    step = emit.constant(width)
    within = emit.op("Mod", keys.position, step, shape=keys.position.shape)
    row = emit.op("Sub", column(emit, queries.position), emit.op("Sub", keys.position, within))
    inside = emit.op("GreaterOrEqual", row, emit.constant(0))
    known = emit.extreme("Min", emit.op("Where", inside, row, emit.constant(0)), emit.constant(rows - 1))
    place = emit.op("Add", emit.op("Mul", known, step), within)
    flat = emit.reshape(emit.cast(mask, TensorProto.FLOAT), [heads, rows * width])
    scores = emit.op("Gather", flat, place, shape=(heads, *(place.shape or ())), axis=1)
    return emit.op("Where", inside, scores, emit.like(_MASKED[TensorProto.FLOAT16], scores))


def _factor(node: Node, emit: AscendEmitter, mask: Tensor, *, by_head: bool) -> Tensor:
    """The mask as it is added: that of a bfloat16 or float32 model is 1 where a key has no weight."""
    wide = emit.cast(mask, TensorProto.FLOAT)
    precise = node.params.enum("kernelType", _KERNELS, 0) == _KERNELS["KERNELTYPE_HIGH_PRECISION"]
    if mask.dtype == TensorProto.FLOAT16 or by_head or precise:
        return wide
    is_flag = emit.op("Greater", wide, emit.like(0.0, wide))  # a negative mask is what is to be added
    return emit.op("Where", is_flag, emit.op("Mul", wide, emit.like(_COEFFICIENT, wide)), wide)
