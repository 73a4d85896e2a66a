"""A small part of the torture in `memory.py`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

if sys.platform == "win32":
    pytest.skip("POSIX streams", allow_module_level=True)


@pytest.mark.parametrize("road", ["onnx", "ascend"])
def test_memory_may_run_out_at_any_line(road: str) -> None:
    from torture.memory import torture

    done, faults = torture(road, seed=1, count=40, seconds=60)
    assert not faults
    assert done["sound"]


def test_a_file_that_is_written_in_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from torture.memory import torture

    from onnx_sparse import cli

    main = cli.main

    def in_place(command: Sequence[str]) -> int:
        Path(command[command.index("-o") + 1]).write_bytes(b"")
        return main(command)

    monkeypatch.setattr(cli, "main", in_place)
    _, faults = torture("ascend", seed=1, count=5, seconds=60)
    assert any("half written" in fault for fault in faults)
