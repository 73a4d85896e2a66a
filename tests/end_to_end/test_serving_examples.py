"""The servers in `examples` and `onnx-sparse serve`, called by Triton's client: answers are those of single runs."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.baskets import model
from support.serving_client import Server, serving

import onnx_sparse
from onnx_sparse.batching import run_joined
from onnx_sparse.schemas.features import Feature, write_features

pytest.importorskip("tritonclient.http.aio")
httpx = pytest.importorskip("httpx")

import tritonclient.http.aio as client  # noqa: E402
from tritonclient.utils import InferenceServerException, np_to_triton_dtype  # noqa: E402

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE = 120
REQUESTS = 200

TEXT = """
<ir_version: 10, opset_import: ["" : 18]>
g (string[n] word_v, int64[r] word_r, string[b] name, bool[b,2] flag, float16[b] half)
  => (string[n] words, int64[r] splits, string[b] names, bool[b,2] flags, float16[b] halves)
{ words = Identity (word_v) splits = Identity (word_r) names = Identity (name) flags = Identity (flag)
  halves = Identity (half) }"""


def feeds(rng: np.random.Generator, features: onnx_sparse.rows.model_features.Features) -> dict[str, np.ndarray]:
    """Some rows for `model`."""
    rows = int(rng.integers(1, 4))
    items, path = ([rng.integers(0, 9, rng.integers(0, 5)).tolist() for _ in range(rows)] for _ in range(2))
    return features.feeds({"items": items, "path": path, "box": rng.standard_normal((rows, 2), np.float32)})


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    saved = tmp_path_factory.mktemp("serving") / "baskets.onnx"
    onnx.save(model(), saved)
    return saved


@pytest.fixture(scope="module")
def session(path: Path) -> onnx_sparse.InferenceSession:
    return onnx_sparse.InferenceSession(path)


def environment(path: Path) -> dict[str, str]:
    return {**os.environ, "MODEL": str(path), "PYTHONPATH": os.pathsep.join([str(EXAMPLES), *filter(None, sys.path)])}


def unused_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def served(command: list[str], path: Path, port: int, writes: str = "") -> Iterator[str]:
    """The address of a server, once it answers, and has written a file."""
    process = subprocess.Popen([sys.executable, *command], env=environment(path), cwd=path.parent)
    try:
        begun = time.monotonic()
        while True:
            assert process.poll() is None
            assert time.monotonic() - begun < PATIENCE
            try:
                status = httpx.get(f"http://127.0.0.1:{port}/v2/health/ready").status_code
                if status == 200 and path.with_name(writes or path.name).exists():
                    break
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(PATIENCE)


@pytest.fixture(scope="module")
def fastapi(path: Path) -> Iterator[str]:
    for package in ("fastapi", "uvicorn"):
        pytest.importorskip(package)
    port = unused_port()
    yield from served(["-m", "uvicorn", "serve_fastapi:app", "--port", str(port), "--log-level", "warning"], path, port)


@pytest.fixture(scope="module")
def command(path: Path) -> Iterator[Server]:
    with serving(path) as server:
        yield server


@pytest.fixture(scope="module")
def serve(command: Server) -> str:
    return command.http


_IN_RAY = """
import os, signal, sys
import numpy as np
import ray
from ray import serve
from serve_ray import app
ray.init("local", num_cpus=2, log_to_driver=False, include_dashboard=False)
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
handle = serve.run(app)
np.savez("part.npz", **handle.answer.remote(dict(np.load("feeds.npz"))).result())
os.replace("part.npz", "answer.npz")
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
signal.pause()
"""


def handed_over(session: onnx_sparse.InferenceSession) -> dict[str, np.ndarray]:
    return feeds(np.random.default_rng(2), onnx_sparse.features(session))


@pytest.fixture(scope="module")
def ray(path: Path, session: onnx_sparse.InferenceSession) -> Iterator[str]:
    pytest.importorskip("ray.serve")
    np.savez(path.with_name("feeds.npz"), **handed_over(session))
    port = unused_port()
    yield from served(["-c", _IN_RAY, str(port)], path, port, "answer.npz")


@pytest.fixture(scope="module")
def split_on_ray(path: Path, session: onnx_sparse.InferenceSession) -> Iterator[str]:
    """The same example with a model whose tables are split; its actors need CPUs of their own."""
    pytest.importorskip("ray.serve")
    home = path.parent / "split"
    home.mkdir()
    onnx_sparse.shard(path, home / path.stem, shards=2, exact=True, at_least=1)
    np.savez(home / "feeds.npz", **handed_over(session))
    port = unused_port()
    program = _IN_RAY.replace("num_cpus=2", "num_cpus=4")
    yield from served(["-c", program, str(port)], home / path.stem, port, "answer.npz")


async def infer(server: client.InferenceServerClient, arrays: dict[str, np.ndarray], **more: Any) -> Any:
    """The outputs, or the error."""
    inputs = []
    for name, array in arrays.items():
        inputs.append(client.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
        inputs[-1].set_data_from_numpy(array)
    try:
        result = await server.infer("baskets", inputs, **more)
    except InferenceServerException as error:
        return error
    return {output["name"]: result.as_numpy(output["name"]) for output in result.get_response()["outputs"]}


async def infer_all(address: str, requests: list[dict[str, np.ndarray]]) -> list[Any]:
    async with client.InferenceServerClient(address, conn_limit=len(requests)) as server:
        return await asyncio.gather(*(infer(server, arrays) for arrays in requests))


@pytest.mark.parametrize("server", ["fastapi", "ray", "serve", "split_on_ray"])
def test_concurrent_requests(server, request, session):
    """Good ones and bad ones."""
    address = request.getfixturevalue(server)
    rng = np.random.default_rng(0)
    features = onnx_sparse.features(session)
    requests = [feeds(rng, features) for _ in range(REQUESTS)]
    for position in range(0, REQUESTS, 20):
        requests[position]["path_v"] = np.append(requests[position]["path_v"], 99)
        requests[position]["path_r"][-1] += 1
    for arrays, got in zip(requests, asyncio.run(infer_all(address, requests)), strict=True):
        (expected,) = run_joined(session, [arrays])
        if isinstance(expected, Exception):
            assert isinstance(got, InferenceServerException)
            assert (got.status(), got.message()) == ("400", str(expected))
            assert "[0, 9)" in got.message()
            continue
        for output, array in zip(session.get_outputs(), expected, strict=True):
            assert got[output.name].dtype == array.dtype
            assert got[output.name].tolist() == array.tolist()


@pytest.mark.parametrize("server", ["fastapi", "serve"])
def test_what_a_client_asks_about(server, request, session):
    address = request.getfixturevalue(server)

    async def ask() -> None:
        async with client.InferenceServerClient(address) as server:
            assert await server.is_server_live()
            assert await server.is_server_ready()
            assert await server.is_model_ready("baskets")
            assert not await server.is_model_ready("other")
            assert "binary_tensor_data" in (await server.get_server_metadata())["extensions"]
            described = await server.get_model_metadata("baskets")
            assert {value["name"]: value["datatype"] for value in described["inputs"]} == {
                "items_i": "INT64", "items_v": "INT64", "items_s": "INT64",
                "path_v": "INT64", "path_r": "INT32", "box": "FP32",
            }  # fmt: skip
            assert described["inputs"][0]["shape"] == [-1, 2]
            assert [value["name"] for value in described["outputs"]] == [v.name for v in session.get_outputs()]
            arrays = feeds(np.random.default_rng(1), onnx_sparse.features(session))
            asked = [client.InferRequestedOutput("boxes", binary_data=False), client.InferRequestedOutput("sums")]
            got = await infer(server, arrays, outputs=asked, request_id="7")
            assert list(got) == ["boxes", "sums"]
            assert got["boxes"].tolist() == arrays["box"].tolist()

    asyncio.run(ask())


def tensor(**changed: Any) -> dict[str, Any]:
    return {"name": "x", "datatype": "INT64", "shape": [1], "data": [1], **changed}


def binary(size: Any) -> dict[str, Any]:
    made = tensor(parameters={"binary_data_size": size})
    del made["data"]
    return made


NOT_OF_IT = "not a request of the Open Inference Protocol:"
BAD_BODIES = {
    "no JSON": (b"{", None, "Expecting property name"),
    "no object": (b"[]", None, f"{NOT_OF_IT} AttributeError"),
    "no inputs": (b"{}", None, f"{NOT_OF_IT} KeyError: 'inputs'"),
    "no name": ({"inputs": [{}]}, None, f"{NOT_OF_IT} KeyError: 'name'"),
    "another input": ({"inputs": [tensor(name="y")]}, None, "the model has no input 'y'; it has items_i, items_v"),
    "another type": ({"inputs": [tensor(name="box")]}, None, "input 'box' is INT64; the model takes FP32"),
    "no type": ({"inputs": [tensor(datatype="X")]}, None, "input 'x' is X; the model takes INT64"),
    "a large number": ({"inputs": [tensor(data=[2**70])]}, None, f"{NOT_OF_IT} Overflow"),
    "another shape": ({"inputs": [tensor(shape=[2])]}, None, "cannot reshape array of size 1 into shape (2,)"),
    "another rank": ({"inputs": [tensor(shape=[1, 1])]}, None, "input 'x' has the shape [1, 1]; the model takes ['?']"),
    "missing inputs": ({"inputs": [tensor()]}, None, "the input 'items_i' is missing"),
    "no number": ({"inputs": []}, "x", "invalid literal for int()"),
    "too short": ({"inputs": [binary(8)]}, ..., "cannot reshape array of size 0"),
    "no size": ({"inputs": [binary("8")]}, ..., f"{NOT_OF_IT} TypeError"),
    "too long": (b'{"inputs":[]}more', 13, "the request has 17 bytes, and its JSON and tensors 13"),
    "no output": ({"inputs": [], "outputs": [{}]}, None, f"{NOT_OF_IT} KeyError: 'name'"),
    "deep": (b'{"inputs":' + b"[" * 100_000, None, f"{NOT_OF_IT} RecursionError"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_BODIES)
def test_a_bad_body_is_400(fastapi, kind):
    body, length, message = BAD_BODIES[kind]
    content = body if isinstance(body, bytes) else json.dumps(body).replace('"x"', '"items_v"').encode()
    if length is ...:
        length = len(content)
    headers = {} if length is None else {"Inference-Header-Content-Length": str(length)}
    response = httpx.post(f"http://{fastapi}/v2/models/baskets/infer", content=content, headers=headers)
    assert response.status_code == 400
    assert message.replace("'x'", "'items_v'") in response.json()["error"]


def test_another_model_or_output(fastapi, session):
    assert httpx.get(f"http://{fastapi}/v2/models/other").json() == {
        "error": "there is no model 'other'; there is 'baskets'"
    }

    async def ask() -> Any:
        async with client.InferenceServerClient(fastapi) as server:
            arrays = feeds(np.random.default_rng(1), onnx_sparse.features(session))
            return await infer(server, arrays, outputs=[client.InferRequestedOutput("other")])

    got = asyncio.run(ask())
    assert (got.status(), got.message()) == ("400", "the model has no output 'other'; it has sums, paths, boxes")


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch, path: Path) -> Iterator[Any]:
    """Imports a module of the examples, for this process."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setenv("MODEL", str(path))
    yield importlib.import_module
    for name in ("open_inference", "serve_fastapi", "serve_ray"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("is_binary", [True, False])
def test_strings_flags_and_half_floats(examples, is_binary):
    """As JSON and in binary form."""
    protocol = examples("open_inference")
    made = onnx.parser.parse_model(TEXT)
    write_features(made, [
        Feature("word", "ragged", {"values": "word_v", "row_splits": "word_r"}),
        *(Feature(name, "dense", {"values": name}) for name in ("name", "flag", "half")),
    ])  # fmt: skip
    session = onnx_sparse.InferenceSession(made)
    arrays = {
        "word_v": np.array(["a", "straße", ""], object),
        "word_r": np.array([0, 1, 3]),
        "name": np.array(["日本", "x"], object),
        "flag": np.array([[True, False], [False, True]]),
        "half": np.array([0.5, -2], np.float16),
    }
    inputs = []
    for name, array in arrays.items():
        inputs.append(client.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
        inputs[-1].set_data_from_numpy(array, binary_data=is_binary or name == "half")
    body, length = client.InferenceServerClient.generate_request_body(inputs)
    request = protocol.read_request(body, str(length), onnx_sparse.features(session))
    outputs = dict(zip(("words", "splits", "names", "flags", "halves"), session.run(None, request.feeds), strict=True))
    request.is_binary = is_binary
    answer, headers = protocol.write_response("m", request, outputs)
    result = client.InferResult.from_response_body(answer, False, int(headers[protocol.HEADER_LENGTH]))
    for (name, array), output in zip(arrays.items(), outputs, strict=True):
        got = result.as_numpy(output)
        if array.dtype == object:
            got = np.array([text if isinstance(text, str) else text.decode() for text in got], object)
        assert got.tolist() == array.tolist(), name


def test_messages(examples):
    """Serialized tf.Example messages may have any bytes, and others' lengths."""
    protocol = examples("open_inference")
    features = onnx_sparse.rows.model_features.Features(
        [Feature("m", "example", {"serialized": "m"})], {"m": onnx_sparse.rows.model_features.InputType(8, (None,))}
    )
    messages = np.array([b"\0\xff\n", b""], object)
    given = client.InferInput("m", [2], "BYTES")
    given.set_data_from_numpy(messages)
    body, length = client.InferenceServerClient.generate_request_body([given])
    (array,) = protocol.read_request(body, str(length), features).feeds.values()
    assert array.tolist() == onnx_sparse.example_array(messages.tolist()).tolist()


def test_requests_that_wait_are_one_run(examples, session, monkeypatch):
    pytest.importorskip("fastapi")
    app = examples("serve_fastapi")
    sizes: list[int] = []

    def recorded(session: Any, requests: Any, features: Any) -> Any:
        sizes.append(len(requests))
        return run_joined(session, requests, features)

    monkeypatch.setattr(app, "run_joined", recorded)
    requests = [feeds(np.random.default_rng(seed), onnx_sparse.features(session)) for seed in range(70)]

    async def ask() -> list[dict[str, Any]]:
        batcher = app.Batcher()
        waiting = [asyncio.create_task(batcher.answer(arrays)) for arrays in requests]
        await asyncio.sleep(0)
        waiting[3].cancel()  # its client goes away
        worker = asyncio.create_task(batcher.work())
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        worker.cancel()
        return answers

    answers = asyncio.run(ask())
    assert sizes == [64, 6]
    assert isinstance(answers[3], asyncio.CancelledError)
    for arrays, got in zip(requests[:3] + requests[4:], answers[:3] + answers[4:], strict=True):
        for array, expected in zip(got.values(), session.run(None, arrays), strict=True):
            assert array.tolist() == expected.tolist()


def test_a_handle_of_ray_serve(ray, path, session):
    with np.load(path.with_name("answer.npz")) as answer:
        for output, array in zip(session.get_outputs(), session.run(None, handed_over(session)), strict=True):
            assert answer[output.name].tolist() == array.tolist()


def test_health_of_ray_serve(ray):
    for where in ("v2/health/live", "v2/health/ready", "v2/models/baskets/ready"):
        assert httpx.get(f"http://{ray}/{where}").status_code == 200
    assert httpx.get(f"http://{ray}/v2/models/baskets").json()["inputs"][0]["name"] == "items_i"
    missing = httpx.get(f"http://{ray}/v2/models/other")
    assert (missing.status_code, missing.json()["error"]) == (
        404, "there is no /v2/models/other; there is /v2/models/baskets",
    )  # fmt: skip


def test_grpc_of_the_command(command, session):
    """Triton's own messages fit ours."""
    grpc_client = pytest.importorskip("tritonclient.grpc")
    arrays = feeds(np.random.default_rng(3), onnx_sparse.features(session))
    inputs = []
    for name, array in arrays.items():
        inputs.append(grpc_client.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
        inputs[-1].set_data_from_numpy(array)
    server = grpc_client.InferenceServerClient(command.grpc)
    assert server.is_server_live()
    assert server.is_server_ready()
    assert server.is_model_ready("baskets")
    assert server.get_server_metadata().name == "onnx_sparse"
    described = server.get_model_metadata("baskets")
    assert [value.name for value in described.outputs] == [value.name for value in session.get_outputs()]
    asked = [grpc_client.InferRequestedOutput(value.name) for value in session.get_outputs()]
    result = server.infer("baskets", inputs, outputs=asked, request_id="7")
    assert result.get_response().id == "7"
    for output, expected in zip(session.get_outputs(), session.run(None, arrays), strict=True):
        assert result.as_numpy(output.name).tolist() == expected.tolist()
    with pytest.raises(InferenceServerException, match="there is no model 'other'"):
        server.infer("other", inputs)
