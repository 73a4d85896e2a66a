"""Logarithms of sums of exponentials, against torch, also where an exponential overflows or vanishes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

MANY = torch.export.Dim.DYNAMIC

CALLS = {
    "logsigmoid": lambda _, x, y: torch.nn.functional.logsigmoid(x),
    "logaddexp": lambda _, x, y: torch.logaddexp(x, y),
    "logaddexp of a column and a row": lambda _, x, y: torch.logaddexp(x[:, None], y[None]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_they_do_not_overflow(agree, dtype) -> None:
    numbers = [0.0, -0.5, 2.5, 100.0, -100.0, 3e4, -3e4, torch.inf, -torch.inf, torch.nan]
    if dtype in (torch.float32, torch.float64):
        numbers += [1e30, -1e30]
    x, y = torch.cartesian_prod(*[torch.tensor(numbers, dtype=dtype)] * 2).T.contiguous()
    empty = torch.empty(0, dtype=dtype)
    agree(CALLS, [(x, y), (empty, empty)], dynamic=[{0: MANY}] * 2)
