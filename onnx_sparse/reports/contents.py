"""What a report says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx_sparse.benchmarking.benchmark import Benchmark
from onnx_sparse.benchmarking.profile import OperatorTime
from onnx_sparse.pictures import Picture


@dataclass(frozen=True)
class Contents:
    """The parts of a report, as plain values.

    Attributes:
        title: The heading.
        subtitle: When and by what it was written.
        tiles: Figures at the top, by what they are.
        pictures: The pictures, `before` and `after`.
        inspected: What `inspect --json` says of the model.
        findings: What `check --json` finds.
        form: Its form: `name`, `what`, and the tools that do not take it.
        tables: Rows of the table of embedding tables.
        rules: The rules that fired, and those that did not; None where there were none.
        verification: What `convert --verify --json` says of each output; None if nothing was verified.
        verified_inputs: What inputs were taken for.
        benchmark: The times; None if nothing was run.
        operators: The times by operator.
        profiled: What was run for these.
        notes: What is missing, and why.
    """

    title: str
    subtitle: str
    tiles: Mapping[str, str]
    pictures: Mapping[str, Picture]
    inspected: Mapping[str, Any]
    findings: Sequence[Mapping[str, Any]]
    form: Mapping[str, Any]
    tables: Sequence[Sequence[object]] = ()
    rules: Mapping[str, Any] | None = None
    verification: Sequence[Mapping[str, Any]] | None = None
    verified_inputs: Mapping[str, str] = field(default_factory=dict)
    benchmark: Benchmark | None = None
    operators: Sequence[OperatorTime] = ()
    profiled: str = ""
    notes: Sequence[str] = ()
