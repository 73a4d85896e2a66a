"""`benchmarks/sharded_lookups.py`, for small tables: shards and what merges them give the whole model's scores."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "sharded_lookups.py"


@pytest.mark.slow
def test_shards_give_the_scores_of_the_whole_model() -> None:
    """It compares them itself."""
    command = [sys.executable, SCRIPT, "--vocabulary", "1000", "--rows", "20", "--turns", "3", "--shards", "1", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split("|")[1:-1] for line in done.stdout.splitlines() if re.match(r"\| \d", line)]
    assert [row[0].strip() for row in rows] == ["1", "3"]
    sent, returned = ([float(row[column].replace(",", "").split()[0]) for row in rows] for column in (6, 7))
    assert sent[0] == sent[1]  # each id goes to one shard
    assert returned[1] == pytest.approx(3 * returned[0], abs=1.5)  # and each shard has a sum for each row
