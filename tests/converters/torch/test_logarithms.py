"""Logarithms and exponentials, against torch, also where an exponential overflows or vanishes, or 1 + x is 1."""

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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_small_numbers_keep_their_digits(agree, dtype) -> None:
    """What is left of 1 + x has none of a small x: 1 + 0.002 is 1 in bfloat16."""
    calls = {
        "log1p": lambda _, x: x.log1p() / x,
        "expm1": lambda _, x: x.expm1() / x,
        "elsewhere": lambda _, x: torch.cat([(1e4 * x.abs()).log1p(), (50 * x).expm1()]),
    }
    small = torch.logspace(-4, -1, 30, dtype=torch.float64).to(dtype)
    ends = torch.tensor([torch.inf, -torch.inf, torch.nan, -1.0, 0.0], dtype=dtype)
    agree(calls, [(torch.cat([small, -small]),), (ends,), (ends[:0],)], dynamic=[{0: MANY}])
