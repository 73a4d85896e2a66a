"""The command `onnx-sparse`, as its script calls it.

It stands beside the package, because it has something to do before the package is imported.
"""

from __future__ import annotations

import os
import signal
import sys


def _version_is_written() -> bool:
    """Whether the version was all that was asked for: it needs nothing of the package, whose import takes a second."""
    if sys.argv[1:] not in (["--version"], ["-V"], ["-version"], ["version"]):
        return False
    from importlib.metadata import PackageNotFoundError, version

    try:
        os.write(1, f"onnx-sparse {version('onnx_sparse')}\n".encode())
    except (PackageNotFoundError, OSError):  # the command line says what is wrong with the output
        return False
    return True


def main() -> int:
    """Run the command line of the process.

    Ctrl-C in the first moments and the last ends the process as the system does it: raised as an exception in the midst
    of the imports, it would show a traceback, or crash the import of a compiled module; and a traceback at the end.

    Returns:
        The exit status.
    """
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if raises:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if _version_is_written():
        return 0
    from onnx_sparse.cli import main

    try:
        if raises:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return main()
    finally:
        if raises:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
