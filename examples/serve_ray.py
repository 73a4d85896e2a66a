"""A model on Ray Serve, which batches requests and starts as many replicas as they need.

    pip install onnx_sparse 'ray[serve]' tritonclient
    MODEL=model.onnx serve run serve_ray:app

MODEL can also be a folder that `onnx-sparse shard` has written.

Over HTTP it takes requests of the Open Inference Protocol (v2) with binary tensors, at /v2/models/NAME/infer, and
answers health, at /v2/health/live and /v2/health/ready; other deployments call `handle.answer.remote(feeds)`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from open_inference import HEADER_LENGTH, metadata, read_request, write_response
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import onnx_sparse
from onnx_sparse.batching import run_joined

MOST_REQUESTS = 64  # of one run


def opened(path: str, threads: int) -> Any:
    """A session; the folder of a model that is split has actors for its tables, which all replicas ask."""
    if Path(path).suffix != ".onnx":  # an update may have replaced the folder, and somebody deleted it
        from onnx_sparse.ray import ShardedModel

        return ShardedModel(path, name=Path(path).name, detached=True, threads=threads)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    return onnx_sparse.InferenceSession(path, options)


@serve.deployment(max_ongoing_requests=2 * MOST_REQUESTS)
class Model:
    """One replica: a session with a thread for each CPU that Ray gives it, by default one."""

    def __init__(self, path: str, threads: int = 1) -> None:
        self.session = opened(path, threads)
        self.features = onnx_sparse.features(self.session)
        self.outputs = [output.name for output in self.session.get_outputs()]
        self.name = Path(path).stem

    async def answer(self, feeds: dict[str, Any]) -> dict[str, Any]:
        """The results of one request."""
        results = await self.run(feeds)
        if isinstance(results, Exception):
            raise results
        return dict(zip(self.outputs, results, strict=True))

    @serve.batch(max_batch_size=MOST_REQUESTS, batch_wait_timeout_s=0.002)
    async def run(self, requests: list[dict[str, Any]]) -> list[Any]:
        """The results of requests that have come together, or the error of each."""
        return run_joined(self.session, requests, self.features)

    async def __call__(self, request: Request) -> Response:
        """A request over HTTP."""
        if request.method == "GET":
            return self.describe(request.url.path)
        try:
            wanted = read_request(await request.body(), request.headers.get(HEADER_LENGTH), self.features)
            body, headers = write_response(self.name, wanted, await self.answer(wanted.feeds))
        except (ValueError, onnx_sparse.KernelError, InvalidArgument) as error:
            return JSONResponse({"error": str(error)}, 400)
        return Response(body, media_type="application/octet-stream", headers=headers)

    def describe(self, path: str) -> Response:
        """What is asked about without inputs: health, and what the model takes and returns."""
        model = f"/v2/models/{self.name}"
        if path in ("/v2/health/live", "/v2/health/ready", f"{model}/ready"):
            return Response()
        if path == model:
            return JSONResponse(metadata(self.name, self.session))
        return JSONResponse({"error": f"there is no {path}; there is {model}"}, 404)


app = Model.bind(os.environ["MODEL"])
