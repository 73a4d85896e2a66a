"""Mistakes of operations between ranks: the part of another rank, a rank that is missing, another order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from onnx_sparse.converters.ascend.atb.collectives import Rank
from onnx_sparse.converters.ascend.atb.mistakes.trial import Array


def rank_mistakes(
    ranks: Sequence[Rank], own: int, compute: Callable[[Sequence[Rank], int], Array]
) -> Iterator[tuple[str, Callable[[], Array]]]:
    """What each mistake makes of an exchange: in words, and what computes it.

    Args:
        ranks: All ranks in their order.
        own: The rank whose result it is.
        compute: The result of a rank.
    """
    others = [number for number in range(len(ranks)) if number != own]
    for number in others:
        yield f"the tensor of rank {number} alone", partial(_tensor, ranks[number])
    for number in others:
        yield f"the result of rank {number}", partial(compute, ranks, number)
    for number in (*others, own):
        fewer = [_silent(rank) if place == number else rank for place, rank in enumerate(ranks)]
        yield f"the result with zeros from rank {number}", partial(compute, fewer, own)
    yield "the ranks in the other order", partial(compute, ranks[::-1], own)
    for by in range(1, len(ranks)):
        moved = [*ranks[by:], *ranks[:by]]
        yield f"the ranks from rank {by} on", partial(compute, moved, own)
    for key in ("allReduceType", "reduceType"):
        for kind in ("sum", "max", "min", "prod"):
            if key in ranks[own].params and ranks[own].params.text(key) != kind:
                reduced = [replace(rank, params=rank.params.changed(key, kind)) for rank in ranks]
                yield f"the {kind} of the ranks", partial(compute, reduced, own)


def _silent(rank: Rank) -> Rank:
    """A rank that sends zeros."""
    return replace(rank, inputs=[np.zeros_like(rank.inputs[0]), *rank.inputs[1:]])


def _tensor(rank: Rank) -> Array:
    return rank.inputs[0]
