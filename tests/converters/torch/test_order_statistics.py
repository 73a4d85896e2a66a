"""median, kthvalue, mode, runs, isin, bucketize, roll and put: no rows, one, ties, NaN, and sizes as numbers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from onnx_sparse import InferenceSession  # noqa: E402
from onnx_sparse.converters.torch import export  # noqa: E402

NAN = float("nan")
TYPES = [torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.int16, torch.uint8]
MANY = torch.export.Dim.DYNAMIC


def draws(*sizes: int, highest: int = 3) -> Any:
    return torch.randint(0, highest, sizes, generator=torch.Generator().manual_seed(0), dtype=torch.int32)


def of_types(calls: Any, types: Any = TYPES) -> Any:
    """The calls, once for each element type, to which inputs of integers are cast: an export takes a second."""

    def cast(x: Any, dtype: Any) -> Any:
        return x.to(dtype) if x.dtype == torch.int32 else x

    return {
        f"{name} of {dtype}": lambda m, *given, call=call, dtype=dtype: call(*(cast(x, dtype) for x in given))
        for dtype in types
        for name, call in calls.items()
    }


def test_elements_by_their_place(agree: Any) -> None:
    """The places of equal elements are any in torch, so what is there is compared."""

    def at(x: Any, found: Any, dim: int) -> Any:
        return x.gather(dim, found[1].unsqueeze(dim))

    calls: dict[str, Any] = {
        "kept": lambda x: x.median(0, keepdim=True)[0],
        "median of all": lambda x: x.median(),
        "smallest": lambda x: x.kthvalue(1, 0)[0],
        "largest": lambda x: x.kthvalue(x.shape[1], 1)[0],
    }
    for dim in (0, -1):
        calls |= {
            f"median {dim}": lambda x, dim=dim: x.median(dim)[0],
            f"median's place {dim}": lambda x, dim=dim: at(x, x.median(dim), dim),
            f"mode {dim}": lambda x, dim=dim: x.mode(dim)[0],
            f"mode's place {dim}": lambda x, dim=dim: at(x, x.mode(dim), dim),
        }
    types = [torch.float32, torch.int64, torch.uint8]
    agree(of_types(calls, types), [(draws(rows, width),) for rows, width in ((5, 4), (1, 3), (6, 1), (2, 2))])


def test_medians_of_nan(agree: Any) -> None:
    calls = {
        "median": lambda m, x: x.median(1)[0],
        "place": lambda m, x: x.median(1)[1],
        "of numbers": lambda m, x: x.nanmedian(1)[0],
        "of all": lambda m, x: x.median(),
        "of all numbers": lambda m, x: x.nanmedian(),
        "kth": lambda m, x: x.kthvalue(2, 1)[0],
    }
    some = torch.tensor([[1.0, NAN, 0.0, NAN], [3.0, 2.0, 1.0, 0.0], [NAN, NAN, NAN, NAN], [NAN, 5.0, 7.0, 6.0]])
    agree(calls, [(some,), (some[1:2],), (some[:0],), (some[2:3],)])


def test_runs(agree: Any) -> None:
    def runs(x: Any, dim: int | None, place: int) -> Any:
        return torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=dim)[place]

    calls: dict[str, Any] = {
        f"{place} of {dim}": lambda x, dim=dim, place=place: runs(x, dim, place)
        for dim, place in itertools.product((None, 0, 1), range(3))
    }
    calls["values alone"] = lambda x: torch.unique_consecutive(x)
    agree(
        of_types(calls, [torch.float32, torch.float16, torch.int32, torch.bool]),
        [(draws(rows, 2, highest=2),) for rows in (12, 1, 2, 30)],
    )


def test_runs_of_nothing_and_of_nan(agree: Any) -> None:
    calls = {
        str(place): lambda m, x, place=place: torch.unique_consecutive(x, return_inverse=True, return_counts=True)[
            place
        ]
        for place in range(3)
    }
    agree(calls, [(torch.tensor([1.0, 1.0, NAN, NAN, 0.0, -0.0]),), (torch.empty(0),), (torch.tensor([NAN]),)])


def test_elements_among_others(agree: Any) -> None:
    calls = {"isin": lambda x, y: torch.isin(x, y), "invert": lambda x, y: torch.isin(x, y, invert=True)}
    sizes = ((5, 4), (3, 0), (0, 3), (1, 1), (200, 40))
    agree(of_types(calls), [(draws(n, 2, highest=9), draws(k, highest=5)) for n, k in sizes])


def test_nan_is_in_nothing(agree: Any) -> None:
    some = torch.tensor([[NAN, 1.0, -0.0]])
    agree({"isin": lambda m, x, y: torch.isin(x, y)}, [(some, some[0]), (some, torch.tensor([0.0]))])


def test_boundaries_that_are_computed(agree: Any) -> None:
    calls = {
        f"right={right}": lambda m, x, b, right=right: torch.bucketize(x, b.sort()[0], right=right)
        for right in (False, True)
    }
    batches = [(torch.randn(rows, 3).round(), torch.randn(count).round()) for rows, count in ((4, 5), (0, 2), (3, 0))]
    agree(calls, [*batches, (torch.tensor([[NAN, 0.0, 1.0]]), torch.tensor([0.0, 1.0]))])


def test_rolls(agree: Any) -> None:
    calls = {
        "rows": lambda m, x: x.roll(1, 0),
        "back": lambda m, x: x.roll(-7, 0),
        "by a size": lambda m, x: x.roll(x.shape[1], 0),
        "both": lambda m, x: x.roll((2, -1), (0, 1)),
        "all": lambda m, x: x.roll(3),
    }
    agree(calls, [(torch.randn(rows, width),) for rows, width in ((4, 3), (1, 2), (0, 2), (3, 5))])


def test_put_accumulates(agree: Any) -> None:
    """Negative ids count from the end, and several ids may be of one place."""
    ids = [torch.tensor(some, dtype=torch.int64) for some in ([0, -1, 2, 14], [7], [])]
    batches = [(draws(5, 3), some, draws(len(some))) for some in ids]
    agree(of_types({"adds": lambda x, i, w: x.put(i, w, accumulate=True)}), batches)
    agree({"replaces": lambda m, x, i, w: x.put(i, w)}, [batches[1], batches[2]])


def test_scalars(agree: Any) -> None:
    """Dimensions and places of a scalar have no effect."""
    calls = {
        "sort": lambda m, x: torch.sort(x, dim=0, stable=True, descending=True)[0],
        "cummax": lambda m, x: x.cummax(0)[0],
        "cummin": lambda m, x: x.cummin(-1)[0],
        "median": lambda m, x: x.median(0)[0],
        "nanmedian": lambda m, x: x.nanmedian(0, keepdim=True)[0],
        "kth": lambda m, x: x.kthvalue(1, 0)[0],
        "mode": lambda m, x: x.mode(0)[0],
        "runs": lambda m, x: torch.unique_consecutive(x),
        "scatter": lambda m, x: x.scatter(0, torch.tensor(0), 3.0),
        "put": lambda m, x: x.put(torch.tensor(0), x, accumulate=True),
    }
    agree(calls, [(torch.tensor(2.0),)])


def test_numbers_that_are_sizes(agree: Any) -> None:
    calls = {
        "repeat rows": lambda m, x, y: x.repeat_interleave(y.shape[0], 0),
        "repeat columns": lambda m, x, y: x.repeat_interleave(y.shape[0], dim=-1),
        "repeat elements": lambda m, x, y: x.repeat_interleave(y.shape[0]),
        "repeat twice": lambda m, x, y: x.repeat_interleave(2, 1),
        "counts": lambda m, x, y: torch.bincount(x.flatten(), minlength=y.shape[0]),
    }
    sizes = ((4, 2, 3), (1, 1, 1), (3, 2, 6), (0, 2, 2))
    agree(calls, [(draws(n, k, highest=2), torch.randn(size)) for n, k, size in sizes])


def test_bounds_of_one_tensor() -> None:
    """The exporter's optimizer names constants after the tensor that they bound, and then has one name twice."""

    class Clamped(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            y = x + 1
            return x.clamp(-1, 1) + x.clamp(-2, 2), torch.relu(y).clamp(max=3) - torch.relu(y).clamp(max=0.5)

    x = torch.linspace(-4, 4, 9)
    session = InferenceSession(export(Clamped(), (x,), dynamic_shapes=({0: MANY},)))
    for want, got in zip(Clamped()(x), session.run(None, {session.get_inputs()[0].name: x.numpy()}), strict=True):
        torch.testing.assert_close(torch.from_numpy(got), want)
