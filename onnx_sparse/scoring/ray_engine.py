"""Scoring files on Ray: each file is a task.

Ray is started here, or it is the cluster that the variable RAY_ADDRESS names. Its nodes need onnx_sparse and the same
folders.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, WorkerCrashedError

from onnx_sparse.arrow import Scorer
from onnx_sparse.errors import CommandError
from onnx_sparse.files.termination import termination_raised
from onnx_sparse.scoring.local_engine import WORKER_ENDED, Outcome
from onnx_sparse.scoring.places import Place
from onnx_sparse.scoring.ray_start import started
from onnx_sparse.scoring.remote_engine import ATTEMPTS, attempt, gist, handed_over, score_on
from onnx_sparse.scoring.score_file import Job

#: How long a count of rows is waited for, in seconds.
_PATIENCE = 1.0


def score_all(
    scorer: Scorer, jobs: Sequence[Job], workers: int, tell: Callable[[int], None]
) -> Iterator[tuple[Job, Outcome]]:
    """As `scoring.score_all`, in tasks of one CPU each."""
    if not jobs:
        return
    with termination_raised(), started(workers):
        yield from score_on(_Ray(scorer), jobs, workers, tell)


class _Counts:
    """An actor that knows how many rows of each target are done, so that a file which is begun again counts once."""

    def __init__(self) -> None:
        self._rows: dict[Place, int] = {}

    def tell(self, target: Place, rows: int) -> None:
        self._rows[target] = rows

    def all(self) -> dict[Place, int]:
        return self._rows


def _task(pickled: bytes, folder: str, job: Job, counts: Any) -> Outcome | Exception:
    return attempt(pickled, folder, job, lambda rows: counts.tell.remote(job.target, rows))


class _Ray:
    """The engine: see `scoring_remote.Engine`."""

    def __init__(self, scorer: Scorer) -> None:
        self._counts = ray.remote(num_cpus=0, max_restarts=-1)(_Counts).remote()
        self._task = ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(_task)
        self._given = handed_over(scorer)
        self._running: set[Any] = set()

    def run(self, job: Job) -> Outcome | Exception:
        task = self._task.remote(*self._given, job, self._counts)
        self._running.add(task)
        try:
            outcome: Outcome | Exception = ray.get(task)
        except WorkerCrashedError as error:
            raise CommandError(WORKER_ENDED) from error
        except RayError as error:
            raise CommandError(f"Ray: {gist(error)}") from error
        finally:
            self._running.discard(task)
        return outcome

    def counts(self) -> Mapping[Place, int]:
        with contextlib.suppress(RayError, GetTimeoutError):
            known: dict[Place, int] = ray.get(self._counts.all.remote(), timeout=_PATIENCE)
            return known
        return {}

    def cancel(self) -> None:
        for task in tuple(self._running):
            ray.cancel(task, force=True)
