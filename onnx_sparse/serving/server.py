"""A process that serves models until it is asked to end."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from onnx_sparse.errors import CommandError
from onnx_sparse.serving.connections import Connections
from onnx_sparse.serving.served_model import ServedModel
from onnx_sparse.serving.settings import Settings, StartError
from onnx_sparse.sessions.ort_errors import ort_message

if TYPE_CHECKING:
    from onnx_sparse.serving.http_app import HttpApp

_log = logging.getLogger("onnx_sparse.serving")

#: How long connections without a request stay open: longer than proxies keep theirs.
_KEEP_ALIVE = 75
#: How long a thread that reads a large request may keep the interpreter from the thread that answers.
_SWITCH_SECONDS = 0.0005
#: How many times the largest request its strings may have when an operator has decompressed them.
_DECOMPRESSED = 4
#: How often a process looks whether the one that started it is there.
_PARENT_SECONDS = 1.0


class _HttpServer(uvicorn.Server):
    """A server whose process has its own handlers of signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def serve(settings: Settings, sock: socket.socket, started: Callable[[], None]) -> None:
    """Serve models until SIGTERM or SIGINT; requests in flight are answered then. SIGHUP reads the models again.

    Args:
        settings: How.
        sock: The bound socket of HTTP.
        started: Called when requests are answered.

    Raises:
        StartError: A model cannot be opened, or a port be listened to.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    os.environ.setdefault("ONNX_SPARSE_DECOMPRESSED_MIB", str(max(_DECOMPRESSED * settings.most_bytes >> 20, 1)))
    models = opened(settings)
    from onnx_sparse.serving.http_app import HttpApp
    from onnx_sparse.serving.request_log import Requests

    app = HttpApp(models, settings.most_bytes, Requests(logs=settings.logs_access))
    gc.collect()
    gc.freeze()  # else each full collection of garbage looks at all modules, for a tenth of a second
    connections = app.connections = Connections()
    config = uvicorn.Config(
        app.app,
        http=connections.protocol(),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=settings.stop_seconds,
    )
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_serve(settings, models, app, _HttpServer(config), sock, started, connections))


def opened(settings: Settings) -> dict[str, ServedModel]:
    """The models by name.

    Raises:
        StartError: One cannot be opened.
    """
    models = {}
    for name, path in settings.models.items():
        try:
            models[name] = ServedModel(name, path, settings.limits)
        except Exception as error:  # ONNX Runtime's have no common class
            raise StartError(_not_a_model(path) or f"{path} cannot be opened: {ort_message(error)}") from error
    return models


def _not_a_model(path: Path) -> str | None:
    """What a file is that is not an ONNX model, as other commands say it; ONNX Runtime knows only that it is none."""
    from onnx_sparse.models.files.load_and_save import load_model

    try:
        load_model(path)
    except CommandError as error:
        return str(error)
    return None


async def _serve(
    settings: Settings,
    models: dict[str, ServedModel],
    app: HttpApp,
    http: uvicorn.Server,
    sock: socket.socket,
    started: Callable[[], None],
    connections: Connections,
) -> None:
    grpc_server = None
    if settings.grpc_port is not None:
        from onnx_sparse.serving import grpc_service

        service = grpc_service.GrpcService(models, app)
        try:
            grpc_server = await grpc_service.start(
                service, settings.grpc_port, settings.host, settings.most_bytes, shares_port=settings.shares_ports
            )
        except OSError as error:
            raise StartError(str(error)) from error
    ends = asyncio.Event()
    background = [asyncio.create_task(model.work()) for model in models.values()]
    background += [asyncio.create_task(each) for each in (connections.end_late_ones(), app.return_memory())]
    if settings.reload_seconds:
        background += [asyncio.create_task(model.follow_file(settings.reload_seconds)) for model in models.values()]
    if settings.shares_ports:
        background.append(asyncio.create_task(_end_with_parent(ends)))
    _handle_signals(models, ends, background)
    serving = asyncio.create_task(http.serve([sock]))
    while not http.started and not serving.done():
        await asyncio.sleep(0.01)
    started()
    await asyncio.wait({serving, asyncio.create_task(ends.wait())}, return_when=asyncio.FIRST_COMPLETED)
    app.draining.set()
    await asyncio.sleep(settings.drain_seconds)
    http.should_exit = True
    if grpc_server is not None:
        await grpc_server.stop(settings.stop_seconds)
    await serving
    for task in background:
        task.cancel()


def _handle_signals(models: dict[str, ServedModel], ends: asyncio.Event, background: list[asyncio.Task[None]]) -> None:
    def reload() -> None:
        background.extend(asyncio.create_task(model.reload()) for model in models.values())

    loop = asyncio.get_running_loop()
    for name, handler in (("SIGTERM", ends.set), ("SIGINT", ends.set), ("SIGHUP", reload)):
        number = getattr(signal, name, None)
        if number is None:
            continue
        try:
            loop.add_signal_handler(number, handler)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_, handler=handler: loop.call_soon_threadsafe(handler))


async def _end_with_parent(ends: asyncio.Event) -> None:
    """End if the process that started this one is gone."""
    parent = os.getppid()
    while os.getppid() == parent:
        await asyncio.sleep(_PARENT_SECONDS)
    _log.error("the process that started this one has ended")
    ends.set()
