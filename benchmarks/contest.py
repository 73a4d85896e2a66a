"""Times contenders against each other in one run."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping

from records import Line

Contender = Callable[[], object]

#: Seconds of pause before each turn of a contender, and the number of timed runs in a turn.
_PAUSE = 0.1
_RUNS = 3


def take_turns(contenders: Mapping[str, Contender], rounds: int, seconds: float = 4.0) -> dict[str, list[float]]:
    """The seconds of each contender in each round; as they take turns, other load on the machine affects all alike.

    A library's threads spin for a while after their work, ONNX Runtime's for about 60 ms. A pause and an untimed run
    before each turn let a contender start with its own threads awake and the others' asleep. The time of a turn is the
    median of its runs. No contender is timed for much longer than `seconds`, so the slow ones have fewer turns.
    """
    turns: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        run()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, run in contenders.items():
                if _RUNS * sum(turns[name]) < seconds:
                    time.sleep(_PAUSE)
                    run()
                    turns[name].append(statistics.median(_seconds(run) for _ in range(_RUNS)))
    finally:
        gc.enable()
    return turns


def contest(case: str, contenders: Mapping[str, Contender], seconds: float = 2.0, threads: int = 0) -> Line:
    """Time each contender for about `seconds` or ten rounds, whichever is less."""
    return Line(case, threads, take_turns(contenders, 10, seconds))


def _seconds(run: Contender) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
