"""ATB's operations between ranks, computed from the tensors that every rank recorded.

Their semantics are those of ATB's own tests (hicann/ascend-transformer-boost, CsvOpsTestTool/data_generation.py): ranks
are in the order of their numbers, counts and displacements are of elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_sparse.converters.ascend.atb.parameters import Parameters
from onnx_sparse.converters.errors import Unsupported

Array = np.ndarray[Any, Any]
_REDUCTIONS: dict[str, Callable[[Array], Array]] = {
    "sum": lambda parts: parts.sum(0),
    "prod": lambda parts: parts.prod(0),
    "max": lambda parts: parts.max(0),
    "min": lambda parts: parts.min(0),
}


@dataclass(frozen=True)
class Rank:
    """One rank's part of an operation.

    Attributes:
        params: Its parameters.
        inputs: The tensors that it read.
    """

    params: Parameters
    inputs: Sequence[Array]


@dataclass(frozen=True)
class Collective:
    """An operation between ranks.

    Attributes:
        compute: The result of one rank, given all ranks in their order and its number.
        reduction: The parameter that names the reduction; "" if elements are only moved.
    """

    compute: Callable[[Sequence[Rank], int], Array]
    reduction: str = ""

    def is_exact(self, params: Parameters) -> bool:
        """Whether no element is computed, which may be rounded in another order."""
        return not self.reduction or params.text(self.reduction) in ("max", "min")


def magnitudes(ranks: Sequence[Rank]) -> list[Rank]:
    """The ranks with the magnitudes of their inputs, whose sums bound what rounding does to the sums of the inputs."""
    return [Rank(rank.params, [np.abs(rank.inputs[0].astype(np.float64)), *rank.inputs[1:]]) for rank in ranks]


def _reduced(ranks: Sequence[Rank], key: str) -> Array:
    """The elements of all ranks reduced: integers wrap, floating types are rounded once."""
    kind = ranks[0].params.text(key) or "sum"
    if kind not in _REDUCTIONS:
        raise Unsupported(f"{key} is {kind[:40]!r}; sum, prod, max or min expected")
    parts = np.stack([rank.inputs[0] for rank in ranks])
    dtype = parts.dtype
    wide = parts if dtype.kind in "iub" else parts.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return _REDUCTIONS[kind](wide).astype(dtype)


def _all_reduce(ranks: Sequence[Rank], own: int) -> Array:
    if ranks[own].params.integer("quantType", 0) > 0:
        raise Unsupported("quantType: quantized communication is not supported")
    return _reduced(ranks, "allReduceType")


def _all_gather(ranks: Sequence[Rank], own: int) -> Array:
    return np.stack([rank.inputs[0] for rank in ranks])


def _reduce_scatter(ranks: Sequence[Rank], own: int) -> Array:
    whole = _reduced(ranks, "reduceType")
    if not whole.ndim or whole.shape[0] % len(ranks):
        raise Unsupported(f"{list(whole.shape)} cannot be split between {len(ranks)} ranks")
    return np.split(whole, len(ranks))[own]


def _broadcast(ranks: Sequence[Rank], own: int) -> Array:
    root = ranks[own].params.integer("rankRoot", 0)
    if not 0 <= root < len(ranks):
        raise Unsupported(f"rankRoot is {root}, and there are {len(ranks)} ranks")
    return ranks[root].inputs[0]


def _all_to_all(ranks: Sequence[Rank], own: int) -> Array:
    """Part `own` of each rank's tensor, in the order of ranks; with `transpose`, the parts are of the columns."""
    x = ranks[own].inputs[0]
    if ranks[own].params.flag("transpose", False):
        if x.ndim != 2 or x.shape[1] % len(ranks):
            raise Unsupported(f"{list(x.shape)} has no columns for {len(ranks)} ranks")
        return np.concatenate([np.split(rank.inputs[0], len(ranks), 1)[own] for rank in ranks])
    if x.size % len(ranks):
        raise Unsupported(f"{list(x.shape)} cannot be split between {len(ranks)} ranks")
    return np.concatenate([np.split(rank.inputs[0].reshape(-1), len(ranks))[own] for rank in ranks]).reshape(x.shape)


def _counts(rank: Rank, key: str, position: int) -> list[int]:
    """Counts of elements: a parameter, or an input in the operations that take them from the host."""
    if key in rank.params:
        return rank.params.integers(key)
    return [int(n) for n in rank.inputs[position].reshape(-1)] if position < len(rank.inputs) else []


def _part(rank: Rank, start: int, count: int) -> Array:
    flat = rank.inputs[0].reshape(-1)
    if start < 0 or count < 0 or start + count > flat.size:
        raise Unsupported(f"{count} elements from {start} on are sent, and there are {flat.size}")
    return flat[start : start + count]


def _placed(parts: Sequence[Array], places: Sequence[int]) -> Array:
    if len(places) != len(parts) or min(places, default=0) < 0:
        raise Unsupported(f"{len(places)} displacements for {len(parts)} ranks")
    size = max(place + part.size for place, part in zip(places, parts, strict=True))
    if size > sum(part.size for part in parts):
        raise Unsupported("the parts received leave gaps, whose elements nobody writes")
    result = np.zeros(size, parts[0].dtype)
    for place, part in zip(places, parts, strict=True):
        result[place : place + part.size] = part
    return result


def _all_gather_v(ranks: Sequence[Rank], own: int) -> Array:
    parts = [_part(rank, 0, (_counts(rank, "sendCount", 1) or [-1])[0]) for rank in ranks]
    return _placed(parts, _counts(ranks[own], "rdispls", 3))


def _sent_to(ranks: Sequence[Rank], own: int) -> list[Array]:
    """What each rank sends to this one."""
    parts = []
    for rank in ranks:
        counts, starts = _counts(rank, "sendCounts", 1), _counts(rank, "sdispls", 2)
        if len(counts) != len(ranks) or len(starts) != len(ranks):
            raise Unsupported(f"{len(counts)} counts and {len(starts)} displacements for {len(ranks)} ranks")
        parts.append(_part(rank, starts[own], counts[own]))
    return parts


def _all_to_all_v(ranks: Sequence[Rank], own: int) -> Array:
    return _placed(_sent_to(ranks, own), _counts(ranks[own], "rdispls", 4))


def _reduce_scatter_v(ranks: Sequence[Rank], own: int) -> Array:
    parts = _sent_to(ranks, own)
    if len({part.size for part in parts}) != 1:
        raise Unsupported("the ranks send different numbers of elements to one reduction")
    return _reduced([Rank(rank.params, [part]) for rank, part in zip(ranks, parts, strict=True)], "reduceType")


def linear_parallel(
    ranks: Sequence[Rank], own: int, product: Callable[[Rank, Array], Array], params: Parameters
) -> Array:
    """LinearParallelOperation: a product of each rank, before or after an exchange.

    Args:
        ranks: All ranks in their order.
        own: The number of the rank whose result it is.
        product: The product of a rank's weight with a tensor.
        params: The rank's parameters.

    Raises:
        Unsupported: A kind of exchange that its public golden does not have alone.
    """
    kind = params.enum("type", _PARALLEL, 0)
    if kind == _PARALLEL["ALL_GATHER_LINEAR"]:
        y = product(ranks[own], np.concatenate([rank.inputs[0] for rank in ranks]))
    elif kind == _PARALLEL["PURE_LINEAR"]:
        y = product(ranks[own], ranks[own].inputs[0])
    elif kind in (_PARALLEL["LINEAR_ALL_REDUCE"], _PARALLEL["LINEAR_REDUCE_SCATTER"]):
        y = _reduced([Rank(rank.params, [product(rank, rank.inputs[0])]) for rank in ranks], "allReduceType")
        if kind == _PARALLEL["LINEAR_REDUCE_SCATTER"]:
            axis = 1 if y.ndim == 3 and y.shape[0] == 1 else 0
            if y.shape[axis] % len(ranks):
                raise Unsupported(f"{list(y.shape)} cannot be split between {len(ranks)} ranks")
            y = np.split(y, len(ranks), axis)[own]
    else:
        raise Unsupported(f"type {kind} of LinearParallel is not computed")
    if params.flag("hasResidual", False):
        y = (y.astype(np.float64) + ranks[own].inputs[-1].astype(np.float64)).astype(y.dtype)
    return y


_PARALLEL = {
    "LINEAR_ALL_REDUCE": 0,
    "LINEAR_REDUCE_SCATTER": 1,
    "ALL_GATHER_LINEAR": 2,
    "PURE_LINEAR": 3,
    "ALL_GATHER_LINEAR_REDUCE_SCATTER": 4,
    "ALLTOALLVC_ALL_GATHER_GMM": 5,
    "GMM_REDUCE_SCATTER_ALLTOALLVC": 6,
}
#: By the operation's type without `Operation`.
COLLECTIVES = {
    "AllReduce": Collective(_all_reduce, "allReduceType"),
    "AllGather": Collective(_all_gather),
    "AllGatherV": Collective(_all_gather_v),
    "ReduceScatter": Collective(_reduce_scatter, "reduceType"),
    "ReduceScatterV": Collective(_reduce_scatter_v, "reduceType"),
    "Broadcast": Collective(_broadcast),
    "AllToAll": Collective(_all_to_all),
    "AllToAllV": Collective(_all_to_all_v),
    "AllToAllVV2": Collective(_all_to_all_v),
}
