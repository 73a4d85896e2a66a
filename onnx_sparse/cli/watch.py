"""A command that goes on in a child process, so that a library that ends its process is reported, not suffered.

The child is forked before the libraries are imported: that costs nothing, and no thread is lost.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import threading
from collections.abc import Callable

from onnx_sparse.errors import CommandError

Tell = Callable[[str], None]

#: The libraries that run models; they have threads, which a forked child would lack.
_LIBRARIES = ("onnxruntime", "openvino", "tensorflow", "torch")

#: What the watching process passes on.
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")

#: Whether the process is this command's own. A caller's program would go on in the child as well.
process_is_ours = False

_STAGE_SIZE = 4096
_PR_SET_PDEATHSIG = 1


def watched(command: Callable[[Tell], int], stays: str = "nothing is written") -> int:
    """Run a command in a child process, if one can be forked and the process is the command's own.

    Args:
        command: Returns the exit code. It is given a function that it tells what it is doing.
        stays: What is said of the command's files where the child was ended.

    Returns:
        The exit code, in the child as well as in this process.

    Raises:
        CommandError: The child was ended by a signal; the message says what it was doing.
    """
    forks = process_is_ours and sys.platform == "linux" and threading.active_count() == 1
    if not forks or any(name in sys.modules for name in _LIBRARIES):
        return command(lambda stage: None)
    stage = mmap.mmap(-1, _STAGE_SIZE)
    sys.stdout.flush()
    sys.stderr.flush()
    # A handler would not run for a signal that comes just before this process waits, so they are waited for instead.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [*_passed_on(), signal.SIGCHLD])
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)  # Ctrl-C reaches the parent only, which passes it on: so it comes once
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return command(lambda text: _write(stage, text))
    try:
        code, passed_on = _wait(child)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return _outcome(code, passed_on, stage, stays)


def _passed_on() -> list[signal.Signals]:
    numbers = [getattr(signal, name) for name in _SIGNALS]
    return [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]


def _wait(child: int) -> tuple[int, set[int]]:
    """The exit code of the child (the negative number of the signal that ended it), and what was passed on to it."""
    passed_on: set[int] = set()
    awaited = [*_passed_on(), signal.SIGCHLD]
    while True:
        number = signal.sigwaitinfo(awaited).si_signo
        if number != signal.SIGCHLD:
            passed_on.add(number)
            os.kill(child, number)
            continue
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), passed_on


def _write(stage: mmap.mmap, text: str) -> None:
    stage[:] = text.encode()[:_STAGE_SIZE].ljust(_STAGE_SIZE, b"\0")


def _outcome(code: int, passed_on: set[int], stage: mmap.mmap, stays: str) -> int:
    """End as the child ended."""
    if code >= 0:
        return code
    if -code in passed_on:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    doing = bytes(stage).rstrip(b"\0").decode(errors="ignore")
    memory = " (is there enough memory?)" if -code == signal.SIGKILL else ""
    raise CommandError(
        f"the process was ended by {signal.Signals(-code).name}{memory} while {doing or 'starting'}; {stays}"
    )
