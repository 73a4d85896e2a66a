"""ATB's operations of mixtures of experts: Gating, GroupTopk, FusedAddTopkDiv, SwigluQuant."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from onnx_sparse.converters.ascend.atb.handlers.registry import Node, Results, dims_of, handles, refuse
from onnx_sparse.converters.ascend.attention import column, numbers, taken_rows, vector
from onnx_sparse.converters.ascend.compositions import halves, top_k
from onnx_sparse.converters.ascend.emitter import AscendEmitter
from onnx_sparse.converters.ascend.quantization import dynamic_symmetric
from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.lowering.activations import swish
from onnx_sparse.converters.writing.lowering.segment_reductions import reduced_by_segment


@handles("Gating", to="TopK, Gather, UnsortedSegmentSum, CumSum", exact=True)
def gating(node: Node, emit: AscendEmitter) -> Results:
    """GatingOperation: tokens ordered by expert, and how many each expert and those before it have."""
    experts, index = (vector(emit, tensor) for tensor in node.take(2))
    count = experts.dims[0]
    kinds, chosen = node.params.integer("cumSumNum", 0), node.params.integer("topkExpertNum", 1)
    device = sorted(node.params.integers("deviceExpert"))
    if chosen <= 0 or any(not 0 <= expert < kinds for expert in device):
        refuse("ERROR_INVALID_PARAM", f"topkExpertNum {chosen} or deviceExpert {device} of {kinds} experts")
    order = experts
    if device:  # the others come last
        rank = np.full(kinds, kinds, np.int64)
        rank[device] = np.arange(len(device))
        order = taken_rows(emit, emit.constant(rank), experts)
    key = emit.op("Add", emit.op("Mul", order, emit.constant(count)), numbers(emit, count))
    _, places = top_k(emit, key, count, axis=0, largest=False)
    original = taken_rows(emit, index, places)
    token = emit.op("Div", original, emit.constant(chosen)) if kinds else emit.constant([0] * count)
    sum_type = node.result_type(1, TensorProto.INT32)
    if not kinds:
        return (_int32(emit, token), emit.constant(np.zeros(1, np.int64), sum_type), _int32(emit, original))
    counts = reduced_by_segment(emit, "Sum", emit.constant([1] * count), experts, emit.constant(kinds))
    if not device:
        sums = emit.op("CumSum", counts, emit.constant(0), shape=(kinds,))
        return (_int32(emit, token), emit.cast(sums, sum_type), _int32(emit, original))
    own = taken_rows(emit, counts, emit.constant(device))
    sums = emit.op("CumSum", own, emit.constant(0), shape=(len(device),))
    valid = emit.slice(sums, [len(device) - 1], [len(device)], [0])
    inside = emit.op("Less", numbers(emit, count), valid)
    kept = [_int32(emit, emit.op("Where", inside, tensor, emit.constant(0))) for tensor in (token, original)]
    return (kept[0], emit.cast(sums, sum_type), kept[1], _int32(emit, valid))


def _int32(emit: AscendEmitter, tensor: Tensor) -> Tensor:
    return emit.cast(tensor, TensorProto.INT32)


def _best_groups(emit: AscendEmitter, scores: Tensor, groups: int, kept: int, terms: int) -> Tensor:
    """Whether an expert is in one of the best groups, bool [tokens, experts].

    A group's score is the sum of its best `terms` experts; of equal groups the first are better.
    """
    tokens, experts = dims_of(scores, "tokens, experts")
    if groups <= 0 or experts % groups or not 0 <= kept <= groups or not 0 < terms <= experts // groups:
        refuse(
            "ERROR_INVALID_PARAM",
            f"{groups} groups of {experts} experts, {kept} kept by their best {terms}, do not fit",
        )
    if not kept:
        return emit.constant(np.zeros((tokens, experts), bool), TensorProto.BOOL)
    parted = emit.reshape(scores, [tokens, groups, experts // groups])
    best, _ = top_k(emit, parted, terms, axis=2, largest=True)
    _, places = top_k(emit, emit.reduce("ReduceSum", best, [2], keepdims=False), kept, axis=1, largest=True)
    hits = emit.op(
        "Equal",
        emit.reshape(places, [tokens, kept, 1]),
        emit.constant(np.arange(groups, dtype=np.int64)),
    )
    chosen = emit.reduce("ReduceMax", emit.cast(hits, TensorProto.INT32), [1], keepdims=False)
    flags = emit.cast(emit.reshape(chosen, [tokens, groups, 1]), TensorProto.BOOL)
    size = [tokens, groups, experts // groups]
    spread = emit.op("Expand", flags, emit.constant(size), shape=tuple(size))
    return emit.reshape(spread, [tokens, experts])


@handles("GroupTopk", to="TopK, ReduceSum, Where", writes=(0,), exact=True)
def group_topk(node: Node, emit: AscendEmitter) -> Tensor:
    """GroupTopkOperation: all but the best groups of experts become 0, in place."""
    x, _ = node.take(2)
    params = node.params
    node.disregard("n")  # of groupMultiFlag alone
    terms = params.integer("n", 1) if params.integer("groupMultiFlag", 0) else 1
    wide = emit.cast(x, TensorProto.FLOAT)
    kept = _best_groups(emit, wide, params.integer("groupNum", 1), params.integer("k", 0), terms)
    return emit.cast(emit.op("Where", kept, wide, emit.like(0.0, wide)), x.dtype)


@handles("FusedAddTopkDiv", to="Exp, Add, TopK, Where, GatherElements, Div")
def fused_add_topk_div(node: Node, emit: AscendEmitter) -> Results:
    """FusedAddTopkDivOperation: the weights and numbers of the k best experts of the best groups."""
    params = node.params
    mapped = params.flag("enableExpertMapping", False)
    x, bias, *mapping = node.take(4 if mapped else 2)
    if params.integer("activationType", 0) not in (0, 8):
        raise Unsupported("activationType: only SIGMOID has a definition that is known")
    scores = emit.op("Sigmoid", emit.cast(x, TensorProto.FLOAT))
    biased = emit.op("Add", scores, emit.cast(bias, TensorProto.FLOAT))
    groups, kept, terms, k = (params.integer(name, 1) for name in ("groupNum", "groupTopk", "n", "k"))
    inside = _best_groups(emit, biased, groups, kept, terms)
    candidates = emit.op("Where", inside, biased, emit.like(0.0, biased))
    _, places = top_k(emit, candidates, k, axis=1, largest=True)
    y = emit.op("GatherElements", scores, places, shape=places.shape, axis=1)
    if params.flag("isNorm", True):
        y = emit.op("Div", y, emit.reduce("ReduceSum", y, [1], keepdims=True))
        y = emit.op("Mul", y, emit.like(params.number("scale", 1.0), y))
    node.disregard("scale")  # of isNorm alone
    if mapped:
        places = _replica(emit, places, *mapping)
    return (y, emit.cast(places, TensorProto.INT32))


def _replica(emit: AscendEmitter, experts: Tensor, counts: Tensor, table: Tensor) -> Tensor:
    """The replica of an expert for each token: token t takes t % number of replicas."""
    tokens, (_, width) = experts.dims[0], dims_of(table, "experts, replicas")
    own = taken_rows(emit, vector(emit, counts), experts)
    token = column(emit, numbers(emit, tokens))
    place = emit.op("Mod", token, emit.extreme("Max", own, emit.constant(1)), shape=experts.shape)
    flat = emit.op("Add", emit.op("Mul", experts, emit.constant(width)), place)
    return taken_rows(emit, emit.reshape(emit.cast(table, TensorProto.INT64), [math.prod(table.dims)]), flat)


@handles("SwigluQuant", to="Sigmoid, Mul, ReduceMax, Div, Round")
def swiglu_quant(node: Node, emit: AscendEmitter) -> Results:
    """SwigluQuantOperation: swish(a) * b of the halves a and b, as int8 with a scale for each row."""
    (x,) = node.take(1)
    gate, value = halves(emit, x, -1)
    return dynamic_symmetric(emit, emit.op("Mul", swish(emit, gate), value))
