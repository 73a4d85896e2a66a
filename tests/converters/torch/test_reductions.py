"""Reductions along every axis of tensors of every size, against torch; of no elements, too, and of other types."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

MANY = torch.export.Dim.DYNAMIC
AXES = (0, 1, -1, (0, 1), (-2, -1))
NAMES = ("sum", "mean", "var", "std", "logsumexp", "norm", "any", "all", "nansum")
#: Of these, no element of a size is 0: torch refuses it.
OF_SOME = ("amax", "amin")


def reductions(names: tuple[str, ...]) -> dict[str, Any]:
    return {
        f"{name} along {axis}, {'kept' if keep else 'dropped'}": lambda _, x, n=name, a=axis, k=keep: getattr(x, n)(
            dim=a, keepdim=k
        )
        for name in names
        for axis in AXES
        for keep in (False, True)
    }


def tensors(sizes: list[tuple[int, int]], dtype: Any) -> list[Any]:
    return [(torch.randn(size, generator=torch.Generator().manual_seed(0)).to(dtype),) for size in sizes]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_reductions(agree, dtype: Any) -> None:
    whole = {name: lambda _, x, n=name: getattr(x, n)() for name in ("sum", "mean", "var", "any", "all")}
    agree(reductions(NAMES) | whole, tensors([(3, 4), (0, 4), (3, 0), (0, 0), (1, 1)], dtype))
    agree(reductions(OF_SOME), tensors([(3, 4), (1, 1)], dtype))


def test_means_of_integers(agree) -> None:
    """They are asked for in another type, in which they are divided."""
    calls = {
        f"{name} in {dtype}": lambda _, x, axis=axis, dtype=dtype: (
            x.mean(dtype=dtype) if axis is None else x.mean(axis, dtype=dtype)
        )
        for name, axis in (("all", None), ("rows", 0), ("columns", -1))
        for dtype in (torch.float32, torch.float64)
    }
    for dtype in (torch.int64, torch.int32, torch.uint8):
        agree(calls, [(torch.arange(size).reshape(-1, 2).to(dtype),) for size in (4, 0, 10)], dynamic=[{0: MANY}])


def test_largest_of_bools_as_numbers(agree) -> None:
    """One that is not a bool again is not a count."""
    calls: dict[str, Any] = {
        "number": lambda _, x: (x > 0).int().amax(0),
        "bool": lambda _, x: (x > 0).int().amax(0).bool(),
        "both": lambda _, x: torch.stack([most := (x > 0).long().amax(0), most.bool().long()]),
    }
    agree(calls, tensors([(5, 3), (1, 3)], torch.float32), dynamic=[{0: MANY}])


HALVES = {
    "sum": lambda _, x: x.sum(0),
    "cumsum": lambda _, x: x.cumsum(0),
    "softmax": lambda _, x: x.softmax(0),
    "mean": lambda _, x: x.mean(0),
    "gelu": lambda _, x: torch.nn.functional.gelu(x),
    "log_softmax": lambda _, x: x.log_softmax(0),
    "of integers": lambda _, x: (x > 0).long() * 0.5,
}


def test_results_of_half_floats(agree) -> None:
    agree(HALVES, tensors([(3, 2), (0, 2)], torch.float16), dynamic=[{0: MANY}])


def pooled(dtype: Any, size: Any) -> Any:
    """Sums of rows by ids, as many as the largest id says."""

    def call(_: Any, x: Any, ids: Any) -> Any:
        ids = ids.to(dtype)
        count = size(ids) if ids.numel() > 0 else 0
        return x.new_zeros(count, x.shape[1]).index_add(0, ids, x)

    return call


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_as_many_rows_as_the_largest_id_says(agree, dtype: Any) -> None:
    """The branch for no ids is not traced; there are no rows in it all the same."""
    sizes = {
        "int": lambda ids: int(ids.max()) + 1,
        "item": lambda ids: 1 + ids.max().item(),
        "function": lambda ids: torch.max(ids).item() + 1,
    }
    calls = {name: pooled(dtype, size) for name, size in sizes.items()}
    batches = [(torch.randn(len(ids), 3), torch.tensor(ids, dtype=torch.int64)) for ids in ([0, 0, 4], [2], [], [1, 0])]
    agree(calls, batches, dynamic=[{0: MANY}, {0: MANY}])
