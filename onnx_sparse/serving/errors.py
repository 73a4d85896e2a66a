"""Requests that a server refuses."""

from __future__ import annotations


class RequestError(Exception):
    """A request that cannot be answered; the message is the one line that its client sees.

    Attributes:
        status: The HTTP status; gRPC's follows from it.
    """

    def __init__(self, message: object, status: int = 400) -> None:
        super().__init__(" ".join(str(message).split()))
        self.status = status
