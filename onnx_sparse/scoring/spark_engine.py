"""Scoring files on Spark: each file is a job of one task.

Spark is started here, or it is the cluster that Spark's own settings name: spark-defaults.conf, or the variable
PYSPARK_SUBMIT_ARGS. Its nodes need onnx_sparse and the same folders.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

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
    handed_over,
    score_on,
    signals_kept,
)
from onnx_sparse.scoring.score_file import Job

_SETTINGS = {"spark.app.name": "onnx-sparse score", "spark.ui.enabled": "false", "spark.log.level": "OFF"}


def score_all(
    scorer: Scorer, jobs: Sequence[Job], workers: int, tell: Callable[[int], None]
) -> Iterator[tuple[Job, Outcome]]:
    """As `scoring.score_all`; rows are counted when a file is done, because Spark tells no sooner."""
    if not jobs:
        return
    here = {"MASTER": f"local[{workers},{ATTEMPTS}]", "PYSPARK_PYTHON": sys.executable}  # what Spark asks last
    with termination_raised(), environment(**here), _started() as context:
        yield from score_on(_Spark(context, scorer), jobs, workers, tell)


@contextlib.contextmanager
def _started() -> Iterator[SparkContext]:
    settings = SparkConf(loadDefaults=False).setAll(list(_SETTINGS.items()))
    with tempfile.TemporaryFile() as log:  # Spark greets on stderr before it reads what to log
        try:
            with signals_kept(), warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # of a pandas that is not used here
                gateway = launch_gateway(settings, {"stderr": log, "stdout": log})
                context = SparkContext(
                    environment=WORKER_ENVIRONMENT, conf=SparkConf(_jvm=gateway.jvm), gateway=gateway
                )
        except (Py4JError, PySparkException, OSError, ValueError) as error:
            log.seek(0)
            reason = gist(log.read().decode(errors="replace")) or gist(error)
            raise CommandError(f"Spark did not start (it needs Java 17 or later): {reason}") from error
        try:
            yield context
        finally:
            context.stop()
            gateway.shutdown()


class _Spark:
    """The engine: see `scoring_remote.Engine`."""

    def __init__(self, context: SparkContext, scorer: Scorer) -> None:
        self._context = context
        self._task = functools.partial(_task, *handed_over(scorer))

    def run(self, job: Job) -> Outcome | Exception:
        try:
            [outcome] = self._context.parallelize([job], 1).map(self._task).collect()
        except Py4JJavaError as error:
            message = str(error.java_exception.getMessage())
            ended = "Python worker exited unexpectedly" in message
            raise CommandError(WORKER_ENDED if ended else f"Spark: {gist(message)}") from error
        made: Outcome | Exception = outcome
        return made

    def counts(self) -> Mapping[Place, int]:
        return {}

    def cancel(self) -> None:
        self._context.cancelAllJobs()


def _task(pickled: bytes, folder: str, job: Job) -> Any:
    return attempt(pickled, folder, job, lambda rows: None)
