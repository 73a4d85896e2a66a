"""Ports, taken before anything slow begins."""

from __future__ import annotations

import socket
from dataclasses import dataclass


@dataclass(frozen=True)
class ReservedPort:
    """A port that is kept for other processes, which listen there.

    Attributes:
        number: The port.
        holder: A socket that keeps it, without listening.
    """

    number: int
    holder: socket.socket | None = None


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that is bound to a port; 0 for any that is free.

    Raises:
        OSError: The port is not free, or the host is none of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except OSError:
        made.close()
        raise
    made.set_inheritable(True)
    return made


def reserve_port(host: str, port: int, *, shared: bool) -> ReservedPort:
    """Find out whether a port is free, and keep it if several processes are to listen there.

    Args:
        host: The address.
        port: The port; 0 for any that is free.
        shared: Whether several processes are to listen there.

    Raises:
        OSError: The port is not free, or the host is none of this machine.
    """
    with bound_socket(host, port) as probe:
        probe.listen()  # what another program listens to is seen here at the latest
        number = int(probe.getsockname()[1])
        family = probe.family
    if not shared:
        return ReservedPort(number)
    holder = socket.socket(family, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind((host, number))
    return ReservedPort(number, holder)
