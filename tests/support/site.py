"""The rendered documentation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def build_site(folder: Path) -> Path:
    """Render the documentation into a folder; a warning is an error."""
    for package in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(package)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder
