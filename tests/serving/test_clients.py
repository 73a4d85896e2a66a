"""The clients of Triton and KServe, and the requests of TensorFlow Serving's documentation, unchanged."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support import kserve_client
from support.baskets import model
from support.serving_client import Server, serving

pytest.importorskip("uvicorn")

FEEDS = {"half": np.float16([[1.5], [2]]), "flag": np.array([[True], [False]]), "text": np.array([["é"], [""]], object)}
FEEDS |= {name: np.array([[1], [2]], name) for name in ("int8", "uint8", "int32", "int64", "uint64", "float64")}
TYPES = {
    "half": TensorProto.FLOAT16,
    "flag": TensorProto.BOOL,
    "text": TensorProto.STRING,
    "float64": TensorProto.DOUBLE,
    **{name: getattr(TensorProto, name.upper()) for name in ("int8", "uint8", "int32", "int64", "uint64")},
}
FEEDS = {name: FEEDS[name] for name in TYPES}


def echo() -> onnx.ModelProto:
    """A model that returns its inputs, of many types."""
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in TYPES]
    inputs = [helper.make_tensor_value_info(name, kind, ["N", 1]) for name, kind in TYPES.items()]
    outputs = [helper.make_tensor_value_info(f"{name}_out", kind, ["N", 1]) for name, kind in TYPES.items()]
    graph = helper.make_graph(nodes, "echo", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def half_plus_two() -> onnx.ModelProto:
    """The model of TensorFlow Serving's documentation."""
    text = """<ir_version: 10, opset_import: ["" : 18]> g (float[N] x) => (float[N] y)
      <float half = {0.5}, float two = {2}> { half_x = Mul (x, half) y = Add (half_x, two) }"""
    return onnx.parser.parse_model(text)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("models")
    made = {"echo": echo(), "half_plus_two": half_plus_two(), "baskets": model()}
    for name, proto in made.items():
        onnx.save(proto, folder / f"{name}.onnx")
    with serving(*(folder / f"{name}.onnx" for name in made)) as started:
        yield started


@pytest.fixture(params=["http", "grpc"])
def triton(request: pytest.FixtureRequest, server: Server) -> Iterator[tuple[Any, Any]]:
    """The module and a client of it."""
    module = pytest.importorskip(f"tritonclient.{request.param}")
    address = {"http": server.http, "grpc": server.grpc}[request.param]
    with module.InferenceServerClient(address) as client:
        yield module, client


def as_document(answer: Any) -> dict[str, Any]:
    if isinstance(answer, dict):
        return answer
    from google.protobuf.json_format import MessageToDict

    return dict(MessageToDict(answer, preserving_proto_field_name=True))


def same(found: np.ndarray, expected: np.ndarray) -> bool:
    texts = [value.decode() if isinstance(value, bytes) else value for value in found.reshape(-1).tolist()]
    return found.shape == expected.shape and texts == expected.reshape(-1).tolist()


def test_triton_describes(triton: Any) -> None:
    _, client = triton
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("echo")
    assert client.is_model_ready("echo", "1")
    assert as_document(client.get_server_metadata())["name"] == "onnx_sparse"
    for version in ("", "1"):
        found = as_document(client.get_model_metadata("echo", version))
        assert (found["name"], found["versions"]) == ("echo", ["1"])
        shapes = {each["name"]: (each["datatype"], [int(size) for size in each["shape"]]) for each in found["inputs"]}
        assert shapes["half"] == ("FP16", [-1, 1])
        assert shapes["text"] == ("BYTES", [-1, 1])


@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_triton_infers(triton: Any, compression: str | None) -> None:
    """Every type, binary; the outputs that are asked for; the id."""
    module, client = triton
    inputs = []
    for name, array in FEEDS.items():
        inputs.append(module.InferInput(name, array.shape, datatype_of(array)))
        inputs[-1].set_data_from_numpy(array)
    if module.__name__.endswith("http"):
        options = {"request_compression_algorithm": compression, "response_compression_algorithm": compression}
    else:
        options = {"compression_algorithm": compression}
    for asked in (None, [*FEEDS][::2]):
        outputs = asked and [module.InferRequestedOutput(f"{name}_out") for name in asked]
        answer = client.infer("echo", inputs, outputs=outputs, request_id="number 7", **options)
        response = as_document(answer.get_response())
        assert response["id"] == "number 7"
        assert [each["name"] for each in response["outputs"]] == [f"{name}_out" for name in asked or FEEDS]
        for name in asked or FEEDS:
            assert same(answer.as_numpy(f"{name}_out"), FEEDS[name]), name


def datatype_of(array: np.ndarray) -> str:
    from tritonclient.utils import np_to_triton_dtype

    return str(np_to_triton_dtype(array.dtype))


def test_triton_infers_from_json(server: Server) -> None:
    triton_http = pytest.importorskip("tritonclient.http")
    with triton_http.InferenceServerClient(server.http) as client:
        tensor = triton_http.InferInput("x", [2], "FP32")
        tensor.set_data_from_numpy(np.float32([1, 2.5]), binary_data=False)
        output = triton_http.InferRequestedOutput("y", binary_data=False)
        answer = client.infer("half_plus_two", [tensor], outputs=[output])
        assert answer.as_numpy("y").tolist() == [2.5, 3.25]
        handle = client.async_infer("half_plus_two", [tensor])
        assert handle.get_result().as_numpy("y").tolist() == [2.5, 3.25]


def test_triton_sees_errors(triton: Any) -> None:
    from tritonclient.utils import InferenceServerException

    module, client = triton
    tensor = module.InferInput("x", [2], "FP32")
    tensor.set_data_from_numpy(np.float32([1, 2]))
    wrong = module.InferInput("x", [1], "INT64")
    wrong.set_data_from_numpy(np.array([1]))
    shared = module.InferRequestedOutput("y")
    shared.set_shared_memory("region", 8)
    for arguments, more, message in [
        (("half_plus_three", [tensor]), {}, "there is no model 'half_plus_three'"),
        (("half_plus_two", [tensor]), {"model_version": "2"}, "model 'half_plus_two' has no version '2'"),
        (("half_plus_two", [wrong]), {}, "input 'x' is INT64; the model takes FP32"),
        (("half_plus_two", [tensor]), {"outputs": [module.InferRequestedOutput("z")]}, "the model has no output 'z'"),
        (("half_plus_two", [tensor]), {"outputs": [shared]}, "has the parameter shared_memory_"),
        (("half_plus_two", [tensor]), {"outputs": [module.InferRequestedOutput("y", class_count=2)]}, "classification"),
        (("half_plus_two", [tensor]), {"priority": 1}, "the request has the parameter priority"),
        (("half_plus_two", [tensor]), {"timeout": 1000}, "the request has the parameter timeout"),
        (("half_plus_two", [tensor]), {"sequence_id": 5}, "the request has the parameter sequence_"),
    ]:
        with pytest.raises(InferenceServerException, match=message):
            client.infer(*arguments, **more)


@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_kserve(protocol: str, server: Server) -> None:
    if importlib.util.find_spec("kserve") is None:
        pytest.skip("could not import 'kserve'")
    command = [sys.executable, kserve_client.__file__, protocol, server.http, server.grpc]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr


def test_tensorflow_servings_rest(server: Server) -> None:
    """The requests of its documentation, and their answers."""
    client = server.client()
    model = "/v1/models/half_plus_two"
    for base in (model, f"{model}/versions/1"):
        found = client.get(base).json["model_version_status"]
        assert found == [
            {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}},
        ]
        metadata = client.get(f"{base}/metadata").json
        assert metadata["model_spec"] == {"name": "half_plus_two", "signature_name": "", "version": "1"}
        method = metadata["metadata"]["signature_def"]["signature_def"]["serving_default"]
        assert method["inputs"]["x"]["dtype"] == "DT_FLOAT"
        assert method["inputs"]["x"]["tensor_shape"] == {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
        answer = client.post(f"{base}:predict", {"instances": [1.0, 2.0, 5.0]})
        assert answer.json == {"predictions": [2.5, 3.0, 4.5]}
        assert client.post(f"{base}:predict", {"inputs": {"x": [1.0]}}).json == {"outputs": [2.5]}
        assert client.post(f"{base}:predict", {"inputs": [1.0], "signature_name": "serving_default"}).status == 200
        refused = client.post(f"{base}:predict", {"instances": [1.0], "signature_name": "other"})
        assert (refused.status, refused.error) == (
            400,
            "there is no signature 'other'; the model has 'serving_default'",
        )
        refused = client.post(f"{base}:regress", {"examples": [{"x": 1}]})
        assert (refused.status, refused.error) == (404, "model 'half_plus_two' has no :regress; it has :predict")
    assert client.post(f"{model}/versions/2:predict", {"instances": [1.0]}).status == 404
    assert client.post(f"{model}/labels/stable:predict", {"instances": [1.0]}).status == 404


def test_rows_name_their_outputs(server: Server) -> None:
    row = {"items": [1], "path": [2], "box": [0.5, 0.25]}
    client = server.client()
    names = ["boxes", "sums"]
    answer = client.post("/v1/models/baskets:predict", {"instances": [row], "outputs": names})
    assert answer.json == {"predictions": [{"boxes": [0.5, 0.25], "sums": [1, 10]}]}
    answer = client.post("/v1/models/baskets:predict", {"instances": [row], "outputs": names[:1]})
    assert answer.json == {"predictions": [[0.5, 0.25]]}


def test_the_server_describes_itself(server: Server) -> None:
    """The request that `/` gives for a model is answered, and OpenAPI's document is one, with every address."""
    validator = pytest.importorskip("openapi_spec_validator")
    client = server.client()
    index = client.get("/").json
    assert index["models"]["baskets"]["features"]["items"] == {"kind": "sparse", "type": "INT64"}
    for name, described in index["models"].items():
        address, _, body = described["example"].removeprefix("curl http://").partition(" -d ")
        assert address == f"{server.http}/v1/models/{name}:predict"
        answer = client.post(address.removeprefix(server.http), body.strip("'").encode())
        assert answer.status == 200, answer.body
    document = client.get("/openapi.json").json
    validator.validate(document)
    assert {f"{m.upper()} {path}" for path, item in document["paths"].items() for m in item} == {*index["endpoints"]}
