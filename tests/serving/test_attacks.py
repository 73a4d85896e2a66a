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
from contextlib import suppress
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
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", None])] for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", *ports)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")

    def limit() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))

    command = [sys.executable, "-m", "onnx_sparse", "serve", "--json", "--port", "0", "--no-grpc", "m.onnx"]
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


def test_a_run_has_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop without end is ended, and the request that came with it is answered."""
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
    onnx.save(model, tmp_path / "m.onnx")

    for module in (served_model, batching):  # to try generated rows would not end
        monkeypatch.setattr(module, "reason_against_joining", lambda *_: None)

    async def serve() -> list[object]:
        served = ServedModel("m", tmp_path / "m.onnx", Limits(8, 8, 1, 0.5))
        task = asyncio.create_task(served.work())
        feeds = [{"x": np.float32([value])} for value in (-1, 1, -2)]
        answers = [served.answer(served.loaded, feed) for feed in feeds]
        found = await asyncio.wait_for(asyncio.gather(*answers, return_exceptions=True), 60)
        task.cancel()
        return list(found)

    first, endless, last = asyncio.run(serve())
    assert isinstance(endless, RequestError)
    assert (endless.status, str(endless)) == (504, "the run took longer than 0.5 seconds")
    assert not isinstance(first, Exception)
    assert not isinstance(last, Exception)


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
