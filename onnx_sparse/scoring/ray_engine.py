"""Scoring files on Ray: each file is a task.

Ray is started here, or it is the cluster that the variable RAY_ADDRESS names. Its nodes need onnx_sparse and the same
folders.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx_sparse.arrow import Scorer
from onnx_sparse.errors import CommandError
from onnx_sparse.files.termination import termination_raised
from onnx_sparse.scoring.local_engine import WORKER_ENDED, Outcome
from onnx_sparse.scoring.places import Place
from onnx_sparse.scoring.remote_engine import (
    ATTEMPTS,
    WORKER_ENVIRONMENT,
    attempt,
    environment,
    gist,
    score_on,
    signals_kept,
)
from onnx_sparse.scoring.score_file import Job

#: Ray reports every use of it to its makers, and warns of coming changes, unless these say otherwise.
_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}

with environment(**_ENVIRONMENT):  # it reads them when it is imported, too
    import ray
    from ray.exceptions import GetTimeoutError, RayError, WorkerCrashedError

#: Rows do not pass through Ray's store, so it may be as small as Ray allows: in bytes.
_STORE = 80 << 20
#: How long a count of rows is waited for, in seconds.
_PATIENCE = 1.0


def score_all(
    scorer: Scorer, jobs: Sequence[Job], workers: int, tell: Callable[[int], None]
) -> Iterator[tuple[Job, Outcome]]:
    """As `scoring.score_all`, in tasks of one CPU each."""
    if not jobs:
        return
    with termination_raised(), environment(**_ENVIRONMENT), _started(workers):
        yield from score_on(_Ray(scorer), jobs, workers, tell)


@contextlib.contextmanager
def _started(workers: int) -> Iterator[None]:
    cluster = os.environ.get("RAY_ADDRESS")
    here = {"num_cpus": workers, "object_store_memory": _STORE, "include_dashboard": False}
    options = {"log_to_driver": False, "logging_level": logging.CRITICAL} | ({} if cluster else here)
    of_workers = {"env_vars": WORKER_ENVIRONMENT}
    try:
        with signals_kept():
            ray.init(cluster or "local", runtime_env=of_workers, **options)
    except (OSError, RuntimeError, ValueError) as error:  # ConnectionError among them
        raise CommandError(f"Ray did not start: {gist(error)}") from error
    try:
        yield
    finally:
        ray.shutdown()


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
        self._given = pickle.dumps(scorer), str(Path.cwd())
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
