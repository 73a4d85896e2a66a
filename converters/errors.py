"""The exceptions that converters raise, and how they quote those of other programs."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from onnx_sparse.errors import without_addresses
from onnx_sparse.installation import install_command


@dataclass(frozen=True)
class UnsupportedNode:
    """A node of the source that cannot be converted.

    Attributes:
        node: The node's name in the source.
        op_type: Its type in the source.
        reason: Why it cannot be converted.
        lacks_shape: Whether it could be if a rank or dimension were known.
    """

    node: str
    op_type: str
    reason: str
    lacks_shape: bool = False

    def __str__(self) -> str:
        return f"{self.node} ({self.op_type}): {self.reason}"


class Unsupported(Exception):  # noqa: N818 - a verdict on a node, not a failure of the program
    """The reason why a node of the source cannot be converted: handlers raise it, drivers collect it."""


class UnknownShape(Unsupported):
    """A rank or dimension that is needed and not known."""


class ConversionError(Exception):
    """A source that cannot be converted.

    Attributes:
        unsupported: Every node that cannot be converted, not just the first; empty if the source could not be read at
            all or was asked for something it does not have.
    """

    def __init__(self, message: str = "", unsupported: Iterable[UnsupportedNode] = ()) -> None:
        self.unsupported = tuple(unsupported)
        if not message:
            count = len(self.unsupported)
            message = "1 node cannot be converted" if count == 1 else f"{count} nodes cannot be converted"
        lines = [f"{message}:" if self.unsupported else message]
        super().__init__("\n  ".join(lines + [str(node) for node in self.unsupported]))


class UnknownSourceError(ConversionError):
    """Neither the name nor the class of a source tells what it is."""


class MissingPackageError(ConversionError, ImportError):
    """A package that a source needs is not installed; the message has the command that installs it.

    Attributes:
        package: The package.
        extra: The extra of `onnx_sparse` that brings it.
    """

    def __init__(self, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(f"{package} is not installed; run: {install_command(extra)}")


def require(module: str, extra: str) -> Any:
    """Import a module of an extra.

    Raises:
        MissingPackageError: It is not installed.
    """
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingPackageError(package, extra) from error
    return importlib.import_module(module)


class UnsupportedNodes:
    """Collects the nodes that cannot be converted, so that a user sees all of them at once.

    Args:
        on_unknown_shape: What to add to the reason if a rank or dimension is not known: how to make it known.

    Attributes:
        found: The nodes so far.
    """

    def __init__(self, on_unknown_shape: str = "") -> None:
        self.found: list[UnsupportedNode] = []
        self._on_unknown_shape = on_unknown_shape

    @contextmanager
    def collecting(self, node: str, op_type: str) -> Iterator[None]:
        """Record the node if `Unsupported` is raised inside the context, which then ends without an exception."""
        try:
            yield
        except UnknownShape as reason:
            self.found.append(UnsupportedNode(node, op_type, f"{reason}{self._on_unknown_shape}", True))
        except Unsupported as reason:
            self.found.append(UnsupportedNode(node, op_type, str(reason)))

    def raise_if_any(self) -> None:
        """Raise a ConversionError with all of them, if there are any."""
        if self.found:
            raise ConversionError(unsupported=self.found)


def first_line(error: BaseException) -> str:
    """The first line of an exception's message, without addresses; the exception's type if there is no message."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return without_addresses(line)


def causes(error: BaseException) -> list[BaseException]:
    """An error, what it was raised from, and so on; each once, even where they go round in a circle."""
    found = {id(error): error}
    while (cause := error.__cause__) is not None and id(cause) not in found:
        found[id(cause)] = error = cause
    return list(found.values())
