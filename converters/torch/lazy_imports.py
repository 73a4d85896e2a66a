"""torch, imported on demand and kept from writing to the terminal."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

from onnx_sparse.converters import errors


def require(module: str) -> Any:
    """Import a module of the `torch` extra.

    Raises:
        MissingPackageError: It is not installed.
    """
    return errors.require(module, "torch")


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
