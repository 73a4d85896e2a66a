"""Calls whose translation in torch's own library is wrong, fails at some sizes, or takes no size as a number."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from onnx_sparse.converters import ConversionError  # noqa: E402
from onnx_sparse.converters.torch import export  # noqa: E402

INF, NAN = float("inf"), float("nan")

MATRICES = {
    "addmm": lambda _, x, y, k: torch.addmm(x, x, y, alpha=2, beta=0.5),
    "addmm of sizes": lambda _, x, y, k: torch.addmm(x, x, y, alpha=k.shape[0], beta=k.shape[0]),
    "addmm of nothing before": lambda _, x, y, k: torch.addmm(x * INF, x, y, beta=0),
    "addmm, scaled": lambda _, x, y, k: torch.addmm(x, x, y, alpha=2, beta=3),
    "addmv": lambda _, x, y, k: torch.addmv(x[:, 0], x, y[0], alpha=2),
    "addbmm": lambda _, x, y, k: torch.addbmm(x, x[None], y[None], beta=2),
    "baddbmm": lambda _, x, y, k: torch.baddbmm(x, x[None], y[None], alpha=k.shape[0]),
    "addr": lambda _, x, y, k: torch.addr(x, x[:, 0], y[0], beta=2),
    "diagonal": lambda _, x, y, k: x.diagonal(),
    "diagonal above": lambda _, x, y, k: x.diagonal(1),
    "diagonal below": lambda _, x, y, k: y.diagonal(-2),
    "diagonal of a batch": lambda _, x, y, k: torch.stack([x, 2 * x]).diagonal(0, 2, 1),
    "no diagonal": lambda _, x, y, k: x.diagonal(9),
    "clamp from below": lambda _, x, y, k: x.clamp(min=0.5),
    "clamp from above": lambda _, x, y, k: x.clamp(max=0.5),
    "topk by a size": lambda _, x, y, k: x.topk(k.shape[0], 1)[0],
    "unsafe_chunk": lambda _, x, y, k: torch.cat(torch.unsafe_chunk(x, 2, 1), 1),
    "cumprod": lambda _, x, y, k: x.cumprod(0),
    "heaviside": lambda _, x, y, k: torch.heaviside(x * k.shape[0], y[0]),
    "logcumsumexp": lambda _, x, y, k: x.logcumsumexp(0),
    "logcumsumexp of small ones before large ones": lambda _, x, y, k: (x * 1000).logcumsumexp(-1),
}

F = torch.nn.functional

ARITHMETIC = {
    "remainder": lambda _, x, y, n: torch.remainder(x, y),
    "remainder of a number": lambda _, x, y, n: x % 0.1,
    "floor_divide": lambda _, x, y, n: x // y,
    "floor_divide by a number": lambda _, x, y, n: x // 0.1,
    "lerp": lambda _, x, y, n: torch.lerp(x, y, 0.3),
    "lerp by tensors": lambda _, x, y, n: torch.lerp(x, y, y),
    "logaddexp2": lambda _, x, y, n: torch.logaddexp2(x, y),
    "logsumexp": lambda _, x, y, n: x.logsumexp(1),
    "hypot": lambda _, x, y, n: torch.hypot(x, y),
    "cumsum": lambda _, x, y, n: x.cumsum(0),
    "cumprod": lambda _, x, y, n: x.cumprod(1),
    "std": lambda _, x, y, n: x.std(0),
    "var": lambda _, x, y, n: x.var(),
    "var_mean": lambda _, x, y, n: torch.var_mean(x, 1, keepdim=True)[0],
    "std_mean": lambda _, x, y, n: torch.std_mean(x, 1, correction=0)[0],
    "trunc of integers": lambda _, x, y, n: n.trunc(),
}

OF_SEVERAL = {
    "softmax of integers": lambda _, x, y, n: n.softmax(0, dtype=torch.float32),
    "cross_entropy, smoothed": lambda _, x, y, n: F.cross_entropy(x, n, label_smoothing=0.1),
    "cross_entropy of each": lambda _, x, y, n: F.cross_entropy(x, n, torch.tensor([1.0, 2, 3]), reduction="none"),
    "cross_entropy of probabilities": lambda _, x, y, n: F.cross_entropy(x, y.softmax(1)),
    "attention": lambda _, x, y, n: F.scaled_dot_product_attention(x[None], y[None], x[None]),
    "attention to nothing": lambda _, x, y, n: F.scaled_dot_product_attention(
        x[None], y[None], x[None], n[:, None] > n - 1
    ),
    "attention by weights": lambda _, x, y, n: F.scaled_dot_product_attention(x[None], y[None], x[None], x @ y.T),
    "causal attention": lambda _, x, y, n: F.scaled_dot_product_attention(
        x[None], y[None], x[None], is_causal=True, scale=0.5
    ),
    "attention of groups": lambda _, x, y, n: F.scaled_dot_product_attention(
        torch.stack([x, y, x, y])[None], torch.stack([y, x])[None], torch.stack([x, y])[None], enable_gqa=True
    ),
    "stack of types": lambda _, x, y, n: torch.stack([n, n.int(), x[:, 0]], -1),
    "cat of types": lambda _, x, y, n: torch.cat([n.short(), x[:, 1].half(), torch.zeros(0), n]),
    "cat of nothing": lambda _, x, y, n: torch.cat([torch.zeros(0), torch.zeros(0)]),
}

SCALARS = {
    "index_add": lambda _, x, i: x.index_add(0, i, x + 1),
    "index_reduce": lambda _, x, i: x.index_reduce(0, i, x + 1, "amax"),
    "index_copy": lambda _, x, i: x.index_copy(0, i, x + 1),
    "index_fill": lambda _, x, i: x.index_fill(0, i, 3.0),
    "topk": lambda _, x, i: x.topk(1)[1],
    "one_hot": lambda _, x, i: torch.nn.functional.one_hot(i, 4),
}


def batch(rows: int, *special: float) -> tuple[torch.Tensor, ...]:
    x = torch.linspace(-1, 2, rows * 3).reshape(rows, 3)
    x.view(-1)[: len(special)] = torch.tensor(special)
    return x, torch.linspace(0, 2, 9).reshape(3, 3), torch.zeros(2)


def test_matrices(agree) -> None:
    dynamic = [{0: torch.export.Dim.DYNAMIC}, {}, {0: torch.export.Dim.DYNAMIC}]
    special = batch(4, 1, INF, -INF, NAN), batch(3, INF, 0, NAN, INF, -INF)
    agree(MATRICES, [batch(4), batch(2), *special], dynamic=dynamic)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32], ids=str)
def test_matrices_of_integers(agree, dtype: torch.dtype) -> None:
    calls = {name: MATRICES[name] for name in ("addmm, scaled", "addmv", "addbmm", "addr", "diagonal")}
    batches = [tuple((2 * t).to(dtype) for t in batch(rows)) for rows in (4, 2)]
    agree(calls, batches, dynamic=[{0: torch.export.Dim.DYNAMIC}, {}, {}])


def of_rows(rows: int, *special: float) -> tuple[torch.Tensor, ...]:
    draw = torch.Generator().manual_seed(rows)
    x, y = (torch.randn(rows, 3, generator=draw) for _ in range(2))
    x.view(-1)[: len(special)] = torch.tensor(special)
    y.view(-1)[: len(special)] = torch.tensor(special[::-1])
    return x, y, torch.randint(0, 3, (rows,), generator=draw)


def test_arithmetic(agree) -> None:
    ends = 3e38, -3e38, 1e-30, 3e38, 1, 0, INF
    agree(ARITHMETIC, [of_rows(5), of_rows(1), of_rows(4, *ends), of_rows(4, INF, -INF, NAN, 0, 1, -1, INF, 2)])


REMAINDERS = {
    "remainder": lambda _, x: x % 0.1,
    "fmod": lambda _, x: torch.fmod(x, 0.1),
    "scaled by a size": lambda _, x: x * (0.1 * x.shape[0]),
}


def test_numbers_of_doubles_are_not_rounded_to_float32(agree) -> None:
    """A remainder shows it: 100,000.05 leaves 0.05 or 0.0485."""
    ends = torch.tensor([1e5 + 0.05, 7.03, -0.2]), torch.tensor([2e5 + 0.05]), torch.zeros(0)
    agree(REMAINDERS, [(x.double(),) for x in ends])


def test_types_weights_and_masks(agree) -> None:
    rows = {0: torch.export.Dim.DYNAMIC}
    agree(OF_SEVERAL, [of_rows(5), of_rows(1), of_rows(8)], dynamic=[rows, rows, rows])


def test_scalars(agree) -> None:
    agree(SCALARS, [(torch.tensor(2.0), torch.tensor(0))])


def test_a_size_that_decompositions_make_constant_is_named() -> None:
    """torch.export keeps the size, and the decomposition of a diagonal below does not."""

    class Module(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.diagonal(-2)

    with pytest.raises(ConversionError, match=r"x\.shape\[0\] = 4 for a constant, which is declared dynamic"):
        export(Module(), (torch.randn(4, 3),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
