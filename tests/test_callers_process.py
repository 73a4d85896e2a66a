"""A function of this package is a guest in its caller's process: it leaves everything as it was."""

from __future__ import annotations

import csv
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

import onnx_sparse

TEXT = '<ir_version: 10, opset_import: ["": 18]> g (float[n] x) => (float[n] y) { y = Neg(x) }'


#: Python's own.
_CSV_LIMIT = 1 << 17


def state() -> dict[str, object]:
    """What all code of a process shares."""
    return {
        "environment": dict(os.environ),
        "longest cell of CSV": csv.field_size_limit(),
        "signals": {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)},
        "folder": os.getcwd(),
        "path of modules": list(sys.path),
        "filters of warnings": list(warnings.filters),
        "format of warnings": warnings.formatwarning,
        "levels of loggers": {name: logging.getLogger(name).level for name in ("", "tensorflow", "onnx_sparse")},
        "handlers of loggers": {name: list(logging.getLogger(name).handlers) for name in ("", "onnx_sparse.score")},
        "processes": set(multiprocessing.active_children()),
        "threads": {thread for thread in threading.enumerate() if not thread.daemon},
    }


CALLS: dict[str, Callable[[Path, Path], Any]] = {
    "check": lambda model, rows: onnx_sparse.check(model),
    "inspect": lambda model, rows: onnx_sparse.inspect(model),
    "convert": lambda model, rows: onnx_sparse.convert(model, rows.with_name("out.onnx"), verify=True),
    "benchmark": lambda model, rows: onnx_sparse.benchmark(model, seconds=0.01, batch_sizes=[1], threads=[1]),
    "report": lambda model, rows: onnx_sparse.report(model, times=False),
    "score": lambda model, rows: onnx_sparse.score(model, rows, rows.with_name("out")),
    "score in processes": lambda model, rows: onnx_sparse.score(model, rows.parent, rows.with_name("out"), workers=2),
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    return path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for name in "ab":
        (tmp_path / "in" / f"{name}.csv").write_text("uid,x\na,1\nb,2\n")
    return tmp_path / "in" / "a.csv"


@pytest.mark.parametrize("name", CALLS)
def test_a_call_leaves_the_process_as_it_was(
    name: str, model: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.startswith("score"):
        pytest.importorskip("pyarrow")
    CALLS[name](model, rows)  # libraries that are imported for the first time change it
    for path in [*rows.parent.glob("out*")]:
        path.rename(rows.parent.parent / f"first_{path.name}")
    csv.field_size_limit(_CSV_LIMIT)
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    before = state()
    CALLS[name](model, rows)
    after = state()
    assert {key: (value, after[key]) for key, value in before.items() if value != after[key]} == {}


def test_a_file_that_is_half_read_has_changed_no_limit(rows: Path) -> None:
    text_rows = pytest.importorskip("onnx_sparse.scoring.text_rows")
    rows.write_text("x\n" + "\n".join("1" * 200_000 for _ in range(3)))
    before = _CSV_LIMIT
    csv.field_size_limit(before)
    with rows.open("rb") as file:
        batches = text_rows.csv_rows(file, 1, text_rows.Wanted({}, ["x"]))
        next(batches)
        assert csv.field_size_limit() == before
        with pytest.raises(csv.Error, match="field larger"):
            next(csv.reader(["1" * (before + 1)]))
        assert len(list(batches)) == 2


@pytest.mark.parametrize("module", ["scoring.remote_engine", "commands.scoring.score", "cli"])
def test_an_import_changes_no_variable(module: str) -> None:
    if module != "cli":
        pytest.importorskip("pyarrow")
    program = f"import os; before = dict(os.environ); import onnx_sparse.{module}; assert os.environ == before"
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    assert subprocess.run([sys.executable, "-c", program], env=environment).returncode == 0
