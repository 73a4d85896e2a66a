"""Some random programs; `python -m census.programs` draws others."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `torch` is not installed")

from census.expected import FAULTS
from census.programs import program, programs
from census.walk import EQUAL, NOT_OURS, REFUSED, other_answer, walk
from onnx_sparse.converters.torch.tracing import trace


def test_programs() -> None:
    found = list(walk(programs(0, 0, 16)))
    assert len(found) == 16
    assert [(each.case.name, each.reason) for each in found if each.outcome in {*FAULTS, REFUSED, NOT_OURS}] == []


def test_a_seed_draws_the_same_again() -> None:
    one, other = (programs(1, 5, 3) for _ in range(2))
    assert [case.label for case in one] == [case.label for case in other]
    assert all(len(case.label.split(" > ")) >= 3 for case in one)


@pytest.mark.parametrize(
    ("seed", "index"),
    [(0, 164), (99, 87), (5, 20)],
    ids=["a product that overflows", "a huge quotient", "attention that scales late"],
)
def test_other_kernels_of_torch_answer_otherwise(seed: int, index: int) -> None:
    assert [found.outcome for found in walk([program(seed, index)])] == [EQUAL]


def test_only_answers_of_torch_are_taken() -> None:
    import torch

    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x % 0.1

    x = np.full(8, 1e308)
    source = trace(Module(), (torch.from_numpy(x),), dynamic_shapes=None)
    wanted = source.run({"x": x})
    assert np.isnan(wanted[0]).all()
    assert (other_answer(lambda: source.run({"x": x}), wanted, [np.full(8, 1e308 % 0.1)])[0] == 1e308 % 0.1).all()
    assert np.isnan(other_answer(lambda: source.run({"x": x}), wanted, [np.full(8, 0.07)])[0]).all()
