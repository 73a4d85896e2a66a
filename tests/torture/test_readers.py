"""A small part of the fuzzing in `readers.py`, without its guidance."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from torture.mutations import mutated_bytes
from torture.readers import READERS, read_or_refuse


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "OpenVINO" else name for name in READERS]
)
def test_damaged_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    if name == "OpenVINO":
        pytest.importorskip("openvino")
    source, reader = random.Random(1), READERS[name]
    read = read_or_refuse(reader, tmp_path / f"file{reader.suffix}")
    seeds = list(reader.seeds())
    for _ in range(20):
        read(mutated_bytes(source.choice(seeds), source))
