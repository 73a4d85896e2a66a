"""The errors of commands, as Python's callers expect them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.errors import CommandError, UsageError


@contextmanager
def raised(failure: type[Exception] = ConversionError) -> Iterator[None]:
    """Raise what a command cannot do as such a failure, and what makes no sense as a ValueError."""
    try:
        yield
    except UsageError as error:
        raise ValueError(str(error)) from error
    except CommandError as error:
        if isinstance(error.__cause__, ConversionError):  # it lists what is unsupported
            raise error.__cause__ from None
        raise failure("\n  ".join([str(error), *error.lines])) from error
