"""torch, imported on demand and kept from writing to the terminal."""

from __future__ import annotations

import importlib
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

from onnx_sparse.converters.errors import ConversionError


def require(module: str) -> Any:
    """Import a module of the `torch` extra.

    Raises:
        ConversionError: If it is not installed; the message has the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise ConversionError(f'{error.name} is not installed; run: pip install "onnx_sparse[torch]"') from error


@contextmanager
def quietly() -> Iterator[None]:
    """Silence warnings, of Python and of loggers, and what goes to the standard error stream; restore them afterwards.

    torch gives each of its loggers a level of its own, so only all of them together can be silenced. It prints the
    graph of a program that it cannot export.
    """
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
