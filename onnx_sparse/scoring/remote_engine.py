"""What Ray and Spark have in common: they run a function somewhere, and once more where its worker has died.

A file of scores is written under another name and renamed when it is whole. So a file that is scored twice, even by
two workers at once, is there once; the engines have nothing to gather, and rows never pass through them.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Protocol

from onnx_sparse.arrow import Scorer
from onnx_sparse.scoring.local_engine import AHEAD, INTERVAL, Outcome, outcome_of
from onnx_sparse.scoring.places import Place
from onnx_sparse.scoring.row_files import UnreadableError
from onnx_sparse.scoring.score_file import Job, remove_abandoned_scores

#: How often a file is tried whose worker dies: Spark's own default. It may be the file that ends its workers.
ATTEMPTS = 4


#: For workers: ONNX Runtime reports its use from each unless this is 1 before it is imported, as in the command line.
WORKER_ENVIRONMENT = {"ORT_DISABLE_TELEMETRY": os.environ.get("ORT_DISABLE_TELEMETRY", "1")}


@contextlib.contextmanager
def environment(**defaults: str) -> Iterator[None]:
    """Variables that an engine reads while it starts and runs, as far as the caller has not set them."""
    missing = [name for name in defaults if name not in os.environ]
    os.environ.update({name: defaults[name] for name in missing})
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)


class Engine(Protocol):
    """Workers somewhere."""

    def run(self, job: Job) -> Outcome | Exception:
        """Let a worker score a file by `attempt`. It is called from several threads.

        Raises:
            CommandError: No worker could.
        """

    def counts(self) -> Mapping[Place, int]:
        """How many rows of each target are done, as far as that is known before the whole file is."""

    def cancel(self) -> None:
        """End what is running, so that `run` raises."""


def handed_over(scorer: Scorer) -> tuple[bytes, str]:
    """The first arguments of `attempt`."""
    return pickle.dumps(scorer), str(Path.cwd())


def attempt(pickled: bytes, folder: str, job: Job, count: Callable[[int], None]) -> Outcome | Exception:
    """Score a file, in a worker.

    What fails is returned: an engine takes what is raised for the worker's fault, logs it and tries again.

    Args:
        pickled: The scorer.
        folder: The folder that the paths start from, so that errors name files as the command line does; a machine that
            only reads and writes a store may lack it.
        job: The file.
        count: Called with the number of rows that are done so far.
    """
    done = 0

    def add(more: int) -> None:
        nonlocal done
        done += more
        count(done)

    try:
        with contextlib.chdir(folder) if os.path.isdir(folder) else contextlib.nullcontext():
            return outcome_of(_scorer(pickled), job, add)
    except Exception as error:
        error.add_note(traceback.format_exc())  # for --debug; a pickled exception has no traceback
        return error


@functools.lru_cache(1)
def _scorer(pickled: bytes) -> Scorer:
    """One scorer, so one session, in each worker, however many files it scores."""
    scorer: Scorer = pickle.loads(pickled)
    return scorer


def score_on(
    engine: Engine, jobs: Sequence[Job], workers: int, tell: Callable[[int], None]
) -> Iterator[tuple[Job, Outcome]]:
    """Score files on an engine, `workers` at once; each is yielded when it is done.

    Raises:
        CommandError: A file cannot be read, scored or written, or no worker could do it.
    """
    finished: dict[Place, int] = {}
    workers = min(workers, len(jobs))
    threads = ThreadPoolExecutor(workers)  # each waits for a worker
    left = iter(jobs)
    waiting: dict[Future[Outcome | Exception], Job] = {}
    try:
        while True:
            for job in itertools.islice(left, AHEAD * workers - len(waiting)):
                waiting[threads.submit(engine.run, job)] = job
            if not waiting:
                return
            done, _ = wait(waiting, INTERVAL, FIRST_COMPLETED)
            for future in done:
                outcome = future.result()
                if isinstance(outcome, Exception) and not isinstance(outcome, UnreadableError):
                    raise outcome
                job = waiting.pop(future)
                finished[job.target] = 0 if isinstance(outcome, Exception) else outcome.rows
                yield job, outcome
            tell(sum({**engine.counts(), **finished}.values()))
    except BaseException as error:
        threads.shutdown(wait=False, cancel_futures=True)
        if not isinstance(error, Exception):  # an interrupt: what is running is not waited for
            engine.cancel()
        raise
    finally:
        threads.shutdown(cancel_futures=True)
        # An engine ends workers without letting them clean up.
        remove_abandoned_scores(jobs)


def gist(message: object) -> str:
    """The line that says what happened, of what an engine has to say: mostly the stacks of Python and Java."""
    lines = [line for line in str(message).splitlines() if line.strip() and not line[0].isspace()]
    told = [line for line in lines if "Traceback (most recent call last)" not in line and "ray::" not in line]
    return next(iter(told or lines), "")


@contextlib.contextmanager
def signals_kept() -> Iterator[None]:
    """Put back the handlers of signals that an engine replaces while it starts."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
