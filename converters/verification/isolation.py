"""Calls that may end their process: they are made in a child process, whose death is an error like others."""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

#: Whether a child can be forked: it shares the memory of large models, and starts in milliseconds.
CAN_FORK = sys.platform == "linux"

#: A child that takes no processor time for so long is stuck, in seconds: a thread of the parent may have held a lock
#: of OpenVINO's or TensorFlow's thread pools when the child was forked.
_STUCK_SECONDS = 30.0


class EndedError(Exception):
    """The process in which a call was made has ended; the message says by which signal."""


class _StuckError(Exception):
    """The child waits for what never happens."""


class Isolated:
    """A function that runs in a forked child process, and in a new one after that has ended or is stuck.

    Where processes cannot be forked, it runs in this process.
    """

    def __init__(self, make: Callable[[], Callable[[Any], Any]]) -> None:
        """Isolate a function.

        Args:
            make: Makes the function, in the child.
        """
        self._make = make
        self._function: Callable[[Any], Any] | None = None
        self._child: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None

    def __call__(self, argument: Any) -> Any:
        """Call the function.

        Raises:
            EndedError: The call has ended its process.
            Exception: Whatever the function raises.
        """
        if not CAN_FORK:
            self._function = self._function or self._make()
            return self._function(argument)
        try:
            failed, result = self._answer(argument)
        except _StuckError:
            try:
                failed, result = self._answer(argument)
            except _StuckError:
                raise EndedError(f"the process does nothing for {_STUCK_SECONDS:g} seconds") from None
        if failed:
            raise result
        return result

    def _answer(self, argument: Any) -> tuple[bool, Any]:
        """Whether the function raises, and what it returns or raises."""
        if self._pipe is None:
            self._start()
        assert self._pipe is not None
        assert self._child is not None
        try:
            self._pipe.send(argument)
            used, since = "", time.monotonic()
            while not self._pipe.poll(1):
                if (now := _processor_time(self._child.pid)) != used:
                    used, since = now, time.monotonic()
                elif time.monotonic() - since > _STUCK_SECONDS:
                    self._child.kill()
                    self._ending()
                    raise _StuckError
            answer: tuple[bool, Any] = self._pipe.recv()
        except (EOFError, ConnectionError):
            raise EndedError(self._ending()) from None
        return answer

    def __enter__(self) -> Isolated:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._child is not None:
            self._child.kill()
            self._ending()

    def _start(self) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        collects = gc.isenabled()
        self._child = context.Process(target=_serve, args=(self._make, theirs, self._pipe, collects), daemon=True)
        gc.disable()  # until the child, in which this holds too, keeps what it inherits
        try:
            with warnings.catch_warnings():
                # Python warns of threads: those of the source are idle, and the child uses nothing of theirs.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._child.start()
        finally:
            if collects:
                gc.enable()
        theirs.close()

    def _ending(self) -> str:
        """Wait for the end of the child, and say what it was."""
        assert self._child is not None
        assert self._pipe is not None
        self._child.join()
        code = self._child.exitcode or 0
        self._pipe.close()
        self._child = self._pipe = None
        return f"the process ends by {signal.Signals(-code).name}" if code < 0 else f"the process ends with {code}"


def _processor_time(pid: int | None) -> str:
    """The ticks that a process has used, of itself and of the kernel."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return "ended"
    return " ".join(fields[11:13])


def _serve(make: Callable[[], Callable[[Any], Any]], pipe: Connection, parents: Connection, collects: bool) -> None:
    """The child: answers calls until the parent is gone."""
    # Inherited garbage is never destroyed here: the models of OpenVINO in it would wait for threads of the parent.
    gc.freeze()
    if collects:
        gc.enable()
    parents.close()
    # What a dying process writes is for those who can debug it; the parent says how it ended.
    faulthandler.disable()
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    function = None
    while True:
        try:
            argument = pipe.recv()
        except EOFError:
            return
        try:
            function = function or make()
            answer = (False, function(argument))
        except Exception as error:
            answer = (True, _portable(error))
        pipe.send(answer)


def _portable(error: Exception) -> Exception:
    """The error, or one with its message if it cannot be sent to another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever a class raises that is not made for it
        return RuntimeError(str(error))
    return error
