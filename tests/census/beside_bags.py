"""Random modules with a bag in them: a reduction of segments or a jagged operator, and another drawn thing of torch.

    python -m census.beside_bags --count 300 --seed 7     (in the folder tests)

The other thing is a call of an operator of the census, or a program of several. It stands beside the bag, or makes
a number by which the bag's rows are multiplied: then its sizes come before an operator that reads memory unchecked,
and the trial has them as in the example and all 0 only, so that what it overlooks is found here.
Each module is exported and tried as a user's, alone, and then compared with torch on more batches. What the trial
catches is refused, which is no fault here; what it lets through and what differs is. Exit 0: nothing does.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from support.program import parser
from support.torch_exports import read_torchlib_once
from zoo.isolated_cases import Suite, Tell

from census.cases import Case, cases, operators
from census.expected import EXPECTED
from census.programs import program
from census.walk import CAUGHT, DIES, FAILS, OUTCOMES, WRONG, Batches, batches, examine_alone
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.torch.examples import Example
from onnx_sparse.converters.torch.source import to_numpy

#: What is wrong here: written, and another answer, a failure or a death in use.
_SILENT = frozenset((WRONG, FAILS, DIES))

#: How often a call of the census is drawn; else a program is.
_CALLS = 2 / 3

_WIDTH = 3


class Sizes(NamedTuple):
    """The rows of a bag's table, its entries and its bags."""

    table: int
    entries: int
    bags: int


#: The sizes of the example, none like another, and what else is compared: torch does not check that they fit.
_EXAMPLE = Sizes(11, 13, 6)
_OTHERS = (Sizes(22, 26, 12), Sizes(2, 1, 1), Sizes(11, 0, 6), Sizes(0, 0, 2), Sizes(11, 0, 0), Sizes(11, 40, 1))

#: A bag: its name, what draws its operands of some sizes, and what it computes of them.
Bag = tuple[str, Callable[[np.random.Generator, Sizes], list[Any]], Callable[..., Any]]


def _bounds(rng: np.random.Generator, sizes: Sizes) -> Any:
    """Where bags begin, and where the last one ends; some are empty."""
    import torch

    inner = np.sort(rng.integers(0, sizes.entries + 1, max(sizes.bags - 1, 0)))
    return torch.from_numpy(np.concatenate([[0], inner, [sizes.entries] if sizes.bags else []]).astype(np.int64))


def _rows(rng: np.random.Generator, count: int) -> Any:
    import torch

    return torch.from_numpy(rng.standard_normal((count, _WIDTH)).astype(np.float32))


def _ids(rng: np.random.Generator, sizes: Sizes, *shape: int) -> Any:
    import torch

    return torch.from_numpy(rng.integers(0, max(sizes.table, 1), shape))


def _embedding_bag(rng: np.random.Generator) -> Bag:
    import torch

    mode, has_end = str(rng.choice(("sum", "mean", "max"))), bool(rng.integers(2))
    is_weighted = mode == "sum" and bool(rng.integers(2))
    padding = int(rng.integers(2)) if rng.integers(2) else None
    dtype = torch.int32 if rng.integers(2) else torch.int64

    def draw(rng: np.random.Generator, sizes: Sizes) -> list[Any]:
        bounds = _bounds(rng, sizes) if has_end else _bounds(rng, sizes)[: sizes.bags]
        operands = [_rows(rng, sizes.table), _ids(rng, sizes, sizes.entries).to(dtype), bounds.to(dtype)]
        return [*operands, _rows(rng, sizes.entries)[:, 0]] if is_weighted else operands

    def call(table: Any, ids: Any, offsets: Any, weights: Any = None) -> Any:
        options = {"mode": mode, "include_last_offset": has_end, "padding_idx": padding}
        return torch.nn.functional.embedding_bag(ids, table, offsets, per_sample_weights=weights, **options)

    return f"embedding_bag {mode}", draw, call


def _bag_of_rows(rng: np.random.Generator) -> Bag:
    import torch

    mode = str(rng.choice(("sum", "mean", "max")))
    return (
        f"embedding_bag {mode} of rows",
        lambda rng, sizes: [_rows(rng, sizes.table), _ids(rng, sizes, sizes.bags, min(sizes.entries, 4))],
        lambda table, ids: torch.nn.functional.embedding_bag(ids, table, mode=mode),
    )


def _segments(rng: np.random.Generator) -> Bag:
    import torch

    kind, name = str(rng.choice(("sum", "mean", "max", "min", "prod"))), str(rng.choice(("offsets", "lengths")))
    initial = float(rng.integers(3)) if rng.integers(2) else None

    def draw(rng: np.random.Generator, sizes: Sizes) -> list[Any]:
        bounds = _bounds(rng, sizes)
        return [_rows(rng, sizes.entries), bounds if name == "offsets" else bounds.diff()]

    def call(rows: Any, given: Any) -> Any:
        return torch.segment_reduce(rows, kind, **{name: given}, axis=0, initial=initial)

    return f"segment_reduce {kind} by {name}", draw, call


def _padded(rng: np.random.Generator) -> Bag:
    import torch

    longest = int(rng.integers(1, 6))
    return (
        "jagged to padded",
        lambda rng, sizes: [_rows(rng, sizes.entries), _bounds(rng, sizes)],
        lambda rows, bounds: torch.ops.aten._jagged_to_padded_dense_forward(rows, [bounds], [longest], 0.5),
    )


def _jagged(_: np.random.Generator) -> Bag:
    import torch

    def call(rows: Any, bounds: Any) -> Any:
        padded = torch.ops.aten._jagged_to_padded_dense_forward(rows, [bounds], [40], 0.0)
        return torch.ops.aten._padded_dense_to_jagged_forward(padded * 2, [bounds], rows.shape[0])

    return "padded to jagged", lambda rng, sizes: [_rows(rng, sizes.entries), _bounds(rng, sizes)], call


_BAG_KINDS: tuple[Callable[[np.random.Generator], Bag], ...] = (
    _embedding_bag,
    _embedding_bag,
    _bag_of_rows,
    _segments,
    _segments,
    _padded,
    _jagged,
)


def _other(seed: int, index: int, rng: np.random.Generator) -> Case:
    """A call of the census whose answers are not known to differ, or a program."""
    if rng.random() >= _CALLS:
        return program(seed, index)
    known = operators()
    names = [name for name in known if "segment_reduce" not in name and not _is_known(name)]
    while True:
        name = names[int(rng.integers(len(names)))]
        if found := list(itertools.islice(cases(known[name], 2, int(rng.integers(2**31)), 2), 8)):
            return found[int(rng.integers(len(found)))]


class Module(NamedTuple):
    """A module of which one call is a case of the census.

    Attributes:
        case: The call.
        batches: Makes other operands for it.
    """

    case: Case
    batches: Batches


def _is_known(name: str) -> bool:
    """Whether the census has found that the operator differs."""
    return any(each.holds(name, each.outcome, "") for each in EXPECTED)


def beside(seed: int, index: int) -> Module:
    """A bag, and another drawn thing beside or before it."""
    import torch

    rng = np.random.default_rng([seed, index])
    torch.manual_seed(int(rng.integers(2**31)))
    return joined(rng, f"{seed}/{index}", lambda: _other(seed, index, rng))


def joined(rng: np.random.Generator, name: str, make: Callable[[], Case]) -> Module:
    """A drawn bag, and a call beside or before it, which is made after the bag is drawn."""
    import torch
    from torch.utils import _pytree as pytree

    kind, draw, bag = _BAG_KINDS[int(rng.integers(len(_BAG_KINDS)))](rng)
    other, is_before = make(), bool(rng.integers(2))
    operands = draw(rng, _EXAMPLE)
    count = len(operands)

    def call(*given: Any) -> list[Any]:
        made, own = other.call(*given[count:]), list(given[:count])
        if is_before and made:
            number = made[0].to(torch.float32).nan_to_num().abs().clamp(max=1).sum().clamp(max=1)
            own[0] = own[0] * number
        return [bag(*own), *made]

    def others(names: Sequence[str], example: Example) -> Iterator[list[Array]]:
        of_bag = [[*map(to_numpy, draw(rng, sizes))] for sizes in _OTHERS]
        for k, batch in enumerate(batches(other, names[count:], example)):
            yield [*([example.feeds[name] for name in names[:count]] if k == 0 else of_bag[k % len(of_bag)]), *batch]
        for each in of_bag:
            yield [*each, *(example.feeds[name] for name in names[count:])]

    leaves, structure = pytree.tree_flatten(((*operands, *other.tensors), {}))
    label = f"{kind} {'after' if is_before else 'beside'} {other.name}"
    return Module(Case(name, label, call, leaves, structure), others)


def take(seed: int, first: int, count: int) -> Iterator[tuple[str, str, str]]:
    """What became of so many modules: their names, outcomes and reasons. Some may end their process."""
    import torch.onnx._internal.exporter._registration  # noqa: F401  # once, instead of in each process

    read_torchlib_once()
    operators()

    def examine(index: int, tell: Tell) -> tuple[str, str]:
        made = beside(seed, index)
        tell(DIES, made.case.label)
        found = examine_alone(made.case, made.batches)
        return found.outcome, f"{made.case.label}: {found.reason}"

    names = {f"{seed}/{index}": index for index in range(first, first + count)}
    suite = Suite("", "", dict, examine, OUTCOMES, DIES, (), ())
    yield from suite.run(names, [*names])


def main() -> int:
    parsed = parser(__doc__, "python -m census.beside_bags", count=300, seed=0, first=0, show=False)
    options = parsed.parse_args()
    counts: Counter[str] = Counter()
    began = time.monotonic()
    for name, outcome, text in take(options.seed, options.first, options.count):
        counts[outcome] += 1
        if outcome in _SILENT or outcome == CAUGHT or options.show:
            print(f"{outcome}: {name}: {text}", flush=True)
    print(", ".join(f"{counts[name]} {name}" for name in OUTCOMES), f"in {time.monotonic() - began:.0f} s")
    return int(any(counts[name] for name in _SILENT))


if __name__ == "__main__":
    sys.exit(main())
