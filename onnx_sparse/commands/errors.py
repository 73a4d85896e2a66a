"""The errors of commands, as Python's callers expect them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.errors import CommandError, UsageError
from onnx_sparse.settings import in_python


@contextmanager
def raised(*settings: type[Any], failure: type[Exception] = ConversionError) -> Iterator[None]:
    """Raise what a command cannot do as such a failure, and what makes no sense as a ValueError, in words of Python."""
    try:
        yield
    except CommandError as error:
        if isinstance(error.__cause__, ConversionError):  # it lists what is unsupported
            error.__cause__.args = (in_python(str(error.__cause__), *settings),)
            raise error.__cause__ from None
        if isinstance(error, UsageError):
            raise ValueError(in_python(str(error), *settings)) from error
        raise failure(in_python("\n  ".join([str(error), *error.lines]), *settings)) from error
