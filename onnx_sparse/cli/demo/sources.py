"""A small source of every road, written by its own framework: what guides begin with.

- `model.xml`, `streaming.xml`: OpenVINO's IR, the second one with a state;
- `by_tf2onnx.onnx`, `by_torch.onnx`: ONNX files of other exporters;
- `recommender.pt2`: a program that torch exported;
- `layer.json` with `dump/`, and `msit_dump_20260101_120000/`: a layer of Ascend's ATB; `export.air`: a graph of GE.
"""

from __future__ import annotations

import shutil
from pathlib import Path

FOLDER = Path(__file__).with_name("demo_sources")


def source_names() -> list[str]:
    """The names of the files and folders."""
    return sorted(path.name for path in FOLDER.iterdir())


def keep_sources(folder: Path) -> list[Path]:
    """Copy the sources into a folder; returns their paths there."""
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    return [folder / name for name in source_names()]
