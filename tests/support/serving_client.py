"""A server in a process of its own, and clients that speak the Open Inference Protocol with the standard library."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnx_sparse.serving.inference_requests import HEADER_LENGTH
from onnx_sparse.serving.tensors import datatype_of, to_bytes
from onnx_sparse.serving.written_json import to_values

PATIENCE = 60


@dataclass
class Server:
    """A server that answers.

    Attributes:
        process: Its process, or that of its workers' parent.
        http: The address of HTTP.
        grpc: The address of gRPC.
    """

    process: subprocess.Popen[str]
    http: str
    grpc: str

    def client(self) -> Client:
        """A client with a connection of its own."""
        return Client(self.http)

    def stop(self) -> int:
        """Ask it to end, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextmanager
def serving(*models: Path | str, options: Sequence[str] = (), cwd: Path | None = None) -> Iterator[Server]:
    """Start a server at ports that are free."""
    command = [sys.executable, "-m", "onnx_sparse", "serve", *map(str, models), "--port", "0", "--grpc-port", "0"]
    process = subprocess.Popen(
        [*command, "--json", *options], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_quiet()
    )
    try:
        lines = []
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if line == "}\n":
                break
        assert lines, process.stderr and process.stderr.read()
        document = json.loads("".join(lines))
        yield Server(process, document["http"].removeprefix("http://"), document["grpc"] or "")
    finally:
        process.terminate()
        try:
            process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _quiet() -> dict[str, str]:
    return {**os.environ, "ORT_DISABLE_TELEMETRY": "1"}


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"])

    def outputs(self) -> dict[str, np.ndarray]:
        """The tensors of the response."""
        assert self.status == 200, self.body
        length = int(self.headers.get(HEADER_LENGTH, len(self.body)))
        at, found = length, {}
        for tensor in json.loads(self.body[:length])["outputs"]:
            dtype = {"FP32": np.float32, "FP64": np.float64, "INT64": np.int64}[tensor["datatype"]]
            size = tensor.get("parameters", {}).get("binary_data_size")
            if size is None:
                found[tensor["name"]] = np.array(tensor["data"], dtype).reshape(tensor["shape"])
            else:
                found[tensor["name"]] = np.frombuffer(self.body[at : at + size], dtype).reshape(tensor["shape"])
                at += size
        assert at == len(self.body)
        return found


class Client:
    """One connection, kept alive."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=PATIENCE)

    def get(self, path: str) -> Answer:
        return self._ask("GET", path, None, {})

    def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._ask("POST", path, content, headers or {})

    def infer(self, model: str, feeds: Mapping[str, np.ndarray], *, is_binary: bool = True, **more: Any) -> Answer:
        """Ask for the outputs for some inputs."""
        body, headers = inference_body(feeds, is_binary=is_binary, **more)
        return self.post(f"/v2/models/{model}/infer", body, headers)

    def close(self) -> None:
        self._connection.close()

    def _ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        self._connection.request(method, path, body, dict(headers))
        response = self._connection.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())


def inference_body(
    feeds: Mapping[str, np.ndarray], *, is_binary: bool = True, **more: Any
) -> tuple[bytes, dict[str, str]]:
    """The body and headers of a request."""
    inputs, contents = [], []
    for name, array in feeds.items():
        tensor: dict[str, Any] = {"name": name, "datatype": datatype_of(array), "shape": list(array.shape)}
        if is_binary:
            contents.append(to_bytes(array))
            tensor["parameters"] = {"binary_data_size": len(contents[-1])}
        else:
            tensor["data"] = to_values(array)
        inputs.append(tensor)
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": is_binary}, **more}).encode()
    return b"".join([head, *contents]), {HEADER_LENGTH: str(len(head))} if is_binary else {}
