"""ATB's attention to paged caches of keys and values: PagedAttention and MultiLatentAttention."""

from __future__ import annotations

import math
from dataclasses import dataclass

from onnx import TensorProto

from onnx_sparse.converters.ascend.atb.handlers.layouts import from_nz
from onnx_sparse.converters.ascend.atb.handlers.registry import (
    INTEGERS,
    Node,
    check_types,
    dims_of,
    handles,
    refuse,
)
from onnx_sparse.converters.ascend.attention import column, numbers, packed, taken_rows, vector
from onnx_sparse.converters.ascend.compositions import top_k
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.schemas.declaration import FLOATS

_PAGED_MASKS = {"UNDEFINED": 0, "NORM": 1, "ALIBI": 2, "SPEC": 3, "MASK_FREE": 4, "NORM_COMPRESS": 5}
_COMPRESS = {"UNDEFINED": 0, "KVHEAD": 1, "KVHEAD_ROPE": 2}
_QUANTS = {"UNQUANT": 0, "DEQUANT_FUSION": 1, "QKV_OFFLINE": 2, "QKV_ONLINE": 3}
_LATENT_MASKS = {"UNDEFINED": 0, "SPEC": 1, "MASK_FREE": 2, "CAUSAL_MASK": 3, "SWA_NORM": 4}
_LATENT_CALCS = {"UNDEFINED": 0, "SPEC": 1, "RING": 2, "SPEC_AND_RING": 3, "PREFILL": 4}
_SEPARATE_CACHES = 1  # cacheMode KROPE_CTKV


@dataclass
class _Paged:
    """What attends, and to what.

    Attributes:
        mask_kind: `_PAGED_MASKS`.
        width: If not 0, the values are as many first columns of the keys.
    """

    query: Tensor
    k_cache: Tensor
    v_cache: Tensor | None
    tables: Tensor
    lengths: Tensor
    mask: Tensor | None
    query_lengths: Tensor | None
    log_lengths: Tensor | None
    only_running: bool
    quantization: list[Tensor]
    mask_kind: int = 0
    width: int = 0


@handles(
    "PagedAttention",
    to="Gather, MatMul, Softmax, Where",
    lacks="int8 queries, masks that the kernel makes, compressed heads",
    defaults={"qScale": 1.0, "outDataType": -1},
)
def paged_attention(node: Node, emit: AscendEmitter) -> Tensor:
    """PagedAttentionOperation: each token attends to the first contextLens keys of its blocks."""
    params = node.params
    heads = params.integer("headNum", 0)
    groups = params.integer("kvHeadNum", 0) or heads
    if heads <= 0 or groups < 0 or heads % groups:
        refuse("ERROR_INVALID_PARAM", f"headNum {heads} and kvHeadNum {groups} do not fit together")
    if params.enum("compressType", _COMPRESS, 0):
        raise Unsupported("compressType: compressed heads are not supported")
    return _attended(node, emit, _inputs(node), heads, groups)


def _attended(node: Node, emit: AscendEmitter, given: _Paged, heads: int, groups: int) -> Tensor:
    q = given.query
    dims_of(given.tables, "sequences, most blocks")
    if q.rank == 2 and not q.dims[1] % heads:
        q = emit.reshape(q, [q.dims[0], heads, q.dims[1] // heads])
    if q.rank != 3 or q.dims[1] != heads:
        refuse("ERROR_INVALID_TENSOR_DIM", f"the query is {given.query}; [tokens, {heads}, head size] expected")
    tokens, _, size = q.dims
    owner = _owners(emit, given, tokens)
    tables, lengths = (
        taken_rows(emit, tensor, owner) if owner is not None else tensor
        for tensor in (given.tables, vector(emit, given.lengths))
    )
    keys, values = _gathered(node, emit, given, tables, groups, size)
    most = keys.dims[1]
    scores = emit.matmul(
        emit.reshape(emit.cast(q, TensorProto.FLOAT), [tokens, groups, heads // groups, size]),
        emit.transpose(keys, [0, 2, 3, 1]),
    )
    scores = emit.reshape(scores, [tokens, heads, most])
    scores = emit.op("Mul", scores, emit.like(node.params.number("qkScale", 1.0), scores))
    if given.log_lengths is not None:
        factors = emit.cast(given.log_lengths, TensorProto.FLOAT)
        factors = factors if owner is None else taken_rows(emit, factors, owner)
        scores = emit.op("Mul", scores, emit.reshape(factors, [tokens, 1, 1]))
    addend = _mask(node, emit, given, owner, tokens, heads, most)
    if addend is not None:
        scores = emit.op("Add", scores, addend)
    reached = emit.op("Less", numbers(emit, most), column(emit, lengths))
    inside = emit.reshape(reached, [tokens, 1, most])
    scores = emit.op("Where", inside, scores, emit.like(-math.inf, scores))
    weights = emit.reshape(emit.op("Softmax", scores, axis=2), [tokens, groups, heads // groups, most])
    # What is beyond the length was never written and may be NaN, which a weight of 0 does not remove.
    clean = emit.op("Where", emit.reshape(reached, [tokens, most, 1, 1]), values, emit.like(0.0, values))
    result = emit.reshape(emit.matmul(weights, emit.transpose(clean, [0, 2, 1, 3])), [tokens, heads, values.dims[3]])
    is_empty = emit.reshape(emit.op("Equal", lengths, emit.constant(0)), [tokens, 1, 1])
    result = emit.op("Where", is_empty, emit.like(0.0, result), result)
    dims = [tokens, heads * values.dims[3]] if given.query.rank == 2 else result.dims
    return emit.cast(emit.reshape(result, dims), node.result_type(0, _float_type(q)))


def _float_type(q: Tensor) -> int:
    return q.dtype if q.dtype in FLOATS else int(TensorProto.FLOAT16)


def _inputs(node: Node) -> _Paged:
    params = node.params
    kind = params.enum("maskType", _PAGED_MASKS, 0)
    if kind >= _PAGED_MASKS["MASK_FREE"]:
        raise Unsupported("maskType: masks that the kernel makes are not supported")
    if len(node.inputs) < 4:
        node.take(5)
    query, k_cache, *rest = node.inputs
    is_mla = params.integer("mlaVHeadSize", 0) > 0 and rest[0].dtype not in FLOATS
    v_cache = None if is_mla else rest.pop(0)
    if len(rest) < 2:
        refuse("ERROR_INVALID_IN_TENSOR_NUM", f"it has {len(node.inputs)} inputs")
    tables, lengths = rest.pop(0), rest.pop(0)
    check_types(blockTable=(tables, INTEGERS), contextLen=(lengths, INTEGERS))
    if not params.enum("quantType", _QUANTS, 0):
        check_types(query=(query, FLOATS), keyCache=(k_cache, [query.dtype]))
    mask = rest.pop(0) if kind and rest else None
    speculative = params.integer("calcType", 0) == 1
    if params.flag("batchRunStatusEnable", False) and rest:
        rest.pop(0)  # sequences that do not run have a length of 0
    query_lengths = rest.pop(0) if speculative and rest else None
    quantized = params.enum("quantType", _QUANTS, 0)
    # A dump does not say scaleType: the logarithms of the lengths are a last input.
    log_lengths = rest.pop() if not quantized and rest else None
    if log_lengths is not None and (log_lengths.dtype not in FLOATS or log_lengths.dims != lengths.dims):
        refuse("ERROR_INVALID_IN_TENSOR_NUM", f"its last input {log_lengths} has no meaning that is known")
    running = params.flag("batchRunStatusEnable", False) and query_lengths is None
    width = params.integer("mlaVHeadSize", 0)
    return _Paged(
        query, k_cache, v_cache, tables, lengths, mask, query_lengths, log_lengths, running, rest, kind, width
    )


@handles(
    "MultiLatentAttention",
    to="Concat, Gather, MatMul, Softmax, Where",
    lacks="caches in one tensor or of FRACTAL_NZ, RING and PREFILL, masks that the kernel makes",
)
def multi_latent_attention(node: Node, emit: AscendEmitter) -> Tensor:
    """MultiLatentAttentionOperation: qNope and qRope attend to the cached ctKV and kRope; ctKV has the values, too."""
    params = node.params
    heads, mode = params.integer("headNum", 0), params.integer("cacheMode", 0)
    calc, kind = params.enum("calcType", _LATENT_CALCS, 0), params.enum("maskType", _LATENT_MASKS, 0)
    if mode != _SEPARATE_CACHES:
        raise Unsupported(f"cacheMode {mode}: only separate caches, KROPE_CTKV, are supported")
    if calc > _LATENT_CALCS["SPEC"] or kind > _LATENT_MASKS["SPEC"] or params.integer("maskUseStatusType", 0):
        raise Unsupported(f"calcType {calc} or maskType {kind} has no definition that is known")
    if heads <= 0 or params.integer("kvHeadNum", 1) not in (0, 1):
        refuse("ERROR_INVALID_PARAM", f"headNum {heads} or kvHeadNum {params.integer('kvHeadNum', 1)}")
    speculative = calc == _LATENT_CALCS["SPEC"]
    plain, rotated, latent, turned, tables, lengths, *rest = node.take(6 + (kind > 0) + speculative)
    mask = rest.pop(0) if kind else None
    for tensor in (plain, rotated):
        dims_of(tensor, "tokens, heads, size")
    for tensor in (latent, turned):
        dims_of(tensor, "blocks, block size, heads, size")
    given = _Paged(
        emit.concat([plain, rotated], plain.rank - 1),
        emit.concat([latent, turned], latent.rank - 1),
        None,
        tables,
        lengths,
        mask,
        rest.pop(0) if speculative else None,
        None,
        False,
        [],
        _PAGED_MASKS["SPEC"] if kind else 0,
        latent.dims[-1],
    )
    return _attended(node, emit, given, heads, 1)


def _owners(emit: AscendEmitter, given: _Paged, tokens: int) -> Tensor | None:
    """The sequence of each token; None if each token is one.

    With batchRunStatus the tokens are those of the sequences that run, one after the other.
    """
    if given.only_running:
        count = given.tables.dims[0]
        idle = emit.op("Equal", vector(emit, given.lengths), emit.constant(0))
        late = emit.op("Mul", emit.cast(idle, TensorProto.INT64), emit.constant(count))
        return top_k(emit, emit.op("Add", late, numbers(emit, count)), count, axis=0, largest=False)[1]
    if given.query_lengths is None:
        if given.tables.dims[0] != tokens:
            refuse("ERROR_INVALID_TENSOR_DIM", f"{given.tables} has not a row for each of {tokens} tokens")
        return None
    owner = packed(emit, given.query_lengths, tokens).segment
    return emit.extreme("Min", owner, emit.constant(given.tables.dims[0] - 1))


def _gathered(
    node: Node, emit: AscendEmitter, given: _Paged, tables: Tensor, groups: int, size: int
) -> tuple[Tensor, Tensor]:
    """The keys and values of each token, float32 [tokens, most, groups, size]."""
    layout = _layout(given.k_cache, groups, size)
    keys = _blocks(emit, given.k_cache, tables, groups, layout)
    values = keys if given.v_cache is None else _blocks(emit, given.v_cache, tables, groups, layout)
    quantized = node.params.enum("quantType", _QUANTS, 0)
    if quantized:
        if quantized != _QUANTS["DEQUANT_FUSION"]:
            raise Unsupported("quantType: int8 queries are not supported")
        count = 2 + 2 * node.params.flag("hasQuantOffset", False)
        if len(given.quantization) != count:
            refuse("ERROR_INVALID_IN_TENSOR_NUM", f"{count} tensors of scales and offsets expected")
        pairs = [given.quantization[: count // 2], given.quantization[count // 2 :]]
        keys, values = (_dequantized(emit, t, *pair) for t, pair in zip((keys, values), pairs, strict=True))
    return keys, emit.slice(values, [0], [given.width], [3]) if given.width else values


def _dequantized(emit: AscendEmitter, rows: Tensor, scale: Tensor, offset: Tensor | None = None) -> Tensor:
    """(int8 + offset) * scale for each channel."""
    dims = list(rows.dims[2:])
    if offset is not None:
        rows = emit.op("Add", rows, emit.reshape(emit.cast(offset, TensorProto.FLOAT), dims))
    return emit.op("Mul", rows, emit.reshape(emit.cast(scale, TensorProto.FLOAT), dims))


def _layout(cache: Tensor, groups: int, size: int) -> str:
    """How a cache is stored, which a dump does not say.

    [blocks, block, groups, size], BNSD [blocks, groups, block, size], or FRACTAL_NZ [blocks, groups * size / 16, block,
    16].
    """
    if cache.rank == 4:
        if cache.dims[2:] == (groups, size):
            return "ND"
        if (cache.dims[1], cache.dims[3]) == (groups, size):
            return "BNSD"
        if cache.dims[1] * cache.dims[3] == groups * size:
            return "NZ"
    if cache.rank >= 3 and math.prod(cache.dims[2:]) == groups * size:
        return "ND"
    refuse("ERROR_INVALID_TENSOR_DIM", f"the cache {cache} does not fit {groups} heads of {size}")


def _blocks(emit: AscendEmitter, cache: Tensor, tables: Tensor, groups: int, layout: str) -> Tensor:
    """The rows of a cache in the blocks of each token."""
    if layout != "ND":
        cache = emit.transpose(cache, [0, 2, 1, 3]) if layout == "BNSD" else from_nz(emit, cache)
    blocks, block = cache.dims[:2]
    total = math.prod(cache.dims[2:])
    if total % groups:
        refuse("ERROR_INVALID_TENSOR_DIM", f"the cache {cache} does not fit {groups} heads")
    # Entries behind the last block of a sequence are undefined.
    wide = emit.cast(tables, TensorProto.INT64)
    known = emit.extreme("Min", emit.extreme("Max", wide, emit.constant(0)), emit.constant(blocks - 1))
    tokens, most = dims_of(tables, "sequences, most blocks")
    rows = emit.op("Gather", cache, known, shape=(tokens, most, *cache.dims[1:]), axis=0)
    return emit.cast(emit.reshape(rows, [tokens, most * block, groups, total // groups]), TensorProto.FLOAT)


def _mask(
    node: Node, emit: AscendEmitter, given: _Paged, owner: Tensor | None, tokens: int, heads: int, most: int
) -> Tensor | None:
    """What is added to the scores, float32 [tokens, 1 or heads, most]."""
    mask = given.mask
    if mask is None:
        return None
    record = node.record.inputs[node.inputs.index(mask)] if node.inputs.index(mask) < len(node.record.inputs) else None
    if record is not None and record.format == "FRACTAL_NZ":
        mask = from_nz(emit, mask)
    kind = given.mask_kind
    if kind == _PAGED_MASKS["SPEC"] and mask.rank == 3 and mask.dims[0] == 1:
        mask = emit.reshape(mask, list(mask.dims[1:]))
    wide = emit.cast(mask, TensorProto.FLOAT)
    dims = mask.dims
    if kind == _PAGED_MASKS["SPEC"]:
        if mask.rank != 2 or dims[0] < tokens:
            raise Unsupported(f"the mask is {mask}; [tokens, keys] expected")
        rows = emit.reshape(emit.slice(wide, [0], [tokens], [0]), [tokens, 1, dims[1]])
    elif (
        owner is not None and given.query_lengths is not None
    ):  # a causal mask [positions, keys]; the query's tokens are the last ones of its sequence
        rows = emit.reshape(_last_rows(emit, given, wide, owner, tokens), [tokens, 1, dims[-1]])
    elif mask.rank == 2:
        if dims[0] not in (1, tokens):
            raise Unsupported(f"the mask is {mask}; a row for each of {tokens} tokens expected")
        rows = emit.reshape(wide, [dims[0], 1, dims[1]])
    else:
        first = emit.slice(wide, [0], [1], [mask.rank - 2])
        count = first.dims
        own = [count[0], 1, count[-1]] if mask.rank == 3 else [count[0], count[1], count[-1]]
        if mask.rank == 3 and kind == _PAGED_MASKS["ALIBI"] and count[0] in (heads, tokens * heads):
            own = [count[0] // heads, heads, count[-1]]
        if own[0] not in (1, tokens) or own[1] not in (1, heads):
            raise Unsupported(f"the mask is {mask}; {tokens} tokens and {heads} heads expected")
        rows = emit.reshape(first, own)
    if given.only_running and owner is not None and rows.dims[0] == tokens:
        rows = taken_rows(emit, rows, owner)
    return _of_width(emit, rows, most)


def _last_rows(emit: AscendEmitter, given: _Paged, mask: Tensor, owner: Tensor, tokens: int) -> Tensor:
    """The rows context - queries ... context - 1 of a mask [positions, keys], for the queries of each sequence."""
    if mask.rank != 2 or given.query_lengths is None:
        raise Unsupported(f"the mask is {mask}; [positions, keys] expected")
    own = packed(emit, given.query_lengths, tokens)
    behind = emit.op("Sub", vector(emit, given.lengths), vector(emit, given.query_lengths))
    place = emit.op("Add", taken_rows(emit, behind, owner), own.position)
    return taken_rows(emit, mask, emit.extreme("Min", place, emit.constant(mask.dims[0] - 1)))


def _of_width(emit: AscendEmitter, rows: Tensor, most: int) -> Tensor:
    """A mask cut to, or filled up with zeros to, the keys that the blocks can hold."""
    width = rows.dims[2]
    if width >= most:
        return emit.slice(rows, [0], [most], [2])
    pads = emit.constant([0, 0, 0, 0, 0, most - width])
    return emit.op("Pad", rows, pads, shape=(*rows.dims[:2], most))
