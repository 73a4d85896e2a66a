"""The command `onnx-sparse`, as its script calls it.

It stands beside the package, because it has something to do before the package is imported.
"""

from __future__ import annotations

import signal


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
    from onnx_sparse.cli import main

    try:
        if raises:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return main()
    finally:
        if raises:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
