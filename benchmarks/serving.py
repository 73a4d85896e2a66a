"""Requests per second, one by one and joined: in process, and from the FastAPI server in `examples` over HTTP.

    pip install fastapi uvicorn 'tritonclient[http]'
    python benchmarks/serving.py

A request is four rows of three sparse features of ten ids each, and of a dense one; the model has three tables of
200,000 x 32 and two layers. The server has one thread for the model, and its client is another process. Both ways take
turns, and the table has medians.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import numpy as np
import onnx
import onnxruntime as ort
import tritonclient.http as client
from machine import this_machine
from recommender import DENSE, NAMES, recommender
from tritonclient.utils import np_to_triton_dtype

import onnx_sparse
from onnx_sparse.batching import run_joined
from onnx_sparse.schemas.features import Feature, write_features

EXAMPLES = Path(__file__).parents[1] / "examples"
VOCABULARY, WIDTH = 200_000, 32


def make_model(path: Path) -> None:
    """Write the model."""
    inputs = ", ".join(f"int64[{n}_n,2] {n}_i, int64[{n}_n] {n}_v, int64[2] {n}_s" for n in NAMES)
    lookups = "\n".join(
        f"{n}_rows = Gather <axis = 1> ({n}_i, zero)\n{n}_count = Gather ({n}_s, zero)\n"
        f"{n}_mean = onnx_sparse.EmbeddingSegmentsMean ({n}_table, {n}_v, {n}_rows, {n}_count)"
        for n in NAMES
    )
    rng = np.random.default_rng(0)
    model = recommender(inputs, lookups, VOCABULARY, WIDTH, lambda shape: rng.standard_normal(shape, np.float32))
    features = [Feature(n, "sparse", {"indices": f"{n}_i", "values": f"{n}_v", "dense_shape": f"{n}_s"}) for n in NAMES]
    write_features(model, [*features, Feature("dense", "dense", {"values": "dense"})])
    onnx.save(model, path)


def make_requests(features: onnx_sparse.rows.model_features.Features, count: int) -> list[dict[str, np.ndarray]]:
    """Requests of four rows."""
    rng = np.random.default_rng(1)
    return [
        features.feeds(
            {n: [rng.integers(0, VOCABULARY, rng.poisson(10)) for _ in range(4)] for n in NAMES}
            | {"dense": rng.standard_normal((4, DENSE), np.float32)}
        )
        for _ in range(count)
    ]


def in_process(path: Path, requests: list[dict[str, np.ndarray]], most: int) -> float:
    """Requests per second in this process, by one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnx_sparse.InferenceSession(path, options)
    features = onnx_sparse.features(session)
    run_joined(session, requests[:most], features)
    begun = time.perf_counter()
    for first in range(0, len(requests), most):
        run_joined(session, requests[first : first + most], features)
    return len(requests) / (time.perf_counter() - begun)


async def over_http(path: Path, requests: list[dict[str, np.ndarray]], most: int, connections: int) -> float:
    """Requests per second of the server, with so many connections that are always busy."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    environment = {"MODEL": str(path), "MOST_REQUESTS": str(most), "THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "uvicorn", "serve_fastapi:app", "--port", str(port), "--log-level", "warning"]
    bodies = []
    for request in requests:
        inputs = []
        for name, array in request.items():
            inputs.append(client.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
            inputs[-1].set_data_from_numpy(array)
        bodies.append(client.InferenceServerClient.generate_request_body(inputs))
    server = subprocess.Popen([*command, "--no-access-log"], env={**os.environ, **environment})
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections)) as http:

            async def send(body: bytes, length: int) -> None:
                headers = {"Inference-Header-Content-Length": str(length)}
                url = f"http://127.0.0.1:{port}/v2/models/{path.stem}/infer"
                async with http.post(url, data=body, headers=headers) as response:
                    assert response.status == 200
                    await response.read()

            while True:
                try:
                    await send(*bodies[0])
                    break
                except aiohttp.ClientConnectionError:
                    await asyncio.sleep(0.1)
            await asyncio.gather(*(send(*body) for body in bodies[: len(bodies) // 4]))
            begun = time.perf_counter()
            await asyncio.gather(*(send(*body) for body in bodies))
            return len(bodies) / (time.perf_counter() - begun)
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{this_machine()}\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        make_model(path)
        requests = make_requests(onnx_sparse.features(path), arguments.requests)
        rates: dict[tuple[str, int], list[float]] = {}
        for _ in range(arguments.turns):
            for most in (1, 64):
                rates.setdefault(("in process", most), []).append(in_process(path, requests, most))
                rate = asyncio.run(over_http(path, requests, most, arguments.connections))
                rates.setdefault(("over HTTP", most), []).append(rate)
    print("| | one by one | joined by 64 | joined / one by one |\n|---|---|---|---|")
    for where in ("in process", "over HTTP"):
        single, joined = rates[where, 1], rates[where, 64]
        ratios = sorted(after / before for before, after in zip(single, joined, strict=True))
        print(
            f"| {where} | {statistics.median(single):,.0f} /s | {statistics.median(joined):,.0f} /s "
            f"| {statistics.median(ratios):.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f}) |"
        )


if __name__ == "__main__":
    main()
