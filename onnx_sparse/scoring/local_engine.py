"""Scoring files of rows in processes of this machine."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from onnx_sparse.arrow import Scorer
from onnx_sparse.errors import CommandError
from onnx_sparse.files.termination import TerminatedError, interrupts_blocked, termination_raised
from onnx_sparse.scoring.row_files import UnreadableError
from onnx_sparse.scoring.score_file import Done, Job, score

#: How often the rows that workers have done are counted, in seconds.
INTERVAL = 0.2
#: How many files wait for each worker: with all of them, each look at those that are done would take longer.
AHEAD = 4
WORKER_ENDED = "a worker was ended (is there enough memory?); complete files are kept; --resume continues"

#: What became of a file: one that cannot be read does not end the others.
Outcome = Done | UnreadableError


def score_all(
    scorer: Scorer, jobs: Sequence[Job], workers: int, tell: Callable[[int], None]
) -> Iterator[tuple[Job, Outcome]]:
    """Score files, several at once; each is yielded when it is done.

    Args:
        scorer: The scorer.
        jobs: The files.
        workers: How many processes.
        tell: Called with the number of rows that have been done so far.

    Raises:
        CommandError: A file cannot be scored or written, or a process was ended.
    """
    if workers == 1 or len(jobs) < 2:
        rows = 0

        def count(more: int) -> None:
            nonlocal rows
            rows += more
            tell(rows)

        for job in jobs:
            yield job, outcome_of(scorer, job, count)
        return
    with termination_raised():
        yield from _score_in_workers(scorer, jobs, workers, tell)


def outcome_of(scorer: Scorer, job: Job, count: Callable[[int], None]) -> Outcome:
    """As `score`; that a file cannot be read is an outcome."""
    try:
        return score(scorer, job, count)
    except UnreadableError as error:
        return error


class _Workers(SpawnContext):
    """Starts processes, and keeps them in mind."""

    def __init__(self) -> None:
        self.started: list[SpawnProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802 - a class there
        self.started.append(SpawnProcess(*args, **kwargs))
        return self.started[-1]


def _score_in_workers(
    scorer: Scorer, jobs: Sequence[Job], workers: int, tell: Callable[[int], None]
) -> Iterator[tuple[Job, Outcome]]:
    context = _Workers()
    counter = context.Value("q", 0)
    workers = min(workers, len(jobs))
    pool = ProcessPoolExecutor(workers, context, _prepare, (scorer, counter))
    left = iter(jobs)
    waiting: dict[Future[Outcome], Job] = {}
    try:
        while True:
            with interrupts_blocked():  # a terminal sends Ctrl-C to the workers, too, which would each say so
                for job in itertools.islice(left, AHEAD * workers - len(waiting)):
                    waiting[pool.submit(_score, job)] = job
            if not waiting:
                return
            done, _ = wait(waiting, INTERVAL, FIRST_COMPLETED)
            tell(counter.value)
            for future in done:
                job = waiting.pop(future)
                yield job, future.result()
    except (KeyboardInterrupt, TerminatedError, GeneratorExit):
        for worker in context.started:  # the caller may have processes of its own
            if worker.is_alive():
                worker.terminate()
        raise
    except BrokenProcessPool:
        raise CommandError(WORKER_ENDED) from None
    finally:
        pool.shutdown(cancel_futures=True)


_worker: dict[str, Any] = {}


def _prepare(scorer: Scorer, counter: Any) -> None:
    _worker.update(scorer=scorer, counter=counter)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker when the process that started it has ended, however: it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)  # removes what is half written


def _score(job: Job) -> Outcome:
    counter = _worker["counter"]

    def count(more: int) -> None:
        with counter.get_lock():
            counter.value += more

    try:
        return outcome_of(_worker["scorer"], job, count)
    except TerminatedError as end:  # the file is removed; the pool would go on with the next
        os._exit(end.exit_code)
