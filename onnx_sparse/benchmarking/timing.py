"""Times contenders against each other: they take turns, so that other load on the machine affects all alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping

#: Into how many turns the time of a contender is split.
_ROUNDS = 5
#: Seconds of pause before a turn when several take turns: the threads of a library spin for a while after their work,
#: those of ONNX Runtime for about 60 ms.
_PAUSE = 0.08
#: No contender has fewer runs than this, however slow it is.
_FEWEST_RUNS = 3


def take_turns(contenders: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, list[float]]:
    """The seconds of each run of each contender.

    Each turn begins with an untimed run, which wakes the contender's threads and fills its caches.

    Args:
        contenders: What to run, by name.
        seconds: How long to run each contender, all its turns together. The last run of a turn may exceed it.
    """
    found: dict[str, list[float]] = {name: [] for name in contenders}
    collects = gc.isenabled()
    gc.disable()
    try:
        for _ in range(_ROUNDS):
            for name, run in contenders.items():
                if len(contenders) > 1:
                    time.sleep(_PAUSE)
                run()
                end = time.perf_counter() + seconds / _ROUNDS
                while True:
                    begun = time.perf_counter()
                    run()
                    ended = time.perf_counter()
                    found[name].append(ended - begun)
                    if ended >= end:
                        break
            if all(sum(found[name]) >= seconds and len(found[name]) >= _FEWEST_RUNS for name in contenders):
                break
    finally:
        if collects:
            gc.enable()
    return found
