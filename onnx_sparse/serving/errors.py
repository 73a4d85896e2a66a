"""Requests that a server refuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: The characters of the longest message: gRPC's are headers, of which clients take 8 kB in all.
_MOST = 2000
#: The characters of the longest value in a message.
_MOST_SHOWN = 100
#: Extensions of the protocol that clients of other servers ask for, and that this one does not have.
_EXTENSIONS = (
    "classification",
    "priority",
    "sequence_end",
    "sequence_id",
    "sequence_start",
    "shared_memory_byte_size",
    "shared_memory_offset",
    "shared_memory_region",
    "timeout",
)


class RequestError(Exception):
    """A request that cannot be answered; the message is the one line that its client sees, of bounded length.

    Attributes:
        status: The HTTP status; gRPC's follows from it.
    """

    def __init__(self, message: object, status: int = 400) -> None:
        text = " ".join(str(message).split())
        super().__init__(text if len(text) <= _MOST else f"{text[: _MOST - 3]}...")
        self.status = status


def shown(value: Any) -> str:
    """A value of a request in a message, which it does not make long."""
    text = repr(value if not isinstance(value, list) else value[:_MOST_SHOWN])
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def refuse_extensions(parameters: Iterable[str], where: str) -> None:
    """Refuse parameters that change what a request asks for in a way that this server does not have.

    Raises:
        RequestError: There is one.
    """
    if unknown := sorted({*parameters}.intersection(_EXTENSIONS)):
        raise RequestError(f"{where} has the parameter {unknown[0]}, an extension that this server does not have")
