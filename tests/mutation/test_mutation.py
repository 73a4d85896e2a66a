"""What the program plants, and that it tells tests that notice a fault from those that do not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mutation.named import named
from mutation.native import written
from mutation.planting import mutants
from mutation.rooms import ROOMS, ROOT, Room

SOURCE = '''
TYPES = (T.INT32, T.INT64)

def may_fail(x: int, y: int = 3) -> bool:
    """A docstring."""
    if x < 2 and not y:
        return False
    if x == 5:
        raise ValueError(f"{x + 1} is bad")
    return x in TYPES

def nested(x: int) -> int:
    return ((x or y) > 0) + (x and (x or y))
'''

EXPECTED = {
    "(T.INT32, T.INT64) -> (T.INT64, )",
    "(T.INT32, T.INT64) -> (T.INT32, )",
    "3 -> 4",
    "3 -> 300",
    "x < 2 and not y -> (x < 2)",
    "x < 2 and not y -> (not y)",
    "x < 2 and not y -> False",
    "x < 2 -> (x <= 2)",
    "x < 2 -> (x > 2)",
    "2 -> 3",
    "2 -> 200",
    "not y -> bool(y)",
    "False -> True",
    "x == 5 -> (x != 5)",
    "x == 5 -> False",
    "5 -> 6",
    "5 -> 500",
    'raise ValueError(f"{x + 1} is bad") -> pass',
    "x in TYPES -> (not (x in TYPES))",
    "(x or y) > 0 -> ((x or y) >= 0)",
    "(x or y) > 0 -> ((x or y) < 0)",
    "x or y -> (x)",
    "x or y -> (y)",
    "0 -> 1",
    "x and (x or y) -> (x or y)",
    "x and (x or y) -> (x)",
    "x in TYPES -> True",
    "x in TYPES -> False",
}


def test_what_is_planted() -> None:
    found = mutants(Path("a.py"), SOURCE)
    assert {f"{mutant.old} -> {mutant.new}" for mutant in found} == EXPECTED
    assert all(mutant.old in SOURCE.splitlines()[mutant.line - 1] for mutant in found)
    assert all(mutant.applied(SOURCE) != SOURCE for mutant in found)


@pytest.mark.parametrize("room", ROOMS.values(), ids=ROOMS)
def test_rooms_are_there(room: Room) -> None:
    assert [*room.files()]
    assert all((ROOT / test).exists() for test in room.tests)


def test_faults_of_the_lists_can_be_planted() -> None:
    assert all((ROOT / test.partition("::")[0]).exists() for mutant in named() for test in mutant.tests)
    assert [*written()]


def test_a_fault_is_noticed_by_the_tests_of_its_room(tmp_path: Path) -> None:
    """In a process of its own: the program forks before the project is imported."""
    command = [sys.executable, "-m", "mutation", "--named", "--only", "varint", "--json", str(tmp_path / "j")]
    assert subprocess.run(command, check=False, cwd=ROOT / "tests", capture_output=True).returncode == 0
    assert json.loads((tmp_path / "j").read_text())["named"]["killed"] == 1
