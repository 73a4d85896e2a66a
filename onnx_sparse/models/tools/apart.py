"""Calls of onnx that may end their process: they are made in a child process, whose death is an error like others."""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path

from onnx import ModelProto

#: Whether a child can be forked, which starts in milliseconds.
CAN_FORK = sys.platform == "linux"

#: How long a child may neither answer nor take time of the processor, in seconds.
_MOST_WAITING = 2.0

#: What a call may take of the processor, in seconds.
_MOST_SECONDS = 600

_PROGRAM = """
import pickle, sys
from onnx_sparse.models.tools.apart import answer
call, content = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(answer(call, content))
"""


class EndedProcessError(RuntimeError):
    """A call has ended its process; the message says how."""


def made_apart(call: Callable[[ModelProto], ModelProto], model: ModelProto) -> ModelProto:
    """What a call makes of a model, in a child process.

    Args:
        call: What can be pickled.
        model: The model.

    Raises:
        EndedProcessError: The call has ended its process.
        Exception: Whatever it raises; a RuntimeError with its message if that cannot be sent to another process.
    """
    content = model.SerializeToString()
    code, answered = (_forked if CAN_FORK else _started)(call, content)
    if not answered:
        raise EndedProcessError(f"the process ends by {signal.Signals(-code).name}" if code < 0 else f"exit {code}")
    if answered[:1] == b"-":
        raise pickle.loads(answered[1:])  # what this program has written in the child
    made: ModelProto = ModelProto.FromString(answered[1:])
    return made


def answer(call: Callable[[ModelProto], ModelProto], content: bytes) -> bytes:
    """The model that a call makes, after `+`, or the error that it raises, after `-`."""
    try:
        return b"+" + bytes(call(ModelProto.FromString(content)).SerializeToString())
    except Exception as error:
        message = RuntimeError(str(error) or type(error).__name__)
        return b"-" + next(filter(None, map(_pickled, (error, message))))


def _pickled(error: Exception) -> bytes:
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)
    except Exception:  # whatever a class raises that is not made for it
        return b""
    return pickled


def _forked(call: Callable[[ModelProto], ModelProto], content: bytes) -> tuple[int, bytes]:
    """The exit code of a child, and what it answers."""
    import resource

    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of threads; the child uses none
        child = os.fork()
    if child == 0:
        code = 1
        try:
            faulthandler.disable()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            resource.setrlimit(resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS))
            with open(write, "wb") as pipe:
                pipe.write(answer(call, content))
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    answered, is_whole = b"", False
    with open(read, "rb", buffering=0) as pipe:
        while wait([pipe.fileno()], _MOST_WAITING) or _works(child):
            part = pipe.read(1 << 20) if wait([pipe.fileno()], 0) else None
            if part == b"":
                is_whole = True
                break
            answered += part or b""
    if not is_whole:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not is_whole:
        return _started(call, content)
    return code, answered if code == 0 else b""


def _works(child: int) -> bool:
    """Whether a child takes time of the processor. It waits forever if a thread held a lock when it was forked."""
    before = _processor_time(child)
    time.sleep(_MOST_WAITING)
    return before != _processor_time(child)


def _processor_time(pid: int) -> str:
    """The ticks that a process has used, of itself and of the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return " ".join(fields[11:13])


def _started(call: Callable[[ModelProto], ModelProto], content: bytes) -> tuple[int, bytes]:
    """As `_forked`, in a new process of Python."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", _PROGRAM], input=pickle.dumps((call, content)), capture_output=True, check=False
    )
    return done.returncode, done.stdout if done.returncode == 0 else b""
