"""Arrays between the machine that asks and the shards: a header, and their bytes as they are in memory.

Ray's own calls take a millisecond, and results of 100 KB go through its store. These bytes go over one connection,
which stays open. What comes is data only: names, types and shapes.
"""

from __future__ import annotations

import json
import math
import socket
import struct
from collections.abc import Mapping
from typing import Any

import ml_dtypes  # noqa: F401  # gives numpy bfloat16 and other types of these names
import numpy as np

from onnx_sparse.files.ranges import bytes_of

Array = np.ndarray[Any, Any]

_SIZES = struct.Struct("<IQ")
#: No message is larger: its header, and its arrays.
_LONGEST_HEADER, _MOST_BYTES = 1 << 20, 1 << 36
#: How many buffers one call of the system takes.
_BUFFERS = 512


class BrokenMessageError(OSError):
    """The other side has ended, or has sent no message."""


def send(connection: socket.socket, said: Mapping[str, Any], arrays: Mapping[str, Array]) -> int:
    """Send a message; returns its bytes.

    Args:
        connection: The connection.
        said: What JSON can hold.
        arrays: Arrays of numbers.
    """
    kinds = [(name, array.dtype.name, array.shape) for name, array in arrays.items()]
    header = json.dumps([said, kinds]).encode()
    total = sum(array.nbytes for array in arrays.values())
    parts = [memoryview(_SIZES.pack(len(header), total) + header)]
    # As bytes: not every type has a buffer of its own.
    parts += [bytes_of(array) for array in arrays.values() if array.nbytes]
    while parts:
        sent = connection.sendmsg(parts[:_BUFFERS])
        while parts and sent >= len(parts[0]):
            sent -= len(parts.pop(0))
        if parts:
            parts[0] = parts[0][sent:]
    return _SIZES.size + len(header) + total


def receive(connection: socket.socket, most_bytes: int = _MOST_BYTES) -> tuple[dict[str, Any], dict[str, Array]]:
    """The next message.

    Args:
        connection: The connection.
        most_bytes: How many bytes its arrays may have; memory is taken for them before they come.

    Raises:
        BrokenMessageError: There is none, or it has more.
    """
    length, total = _SIZES.unpack(_exactly(connection, _SIZES.size))
    if length > _LONGEST_HEADER or total > most_bytes:
        raise BrokenMessageError("the received data is not a message of a shard")
    try:
        said, kinds = json.loads(_exactly(connection, length))
        dtypes = [(name, np.dtype(dtype), tuple(shape)) for name, dtype, shape in kinds]
        sizes = [dtype.itemsize * math.prod(shape) for _, dtype, shape in dtypes]
        if sum(sizes) != total or any(dtype.hasobject for _, dtype, _ in dtypes):
            raise ValueError("its arrays have other sizes")
    except (ValueError, TypeError) as error:
        raise BrokenMessageError(f"the received data is not a message of a shard: {error}") from error
    content, arrays, begin = _exactly(connection, total), {}, 0
    for (name, dtype, shape), size in zip(dtypes, sizes, strict=True):
        arrays[name] = np.frombuffer(content, dtype, math.prod(shape), begin).reshape(shape)
        begin += size
    return said, arrays


def _exactly(connection: socket.socket, count: int) -> bytearray:
    content = bytearray(count)
    view, done = memoryview(content), 0
    while done < count:
        got = connection.recv_into(view[done:])
        if not got:
            raise BrokenMessageError("the connection has ended")
        done += got
    return content
