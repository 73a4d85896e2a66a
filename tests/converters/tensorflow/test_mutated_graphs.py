"""Mutated graphs are converted, or refused by one clear error; a longer walk is `support.mutated_graphs`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("tensorflow")

from support import mutated_graphs
from support.mutated_graphs import convert, examine, mutated, mutated_program

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensorflow.handlers import HANDLERS


def test_mutated_graphs_are_converted_or_refused() -> None:
    found = [str(finding) for seed in range(200) if (finding := examine(seed)[0]) is not None]
    assert not found, "\n".join(found)


def test_some_mutations_are_refused_and_some_converted() -> None:
    """Of saved models, whose signatures are converted when nothing is changed."""
    refused = 0
    for seed in range(1, 41, 2):
        folder, signature, _ = mutated_program(seed)
        try:
            convert(folder, signature=signature)
        except ConversionError:
            refused += 1
    assert 3 < refused < 17


def test_each_mutation_is_drawn() -> None:
    steps = {step for seed in range(0, 100, 2) for step in mutated(seed)[3][1:]}
    assert steps == {mutation.__name__.lstrip("_") for mutation in mutated_graphs.MUTATIONS}


def test_an_error_of_python_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that takes an attribute or a rank for granted."""

    def careless(node: Any, emit: Any) -> Any:
        return len(None)  # type: ignore[arg-type]

    seeds = [seed for seed in range(0, 60, 2) if mutated(seed)[3][0] in HANDLERS]
    for seed in seeds:
        operator = mutated(seed)[3][0]
        monkeypatch.setitem(HANDLERS, operator, replace(HANDLERS[operator], function=careless))
    findings = [finding for seed in seeds if (finding := examine(seed)[0]) is not None]
    assert len(findings) > 3, findings
