"""One client cannot stop the server: others are answered, and health at once, whatever it sends. Loopback only."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

pytest.importorskip("uvicorn")

if sys.platform == "win32":
    pytest.skip("POSIX limits", allow_module_level=True)

from onnx_sparse import batching
from onnx_sparse.serving import connections, served_model
from onnx_sparse.serving.errors import RequestError
from onnx_sparse.serving.served_model import ServedModel
from onnx_sparse.serving.settings import Limits

_DESCRIPTORS = 200


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """A server of a model that returns its input, with few descriptors."""
    with serving(tmp_path) as found:
        yield found


@contextmanager
def serving(tmp_path: Path, *options: str) -> Iterator[int]:
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", None])] for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", *ports)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")

    def limit() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))

    command = [sys.executable, "-m", "onnx_sparse", "serve", "--json", "--port", "0", "--no-grpc", "m.onnx", *options]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, cwd=tmp_path, preexec_fn=limit)
    try:
        text = ""
        assert server.stdout is not None
        while not text.rstrip().endswith("}") or text.count("{") > text.count("}"):
            line = server.stdout.readline().decode()
            assert line, (tmp_path / "log").read_text()
            text += line
        yield int(json.loads(text)["http"].rsplit(":", 1)[1])
    finally:
        server.terminate()
        server.wait(60)
    assert "Traceback" not in (tmp_path / "log").read_text()


def ask(port: int, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> int:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    client.request(method, path, body, headers or {})
    status = client.getresponse().status
    client.close()
    return status


def test_idle_connections_do_not_shut_others_out(port: int) -> None:
    held = []
    for _ in range(3 * _DESCRIPTORS):
        held.append(socket.create_connection(("127.0.0.1", port), timeout=10))
        held[-1].sendall(b"GET /v2 HTTP/1.1\r\n")
        if len(held) > _DESCRIPTORS:  # as a client with few descriptors of its own would
            held.pop(0).close()
    assert ask(port, "GET", "/v2/health/live") == 200
    assert ask(port, "POST", "/v1/models/m:predict", b'{"instances": [[1.5]]}') == 200


def test_headers_have_a_size(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(b"GET /v2 HTTP/1.1\r\nHost: a\r\n")
        with suppress(OSError):  # reset or broken, as the system has it
            for _ in range(1000):
                client.sendall(b"X-A: " + b"a" * 10_000 + b"\r\n")
                time.sleep(0.001)
            pytest.fail("10 MB of headers were taken")
    assert ask(port, "GET", "/v2/health/live") == 200


def test_health_is_answered_while_a_large_request_is_read(port: int) -> None:
    count = 1_000_000
    tensor = {"name": "x", "shape": [1, count], "datatype": "FP32", "data": [1] * count}
    body = json.dumps({"inputs": [tensor]}).encode()
    statuses: list[int] = []
    large = threading.Thread(target=lambda: statuses.append(ask(port, "POST", "/v2/models/m/infer", body)))
    large.start()
    waits = []
    while large.is_alive():
        begun = time.monotonic()
        assert ask(port, "GET", "/v2/health/live") == 200
        waits.append(time.monotonic() - begun)
    large.join()
    assert statuses == [200]
    assert float(np.median(waits)) < 0.1


def endless_model(folder: Path) -> Path:
    """A model of a loop that does not end if an input is positive."""
    one = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Greater", ["v", "zero"], ["go"]),
            helper.make_node("Identity", ["v"], ["v_out"]),
        ],
        "body",
        [one("i", TensorProto.INT64, []), one("c", TensorProto.BOOL, []), one("v", TensorProto.FLOAT, [])],
        [one("go", TensorProto.BOOL, []), one("v_out", TensorProto.FLOAT, [])],
        [onnx.numpy_helper.from_array(np.float32(0).reshape(()), "zero")],
    )
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Loop", ["", "yes", "most"], ["last"], body=body),
        helper.make_node("Sub", ["x", "last"], ["y"]),
    ]
    yes = onnx.numpy_helper.from_array(np.array(True), "yes")
    graph = helper.make_graph(
        nodes, "g", [one("x", TensorProto.FLOAT, ["N"])], [one("y", TensorProto.FLOAT, ["N"])], [yes]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def answers_of(path: Path, values: list[float], seconds: float, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What a served model answers to requests that arrive together, with when they are answered."""
    for module in (served_model, batching):  # to try generated rows would not end
        monkeypatch.setattr(module, "reason_against_joining", lambda *_: None)

    async def serve() -> list[object]:
        served = ServedModel("m", path, Limits(64, 64, 1, seconds))
        task = asyncio.create_task(served.work())
        begun = time.monotonic()

        async def ask(value: float) -> object:
            try:
                await served.answer(served.loaded, {"x": np.float32([value])})
            except RequestError as error:
                return error
            return time.monotonic() - begun

        found = await asyncio.wait_for(asyncio.gather(*map(ask, values)), 60)
        task.cancel()
        return list(found)

    return asyncio.run(serve())


def numbered(number: float, size: int = 1) -> bytes:
    data = b",".join([b"%r" % number] * size)
    body = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, %d], "data": [%b]}]}' % (size, data)
    head = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
    return head + body


def test_pipelined_requests_are_answered_in_order(port: int) -> None:
    """Also if they come in pieces of any size, and are read long after."""
    count = 500
    content = b"".join(numbered(k + 0.5) for k in range(count))
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        sizes = [1, 7, 100, 5000, 20_000]
        sender = threading.Thread(target=lambda: send_in(client, content, sizes))
        sender.start()
        answers, found = client.makefile("rb"), []
        for _ in range(count):
            assert answers.readline() == b"HTTP/1.1 200 OK\r\n"
            headers = http.client.parse_headers(answers)
            found.append(json.loads(answers.read(int(headers["content-length"])))["outputs"][0]["data"][0])
        sender.join()
    assert found == [k + 0.5 for k in range(count)]


@pytest.mark.parametrize("size", [1, 200_000])
@pytest.mark.parametrize("count", [1, 5])
def test_clients_that_send_nothing_more_are_answered(port: int, count: int, size: int) -> None:
    """A client may shut its side of the connection down after the request, as HTTP allows."""
    for _ in range(20 if size == 1 else 2):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(b"".join(numbered(k + 0.5, size) for k in range(count)))
            client.shutdown(socket.SHUT_WR)
            answers = client.makefile("rb")
            for k in range(count):
                assert answers.readline() == b"HTTP/1.1 200 OK\r\n"
                headers = http.client.parse_headers(answers)
                data = json.loads(answers.read(int(headers["content-length"])))["outputs"][0]["data"]
                assert (data[0], len(data)) == (k + 0.5, size)
            assert answers.read() == b""


def test_requests_that_end_early_end_their_connection(port: int) -> None:
    whole = numbered(1.5, 100_000)
    for end in (0, 10, len(whole) - 1):
        for before in (b"", numbered(2.5)):
            with socket.create_connection(("127.0.0.1", port), timeout=5) as client:  # less than a body has
                client.sendall(before + whole[:end])
                client.shutdown(socket.SHUT_WR)
                got = client.makefile("rb").read()
                assert got.count(b"200 OK") == bool(before), (end, got[:200])


def send_in(client: socket.socket, content: bytes, sizes: list[int]) -> None:
    at = k = 0
    while at < len(content):
        client.sendall(content[at : at + sizes[k % len(sizes)]])
        at, k = at + sizes[k % len(sizes)], k + 1


def test_pipelined_requests_that_nobody_reads_do_not_stop_the_server(port: int) -> None:
    held = []
    for _ in range(20):
        held.append(socket.create_connection(("127.0.0.1", port)))
        held[-1].settimeout(0.05)
        with suppress(OSError):
            held[-1].sendall(numbered(1.5) * 10_000)
    waits = []
    for _ in range(5):
        begun = time.monotonic()
        assert ask(port, "GET", "/v2/health/live") == 200
        waits.append(time.monotonic() - begun)
    assert max(waits) < 2


#: The body of a request that is read in pieces.
VALUES = json.dumps(
    {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 20_000], "data": [1.5] * 20_000}]}
).encode()


def unfinished_bodies(port: int, missing: int) -> list[socket.socket]:
    """Clients that have sent all but a few bytes: four of the largest body that is taken, and two of small ones."""
    head = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
    held = []
    for size in (*[1 << 20] * 4, 60_000, 60_000):
        held.append(socket.create_connection(("127.0.0.1", port), timeout=60))
        held[-1].sendall(head % size + b" " * (size - missing))
    return held


def test_bodies_that_stall_give_way(tmp_path: Path) -> None:
    """What they hold is needed by others; alone, they have their time."""
    with serving(tmp_path, "--max-request-size", "1") as port:
        held = unfinished_bodies(port, 1)
        time.sleep(1.5)
        assert ask(port, "POST", "/v2/models/m/infer", VALUES) == 200
        late = [client.recv(12) for client in held[:1]]
        assert late == [b"HTTP/1.1 408"]  # the one that has sent nothing for longest


def test_bodies_that_come_have_a_budget(tmp_path: Path) -> None:
    """While others take four times the largest body, and all come further, a large one has to try again."""
    with serving(tmp_path, "--max-request-size", "1") as port:
        held = unfinished_bodies(port, 100)
        ended = threading.Event()

        def go_on() -> None:
            while not ended.wait(0.2):
                for client in held:
                    client.sendall(b" ")

        coming = threading.Thread(target=go_on)
        coming.start()
        try:
            time.sleep(1.5)
            assert ask(port, "POST", "/v2/models/m/infer", VALUES) == 503
            assert ask(port, "POST", "/v1/models/m:predict", b'{"instances": [[1.5]]}') == 200
        finally:
            ended.set()
            coming.join()
            for client in held:
                client.close()
        time.sleep(0.5)
        assert ask(port, "POST", "/v2/models/m/infer", VALUES) == 200


class Unread:
    """A connection whose client has bytes to read."""

    def __init__(self, size: int) -> None:
        self.size, self.is_aborted = size, False
        self.transport, self.client = self, ("127.0.0.1", 1)

    def get_write_buffer_size(self) -> int:
        return self.size

    def abort(self) -> None:
        self.is_aborted = True


def test_answers_that_nobody_reads_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_UNREAD", 1_000_000)
    made = [Unread(400_000) for _ in range(3)]
    held = connections.Connections()
    for each in made:
        held.sent(each)
    assert [each.is_aborted for each in made] == [True, False, False]
    alone = Unread(2_000_000)
    held.sent(alone)
    assert [each.is_aborted for each in (*made, alone)] == [True, True, True, False]


def test_answers_that_nobody_reads_have_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.1)
    monkeypatch.setattr(connections, "ANSWER_SECONDS", 0.2)
    held = connections.Connections()
    still, slow, done = (Unread(1 << 20) for _ in range(3))
    for each in (still, slow, done):
        held.sent(each)

    async def watch() -> None:
        task = asyncio.create_task(held.end_late_ones())
        done.size = 0
        for _ in range(10):
            await asyncio.sleep(0.05)
            slow.size -= 1 << 16  # 1.3 MB a second
        task.cancel()

    asyncio.run(watch())
    assert [each.is_aborted for each in (still, slow, done)] == [True, False, False]


def test_a_run_has_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop without end is ended, and the request that came with it is answered."""
    first, endless, last = answers_of(endless_model(tmp_path), [-1, 1, -2], 0.5, monkeypatch)
    assert isinstance(endless, RequestError)
    assert (endless.status, str(endless)) == (504, "the run took longer than 0.5 seconds")
    assert not isinstance(first, Exception)
    assert not isinstance(last, Exception)


def test_runs_that_take_too_long_do_not_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of requests whose time is up together, those that are quick are answered before the others run again."""
    values = [1.0] * 9 + [-1.0]
    *endless, last = answers_of(endless_model(tmp_path), values, 1.0, monkeypatch)
    assert [getattr(error, "status", error) for error in endless] == [504] * 9
    assert isinstance(last, float)
    assert last < 5  # where each has its whole time, ten times as long


def test_a_run_much_longer_than_usual_keeps_no_other_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone or with others, and without end; a slow one that ends is answered."""
    for module in (served_model, batching):
        monkeypatch.setattr(module, "reason_against_joining", lambda *_: None)

    async def serve() -> list[float]:
        served = ServedModel("m", endless_model(tmp_path), Limits(64, 64, 1, 60.0))
        task = asyncio.create_task(served.work())

        async def ask(value: float) -> float:
            begun = time.monotonic()
            await served.answer(served.loaded, {"x": np.float32([value])})
            return time.monotonic() - begun

        for _ in range(served_model._FEW):
            await ask(-1)
        endless = [asyncio.create_task(ask(1)) for _ in range(3)]
        waits = []
        for _ in range(20):
            waits.append(await asyncio.wait_for(ask(-1), 30))
            await asyncio.sleep(0.05)
        assert not any(each.done() for each in endless)
        for each in endless:
            each.cancel()
        served.loaded.timed.seconds = 0.01
        for lane in (*served._lanes.values(), *served._others):
            lane._seconds = 0.01
        with served.loaded.timed._lock:
            for options, _ in served.loaded.timed._running:
                options.terminate = True
        task.cancel()
        return waits

    assert max(asyncio.run(serve())) < 10  # of 60 seconds


def test_memory_of_answers_is_of_one_budget(tmp_path: Path) -> None:
    """Requests for large answers get 503 when these would take too much together, and an answer alone is written."""
    size = 300_000
    tensor = {"name": "x", "shape": [1, size], "datatype": "FP32", "parameters": {"binary_data_size": 4 * size}}
    head = json.dumps({"inputs": [tensor]}).encode()
    body = head + np.full(size, 1 / 3, np.float32).tobytes()
    headers = {"inference-header-content-length": str(len(head))}

    with serving(tmp_path, "--max-request-size", "2") as port:

        def infer(_: int) -> int:
            return ask(port, "POST", "/v2/models/m/infer", body, headers)

        assert infer(0) == 200
        with ThreadPoolExecutor(12) as pool:
            statuses = {*pool.map(infer, range(24))}
        assert statuses <= {200, 503}
        assert 200 in statuses
        assert infer(0) == 200


def test_connections_that_wait_longest_are_closed_first() -> None:
    closed = []

    class Held:
        def __init__(self, name: str) -> None:
            self.name = name
            self.transport = self

        def close(self) -> None:
            closed.append(self.name)

    held = connections.Connections()
    held._most = 2
    made = [Held(name) for name in "abc"]
    for each in made[:2]:
        held.opened()
        held.wait(each)
    held.answer(made[0])
    held.rest(made[0])
    held.opened()
    assert closed == ["b"]
