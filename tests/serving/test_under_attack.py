"""Honest clients of a server that is attacked get right answers in time, and health is answered at once.

`ONNX_SPARSE_ATTACK_MIB` is the size of large requests, `ONNX_SPARSE_ATTACK_SECONDS` the time of each attack. Times are
compared with those of a server without attack only if the latter is given, on a machine that does nothing else: by
default, no answer may take more than seconds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support import attackers
from support.attacked_server import Measured, attack, attacked, measured
from support.serving_client import Server

pytest.importorskip("uvicorn")

if sys.platform != "linux":
    pytest.skip("reads /proc", allow_module_level=True)

MIB = float(os.environ.get("ONNX_SPARSE_ATTACK_MIB", "2"))
IS_TIMED = "ONNX_SPARSE_ATTACK_SECONDS" in os.environ
SECONDS = float(os.environ.get("ONNX_SPARSE_ATTACK_SECONDS", "0.5"))
#: What a server that one request stops would exceed, and a loaded machine would not.
STOPPED = 5.0
#: Other programs of the machine are late, too; what the server does, it does each time.
TRIES = 3
#: A machine that is not idle is late by itself: a thread that sleeps says by how much. Below this, times are noise.
NOISE = 0.03


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with attacked(tmp_path_factory.mktemp("models"), "--max-request-size", str(int(8 * MIB))) as started:
        yield started


@pytest.fixture(scope="module")
def quiet(server: Server) -> Measured:
    """Without an attack."""
    measured(server, 0.3)
    return measured(server, max(SECONDS, 1))


#: The others, whose times and memory need a machine of their own, are those of `tests/torture/attacks.py`, at night.
KINDS = {
    **dict.fromkeys(attackers.REQUESTS, MIB),
    "idle": 2000,
    "slow headers": 100,
    "slow bodies": 100,
}


@pytest.mark.parametrize("kind", KINDS)
def test_honest_clients_are_served(kind: str, server: Server, quiet: Measured, record_property: Any) -> None:
    seen: list[str] = []
    for _ in range(TRIES):
        with attack(server, kind, SECONDS + 0.2, KINDS[kind]) as attacker:
            found = measured(server, SECONDS)
            statuses = attacker.stdout.read() if attacker.stdout is not None else ""
        seen.append(f"{found}; attacker: {statuses}")
        assert not found.wrong
        assert found.peak <= 2 * quiet.peak + 32 * MIB * 2**20
        late = max(found.late)
        health, p99 = max(found.health), np.percentile(found.answers, 99)
        assert max(health, p99) < STOPPED + late, seen
        if not IS_TIMED or (health < 0.1 + late and p99 <= 3 * np.percentile(quiet.answers, 99) + late + NOISE):
            record_property("measured", seen[-1])
            return
    pytest.fail(f"in no try was all in time: {seen}; without attack: {quiet}")
