"""Where refusals come from: each gives a road, what was refused, and why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

#: A road, what was refused or accepted, and the reason; the reason of what was accepted is empty.
Found = tuple[str, str, str]

_TORCH_RECORD = Path(__file__).parents[1] / "census" / "record.jsonl"


def tensorflow(count: int, seed: int) -> Iterator[Found]:
    """Drawn calls of TensorFlow's operators."""
    from support.random_kernels import results

    for operator, outcome in results(seed * 1_000_000, count):
        if outcome != "invalid":  # TensorFlow's own refusal
            kind, _, reason = outcome.partition(": ")
            yield "tensorflow", operator, reason if kind == "refused" else ""


def torch(count: int, seed: int) -> Iterator[Found]:
    """The last census of torch's operators: the most frequent reason of each, as often as calls were refused."""
    del count, seed
    for line in map(json.loads, _TORCH_RECORD.read_text("utf-8").splitlines()[1:]):
        for outcome, calls in line["counts"].items():
            reason = line["reasons"].get(outcome, "") if outcome in ("refused", "caught") else ""
            yield from [("torch", line["operator"], reason)] * calls


def openvino(count: int, seed: int) -> Iterator[Found]:
    """Cases of OpenVINO's operators, each of a fixed share."""
    from zoo.openvino_operator_suite import SUITE, cases

    every = cases()
    names = [name for place, name in enumerate(every) if (place + seed) % max(1, len(every) // count) == 0]
    for name, outcome, reason in SUITE.run(every, names):
        if outcome != "not run":
            yield "openvino", name, reason if outcome == "refused" else ""


def onnx(count: int, seed: int) -> Iterator[Found]:
    """Graphs drawn around the guards and rules of ONNX files; some of them are refused by a guard."""
    from drawing.engine import cases, examine

    every = cases()
    report = examine(every, range(seed * 1_000_000, seed * 1_000_000 + count))
    for case, times in report.refused.items():
        what, _, reason = case.partition(": ")
        if reason.startswith("refused: ") and "ONNX Runtime" not in reason[:30]:
            yield from [("onnx", what, reason.removeprefix("refused: "))] * times
    yield from [("onnx", "", "")] * report.outcomes["equal"]


SOURCES: dict[str, Callable[[int, int], Iterator[Found]]] = {
    "tensorflow": tensorflow,
    "torch": torch,
    "openvino": openvino,
    "onnx": onnx,
}
