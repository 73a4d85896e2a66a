"""Numbers near 0 and 1 in arithmetic are kept: a divisor of 1e-16 is no 0."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

SMALL = (1e-16, 1e-12, 1e-9, -1e-9, 1e-30, 9e-9)
NEAR_ONE = (1 + 1e-6, 1 - 1e-6, 1 + 5e-7)


def calls():
    made = {}
    for number in SMALL:
        made[f"x / (x + {number})"] = lambda _, x, n=number: x / (x + n)
        made[f"{number} + x"] = lambda _, x, n=number: 1 / (n + x)
        made[f"x - {number}"] = lambda _, x, n=number: 1 / (x - n)
        made[f"{number} over a count"] = lambda _, x, n=number: x.sum(1) / ((x != 0).sum(1).float() + n)
    for number in NEAR_ONE:
        made[f"x * {number}"] = lambda _, x, n=number: (x * n - x) * 1e6
        made[f"{number} * x"] = lambda _, x, n=number: (n * x - x) * 1e6
        made[f"x / {number}"] = lambda _, x, n=number: (x / n - x) * 1e6
    return made


BATCHES = [(torch.tensor(rows),) for rows in ([[0.0, 0, 0], [1, 2, 3]], [[0.0, 0, 0]], [[1.0, 0, 1], [0, 0, 0]])]


def test_small_numbers_are_kept(agree) -> None:
    agree(calls(), BATCHES)


def test_neutral_elements_are_dropped(agree) -> None:
    """x + 0, x - 0, x * 1 and x / 1 are x, whatever comes around them."""
    steps = {"+": lambda x: x + 0, "-": lambda x: x - 0, "*": lambda x: x * 1, "/": lambda x: x / 1}
    made = {
        f"{a}{b}": lambda _, x, f=first, g=second: f(g(x)).exp()
        for (a, first), (b, second) in itertools.product(steps.items(), repeat=2)
    }
    model = agree(made, BATCHES)
    assert not {"Add", "Sub", "Mul", "Div"} & {node.op_type for node in model.graph.node}
