"""Examinations of HDF5 files in forks of one process, which has h5py: starting Python for each takes most of the time.

Each examination is the same program with the same limits, in a process of its own. POSIX only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

#: Reads lines with a program's path, its argument and how long it may take, and answers with lines.
_SERVER = """
import importlib.util, json, os, select, signal, sys
import h5py, numpy

def serve(program, path, seconds):
    spec = importlib.util.spec_from_file_location("examination", program)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stdout = open(1, "w", closefd=False, errors="backslashreplace")
        code = 1
        try:
            code = module.main(path)
            sys.stdout.flush()
        finally:
            os._exit(code)
    os.close(write)
    written = b""
    while select.select([read], [], [], seconds)[0]:
        if not (piece := os.read(read, 4096)):
            break
        written += piece
    else:
        os.kill(child, signal.SIGKILL)
    os.close(read)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), written.decode(errors="replace")

for line in sys.stdin:
    print(json.dumps(serve(*json.loads(line))), flush=True)
"""


@contextmanager
def examined_in_forks() -> Iterator[None]:
    """Let the converter's examinations take place in forks of one process for the block."""
    from onnx_sparse.converters.tensorflow import keras_source

    server = subprocess.Popen(
        [sys.executable, "-P", "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )

    class Forks:
        """What the converter uses of `subprocess`."""

        DEVNULL, PIPE, TimeoutExpired = subprocess.DEVNULL, subprocess.PIPE, subprocess.TimeoutExpired

        @staticmethod
        def run(command: Sequence[str], *, timeout: float, **_: Any) -> subprocess.CompletedProcess[bytes]:
            *_, program, path = command
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(json.dumps([program, path, timeout]) + "\n")
            server.stdin.flush()
            code, written = json.loads(server.stdout.readline())
            return subprocess.CompletedProcess(command, code, written.encode())

    before, keras_source.subprocess = keras_source.subprocess, Forks  # type: ignore[attr-defined]
    try:
        yield
    finally:
        keras_source.subprocess = before  # type: ignore[attr-defined]
        server.kill()
        server.communicate()
