"""Products and sums up to each element: equal to torch's at all sizes, and not in memory for all pairs."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

INF, NAN = float("inf"), float("nan")
PREFIXES = {
    "cumprod": lambda _, x: x.cumprod(0),
    "cumprod of the last dimension": lambda _, x: x.cumprod(-1),
    "cumprod of the middle": lambda _, x: x.cumprod(1),
    "cumprod, doubles": lambda _, x: x.cumprod(0, dtype=torch.float64),
    "logcumsumexp": lambda _, x: (x * 30).logcumsumexp(0),
    "logcumsumexp of the last dimension": lambda _, x: (x * 1000).logcumsumexp(-1),
}


def drawn(*shape: int) -> Any:
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape))) * 2 - 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_prefixes(agree: Any, dtype: Any) -> None:
    """Sizes around squares, at which blocks end; infinities, NaN and zeros; no elements along each dimension."""
    sizes = [(n, 2, 3) for n in (5, 0, 1, 2, 3, 4, 8, 9, 10, 16, 17, 101)]
    sizes += [(2, n, 3) for n in (0, 4, 5)] + [(2, 3, n) for n in (0, 9, 10)]
    batches = [drawn(*shape).to(dtype) for shape in sizes]
    for special in (INF, -INF, NAN, 0):
        for place in (0, 3, 7):
            batch = drawn(10, 2, 3).to(dtype)
            batch[place] = special
            batches.append(batch)
    agree(PREFIXES, [(batch,) for batch in batches])


def test_products_of_integers(agree: Any) -> None:
    """Which wrap."""
    calls = {name: PREFIXES[name] for name in ("cumprod", "cumprod of the last dimension")}
    whole = [(torch.arange(-n, 5 * n).reshape(n, 2, 3) * 7 + 1,) for n in (5, 1, 20, 0, 50)]
    agree(calls, whole)
    agree(calls, [(x.to(torch.int8),) for (x,) in whole])


def test_the_memory_of_long_prefixes(agree: Any) -> None:
    """All pairs of 40,000 doubles would be 13 GB."""
    resource = pytest.importorskip("resource", reason="Windows does not count memory so")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    calls = {"cumprod": lambda _, x: x.cumprod(0), "logcumsumexp": lambda _, x: x.logcumsumexp(0)}
    agree(calls, [(drawn(5),), (1 + drawn(40_000) / 1000,)])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000
