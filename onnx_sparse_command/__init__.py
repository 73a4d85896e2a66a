"""The command `onnx-sparse`, as its script calls it.

It stands beside the package, because it has something to do before the package is imported.
"""

from __future__ import annotations

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
#: The words that ask for the version, and for the help of the whole.
_VERSION = (["--version"], ["-V"], ["-version"], ["version"])
_HELP = (["--help"], ["-h"], ["help"])
#: The width of the help in its file, and of an unknown terminal.
_WIDTH = 80


def _text() -> str | None:
    """What was asked for if it is in a file: the import of the package takes a second.

    That of importlib.metadata alone takes as long as the start of Python.
    """
    try:
        if sys.argv[1:] in _VERSION:
            with open(os.path.join(_FOLDER, os.pardir, "onnx_sparse", "version.py"), encoding="utf-8") as file:
                return f"onnx-sparse {file.read().split(chr(34))[-2]}\n"
        if sys.argv[1:] in _HELP and _width() >= _WIDTH:
            with open(os.path.join(_FOLDER, "help.txt"), encoding="utf-8") as file:
                text = file.read()
            return text if all(map(_is_there, _commands(text))) else None
    except (OSError, ValueError, IndexError):  # the command line itself knows more
        pass
    return None


def _commands(text: str) -> list[str]:
    """The names of the commands that a help lists."""
    return [line.split()[0] for line in text.splitlines() if line.startswith("    ") and line[4] != " "]


def _is_there(command: str) -> bool:
    """Whether a command has its module, which may have been lifted out."""
    module = os.path.join(_FOLDER, os.pardir, "onnx_sparse", "cli", command)
    return os.path.exists(f"{module}.py") or os.path.exists(module)


def _width() -> int:
    """The width of the terminal, as argparse finds it."""
    if columns := os.environ.get("COLUMNS"):
        return int(columns)
    try:
        return os.get_terminal_size(1).columns
    except OSError:
        return _WIDTH


def _is_written() -> bool:
    """Whether what was asked for has been written."""
    text = _text()
    if text is None:
        return False
    rest = text.encode()
    try:
        if hasattr(os, "set_blocking"):  # else a full pipe would be an error when a part of the text is in it
            os.set_blocking(1, True)
        while rest:  # a signal may end a write early
            rest = rest[os.write(1, rest) :]
    except OSError:  # the command line says what is wrong with the output
        return False
    return True


def main() -> int:
    """Run the command line of the process.

    Ctrl-C in the first moments and the last ends the process as the system does it: raised as an exception in the midst
    of the imports, it would show a traceback, or crash the import of a compiled module; and a traceback at the end.

    Returns:
        The exit status.
    """
    if _is_written():
        return 0
    import signal

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
