"""A server of one model that batches in process, with FastAPI.

    pip install onnx_sparse fastapi uvicorn tritonclient
    MODEL=model.onnx uvicorn serve_fastapi:app --port 8000

It speaks the Open Inference Protocol (v2) with binary tensors, so tritonclient.http is a client. Requests that come
while the model runs wait, and are one run afterwards: an idle server answers at once, a busy one in large batches.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import onnxruntime as ort
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from open_inference import HEADER_LENGTH, metadata, read_request, write_response

import onnx_sparse
from onnx_sparse.batching import run_joined

MODEL = Path(os.environ["MODEL"])
THREADS = int(os.environ.get("THREADS", "0"))  # of the model; 0: one for each core
MOST_REQUESTS = int(os.environ.get("MOST_REQUESTS", "64"))  # of one run


class Batcher:
    """Runs all requests that wait as one."""

    def __init__(self) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = THREADS
        self.session = onnx_sparse.InferenceSession(MODEL, options)
        self.features = onnx_sparse.features(self.session)
        self.outputs = [output.name for output in self.session.get_outputs()]
        self.waiting: asyncio.Queue[tuple[dict[str, Any], asyncio.Future[Any]]] = asyncio.Queue()

    async def answer(self, feeds: dict[str, Any]) -> dict[str, Any]:
        """The results of one request."""
        future = asyncio.get_running_loop().create_future()
        self.waiting.put_nowait((feeds, future))
        results = await future
        if isinstance(results, Exception):
            raise results
        return dict(zip(self.outputs, results, strict=True))

    async def work(self) -> None:
        """Answer requests, for ever."""
        while True:
            batch = [await self.waiting.get()]
            while len(batch) < MOST_REQUESTS and not self.waiting.empty():
                batch.append(self.waiting.get_nowait())
            requests = [feeds for feeds, _ in batch]
            answers = await asyncio.to_thread(run_joined, self.session, requests, self.features)
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():  # else its client has gone
                    future.set_result(answer)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the model, and answer until the server ends."""
    app.state.batcher = Batcher()
    worker = asyncio.create_task(app.state.batcher.work())
    yield
    worker.cancel()


app = FastAPI(lifespan=lifespan)


@app.exception_handler(HTTPException)
@app.exception_handler(ValueError)
@app.exception_handler(onnx_sparse.KernelError)
@app.exception_handler(InvalidArgument)
async def refuse(_: Request, error: Exception) -> JSONResponse:
    """What is wrong with a request is its client's to know; other errors are logged, and the answer is 500."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code)
    return JSONResponse({"error": str(error)}, 400)


@app.get("/v2/health/live")
@app.get("/v2/health/ready")
async def health() -> None:
    """The server answers; it does so once the model is open."""


@app.get("/v2")
async def server() -> dict[str, Any]:
    """What the server is."""
    return {"name": "onnx_sparse", "version": onnx_sparse.__version__, "extensions": ["binary_tensor_data"]}


def of_model(name: str) -> Batcher:
    """The model of that name.

    Raises:
        HTTPException: There is none.
    """
    if name != MODEL.stem:
        raise HTTPException(404, f"there is no model {name!r}; there is {MODEL.stem!r}")
    batcher: Batcher = app.state.batcher
    return batcher


@app.get("/v2/models/{name}/ready")
async def ready(name: str) -> None:
    """Whether the model is open."""
    of_model(name)


@app.get("/v2/models/{name}")
async def describe(name: str) -> dict[str, Any]:
    """What the model takes and returns."""
    return metadata(name, of_model(name).session)


@app.post("/v2/models/{name}/infer")
async def infer(name: str, request: Request) -> Response:
    """Run the model."""
    batcher = of_model(name)
    wanted = read_request(await request.body(), request.headers.get(HEADER_LENGTH), batcher.features)
    body, headers = write_response(name, wanted, await batcher.answer(wanted.feeds))
    return Response(body, media_type="application/octet-stream", headers=headers)
