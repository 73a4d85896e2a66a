"""Requests per second: one by one and joined in process; then over HTTP, by the FastAPI server in `examples` and by
`onnx-sparse serve`, with latencies.

    pip install 'onnx_sparse[serve]' fastapi 'tritonclient[http]'
    python benchmarks/serving.py

A request is four rows of three sparse features of ten ids each, and of a dense one; the model has three tables of
200,000 x 32 and two layers. A server has one thread for the model, and its client is another process. The ways take
turns, and the tables have medians. The answers over HTTP are compared with those of single runs: bit by bit those of
rows whose products round alike in any batch, the others with a tolerance.
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import numpy as np
import onnx
import tritonclient.http as client
from machine import this_machine
from recommender import DENSE, NAMES, recommender
from runner import parser
from sessions import session_options
from tritonclient.utils import np_to_triton_dtype

import onnx_sparse
from onnx_sparse.batching import run_joined
from onnx_sparse.schemas.features import Feature, write_features

EXAMPLES = Path(__file__).parents[1] / "examples"
VOCABULARY, WIDTH = 200_000, 32
MOST = 64


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
    session = onnx_sparse.InferenceSession(path, session_options(1))
    features = onnx_sparse.features(session)
    run_joined(session, requests[:most], features)
    begun = time.perf_counter()
    for first in range(0, len(requests), most):
        run_joined(session, requests[first : first + most], features)
    return len(requests) / (time.perf_counter() - begun)


@dataclass(frozen=True)
class Load:
    """What a server did.

    Attributes:
        rate: Requests a second.
        seconds: The time of each request, sorted.
        cpu: Seconds of the server's CPU for a request.
        other_bits: How many answers have other bits than single runs.
    """

    rate: float
    seconds: list[float]
    cpu: float
    other_bits: int

    def quantile(self, part: float) -> float:
        """Milliseconds that so large a part of the requests took at most."""
        return 1000 * self.seconds[min(int(part * len(self.seconds)), len(self.seconds) - 1)]


def command_of(server: str, path: Path, port: int, most: int) -> tuple[list[str], dict[str, str]]:
    """How a server is started, and its environment."""
    if server == "serve":
        options = ["--port", str(port), "--no-grpc", "--threads", "1", "--max-batch-requests", str(most)]
        return [sys.executable, "-m", "onnx_sparse", "serve", str(path), *options], {}
    options = ["--port", str(port), "--log-level", "warning", "--no-access-log"]
    environment = {"MODEL": str(path), "MOST_REQUESTS": str(most), "THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")])
    return [sys.executable, "-m", "uvicorn", "serve_fastapi:app", *options], environment


def cpu_seconds(pid: int) -> float:
    """What a process has used of the CPU."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def over_http(
    server: str, path: Path, requests: list[dict[str, np.ndarray]], most: int, connections: int
) -> Load:
    """The load of a server with so many connections that are always busy."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    command, environment = command_of(server, path, port, most)
    bodies = []
    for request in requests:
        inputs = []
        for name, array in request.items():
            inputs.append(client.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
            inputs[-1].set_data_from_numpy(array)
        bodies.append(client.InferenceServerClient.generate_request_body(inputs))
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    seconds: list[float] = []
    scores: dict[int, np.ndarray] = {}
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections)) as http:

            async def send(number: int) -> None:
                body, length = bodies[number]
                headers = {"Inference-Header-Content-Length": str(length)}
                url = f"http://127.0.0.1:{port}/v2/models/{path.stem}/infer"
                begun = time.perf_counter()
                async with http.post(url, data=body, headers=headers) as response:
                    assert response.status == 200
                    answer = await response.read()
                    length = int(response.headers["Inference-Header-Content-Length"])
                seconds.append(time.perf_counter() - begun)
                scores[number] = np.frombuffer(answer[length:], np.float32)

            async def send_all(numbers: range) -> None:
                left = iter(numbers)

                async def send_some() -> None:
                    for number in left:
                        await send(number)

                await asyncio.gather(*(send_some() for _ in range(connections)))

            while True:
                try:
                    await send(0)
                    break
                except aiohttp.ClientConnectionError:
                    await asyncio.sleep(0.1)
            await send_all(range(len(bodies) // 4))
            seconds.clear()
            before, begun = cpu_seconds(process.pid), time.perf_counter()
            await send_all(range(len(bodies)))
            rate = len(bodies) / (time.perf_counter() - begun)
            cpu = (cpu_seconds(process.pid) - before) / len(bodies)
    finally:
        process.terminate()
        process.wait()
    return Load(rate, sorted(seconds), cpu, wrong_bits(path, requests, scores))


def wrong_bits(path: Path, requests: list[dict[str, np.ndarray]], scores: dict[int, np.ndarray]) -> int:
    """How many answers have other bits than single runs; one that differs by more than rounding ends the program."""
    session = onnx_sparse.InferenceSession(path)
    found = 0
    for number, request in enumerate(requests):
        expected = session.run(None, request)[0].reshape(-1)
        np.testing.assert_allclose(scores[number], expected, rtol=1e-4, atol=1e-6)
        found += scores[number].tobytes() != expected.tobytes()
    return found


def main() -> None:
    """Print the table."""
    arguments = parser(__doc__, requests=1000, connections=16, turns=5).parse_args()
    print(f"{this_machine()}\n")
    ways = [("fastapi", 1), ("fastapi", MOST), ("serve", MOST)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        make_model(path)
        requests = make_requests(onnx_sparse.features(path), arguments.requests)
        rates: dict[int, list[float]] = {1: [], MOST: []}
        loads: dict[tuple[str, int], list[Load]] = {way: [] for way in ways}
        for _ in range(arguments.turns):
            for most, found in rates.items():
                found.append(in_process(path, requests, most))
            for server, most in ways:
                loads[server, most].append(asyncio.run(over_http(server, path, requests, most, arguments.connections)))
    single, joined = rates.values()
    print(f"In process, requests a second: {statistics.median(single):,.0f} one by one, ", end="")
    print(f"{statistics.median(joined):,.0f} joined by {MOST}: {compared(single, joined)}\n")
    print("| server | requests a second | / FastAPI example, joined | p50 ms | p99 ms | server's CPU ms | other bits |")
    print("|---|---|---|---|---|---|---|")
    base = [load.rate for load in loads["fastapi", MOST]]
    for (server, most), found in loads.items():
        name = "onnx-sparse serve" if server == "serve" else "FastAPI example"
        own = [load.rate for load in found]
        quantiles = [statistics.median(load.quantile(part) for load in found) for part in (0.5, 0.99)]
        print(
            f"| {name}, {'one by one' if most == 1 else f'joined by {most}'} | {statistics.median(own):,.0f} "
            f"| {compared(base, own)} | {quantiles[0]:.1f} | {quantiles[1]:.1f} "
            f"| {1000 * statistics.median(load.cpu for load in found):.2f} | {max(load.other_bits for load in found)} |"
        )


def compared(before: list[float], after: list[float]) -> str:
    """The median of the ratios of turns, and the least and largest."""
    ratios = sorted(new / old for old, new in zip(before, after, strict=True))
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


if __name__ == "__main__":
    main()
