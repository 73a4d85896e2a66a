"""Modules of some operators are untouched by an export; `python -m census.untouched` looks at those of all."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
pytest.importorskip("expecttest", reason="torch's own tests, which have the samples, need it")

from census import untouched  # noqa: E402
from census.cases import Case, cases, operators  # noqa: E402
from census.untouched import REFUSED, UNTOUCHED, changes  # noqa: E402


def case(operator: str) -> Case:
    return next(cases(operators()[operator], 1, 0, 1))


@pytest.mark.slow
@pytest.mark.one_of(4)
@pytest.mark.parametrize(
    "operator", ["index_add", "scatter_reduce_amax", "cumsum", "nn_functional_embedding_bag", "sort", "bmm", "where"]
)
def test_operator(operator: str) -> None:
    assert changes(case(operator)) == (UNTOUCHED, [])


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["cholesky_inverse", "_native_batch_norm_legit"])
def test_what_is_refused(operator: str) -> None:
    assert changes(case(operator)) == (REFUSED, [])


#: What an export could do to a caller's module, and what is said of it.
_FAULTS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "calls it": (lambda module, args: module(*args), ".calls"),
    "sets its flag": (lambda module, args: module.eval(), ".training"),
    "drops gradients": (lambda module, args: module.zero_grad(), "norm.weight"),
    "replaces a tensor": (
        lambda module, args: module.norm.register_buffer("running_var", torch.ones(3)),
        "running_var",
    ),
    "leaves an attribute": (lambda module, args: setattr(module, "traced", True), ".traced"),
    "draws": (lambda module, args: torch.rand(1), "torch's random state"),
    "draws in numpy": (lambda module, args: np.random.rand(), "numpy's random state"),
    "draws in Python": (lambda module, args: random.random(), "Python's random state"),
    "writes to the example": (lambda module, args: args[0].zero_(), "the example"),
    "changes a cache": (lambda module, args: module.cache["rows"].zero_(), ".cache"),
}


@pytest.mark.parametrize("fault", _FAULTS)
def test_a_change_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, said = _FAULTS[fault]
    monkeypatch.setattr(untouched, "export", lambda module, args, **_: change(module, args))
    _, changed = changes(case("index_add"))
    assert any(said in name for name in changed), changed
