"""ATB's operations that write into caches of keys and values: ReshapeAndCache, KvCache, BlockCopy."""

from __future__ import annotations

import math

from onnx import TensorProto

from onnx_sparse.converters.ascend.atb.handlers.layouts import from_nz, to_nz
from onnx_sparse.converters.ascend.atb.handlers.registry import (
    INTEGERS,
    Node,
    Results,
    check_types,
    dims_of,
    handles,
    refuse,
)
from onnx_sparse.converters.ascend.attention import column, numbers, packed, taken_rows, vector
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor

_COMPRESS = {"UNDEFINED": 0, "KVHEAD": 1, "KVHEAD_ROPE": 2}
_CACHE_CONFIGS = {"K_CACHE_V_CACHE": 0, "K_CACHE_V_BYPASS": 1, "K_CACHE_V_CACHE_NZ": 2}


@handles("ReshapeAndCache", to="ScatterND, Where, Concat", exact=True, lacks="compressed heads")
def reshape_and_cache(node: Node, emit: AscendEmitter) -> Results:
    """ReshapeAndCacheOperation: writes rows into the slots of caches in place; negative slots are skipped."""
    params = node.params
    if params.enum("compressType", _COMPRESS, 0):
        raise Unsupported("compressType: compressed heads are not supported")
    config = params.enum("kvCacheCfg", _CACHE_CONFIGS, 0)
    is_nz = config == _CACHE_CONFIGS["K_CACHE_V_CACHE_NZ"]
    if config == _CACHE_CONFIGS["K_CACHE_V_BYPASS"]:
        k, cache, slots = node.take(3)
        return (written_slots(emit, cache, k, slots, is_nz=is_nz),)
    k, v, k_cache, v_cache, slots = node.take(5)
    return tuple(written_slots(emit, cache, new, slots, is_nz=is_nz) for cache, new in ((k_cache, k), (v_cache, v)))


def written_slots(emit: AscendEmitter, cache: Tensor, new: Tensor, slots: Tensor, *, is_nz: bool = False) -> Tensor:
    """A cache [blocks, block size, ...] with rows written into slots; FRACTAL_NZ: [blocks, columns / 16, size, 16]."""
    check_types(cache=(cache, [new.dtype]), slots=(slots, INTEGERS))
    if new.rank < 2 or cache.rank < 3:
        refuse("ERROR_INVALID_TENSOR_DIM", f"{new} and {cache}: [tokens, ...] and [blocks, block size, ...] expected")
    tokens = new.dims[0]
    width = math.prod(new.dims[1:])
    is_nz = is_nz or (cache.rank == 4 and math.prod(cache.dims[2:]) != width)
    plain = from_nz(emit, cache) if is_nz else cache
    blocks, block = plain.dims[:2]
    if math.prod(plain.dims[2:]) != width:
        refuse("ERROR_INVALID_TENSOR_DIM", f"{new} does not fit the cache {cache}")
    result = written_rows(emit, emit.reshape(plain, [blocks * block, width]), emit.reshape(new, [tokens, width]), slots)
    ordered = emit.reshape(result, list(plain.dims))
    return to_nz(emit, ordered, cache.dims[3]) if is_nz else ordered


def written_rows(emit: AscendEmitter, table: Tensor, rows: Tensor, places: Tensor) -> Tensor:
    """A table with rows written into places; those with a negative place go into a row that is cut off again."""
    count, width = table.dims
    taken = rows.dims[0]
    wide = vector(emit, places)
    if wide.dims[0] < taken:
        rows = emit.slice(rows, [0], [wide.dims[0]], [0])
    elif wide.dims[0] > taken:
        wide = emit.slice(wide, [0], [taken], [0])
    place = emit.op("Where", emit.op("Less", wide, emit.constant(0)), emit.constant(count), wide)
    spare = emit.cast(emit.constant([[0] * width]), table.dtype)
    longer = emit.concat([table, spare], 0)
    where = emit.op("Unsqueeze", place, emit.constant([1]), shape=(rows.dims[0], 1))
    return emit.slice(emit.op("ScatterND", longer, where, rows, shape=longer.shape), [0], [count], [0])


@handles("KvCache", to="ScatterND, CumSum, Gather", writes=(2,), exact=True)
def kv_cache(node: Node, emit: AscendEmitter) -> Tensor:
    """KvCacheOperation: writes the new rows of each sequence behind its past ones, in place."""
    new, layer, cache, offsets, lengths = node.take(5)
    check_types(past=(cache, [new.dtype]), tokenOffset=(offsets, INTEGERS), seqLen=(lengths, INTEGERS))
    layers, batch, most, hidden = dims_of(cache, "layers, batch, most, hidden")
    count = math.prod(new.dims) // hidden
    tokens = packed(emit, lengths, count)
    past = emit.op("Sub", vector(emit, offsets), vector(emit, lengths))
    first = emit.op("Add", emit.constant([b * most for b in range(batch)]), past)
    # Rows behind the last sequence are not written.
    far = emit.constant([-layers * batch * most - most])
    place = emit.op("Add", taken_rows(emit, emit.concat([first, far], 0), tokens.segment), tokens.position)
    above = emit.op("Mul", emit.cast(emit.scalar(layer), TensorProto.INT64), emit.constant(batch * most))
    table = emit.reshape(cache, [layers * batch * most, hidden])
    rows = emit.reshape(new, [count, hidden])
    return emit.reshape(written_rows(emit, table, rows, emit.op("Add", place, above)), list(cache.dims))


@handles("BlockCopy", to="Gather, ScatterND", writes=(0, 1), exact=True)
def block_copy(node: Node, emit: AscendEmitter) -> Results:
    """BlockCopyOperation: source block i is copied into the destinations up to cumSum[i], in place."""
    k_cache, v_cache, source, target, ends = node.take(5)
    (count,), (sources,) = dims_of(target, "copies"), dims_of(source, "blocks")
    check_types(src=(source, INTEGERS), dst=(target, INTEGERS), cumSum=(ends, INTEGERS))
    passed = emit.op("GreaterOrEqual", column(emit, numbers(emit, count)), vector(emit, ends))
    owner = emit.reduce("ReduceSum", emit.cast(passed, TensorProto.INT64), [1], keepdims=False)
    last = emit.extreme("Min", owner, emit.constant(sources - 1))
    blocks = taken_rows(emit, vector(emit, source), last)
    where = emit.op("Unsqueeze", vector(emit, target), emit.constant([1]), shape=(count, 1))
    return tuple(
        emit.op("ScatterND", cache, where, taken_rows(emit, cache, blocks), shape=cache.shape)
        for cache in (k_cache, v_cache)
    )


@handles("PagedCacheLoad", to="Gather, CumSum, Where", writes=(4, 5), exact=True)
def paged_cache_load(node: Node, emit: AscendEmitter) -> Results:
    """PagedCacheLoadOperation: the rows of all sequences in a paged cache, one sequence after the other.

    With hasSeqStarts the lengths are sums, [sequences + 1], and each sequence is read from a position of its own.
    """
    params = node.params
    with_starts = params.flag("hasSeqStarts", False)
    k_cache, v_cache, tables, lengths, key, value, *starts = node.take(6 + with_starts)
    check_types(blockTables=(tables, INTEGERS), contextLens=(lengths, INTEGERS))
    count, most = dims_of(tables, "sequences, most blocks")
    sizes = vector(emit, lengths)
    if sizes.dims[0] == count + 1:
        ends = [emit.slice(sizes, [first], [first + count], [0]) for first in (0, 1)]
        sizes = emit.op("Sub", ends[1], ends[0])
    if sizes.dims != (count,):
        refuse("ERROR_INVALID_TENSOR_DIM", f"contextLens {lengths} and blockTables {tables} do not fit together")
    is_nz = params.enum("kvCacheCfg", _LOAD_CONFIGS, 0) == _LOAD_CONFIGS["NZ"]
    first = vector(emit, starts[0]) if starts else None
    return tuple(
        _loaded(emit, from_nz(emit, cache) if is_nz else cache, tables, sizes, first, target, (count, most))
        for cache, target in ((k_cache, key), (v_cache, value))
    )


_LOAD_CONFIGS = {"NZ": 0, "ND": 1}


def _loaded(
    emit: AscendEmitter,
    cache: Tensor,
    tables: Tensor,
    lengths: Tensor,
    starts: Tensor | None,
    target: Tensor,
    size: tuple[int, int],
) -> Tensor:
    """The rows of a cache [blocks, block size, ...] in the target's; rows behind the last sequence stay as they are."""
    if cache.rank < 3 or target.rank < 2 or math.prod(cache.dims[2:]) != math.prod(target.dims[1:]):
        refuse("ERROR_INVALID_TENSOR_DIM", f"the rows of the cache {cache} do not fit {target}")
    check_types(out=(target, [cache.dtype]))
    (count, most), (blocks, block), rows = size, cache.dims[:2], target.dims[0]
    tokens = packed(emit, lengths, rows)
    owner = emit.extreme("Min", tokens.segment, emit.constant(count - 1))
    place = tokens.position
    number = emit.op("Div", place, emit.constant(block))
    if starts is not None:
        number = emit.op("Add", number, taken_rows(emit, emit.op("Div", starts, emit.constant(block)), owner))
    known = emit.extreme("Min", number, emit.constant(most - 1))
    flat = emit.reshape(emit.cast(tables, TensorProto.INT64), [count * most])
    which = taken_rows(emit, flat, emit.op("Add", emit.op("Mul", owner, emit.constant(most)), known))
    which = emit.extreme("Min", emit.extreme("Max", which, emit.constant(0)), emit.constant(blocks - 1))
    within = emit.op("Mod", place, emit.constant(block), shape=place.shape)
    table = emit.reshape(cache, [blocks * block, *cache.dims[2:]])
    found = taken_rows(emit, table, emit.op("Add", emit.op("Mul", which, emit.constant(block)), within))
    inside = emit.op("Less", tokens.segment, emit.constant(count))
    column_of = emit.reshape(inside, [rows, *[1] * (target.rank - 1)])
    return emit.op("Where", column_of, emit.reshape(found, list(target.dims)), target)
