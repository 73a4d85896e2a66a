"""TensorFlow and tf2onnx, imported on demand and kept from writing to the terminal."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from onnx_sparse.converters import errors


def require(module: str) -> Any:
    """Import a module of the `tensorflow` extra.

    Raises:
        MissingPackageError: It is not installed.
    """
    with _first_import_of_tensorflow():
        return errors.require(module, "tensorflow")


@contextmanager
def _first_import_of_tensorflow() -> Iterator[None]:
    """Keep TensorFlow's C++ side from writing to stderr while it is loaded, unless the user has set its log level."""
    if "tensorflow" in sys.modules or "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        yield
        return
    # TensorFlow reads the log level once, when it is loaded. It writes a few lines before that, whatever the level;
    # only redirecting the file descriptor stops those.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    try:
        kept = os.dup(2)
    except OSError:  # stderr is closed: nothing to silence
        yield
        return
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def quietly() -> Iterator[None]:
    """Silence the loggers of TensorFlow and tf2onnx and Python's warnings, and restore them afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = {logger: logger.level for logger in _noisy_loggers()}
        for logger in before:
            logger.setLevel(logging.CRITICAL + 1)
        try:
            yield
        finally:
            for logger, level in before.items():
                logger.setLevel(level)


def _noisy_loggers() -> list[logging.Logger]:
    # Some of tf2onnx's loggers are named by file path, so the package's own logger does not govern them.
    named_by_path = [name for name in logging.root.manager.loggerDict if name.endswith(".py") and "tf2onnx" in name]
    return [logging.getLogger(name) for name in ("tensorflow", "tf2onnx", "absl", *named_by_path)]
