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


def test_scalars(agree) -> None:
    agree(SCALARS, [(torch.tensor(2.0), torch.tensor(0))])


def test_a_size_that_decompositions_make_constant_is_named() -> None:
    """torch.export keeps the size, and the decomposition of a diagonal below does not."""

    class Module(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.diagonal(-2)

    with pytest.raises(ConversionError, match=r"x\.shape\[0\] = 4 for a constant, which is declared dynamic"):
        export(Module(), (torch.randn(4, 3),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
