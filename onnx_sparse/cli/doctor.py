"""Report what is installed and whether it works: versions, backends (each runs a model of one
node in its own process), and the limits of the installed ONNX Runtime.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from typing import Any

from onnx_sparse.cli import output
from onnx_sparse.errors import FAILED, one_line, printable
from onnx_sparse.sessions.onnxruntime_packages import installation_problem, onnxruntime_packages
from onnx_sparse.version import __version__

NAME = "doctor"
SUMMARY = "report what is installed and whether it works"
EXAMPLES = """
onnx-sparse doctor
onnx-sparse doctor --json | jq .backends
"""

_NEEDED = ("onnx", "onnxruntime", "numpy", "ml_dtypes", "rich")
_OPTIONAL = ("onnxruntime-extensions", "tensorflow", "torch", "onnxscript", "openvino", "pyarrow", "ray", "pyspark")
_BACKENDS = ("native", "python")
_SMOKE_SECONDS = 120
_STYLES = {"ok": "green", "BROKEN": "bold red", "not in this installation": "yellow"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments: there are none."""


def run(arguments: argparse.Namespace) -> int:
    """Examine the installation; fails when something that is needed is missing or broken."""
    with output.progress("examining", quiet=arguments.json):
        document = examine()
    if arguments.json:
        output.write_json(document)
    else:
        _show(document)
    return output.DONE if document["ok"] else FAILED


def examine() -> dict[str, Any]:
    """What is installed, and whether it works."""
    packages = {name: _version(name) for name in (*_NEEDED, *_OPTIONAL)}
    packages["onnxruntime"] = ", ".join(onnxruntime_packages().values()) or packages["onnxruntime"]
    problems = [f"{name} is not installed: pip install {name}" for name in _NEEDED if packages[name] is None]
    problems += filter(None, [installation_problem()])
    limits: dict[str, int] | None = None
    backends: dict[str, dict[str, Any]] = {}
    if not problems:
        from onnx_sparse.commands.description.ort_limits import find_limits
        from onnx_sparse.commands.description.runnable_backends import native_library
        from onnx_sparse.sessions.runtime import available_backends

        with ThreadPoolExecutor(len(_BACKENDS)) as threads:
            tests = dict(zip(_BACKENDS, threads.map(_smoke_test, _BACKENDS), strict=True))
        found = find_limits()
        limits = {"ir_version": found.ir_version, "opset": found.opset}
        library = native_library()
        backends = {
            "native": {"available": library is not None, "library": library, **tests["native"]},
            "python": {"available": "python" in available_backends(), "library": None, **tests["python"]},
        }
        if any(state["available"] for state in backends.values()):  # one does the work where the other is not
            for state in backends.values():
                state["problem"] = state["problem"] if state["available"] else None
        problems += [f"backend {name}: {state['problem']}" for name, state in backends.items() if state["problem"]]
    return {
        "ok": not problems,
        "onnx_sparse": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
        "onnxruntime_takes": limits,
        "backends": backends,
        "onnxruntime_telemetry": _telemetry(),
        "problems": problems,
    }


def _telemetry() -> str:
    """Whether ONNX Runtime 1.32 and later report their use to their makers, from this command line and from Python."""
    return "off" if os.environ.get("ORT_DISABLE_TELEMETRY") == "1" else "on: ORT_DISABLE_TELEMETRY=1 turns it off"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _smoke_test(backend: str) -> dict[str, Any]:
    """What is wrong with a backend, `problem`, None where nothing is; and its `settings`."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "onnx_sparse.cli.smoke", backend],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SMOKE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _broken(f"no answer after {_SMOKE_SECONDS} seconds")
    except OSError as error:
        return _broken(f"{sys.executable} cannot be started: {error}")
    if done.returncode == 0:
        return {"problem": None, "settings": json.loads(done.stdout.splitlines()[-1])}
    last_lines = [line for line in done.stderr.splitlines() if line.strip()][-1:]
    said = one_line(last_lines[0]) if last_lines else "it said nothing"
    return _broken(f"ended by signal {-done.returncode}: {said}" if done.returncode < 0 else said)


def _broken(problem: str) -> dict[str, Any]:
    return {"problem": problem, "settings": {}}


def _show(document: dict[str, Any]) -> None:
    output.heading(f"onnx_sparse {document['onnx_sparse']}, Python {document['python']}, {document['platform']}")
    output.write_line()
    rows = [
        [name, version or "-", "" if version else "MISSING" if name in _NEEDED else "not installed (optional)"]
        for name, version in document["packages"].items()
    ]
    output.table(["package", "version", ""], rows, styles={"MISSING": "bold red"})
    output.write_line()
    if document["backends"]:
        rows = [
            [
                name,
                "BROKEN" if state["problem"] else "ok" if state["available"] else "not in this installation",
                state["problem"] or state["library"] or "",
            ]
            for name, state in document["backends"].items()
        ]
        output.table(["backend", "", ""], rows, styles=_STYLES)
        output.write_line()
        if settings := document["backends"]["native"]["settings"]:
            _show_settings(settings)
        takes = document["onnxruntime_takes"]
        output.write_line(f"ONNX Runtime takes IR {takes['ir_version']} and opset {takes['opset']} at most.")
    if document["backends"]:
        output.write_line(f"ONNX Runtime's telemetry is {document['onnxruntime_telemetry']} on this command line.")
    if [name for name, state in document["backends"].items() if state["available"]] == ["python"]:
        output.paragraph(f"SLOW: {_slow_kernels()}")
    for problem in document["problems"]:
        output.write_line(f"PROBLEM: {printable(problem)}")
    if document["ok"]:
        output.write_line("Everything that is needed works.")


def _slow_kernels() -> str:
    from onnx_sparse.sessions.runtime import SLOW_KERNELS

    return SLOW_KERNELS


def _show_settings(settings: dict[str, Any]) -> None:
    """What the native kernels have chosen for this machine; the page on them says how to override it."""
    ahead = settings["rows_prefetched_ahead"]
    rows = [
        ["instructions", settings["instructions"]],
        ["rows prefetched", f"{', '.join(map(str, ahead.values()))} ahead, of {', '.join(ahead)} bytes"],
        ["huge pages", "on" if settings["huge_pages"] else "off"],
    ]
    output.table(["native kernels", ""], rows)
    output.write_line()
