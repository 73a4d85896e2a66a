"""Some modules with a bag in them; `python -m census.beside_bags` draws others."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `torch` is not installed")
pytest.importorskip("expecttest", reason="torch's own tests, which have the samples, need it")

from census import walk
from census.beside_bags import beside, joined
from census.cases import Case
from census.walk import CAUGHT, EQUAL, FAILS, WRONG, examine_alone
from onnx_sparse.converters.torch import conversion, translation_table


@pytest.mark.slow
@pytest.mark.parametrize("index", [1, 10])
def test_modules(index: int) -> None:
    made = beside(1, index)
    found = examine_alone(made.case, made.batches)
    assert (found.outcome, found.reason) == (EQUAL, "")


def test_a_seed_draws_the_same_again() -> None:
    one, other = (beside(2, 3).case for _ in range(2))
    assert one.label == other.label
    assert all((a == b).all() for a, b in zip(one.tensors, other.tensors, strict=True))


@pytest.mark.slow
def test_the_trial_sees_a_fault_of_torchs_translation_beside_a_bag(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of no rows beside others: torch's translation reads places that nobody has written."""
    import torch
    from torch.utils import _pytree as pytree

    table = {key: value for key, value in translation_table().items() if "index_put" not in str(key)}
    monkeypatch.setattr(conversion, "translation_table", lambda **_: table)
    leaves, structure = pytree.tree_flatten(((torch.zeros(5, 4), torch.tensor([0, 2]), torch.tensor([0, 1, 3])), {}))

    def put(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return x.clone().index_put((i[:, None], j[None]), torch.tensor(100.0))

    made = joined(np.random.default_rng(2), "0/0", lambda: Case("pairs", "", put, leaves, structure))
    assert " beside " in made.case.label
    assert examine_alone(made.case, made.batches).outcome == CAUGHT
    monkeypatch.setattr(walk, "require_run", lambda *_: None)
    assert examine_alone(made.case, made.batches).outcome in (WRONG, FAILS)
