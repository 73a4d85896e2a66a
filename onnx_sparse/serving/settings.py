"""How models are served: what the command line passes to the processes that serve."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Limits:
    """What a model takes.

    Attributes:
        batch_requests: The most requests of one run.
        waiting_requests: The most requests that wait for a run; a further one is refused.
        threads: The threads of a run; 0 for one for each core.
        run_seconds: How long a run may take; 0 for any time.
    """

    batch_requests: int
    waiting_requests: int
    threads: int
    run_seconds: float = 30.0


@dataclass(frozen=True)
class Settings:
    """How models are served.

    Attributes:
        models: The files by name.
        host: The address.
        grpc_port: Where gRPC listens; None for no gRPC.
        limits: What each model takes.
        most_bytes: The largest request.
        reload_seconds: How often files are checked for changes; 0 for never.
        stop_seconds: How long requests in flight are awaited at the end.
        drain_seconds: How long the server goes on after it has been asked to end, no longer ready.
        shares_ports: Whether several processes serve.
        logs_access: Whether each request to a model is logged.
        log_format: How the log is written, `text` or `json`.
        log_level: The least level that is logged.
    """

    models: dict[str, Path]
    host: str
    grpc_port: int | None
    limits: Limits
    most_bytes: int
    reload_seconds: float
    stop_seconds: int
    drain_seconds: float
    shares_ports: bool
    logs_access: bool = False
    log_format: str = "text"
    log_level: str = "info"


class StartError(Exception):
    """A model cannot be opened, or a port be listened to; the message is one line."""
