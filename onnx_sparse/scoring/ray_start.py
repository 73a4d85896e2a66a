"""Ray, imported and started quietly: here, or as the cluster that the variable RAY_ADDRESS names."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

from onnx_sparse.errors import CommandError
from onnx_sparse.scoring.remote_engine import WORKER_ENVIRONMENT, environment, gist, signals_kept

#: Ray reports every use of it to its makers, and warns of coming changes, unless these say otherwise.
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}

with environment(**ENVIRONMENT):  # it reads them when it is imported, too
    import ray

#: Neither rows nor tables pass through Ray's store, so it may be as small as Ray allows: in bytes.
_STORE = 80 << 20


def start(cpus: int | None = None) -> None:
    """Start Ray, or join its cluster.

    Raises:
        CommandError: It does not start.
    """
    cluster = os.environ.get("RAY_ADDRESS")
    here: dict[str, Any] = {"num_cpus": cpus, "object_store_memory": _STORE, "include_dashboard": False}
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL} | ({} if cluster else here)
    of_workers = {"env_vars": WORKER_ENVIRONMENT}
    try:
        with environment(**ENVIRONMENT), signals_kept():
            ray.init(cluster or "local", runtime_env=of_workers, **options)
    except (OSError, RuntimeError, ValueError) as error:  # ConnectionError among them
        raise CommandError(f"Ray did not start: {gist(error)}") from error


@contextlib.contextmanager
def started(cpus: int) -> Iterator[None]:
    """A block in which Ray runs; it goes on afterwards if it ran before.

    Raises:
        CommandError: It does not start.
    """
    if ray.is_initialized():
        yield
        return
    with environment(**ENVIRONMENT):
        start(cpus)
        try:
            yield
        finally:
            ray.shutdown()
