"""torch, imported on demand and kept from writing to the terminal."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

from onnx_sparse.converters import errors

#: The versions of torch whose exporter is known.
KNOWN = "2.13 to 2.14"


def require(module: str) -> Any:
    """Import a module of the `torch` extra.

    Raises:
        MissingPackageError: It is not installed.
    """
    return errors.require(module, "torch")


def of_exporter(module: str, name: str) -> tuple[Any, Any]:
    """A private part of torch's exporter that has to be exchanged while it works, and what has it.

    Raises:
        ConversionError: This torch does not have it: without the exchange, models would be wrong.
    """
    try:
        home = require(f"torch.onnx._internal.exporter.{module}")
        for part in name.split(".")[:-1]:
            home = getattr(home, part)
        return home, getattr(home, name.rpartition(".")[2])
    except (ModuleNotFoundError, AttributeError) as error:
        version = require("torch").__version__
        raise errors.ConversionError(
            f"torch {version} has another exporter than the versions that this one of onnx_sparse knows ({KNOWN}): "
            f"it lacks {module}.{name}; install one of those, or a later onnx_sparse"
        ) from error


@contextmanager
def quietly() -> Iterator[None]:
    """Silence warnings, loggers, and what goes to the standard error stream; restore them afterwards.

    torch gives each of its loggers a level of its own, so only all of them together can be silenced. It prints the
    graph of a program that it cannot export, and logs as an error what it then raises.
    """
    before = logging.root.manager.disable
    logging.disable(max(before, logging.CRITICAL))
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
