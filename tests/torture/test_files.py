"""A small part of the torture in `files.py`, each road in a process of its own."""

from __future__ import annotations

import sys

import pytest
from torture.worker import Worker

pytestmark = pytest.mark.slow

if sys.platform == "win32":
    pytest.skip("POSIX streams and limits", allow_module_level=True)


@pytest.mark.parametrize(
    ("road", "count", "needs"),
    [
        ("onnx", 40, "onnx"),
        ("inspect", 20, "onnx"),
        ("check", 20, "onnx"),
        ("tables", 15, "onnx"),
        ("report", 20, "onnx"),
        ("ascend", 60, "onnx"),
        ("openvino", 30, "openvino"),
        ("graph_def", 12, "tensorflow"),
        ("saved_model", 6, "tensorflow"),
        ("keras", 20, "keras"),
        ("rows", 100, "pyarrow"),
        ("atb", 30, "onnx"),
        ("archives", 20, "onnx"),
        ("updates", 30, "pyarrow"),
        ("shards", 40, "onnx"),
        ("dumps", 10, "onnx"),
        ("checkpoints", 8, "tensorflow"),
    ],
)
def test_mutated_sources_are_converted_or_refused(road: str, count: int, needs: str) -> None:
    pytest.importorskip(needs)
    worker = Worker(road)
    worker.cases(1_000_000, count, seconds=600)
    assert not worker.faults
    assert worker.done["converted"] + worker.done["refused"] == count
    assert min(worker.done["converted"], worker.done["refused"]) > 0
