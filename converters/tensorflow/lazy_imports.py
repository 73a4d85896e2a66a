"""TensorFlow, imported on demand and kept from writing to the terminal."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from onnx_sparse.converters import errors

_Loaded = TypeVar("_Loaded")
_UNKNOWN = re.compile(r"Op type not registered '([^']+)'")


def require(module: str) -> Any:
    """Import a module of the `tensorflow` extra.

    Raises:
        MissingPackageError: It is not installed.
    """
    with _first_import_of_tensorflow():
        return errors.require(module, "tensorflow")


def with_tensorflow_text(tf: Any, load: Callable[[], _Loaded]) -> _Loaded:
    """What `load` returns; if it meets an operator that TensorFlow does not have, tensorflow_text is imported first.

    Raises:
        ConversionError: tensorflow_text would be needed, but is not installed or cannot be imported.
    """
    try:
        return load()
    except Exception as error:  # which is NotFoundError, FileNotFoundError, ValueError, ...
        found = _UNKNOWN.search(str(error))
        if found is None:
            raise
        needed = f"TensorFlow itself has no operator {found[1]}"
        if found[1].startswith("TFRA>"):
            raise errors.ConversionError(
                f"{needed}; verify where tensorflow-recommenders-addons is installed, with --import "
                "tensorflow_recommenders_addons"
            ) from error
        if importlib.util.find_spec("tensorflow_text") is None:
            series = ".".join(tf.__version__.split(".")[:2])
            raise errors.ConversionError(
                f"{needed}; if it is one of tensorflow_text, run: pip install 'tensorflow-text=={series}.*'"
            ) from error
        try:
            importlib.import_module("tensorflow_text")
        except Exception as broken:  # a release for another TensorFlow lacks symbols
            raise errors.ConversionError(
                f"{needed}, and tensorflow_text cannot be imported: {errors.first_line(broken)}"
            ) from broken
        return load()


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
    """Silence the loggers of TensorFlow and Python's warnings, and restore them afterwards."""
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
    return [logging.getLogger(name) for name in ("tensorflow", "absl")]
