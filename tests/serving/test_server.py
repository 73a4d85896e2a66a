"""`onnx-sparse serve`, called as its clients call it: each request gets the answer of a run of its own."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import json
import re
import signal
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import onnx
import pytest
from support.baskets import model
from support.serving_client import Client, Server, inference_body, serving

import onnx_sparse
from onnx_sparse.batching import run_joined
from onnx_sparse.cli import main
from onnx_sparse.serving.grpc_service import _health, _message, _refusing

CLIENTS, REQUESTS = 16, 1000
Feeds = dict[str, np.ndarray]


def drawn_rows(rng: np.random.Generator) -> dict[str, Any]:
    """Some rows for `model`."""
    rows = int(rng.integers(1, 5))
    items, path = ([rng.integers(0, 9, rng.integers(0, 6)).tolist() for _ in range(rows)] for _ in range(2))
    return {"items": items, "path": path, "box": rng.standard_normal((rows, 2), np.float32).tolist()}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    saved = tmp_path_factory.mktemp("serving") / "baskets.onnx"
    onnx.save(model(), saved)
    return saved


@pytest.fixture(scope="module")
def session(path: Path) -> onnx_sparse.InferenceSession:
    return onnx_sparse.InferenceSession(path)


@pytest.fixture(scope="module")
def server(path: Path) -> Iterator[Server]:
    with serving(path, f"shop={path}", options=["--max-request-size", "1"]) as started:
        yield started


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    made = server.client()
    yield made
    made.close()


def bits(arrays: dict[str, np.ndarray]) -> dict[str, tuple[Any, bytes]]:
    return {name: (array.shape, array.tobytes()) for name, array in arrays.items()}


def grpc_call(address: str, method: str, request: Any, answer: str) -> Any:
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(
            f"/inference.GRPCInferenceService/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=_message(answer).FromString,
        )
        return call(request, timeout=60)


def grpc_infer(address: str, feeds: Feeds, name: str = "baskets", *, is_raw: bool = True) -> dict[str, np.ndarray]:
    request = _message("InferRequest")(model_name=name, id="7")
    for input_name, array in feeds.items():
        kind = {"int64": "INT64", "int32": "INT32", "float32": "FP32"}[array.dtype.name]
        tensor = request.inputs.add(name=input_name, datatype=kind, shape=array.shape)
        if is_raw:
            request.raw_input_contents.append(array.tobytes())
        else:
            field = {"INT64": "int64_contents", "INT32": "int_contents", "FP32": "fp32_contents"}[kind]
            getattr(tensor.contents, field).extend(array.reshape(-1).tolist())
            tensor.contents.SetInParent()
    response = grpc_call(address, "ModelInfer", request, "InferResponse")
    assert response.id == "7"
    found = {}
    for position, tensor in enumerate(response.outputs):
        held = tensor.contents.fp32_contents
        content = response.raw_output_contents[position] if is_raw else np.array(held, np.float32).tobytes()
        found[tensor.name] = np.frombuffer(content, np.float32).reshape(tuple(tensor.shape))
    return found


def by_rows(client: Client, rows: dict[str, Any], name: str = "baskets") -> dict[str, np.ndarray]:
    instances = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    predictions = client.post(f"/v1/models/{name}:predict", {"instances": instances}).json["predictions"]
    return {output: np.array([row[output] for row in predictions], np.float32) for output in predictions[0]}


@pytest.mark.slow
def test_many_clients_get_the_bits_of_single_runs(server, session, record_property):
    """1,000 requests of mixed rows from 16 clients, by every form of request in turn."""
    rng = np.random.default_rng(0)
    known = onnx_sparse.features(session)
    names = [output.name for output in session.get_outputs()]
    requests = [drawn_rows(rng) for _ in range(REQUESTS)]
    feeds = [known.feeds(rows) for rows in requests]
    seconds: list[float] = []

    def ask(first: int) -> list[tuple[int, dict[str, np.ndarray]]]:
        client, found = server.client(), []
        for number in range(first, REQUESTS, CLIENTS):
            begun = time.perf_counter()
            if (form := number // CLIENTS % 4) == 0:
                got = client.infer("baskets", feeds[number]).outputs()
            elif form == 1:
                got = client.infer("shop", feeds[number], is_binary=False).outputs()
            elif form == 2:
                got = by_rows(client, requests[number])
            else:
                got = grpc_infer(server.grpc, feeds[number])
            seconds.append(time.perf_counter() - begun)
            found.append((number, got))
        client.close()
        return found

    with ThreadPoolExecutor(CLIENTS) as threads:
        answers = [answer for found in threads.map(ask, range(CLIENTS)) for answer in found]
    assert sorted(number for number, _ in answers) == [*range(REQUESTS)]
    for number, got in answers:
        assert bits(got) == bits(dict(zip(names, session.run(None, feeds[number]), strict=True))), number
    p99 = float(np.quantile(seconds, 0.99))
    record_property("p99_milliseconds", 1000 * p99)
    assert p99 < 5
    metrics = server.client().get("/metrics").body.decode()
    sizes = {name: float(value) for name, value in (line.split() for line in metrics.splitlines() if line[0] != "#")}
    asked = sum(number // CLIENTS % 4 != 1 for number in range(REQUESTS))
    assert sizes['onnx_sparse_batch_requests_sum{model="baskets"}'] >= asked
    assert sizes['onnx_sparse_batch_requests_count{model="baskets"}'] < asked, "no requests were joined"
    assert sizes['onnx_sparse_requests_total{model="baskets",protocol="grpc",status="200"}'] >= REQUESTS // 4 - CLIENTS


def test_a_bad_request_among_good_ones(server, session):
    """Its client gets the error of the operator, with the feature and the row; the others their answers."""
    rng = np.random.default_rng(1)
    known = onnx_sparse.features(session)
    requests = [known.feeds(drawn_rows(rng)) for _ in range(60)]
    for position in range(0, 60, 7):
        requests[position]["path_v"] = np.append(requests[position]["path_v"], 99)
        requests[position]["path_r"][-1] += 1

    def ask(feeds: Feeds) -> Any:
        client = server.client()
        try:
            return client.infer("baskets", feeds)
        finally:
            client.close()

    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(ask, requests))
    for feeds, got in zip(requests, answers, strict=True):
        (expected,) = run_joined(session, [feeds])
        if isinstance(expected, Exception):
            *_, begin, end = feeds["path_r"].tolist()
            reason = f"EmbeddingBagOffsetsSum: indices[{end - begin - 1}] = 99 is out of range [0, 9)"
            assert (got.status, got.error) == (400, f"feature 'path', row {len(feeds['path_r']) - 2}: {reason}")
        else:
            assert [array.tolist() for array in got.outputs().values()] == [array.tolist() for array in expected]


def test_health_and_what_is_served(client):
    for where in ("/v2/health/live", "/v2/health/ready", "/v2/models/shop/ready", "/v1/models/shop"):
        assert client.get(where).status == 200
    assert client.get("/v2").json["extensions"] == ["binary_tensor_data"]
    assert client.get("/v2/models").json == {"models": ["baskets", "shop"]}
    described = client.get("/v2/models/baskets/versions/1").json
    assert described["inputs"][0] == {"name": "items_i", "datatype": "INT64", "shape": [-1, 2]}
    assert [value["name"] for value in described["outputs"]] == ["sums", "paths", "boxes"]


@pytest.mark.parametrize(
    ("where", "status", "error"),
    [
        ("/v2/models/other/ready", 404, "there is no model 'other'; there is 'baskets', 'shop'"),
        ("/v2/models/shop/versions/2", 404, "model 'shop' has no version '2'; it has '1'"),
        ("/v3", 404, "GET /v3: Not Found"),
        ("/v2/models/shop/infer", 405, "GET /v2/models/shop/infer: Method Not Allowed"),
    ],
)
def test_addresses_that_are_not_there(client, where, status, error):
    answer = client.get(where)
    assert (answer.status, answer.error) == (status, error)


def test_rows_in_columns(client, session):
    rows = drawn_rows(np.random.default_rng(2))
    answer = client.post("/v1/models/shop:predict", {"inputs": rows}).json["outputs"]
    expected = session.run(None, onnx_sparse.features(session).feeds(rows))
    for got, (output, array) in zip(answer.values(), zip(answer, expected, strict=True), strict=True):
        assert np.array(got, np.float32).reshape(array.shape).tobytes() == array.tobytes(), output


@pytest.mark.parametrize("length", [True, False])
def test_a_request_that_is_too_large(server, length):
    """With its length, or in chunks: its client reads the answer, and the server serves on."""
    client = server.client()
    body = b" " * (1 << 20) + b"{}"
    content = body if length else iter([body[: 1 << 19], body[1 << 19 :]])
    client._connection.request("POST", "/v2/models/shop/infer", content, encode_chunked=not length)
    response = client._connection.getresponse()
    assert response.status == 413
    assert "the request is larger than 1048576 bytes" in json.loads(response.read())["error"]
    assert client.get("/v2/health/live").status == 200


def test_grpc(server, session):
    feeds = onnx_sparse.features(session).feeds(drawn_rows(np.random.default_rng(3)))
    expected = bits(dict(zip(["sums", "paths", "boxes"], session.run(None, feeds), strict=True)))
    assert bits(grpc_infer(server.grpc, feeds)) == expected
    assert bits(grpc_infer(server.grpc, feeds, is_raw=False)) == expected
    assert grpc_call(server.grpc, "ServerLive", _message("Empty")(), "Live").live
    assert grpc_call(server.grpc, "ServerReady", _message("Empty")(), "Ready").ready
    assert grpc_call(server.grpc, "ModelReady", _message("ModelName")(name="shop"), "Ready").ready
    described = grpc_call(server.grpc, "ModelMetadata", _message("ModelName")(name="shop"), "ModelMetadata")
    assert [*described.inputs[0].shape] == [-1, 2]
    assert grpc_call(server.grpc, "ServerMetadata", _message("Empty")(), "ServerMetadata").name == "onnx_sparse"


def test_access_log_and_ids(path: Path) -> None:
    bad, url = {"inputs": {"other": 1}}, "/v1/models/baskets:predict"
    with serving(path, options=["--access-log"]) as server:
        client = server.client()
        for sent, repeated in (("a-7", "a-7"), ("x" * 200, None), ("a b", None)):
            answer = client.post(url, bad, {"x-request-id": sent})
            assert (answer.status, answer.headers.get("x-request-id")) == (400, repeated)
        rows = {"inputs": {name: [*column] for name, column in drawn_rows(np.random.default_rng(0)).items()}}
        assert client.post(url, rows, {"x-request-id": "good"}).headers["x-request-id"] == "good"
        with pytest.raises(grpc.RpcError):
            grpc_call(server.grpc, "ModelInfer", _message("InferRequest")(model_name="baskets", id="b\n8"), "Empty")
        server.process.terminate()
        assert server.process.stderr is not None
        lines = [line.split("] INFO ")[1] for line in server.process.stderr if "model baskets: " in line]
    found = [re.sub(r"[0-9.]+ ms", "T ms", line.strip()) for line in lines]
    expected = [
        "rows 400, T ms, id a-7",
        *["rows 400, T ms, id -"] * 2,
        "rows 200, T ms, id good",
        "grpc 400, T ms, id -",
    ]
    assert found == [f"model baskets: {line}" for line in expected]


def test_the_log_as_json(path: Path) -> None:
    with serving(path, options=["--access-log", "--log-format", "json"]) as server:
        assert server.client().post("/v1/models/baskets:predict", {}, {"x-request-id": "a-7"}).status == 400
        server.process.terminate()
        assert server.process.stderr is not None
        (found,) = [json.loads(line) for line in server.process.stderr]
    assert (found["level"], found["model"], found["status"], found["id"]) == ("info", "baskets", 400, "a-7")


def test_bounds_and_costs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--check", "--json", str(path), "--max-request-size", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bounds"]["bytes of a request"] == 2 << 20
    assert found["models"]["baskets"]["joined"]
    assert found["models"]["baskets"]["bytes"] == path.stat().st_size
    assert [*found["models"]["baskets"]["milliseconds"]] == ["1", "64"]
    assert main(["serve", "--check", str(path)]) == 0
    assert "requests are joined" in capsys.readouterr().out


def compress(encoding: str, content: bytes) -> bytes:
    return gzip.compress(content) if encoding == "gzip" else zlib.compress(content)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compressed_requests_and_answers(path, client, session, encoding):
    rows = drawn_rows(np.random.default_rng(5))
    feeds = onnx_sparse.features(session).feeds(rows)
    for is_binary in (True, False):
        body, headers = inference_body(feeds, is_binary=is_binary)
        plain = client.post("/v2/models/baskets/infer", body, headers)
        small = client.post(
            "/v2/models/baskets/infer", compress(encoding, body), {**headers, "content-encoding": encoding}
        )
        assert (small.status, small.body) == (200, plain.body)
    many = {"inputs": {name: list(column) * 200 for name, column in rows.items()}}
    plain = client.post("/v1/models/baskets:predict", many)
    packed = client.post("/v1/models/baskets:predict", many, {"accept-encoding": f"br, {encoding};q=0.5"})
    assert packed.headers["content-encoding"] == encoding
    assert zlib.decompress(packed.body, zlib.MAX_WBITS | 32) == plain.body
    assert (
        "content-encoding"
        not in client.post("/v1/models/baskets:predict", many, {"accept-encoding": "gzip;q=0"}).headers
    )


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compressed_requests_that_are_refused(client, encoding):
    whole = compress(encoding, b'{"instances": []}')
    bodies = {
        b"": (400, "not valid JSON"),
        whole[:-3]: (400, "ends too soon"),
        b"\x00" + whole: (400, "damaged"),
        whole + whole[:1]: (400, "ends too soon"),
        whole + whole: (400, "not valid JSON"),
        compress(encoding, bytes(1 << 27)): (413, "more than 1048576 bytes"),
        compress(encoding, b"") * 100: (400, "more than 64 parts"),
    }
    for body, (status, error) in bodies.items():
        answer = client.post("/v1/models/baskets:predict", body, {"content-encoding": encoding})
        assert answer.status == status
        assert error in answer.error


def test_grpc_health(path: Path) -> None:
    """Kubernetes' probe and load balancers ask once, or watch."""
    of_request, of_answer = (_health(f"HealthCheck{name}") for name in ("Request", "Response"))
    with serving(path, options=["--drain", "1"]) as server, grpc.insecure_channel(server.grpc) as channel:
        types = {"request_serializer": of_request.SerializeToString, "response_deserializer": of_answer.FromString}
        check = channel.unary_unary("/grpc.health.v1.Health/Check", **types)
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch", **types)
        for name in ("", "inference.GRPCInferenceService"):
            assert check(of_request(service=name), timeout=60).status == 1
        with pytest.raises(grpc.RpcError, match="there is no service 'other'"):
            check(of_request(service="other"), timeout=60)
        known, unknown = (watch(of_request(service=name), timeout=60) for name in ("", "other"))
        assert (next(known).status, next(unknown).status) == (1, 3)
        server.process.send_signal(signal.SIGTERM)
        assert [answer.status for answer in known] == [2]
        assert server.process.wait(60) == 0


@pytest.mark.parametrize("field", [1, 2, 3])
def test_texts_that_are_not_utf_8_are_refused(server: Server, field: int) -> None:
    """The model's name, its version and the name of a request, which protobuf may decode when they are read."""
    named = b"" if field == 1 else b"\x0a\x07baskets"
    with grpc.insecure_channel(server.grpc) as channel:
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError) as error:
            infer(named + bytes([field << 3 | 2, 3]) + b"a\x8bb", timeout=60)
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "\n" not in error.value.details()


def test_a_text_that_is_decoded_late_is_the_clients_error() -> None:
    """Whichever text of a request it is: what reads it raises Python's error."""
    said: list[Any] = []

    class Context:
        async def abort(self, *status: Any) -> None:
            said.append(status)

    async def answer(request: bytes) -> str:
        return request.decode()

    asyncio.run(_refusing(answer)(b"words\x8b", Context()))
    ((code, text),) = said
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert "at byte 5 of b'words\\x8b'" in text


def _request(**fields: Any) -> Any:
    return _message("InferRequest")(**{"model_name": "shop", **fields})


BAD_MESSAGES: dict[str, tuple[Any, str, str]] = {
    "another model": (_request(model_name="x"), "NOT_FOUND", "there is no model 'x'"),
    "another version": (_request(model_version="2"), "NOT_FOUND", "has no version '2'"),
    "no inputs": (_request(), "INVALID_ARGUMENT", "input 'items_i' is missing"),
    "an output": (_request(outputs=[{"name": "x"}]), "INVALID_ARGUMENT", "the model has no output 'x'"),
    "too few raw": (
        _request(inputs=[{"name": "items_v"}], raw_input_contents=[b"", b""]),
        "INVALID_ARGUMENT",
        "1 inputs and 2 raw_input_contents",
    ),
    "too few values": (
        _request(inputs=[{"name": "items_v", "datatype": "INT64", "shape": [2]}]),
        "INVALID_ARGUMENT",
        "input 'items_v' has 0 values; the shape [2] has 2",
    ),
    "a negative size": (
        _request(inputs=[{"name": "items_v", "datatype": "INT64", "shape": [-1]}]),
        "INVALID_ARGUMENT",
        "a shape is a list of sizes from 0 on",
    ),
    "too large": (_request(raw_input_contents=[bytes(1 << 21)]), "RESOURCE_EXHAUSTED", "larger than max"),
}


@pytest.mark.parametrize("kind", BAD_MESSAGES)
def test_bad_messages(server, kind):
    request, status, error = BAD_MESSAGES[kind]
    with pytest.raises(grpc.RpcError) as raised:
        grpc_call(server.grpc, "ModelInfer", request, "InferResponse")
    assert raised.value.code().name == status
    assert error in raised.value.details()


def test_sigterm_answers_requests_in_flight(path, session):
    """All requests that were sent before are answered, and the exit status is 0."""
    feeds = onnx_sparse.features(session).feeds(drawn_rows(np.random.default_rng(4)))
    with serving(path, options=["--drain", "1"]) as server:
        stopping, refused = threading.Event(), []
        answered: list[int] = []

        def ask(_: int) -> None:
            client = server.client()
            while not refused:
                try:
                    answer = client.infer("baskets", feeds)
                except (ConnectionError, OSError):
                    assert stopping.is_set()
                    refused.append(1)
                    return
                answered.append(answer.status)
                if answer.headers.get("connection") == "close":
                    return

        with ThreadPoolExecutor(8) as threads:
            asked = [threads.submit(ask, number) for number in range(8)]
            time.sleep(0.3)
            stopping.set()
            server.process.terminate()
            time.sleep(0.3)
            before = server.client().get("/v2/health/ready")
            assert (before.status, before.json) == (503, {"ready": False})
            assert server.process.wait(60) == 0
            for each in asked:
                each.result()
        assert set(answered) == {200}


def test_a_stop_does_not_wait_for_a_run_without_end(tmp_path: Path) -> None:
    """A run whose time is not limited is ended when its client has been given up, and so is the process."""
    onnx.save(
        onnx.parser.parse_model(
            """<ir_version: 10, opset_import: ["": 18]> endless (int64[1] k, float[N] x) => (float[N] y) {
            y = Loop (k, , x) <body = step (int64 i, bool goes, float[N] v) => (bool going, float[N] w) {
              going = Identity (goes) w = Identity (v)
            }>}"""
        ),
        tmp_path / "endless.onnx",
    )
    options = ["--run-timeout", "0", "--grace", "1", "--drain", "0"]
    with serving(tmp_path / "endless.onnx", options=options) as server, ThreadPoolExecutor(1) as threads:
        client = server.client()
        few, many = ({"k": np.array([k]), "x": np.ones(2, np.float32)} for k in (3, 2**62))
        assert client.infer("endless", few).status == 200
        asked = threads.submit(server.client().infer, "endless", many)
        time.sleep(1)
        assert not asked.done()
        server.process.terminate()
        assert server.process.wait(30) == 0
        with contextlib.suppress(ConnectionError, OSError, http.client.HTTPException):
            assert asked.result().status != 200


def changed_table(path: Path, factor: float, rename: Callable[[Path, Path], Any]) -> None:
    """Replace the model by one whose table is multiplied."""
    made = model()
    table = next(tensor for tensor in made.graph.initializer if tensor.name == "table")
    table.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(table) * np.float32(factor), "table"))
    new = path.with_suffix(".new")
    onnx.save(made, new)
    rename(new, path)


def test_a_changed_file_is_read_again_without_losing_requests(tmp_path, session):
    """Each answer is of the old model or the new one; a file that cannot be opened changes nothing."""
    path = tmp_path / "baskets.onnx"
    onnx.save(model(), path)
    feeds = onnx_sparse.features(session).feeds({"items": [[1, 2]], "path": [[3]], "box": [[0, 0]]})
    with serving(path, options=["--reload-interval", "0.1"]) as server:
        ends, seen = threading.Event(), set()

        def ask(_: int) -> None:
            client = server.client()
            while not ends.is_set():
                answer = client.infer("baskets", feeds)
                seen.add((answer.status, answer.outputs()["sums"].tobytes()))

        with ThreadPoolExecutor(4) as threads:
            asked = [threads.submit(ask, number) for number in range(4)]
            changed_table(path, 10, Path.replace)
            _await(server, 'reloads_total{model="baskets",result="done"} 1.0')
            path.write_bytes(b"no model")
            _await(server, 'reloads_total{model="baskets",result="failed"} 1.0')
            ends.set()
            for each in asked:
                each.result()
        assert server.client().infer("baskets", feeds).outputs()["sums"].tolist() == [[30, 300]]
    old, new = np.array([[3, 30]], np.float32), np.array([[30, 300]], np.float32)
    assert seen <= {(200, old.tobytes()), (200, new.tobytes())}


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no such signal")
def test_sighup_reads_the_file_again(tmp_path, session):
    path = tmp_path / "baskets.onnx"
    onnx.save(model(), path)
    feeds = onnx_sparse.features(session).feeds({"items": [[1, 2]], "path": [[3]], "box": [[0, 0]]})
    with serving(path, options=["--reload-interval", "0"]) as server:
        changed_table(path, 10, Path.replace)
        time.sleep(0.3)
        assert server.client().infer("baskets", feeds).outputs()["sums"].tolist() == [[3, 30]]
        server.process.send_signal(signal.SIGHUP)
        _await(server, 'reloads_total{model="baskets",result="done"} 1.0')
        assert server.client().infer("baskets", feeds).outputs()["sums"].tolist() == [[30, 300]]


def test_a_full_queue_refuses_requests(path, session):
    """Status 503 with the time to come again; those that wait are answered."""
    feeds = onnx_sparse.features(session).feeds(drawn_rows(np.random.default_rng(5)))
    with serving(path, options=["--max-waiting", "1", "--max-batch-requests", "1"]) as server:

        def ask(_: int) -> Any:
            client = server.client()
            try:
                return [client.infer("baskets", feeds) for _ in range(20)]
            finally:
                client.close()

        with ThreadPoolExecutor(16) as threads:
            answers = [answer for found in threads.map(ask, range(16)) for answer in found]
        refused = [answer for answer in answers if answer.status != 200]
        assert 0 < len(refused) < len(answers)
        assert {(answer.status, answer.headers["retry-after"]) for answer in refused} == {(503, "1")}
        assert refused[0].error == "1 requests wait already, the most that are allowed; try later"


def _await(server: Server, text: str) -> None:
    end = time.monotonic() + 30
    while text not in server.client().get("/metrics").body.decode():
        assert time.monotonic() < end, text
        time.sleep(0.05)
