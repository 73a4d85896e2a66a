"""A small part of the torture in `concurrency.py`, on each backend."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from torture.concurrency import (
    Tally,
    callbacks,
    endings,
    interrupts,
    lifetimes,
    open_session,
    processes,
    threads,
)

from onnx_sparse.sessions.runtime import available_backends

pytestmark = pytest.mark.slow

BACKENDS = pytest.mark.parametrize("backend", available_backends())


@pytest.fixture
def tally() -> Iterator[Tally]:
    counted = Tally()
    yield counted
    assert not counted.faults
    assert counted.done


@BACKENDS
@pytest.mark.parametrize(
    ("scenario", "amount"),
    [(callbacks, 600), (threads, 160), (lifetimes, 20), (endings, 3)],
    ids=lambda p: getattr(p, "__name__", ""),
)
def test_every_request_gets_its_own_answer(
    backend: str, scenario: Callable[[str, Tally, random.Random, Any], None], amount: int, tally: Tally
) -> None:
    scenario(backend, tally, random.Random(amount), amount)


@BACKENDS
@pytest.mark.skipif(sys.platform == "win32", reason="no fork, and no SIGINT for one process")
@pytest.mark.parametrize(("scenario", "amount"), [(processes, 1), (interrupts, 100)], ids=["processes", "interrupts"])
def test_processes_live_on(
    backend: str, scenario: Callable[[str, Tally, random.Random, Any], None], amount: int, tally: Tally
) -> None:
    scenario(backend, tally, random.Random(1), amount)


@BACKENDS
def test_a_session_shows_the_models_inputs_only(backend: str) -> None:
    session = open_session(backend)
    assert [value.name for value in session.get_inputs()] == ["data", "ids"]
    assert len(session.get_input_memory_infos()) == len(session.get_input_epdevices()) == 2
