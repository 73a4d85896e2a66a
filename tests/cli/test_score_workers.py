"""The processes of `score`: an interrupt ends them, and none of the caller's."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from typing import Any

import onnx
import pytest

pq = pytest.importorskip("pyarrow.parquet")

from cli.test_score import pooling_model, rows  # noqa: E402

import onnx_sparse  # noqa: E402
from onnx_sparse.scoring import local_engine  # noqa: E402


def test_an_interrupt_ends_no_process_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    def interrupted(futures: Any, *_: Any) -> None:
        started.extend(multiprocessing.active_children())
        raise KeyboardInterrupt

    monkeypatch.setattr(local_engine, "wait", interrupted)
    onnx.save(pooling_model(), tmp_path / "model.onnx")
    (tmp_path / "in").mkdir()
    for number in range(3):
        pq.write_table(rows(20, number), tmp_path / "in" / f"{number}.parquet")
    own = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
    own.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            onnx_sparse.score(tmp_path / "model.onnx", tmp_path / "in", tmp_path / "out", workers=2)
        assert own.is_alive()
        assert len(started) > 1  # own, and at least one worker
        assert multiprocessing.active_children() == [own]
    finally:
        own.kill()
        own.join()
