"""Converts patterns in bundles and compares them with their source, in a process of its own that may end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto
from support.comparison import difference

import onnx_sparse
from faults.operations import Array
from faults.patterns import PATTERNS, Pattern
from faults.roads import ROADS
from onnx_sparse.converters import ConversionError
from onnx_sparse.converters.errors import first_line
from onnx_sparse.converters.verification.isolation import EndedError, Isolated

#: Patterns that are converted together, and batches that each bundle is run on.
_BUNDLE, _BATCHES = 8, 8

#: Sizes of an ordinary batch.
EXAMPLE = (2, 3, 2, 3, 2)


@dataclass
class Report:
    """What was found on a road."""

    road: str
    models: int = 0
    runs: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        refused = ", ".join(f"{count} {name}" for name, count in sorted(self.refused.items())) or "none"
        return (
            f"{self.road}: {self.models} models, {self.runs} runs, {len(self.found)} wrong; "
            f"refused by the converter: {refused}"
        )


def examine(
    name: str, count: int, seed: int, *, patterns: Sequence[Callable[..., Pattern]] = PATTERNS, show: bool = False
) -> Report:
    """Examine so many models of a road, with these patterns in turn."""
    road, report = ROADS[name](), Report(name)
    drawn = [draw for draw in patterns if not is_lacking(road, draw(np.random.default_rng(0)))]
    for start in range(0, count, _BUNDLE):
        rng = np.random.default_rng([seed, start, [*ROADS].index(name)])
        chosen = [drawn[(start + k) % len(drawn)](rng) for k in range(min(_BUNDLE, count - start))]
        fitting = [pattern for pattern in chosen if not is_lacking(road, pattern)]
        if show:
            print(start, [pattern.fault for pattern in fitting], flush=True)
        _examine_bundle(road, fitting, rng, report, f"{name}, seed {seed}, bundle {start}")
    return report


def is_lacking(road: Any, pattern: Pattern) -> bool:
    """Whether a road has no such operation, or its source says nothing of its result."""
    is_about_nan = pattern.fault in ("extremes of NaN", "places of NaN")
    return pattern.fault in road.without or (is_about_nan and not road.propagates_nan)


def _examine_bundle(road: Any, patterns: Sequence[Pattern], rng: np.random.Generator, report: Report, at: str) -> None:
    examples = [pattern.inputs(rng, EXAMPLE) for pattern in patterns]
    try:
        model = road.convert([p.body for p in patterns], [p.specs for p in patterns], examples)
    except ConversionError as error:
        if len(patterns) == 1:
            report.models += 1
            report.refused[f"{patterns[0].fault} ({first_line(error)[:120]})"] += 1
            if "verif" in str(error):
                report.found.append(f"{at}: {error}")
            return
        for pattern in patterns:
            _examine_bundle(road, [pattern], rng, report, at)
        return
    report.models += len(patterns)
    batches = [batch for _ in range(_BATCHES) if (batch := _batch(road, patterns, rng)) is not None]
    _compare(model, patterns, batches, report, at)


def _batch(
    road: Any, patterns: Sequence[Pattern], rng: np.random.Generator
) -> tuple[list[list[Array]], list[list[Array]]] | None:
    """Inputs for each pattern that the source takes, and what it answers; None if it takes none."""
    inputs, answers = [], []
    for pattern in patterns:
        for sizes in (None, None, None, None, EXAMPLE):
            given = pattern.inputs(rng, sizes)
            try:
                answers.append(road.run(pattern.body, given))
            except Exception:  # whatever the source raises for what it does not take
                continue
            inputs.append(given)
            break
        else:
            return None
    return inputs, answers


def _compare(model: ModelProto, patterns: Sequence[Pattern], batches: Sequence[Any], report: Report, at: str) -> None:
    def make_run() -> Any:
        session = onnx_sparse.InferenceSession(model)
        names = [value.name for value in session.get_inputs()]
        return lambda flat: session.run(None, dict(zip(names, flat, strict=True)))

    with Isolated(make_run) as run:
        for inputs, answers in batches:
            flat = [array for given in inputs for array in given]
            report.runs += 1
            try:
                got = run(flat)
            except Exception as error:
                what = "ends the process" if isinstance(error, EndedError) else "raises"
                sizes = {p.fault: [a.shape for a in given] for p, given in zip(patterns, inputs, strict=True)}
                report.found.append(f"{at}: {what} ({str(error)[-300:]}) on {sizes}")
                if isinstance(error, EndedError):
                    return
                continue
            wanted = [(p, given, w) for p, given, ws in zip(patterns, inputs, answers, strict=True) for w in ws]
            for (pattern, given, want), answer in zip(wanted, got, strict=True):
                if said := difference(want, np.asarray(answer), 1e-4):
                    shapes = [array.shape for array in given]
                    report.found.append(f"{at}: {pattern.fault} of {shapes} differs: {said}")
