"""Serve models over HTTP and gRPC: the Open Inference Protocol (v2) of KServe and Triton, and rows as
JSON by feature, as in TensorFlow Serving. Requests that arrive during a run form the next batch.

  POST /v2/models/NAME/infer      tensors, as JSON or binary
  POST /v1/models/NAME:predict    rows, {"instances": [...]}
  GET /v2/health/live, /v2/health/ready, /metrics (Prometheus)

The server reloads a file that changes, and all files after SIGHUP. No request is lost. After SIGTERM,
it answers the requests in flight and ends.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_sparse.cli import output
from onnx_sparse.errors import CommandError, UsageError, printable
from onnx_sparse.installation import install_command
from onnx_sparse.settings import local_path

if TYPE_CHECKING:
    from onnx_sparse.serving.ports import ReservedPort
    from onnx_sparse.serving.settings import Settings

NAME = "serve"
SUMMARY = "serve models over HTTP and gRPC"
EXAMPLES = """
onnx-sparse serve baskets.onnx
curl localhost:8080/v1/models/baskets:predict \\
  -d '{"instances": [{"items": [5, 7], "age": 31}]}'
onnx-sparse serve shop=shop.onnx news=news.onnx --host 0.0.0.0 --workers 4
"""

_PACKAGES = ("uvicorn", "starlette", "grpc", "prometheus_client")
_MIB = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "models",
        nargs="+",
        metavar="[NAME=]MODEL",
        help="an ONNX file, and its name in addresses (default: the file's, without .onnx)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="check the indexes of keyed tables, report what bounds requests and what each model costs; serve nothing",
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address (default: 127.0.0.1, for this machine only)")
    parser.add_argument("--port", type=int, default=8080, help="the port of HTTP, 0 for any free port (default: 8080)")
    parser.add_argument(
        "--grpc-port", type=int, default=8081, help="the port of gRPC, 0 for any free port (default: 8081)"
    )
    parser.add_argument("--no-grpc", action="store_true", help="do not serve over gRPC")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes (default: 1)")
    parser.add_argument(
        "--threads", type=int, metavar="N", help="threads of each run (default: the cores, divided by the workers)"
    )
    parser.add_argument(
        "--max-batch-requests", type=int, default=64, metavar="N", help="the most requests of a run (default: 64)"
    )
    parser.add_argument(
        "--max-waiting",
        type=int,
        default=1024,
        metavar="N",
        help="the most requests that wait for each model; others get status 503 (default: 1024)",
    )
    parser.add_argument(
        "--max-request-size", type=int, default=64, metavar="MIB", help="the largest request, in MiB (default: 64)"
    )
    parser.add_argument(
        "--run-timeout",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="how long a run may take before its requests get status 504, 0 for any time (default: 30)",
    )
    parser.add_argument(
        "--reload-interval",
        type=float,
        default=1.0,
        metavar="SECONDS",
        help="how often files are checked for changes, 0 for never (default: 1)",
    )
    parser.add_argument("--access-log", action="store_true", help="write a line to stderr for each request to a model")
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="how lines on stderr are written (default: text)"
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="the least level of events that are written (default: info)",
    )
    parser.add_argument(
        "--drain",
        type=float,
        default=0,
        metavar="SECONDS",
        help="how long to serve after SIGTERM (default: 0)",
    )
    parser.add_argument(
        "--grace",
        type=int,
        default=30,
        metavar="SECONDS",
        help="how long to wait for requests in flight at the end (default: 30)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until asked to end."""
    _check_numbers(arguments)
    models = named_models(arguments.models)
    if missing := [package for package in _PACKAGES if find_spec(package) is None]:
        raise CommandError(f"serving needs {', '.join(missing)}: {install_command('serve')}")
    if arguments.workers > 1 and sys.platform == "win32":
        raise UsageError("--workers: Windows cannot share the port of gRPC; start one server for each port")
    if arguments.check:
        _report_costs(_settings(arguments, models, None), arguments.json)
        return output.DONE
    from onnx_sparse.serving.ports import bound_socket, reserve_port

    shared = arguments.workers > 1
    try:
        sock = bound_socket(arguments.host, arguments.port)
    except OSError as error:
        raise CommandError(_cannot_listen(arguments.host, arguments.port, "--port", error)) from error
    grpc = None
    if not arguments.no_grpc:
        try:
            grpc = reserve_port(arguments.host, arguments.grpc_port, shared=shared)
        except OSError as error:
            raise CommandError(_cannot_listen(arguments.host, arguments.grpc_port, "--grpc-port", error)) from error
    with sock:
        _serve(arguments, models, sock, grpc)
    return output.DONE


def _check_numbers(arguments: argparse.Namespace) -> None:
    least = {"workers": 1, "threads": 1, "max_batch_requests": 1, "max_waiting": 1, "max_request_size": 1, "grace": 0}
    for option, low in least.items():
        value = getattr(arguments, option)
        if value is not None and not low <= value < 2**31:
            raise UsageError(f"--{option.replace('_', '-')} {value}: at least {low} expected")
    if not arguments.host:
        raise UsageError("--host '': an address is expected, such as 127.0.0.1 or 0.0.0.0")
    if arguments.max_request_size >= 2048:  # the lengths of gRPC's messages have 31 bits
        raise UsageError(f"--max-request-size {arguments.max_request_size}: it is at most 2047 MiB")
    for option in ("port", "grpc_port"):
        if not 0 <= (value := getattr(arguments, option)) < 2**16:
            raise UsageError(f"--{option.replace('_', '-')} {value}: a port is from 0 to 65535")
    if arguments.port == arguments.grpc_port != 0 and not arguments.no_grpc:
        raise UsageError(f"--port and --grpc-port are both {arguments.port}; give each a port of its own")
    for option in ("drain", "reload_interval", "run_timeout"):
        if not 0 <= (value := getattr(arguments, option)) < 2**31:
            raise UsageError(f"--{option.replace('_', '-')} {value}: at least 0 expected, and less than 2^31")


def named_models(given: Sequence[str]) -> dict[str, Path]:
    """The files by name, each written as MODEL or NAME=MODEL.

    Raises:
        UsageError: A name is given twice, or is none.
        CommandError: There is no such file.
    """
    from onnx_sparse.models.files.load_and_save import existing_file

    models: dict[str, Path] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or Path(text).exists():  # a path may have the sign, too
            name, path = Path(text).stem, text
        try:
            local_path(path)
        except ValueError as error:
            raise UsageError(error) from None
        if not name or not name.isprintable() or any(c in "/:?#%" for c in name):
            raise UsageError(f"{name!r} cannot be the name of a model; NAME={path} gives another")
        if name in models:
            raise UsageError(f"two models have the name {name}: {models[name]} and {path}; NAME=MODEL names one")
        models[name] = existing_file(Path(path))
    return models


def _cannot_listen(host: str, port: int, option: str, error: OSError) -> str:
    return (
        f"cannot listen on {host}:{port}: {error.strerror or error}; {option} chooses another port, --host an address"
    )


def _settings(arguments: argparse.Namespace, models: dict[str, Path], grpc: ReservedPort | None) -> Settings:
    from onnx_sparse.serving.settings import Limits, Settings

    threads = arguments.threads or max(len(_cores()) // arguments.workers, 1)
    return Settings(
        models,
        arguments.host,
        None if grpc is None else grpc.number,
        Limits(arguments.max_batch_requests, arguments.max_waiting, threads, arguments.run_timeout),
        arguments.max_request_size * _MIB,
        arguments.reload_interval,
        arguments.grace,
        arguments.drain,
        shares_ports=arguments.workers > 1,
        logs_access=arguments.access_log,
        log_format=arguments.log_format,
        log_level=arguments.log_level,
    )


def _report_costs(settings: Settings, as_json: bool) -> None:
    from onnx_sparse.serving.costs import costs
    from onnx_sparse.serving.settings import StartError

    try:
        found = costs(settings)
    except StartError as error:
        raise CommandError(error) from error
    if as_json:
        output.write_json(found)
        return
    for bound, value in found["bounds"].items():
        output.write_line(f"at most {value:,g} {bound}")
    for name, model in found["models"].items():
        times = [f"{rows} rows {took:g} ms" for rows, took in model["milliseconds"].items()] or ["no rows to measure"]
        joins = "requests are joined" if model["joined"] else f"requests run one by one: {model['reason']}"
        output.write_line(f"{printable(name)}: {model['bytes']:,} bytes, {', '.join(times)}; {joins}")


def _serve(
    arguments: argparse.Namespace,
    models: dict[str, Path],
    sock: socket.socket,
    grpc: ReservedPort | None,
) -> None:
    from onnx_sparse.serving.settings import StartError

    settings = _settings(arguments, models, grpc)

    def started() -> None:
        _show(arguments, models, sock, grpc)

    try:
        if settings.shares_ports:
            from onnx_sparse.serving.workers import Workers

            Workers(settings, sock, arguments.workers, lambda line: output.write_error(line)).serve(started)
        else:
            from onnx_sparse.serving.log import log_to_stderr
            from onnx_sparse.serving.server import serve

            log_to_stderr(settings.log_format, settings.log_level)
            serve(settings, sock, started)
    except StartError as error:
        raise CommandError(error) from error


def _cores() -> set[int] | range:
    """The cores that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)


def _show(
    arguments: argparse.Namespace, models: dict[str, Path], sock: socket.socket, grpc: ReservedPort | None
) -> None:
    """Report that requests are answered, and where."""
    http = _address(arguments.host, sock.getsockname()[1])
    document = {
        "http": f"http://{http}",
        "grpc": None if grpc is None else _address(arguments.host, grpc.number),
        "models": {name: str(path) for name, path in models.items()},
        "workers": arguments.workers,
    }
    if arguments.json:
        output.write_json(document)
    else:
        for name, path in models.items():
            output.write_line(f"serving {printable(path)} as {printable(name)}")
        output.write_line(f"HTTP   {document['http']}  (/v2/models, /metrics)")
        if document["grpc"]:
            output.write_line(f"gRPC   {document['grpc']}")
    output.flush()


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
