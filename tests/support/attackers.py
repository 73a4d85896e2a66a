"""Clients that mean no good: a program that sends one kind of attack to a server until its time is up. Loopback only.

    python attackers.py KIND PORT GRPC_PORT SECONDS SIZE

SIZE is in MiB for large requests, and a number of connections, or of requests of a connection, for the other kinds. It
prints how many requests were answered, by status.
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
    "long records": lambda size: (
        _PREDICT,
        b'{"instances": [%b]}' % _numbers(b'{"x": [%b]}' % b",".join([b"0.5"] * 30), size)[1],
        {},
    ),
    "wide integers": lambda size: _tensor(b"%d" % 2**100, size),
    "texts": lambda size: _text("text", b"x" * size),
    "many texts": lambda size: _text("text", b"xy", size // 5),
    "inflated": _inflated,
    "answers": _binary,
    "gzip": lambda size: (_INFER, gzip.compress(b" " * (64 * size), 9), {"content-encoding": "gzip"}),
}


def _raw(path: str, body: bytes, missing: int = 0) -> bytes:
    """A request as it is sent, without some of its last bytes."""
    head = b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body))
    return head + body[: len(body) - missing]


def _grown(count: int) -> Request:
    """A request of 200 bytes that is answered with so many numbers."""
    tensors = [
        {"name": "x", "datatype": "FP32", "shape": [1], "data": [0.123456789]},
        {"name": "shape", "datatype": "INT64", "shape": [1], "data": [count]},
    ]
    return "/v2/models/grow/infer", json.dumps({"inputs": tensors}).encode(), {}


def _looped(turns: int) -> Request:
    """A request whose run takes so many turns of a loop."""
    tensors = [
        {"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]},
        {"name": "k", "datatype": "INT64", "shape": [1], "data": [turns]},
    ]
    return "/v2/models/loop/infer", json.dumps({"inputs": tensors}).encode(), {}


def _field(number: int, content: bytes) -> bytes:
    """A field of a message of protobuf, with a length."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _infer(model: bytes, *inputs: tuple[bytes, bytes, int, bytes]) -> bytes:
    """A `ModelInferRequest` of vectors: name, type, size and `contents`."""
    request = _field(1, model)
    for name, kind, size, contents in inputs:
        shape = (b"" if model == b"grow" else b"\1") + _varint(size)
        request += _field(5, _field(1, name) + _field(2, kind) + _field(3, shape) + _field(5, contents))
    return request


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


def flood(content: bytes, port: int, seconds: float, count: int, buffer: int = 0) -> None:
    """Send as much of some content as so many connections take, and read nothing; those that are closed begin again."""
    held: dict[int, tuple[socket.socket, int]] = {}
    end, closed = _begun(seconds), 0
    while time.monotonic() < end:
        for number in range(count):
            with suppress(BlockingIOError):
                try:
                    if number not in held:
                        made = socket.socket()
                        if buffer:
                            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
                        made.connect(("127.0.0.1", port))
                        made.setblocking(False)
                        held[number] = made, 0
                    connection, sent = held[number]
                    if sent < len(content):
                        held[number] = connection, sent + connection.send(content[sent : sent + _MIB])
                    elif not connection.recv(1, socket.MSG_PEEK):
                        raise ConnectionResetError
                    elif not buffer and b"\r\n" in (answer := connection.recv(1 << 12)):
                        raise ConnectionResetError(answer[:12])  # an error, after which the connection ends
                except BlockingIOError:
                    raise
                except OSError:
                    if number in held:
                        held.pop(number)[0].close()
                        closed += 1
        time.sleep(0.02)
    for connection, _ in held.values():
        connection.close()
    _tell(json.dumps({"held": len(held), "closed": closed}))


def call(message: bytes, port: int, seconds: float, clients: int) -> None:
    """Send a message over gRPC again and again."""
    import grpc

    statuses: collections.Counter[str] = collections.Counter()
    end = _begun(seconds)

    def client() -> None:
        options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"127.0.0.1:{port}", options) as channel:
            infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
            while time.monotonic() < end:
                try:
                    infer(message, timeout=60)
                    statuses["OK"] += 1
                except grpc.RpcError as error:
                    statuses[error.code().name] += 1

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _tell(json.dumps(statuses))


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def _http2(message: bytes, calls: int) -> bytes:
    """So many calls of gRPC on a connection of HTTP/2 that takes no byte of an answer."""
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/inference.GRPCInferenceService/ModelInfer",
        ":authority": "a",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    block = b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in headers.items()
    )
    begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(4, 0, 0, b"\0\4" + bytes(4))
    data = b"\0" + len(message).to_bytes(4, "big") + message
    return begin + b"".join(_frame(1, 4, n, block) + _frame(0, 1, n, data) for n in range(1, 2 * calls, 2))


def main() -> None:
    """Attack."""
    kind, port, grpc_port, seconds, size = sys.argv[1], *map(int, sys.argv[2:4]), *map(float, sys.argv[4:])
    small, count = REQUESTS["floats"](12), int(size)
    numbers = int(size * _MIB) // 4
    grown = [(b"x", b"FP32", 1, _field(6, b"\0\0\x80?")), (b"shape", b"INT64", 1, _field(3, _varint(1_000_000)))]
    attacks: dict[str, Callable[[], None]] = {
        "pipelined": lambda: flood(_raw(*small[:2]) * 20_000, port, seconds, count),
        "unread answers": lambda: flood(_raw(*_grown(1_000_000)[:2]), port, seconds, count, buffer=4096),
        "stalled bodies": lambda: flood(_raw(_INFER, b" " * (int(size) << 20), 1), port, seconds, 6),
        "slow runs": lambda: flood(_raw(*_looped(10**12)[:2]), port, seconds, count),
        "contents": lambda: call(
            _infer(b"m", (b"x", b"FP32", numbers, _field(6, b"\0\0\0?" * numbers))), grpc_port, seconds, 3
        ),
        "unread gRPC answers": lambda: flood(
            _http2(_infer(b"grow", *grown), count), grpc_port, seconds, 4, buffer=4096
        ),
    }
    if kind in REQUESTS:
        send(kind, port, seconds, int(size * _MIB))
    elif kind in attacks:
        attacks[kind]()
    else:
        hold(kind, port, seconds, count)


if __name__ == "__main__":
    main()
