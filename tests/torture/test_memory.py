"""A small part of the torture in `memory.py`."""

from __future__ import annotations

import sys

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
