"""Clients that mean no good: a program that sends one kind of attack to a server until its time is up. Loopback only.

    python attackers.py KIND PORT SECONDS SIZE

SIZE is in MiB, for the kinds that have one. It prints how many requests were answered, by status.
"""

from __future__ import annotations

import collections
import gzip
import http.client
import json
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import ExitStack, suppress

_MIB = 1 << 20
_INFER, _PREDICT = "/v2/models/m/infer", "/v1/models/m:predict"

#: A path, a body, and headers.
Request = tuple[str, bytes, dict[str, str]]


def _numbers(number: bytes, size: int) -> tuple[int, bytes]:
    count = size // (len(number) + 1)
    return count, b",".join([number] * count)


def _tensor(number: bytes, size: int, before: bytes = b"[", after: bytes = b"]", parameters: bytes = b"{}") -> Request:
    count, data = _numbers(number, size)
    begin = b'{"parameters": %b, "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, %d], "data": '
    return _INFER, begin % (parameters, count) + before + data + after + b"}]}", {}


def _text(model: str, text: bytes, count: int = 1) -> Request:
    data = b",".join([b'"%b"' % text] * count)
    begin = b'{"inputs": [{"name": "x", "datatype": "BYTES", "shape": [%d], "data": [' % count
    return f"/v2/models/{model}/infer", begin + data + b"]}]}", {}


def _inflated(size: int) -> Request:
    """Binary strings that each stand for 64 MiB of zeros."""
    bomb = zlib.compress(b"\0" * (64 * _MIB), 9)
    count = max(size // len(bomb), 1)
    content = (len(bomb).to_bytes(4, "little") + bomb) * count
    parameters = {"binary_data_size": len(content)}
    tensor = {"name": "x", "datatype": "BYTES", "shape": [count], "parameters": parameters}
    head = json.dumps({"inputs": [tensor]}).encode()
    return "/v2/models/inflate/infer", head + content, {"inference-header-content-length": str(len(head))}


def _binary(size: int) -> Request:
    """Binary floats, whose answer is asked for as JSON."""
    content = b"\x55\x55\x55\x3f" * (size // 4)
    parameters = {"binary_data_size": len(content)}
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, size // 4], "parameters": parameters}
    head = json.dumps({"inputs": [tensor]}).encode()
    return _INFER, head + content, {"inference-header-content-length": str(len(head))}


#: By kind, from the size in bytes.
REQUESTS: dict[str, Callable[[int], Request]] = {
    "floats": lambda size: _tensor(b"0.123456789", size),
    "integers": lambda size: _tensor(b"1", size),
    "nested": lambda size: _tensor(b"0.5", size, b"[[", b"]]"),
    "rows": lambda size: (_PREDICT, b'{"instances": [[%b]]}' % _numbers(b"0.5", size)[1], {}),
    "lists": lambda size: (_PREDICT, b'{"instances": [%b]}' % _numbers(b"[]", size)[1], {}),
    "records": lambda size: (_PREDICT, b'{"instances": [%b]}' % _numbers(b'{"x": [0.5]}', size)[1], {}),
    "texts": lambda size: _text("text", b"x" * size),
    "many texts": lambda size: _text("text", b"xy", size // 5),
    "inflated": _inflated,
    "answers": _binary,
    "gzip": lambda size: (_INFER, gzip.compress(b" " * (64 * size), 9), {"content-encoding": "gzip"}),
}


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _begun(seconds: float) -> float:
    """When the attack ends, which begins now."""
    _tell("ready")
    return time.monotonic() + seconds


def send(kind: str, port: int, seconds: float, size: int) -> None:
    """Send a kind of request again and again."""
    path, body, headers = REQUESTS[kind](size)
    statuses: collections.Counter[int] = collections.Counter()
    end = _begun(seconds)

    def client() -> None:
        while time.monotonic() < end:
            with suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request("POST", path, body, headers)
                response = connection.getresponse()
                while response.read(_MIB):
                    pass
                statuses[response.status] += 1
                connection.close()

    threads = [threading.Thread(target=client) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _tell(json.dumps(statuses))


def hold(kind: str, port: int, seconds: float, count: int) -> None:
    """Hold connections: idle ones, or some whose headers or bodies come byte by byte."""
    begin = {
        "idle": b"",
        "slow headers": b"GET /v2 HTTP/1.1\r\nX-A: ",
        "slow bodies": b"POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n",
    }[kind]
    with ExitStack() as stack:
        held = []
        for _ in range(count):
            with suppress(OSError):
                held.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10)))
                held[-1].sendall(begin)
            time.sleep(0.0005)  # it is about what is held, not about how fast connections are accepted
        end = _begun(seconds)
        while time.monotonic() < end:
            for connection in held if begin else ():
                with suppress(OSError):
                    connection.sendall(b"a")
            time.sleep(0.2)
    _tell(json.dumps({"held": len(held)}))


def main() -> None:
    """Attack."""
    kind, port, seconds, size = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
    if kind in REQUESTS:
        send(kind, port, seconds, int(size * _MIB))
    else:
        hold(kind, port, seconds, int(size))


if __name__ == "__main__":
    main()
