"""A server that is attacked, and what its honest clients see. Linux only: it reads /proc."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from support import attackers
from support.serving_client import Server, inference_body, serving

from onnx_sparse.converters.tensorflow.regex_program import program_of

#: The honest clients that send small requests, and how long each of them waits between two.
CLIENTS, PAUSE = 8, 0.03
#: The numbers of a large honest request: 1.5 MB of JSON.
_LARGE = 300_000
#: How often the memory is looked at, in seconds; an answer in this time and memory within this are as at rest.
_LOOK, _AT_REST, _NEAR_REST = 0.05, 0.5, 100 << 20

_ValueInfos = list[onnx.ValueInfoProto]


def _save(
    folder: Path,
    name: str,
    nodes: Sequence[onnx.NodeProto],
    inputs: _ValueInfos,
    outputs: _ValueInfos,
    constants: Sequence[onnx.TensorProto] = (),
) -> Path:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("onnx_sparse", 1)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / f"{name}.onnx")
    return folder / f"{name}.onnx"


def make_models(folder: Path) -> list[Path]:
    """Twice the input; an expression; decompressed strings; a loop; as many numbers as are asked for."""
    value, floats, strings = helper.make_tensor_value_info, TensorProto.FLOAT, TensorProto.STRING
    program = program_of(b"x*y|x")
    constants = [numpy_helper.from_array(array, name) for name, array in program.inputs.items()]
    constants += [helper.make_tensor("rewrite", strings, [1], [b""])]
    constants += [numpy_helper.from_array(np.zeros(0, np.int64), "groups")]
    names = ["x", *program.inputs, "rewrite", "groups"]
    replace = helper.make_node("RegexReplace", names, ["y"], domain="onnx_sparse")
    inflate = helper.make_node("DecodeCompressed", ["x"], ["y"], domain="onnx_sparse", compression="ZLIB")
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Relu", ["a"], ["b"])],
        "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("a", floats, None)],
        [value("d", TensorProto.BOOL, []), value("b", floats, None)],
    )
    loop = [
        helper.make_node("ReduceMax", ["k"], ["n"], keepdims=0),
        helper.make_node("Loop", ["n", "", "x"], ["y"], body=body),
    ]
    ports = [[value(name, floats, ["N", None])] for name in "xy"]
    texts = [[value("x", strings, ["N"])], [value("y", strings, None)]]
    return [
        _save(folder, "m", [helper.make_node("Add", ["x", "x"], ["y"])], *ports),
        _save(folder, "text", [replace], *texts, constants),
        _save(folder, "inflate", [inflate], *texts),
        _save(folder, "loop", loop, [*ports[0], value("k", TensorProto.INT64, ["N"])], ports[1]),
        _save(
            folder,
            "grow",
            [helper.make_node("Expand", ["x", "shape"], ["y"])],
            [value("x", floats, [1]), value("shape", TensorProto.INT64, [1])],
            [value("y", floats, ["K"])],
        ),
    ]


@contextmanager
def attacked(folder: Path, *options: str) -> Iterator[Server]:
    """A server of the models that attacks ask."""
    with serving(*make_models(folder), options=options) as started:
        yield started


@contextmanager
def attack(server: Server, kind: str, seconds: float, size: float) -> Iterator[subprocess.Popen[str]]:
    """An attack in another process, which has begun."""
    ports = [address.rsplit(":", 1)[1] for address in (server.http, server.grpc)]
    command = [sys.executable, attackers.__file__, kind, *ports, str(seconds), str(size)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as attacker:
        assert attacker.stdout is not None
        assert attacker.stdout.readline() == "ready\n"
        yield attacker


@dataclass
class Measured:
    """What clients saw.

    Attributes:
        answers: How long small requests took, in seconds.
        large: How long large requests of numbers took.
        health: How long health took.
        late: How late a thread was that slept.
        wrong: Answers that are not right.
        peak: The most memory of the server's process, in bytes.
    """

    answers: list[float] = field(default_factory=list)
    large: list[float] = field(default_factory=list)
    health: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    wrong: list[object] = field(default_factory=list)
    peak: int = 0

    def __str__(self) -> str:
        p50, p99 = np.percentile(self.answers, [50, 99]) * 1000
        longest = [max(times, default=0) * 1000 for times in (self.answers, self.large, self.health, self.late)]
        times = "p50 {:.1f}, p99 {:.1f}, most {:.1f}, large {:.1f}, health {:.1f}, late {:.1f} ms".format(
            p50, p99, *longest
        )
        return f"{len(self.answers)} answers, {times}, {self.peak / 2**20:.0f} MiB"


def memory_of(server: Server) -> int:
    """The memory of the server's process, in bytes: what it has in memory, of its own and of files."""
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * 4096


def measured(server: Server, seconds: float) -> Measured:
    """What honest clients see for some time: of a small model, of one with a loop, and with large requests."""
    found, end = Measured(), time.monotonic() + seconds

    def ask(model: str, feeds: dict[str, np.ndarray], right: np.ndarray, times: list[float]) -> None:
        client, is_large = server.client(), times is found.large
        parameters = {"parameters": {"binary_data_output": True}}
        body, headers = inference_body(feeds, is_binary=not is_large, **(parameters if is_large else {}))
        while time.monotonic() < end:
            begun = time.perf_counter()
            try:
                answer = client.post(f"/v2/models/{model}/infer", body, headers)
                times.append(time.perf_counter() - begun)
                if answer.status != 200 or answer.outputs()["y"].tobytes() != right.tobytes():
                    found.wrong.append((model, answer.status, answer.body[:200]))
            except OSError as error:
                found.wrong.append((model, error, time.perf_counter() - begun))
                client.close()
            time.sleep(10 * PAUSE if is_large else PAUSE)

    def look() -> None:
        while time.monotonic() < end:
            client = server.client()
            begun = time.perf_counter()
            if client.get("/v2/health/live").status != 200:
                found.wrong.append("health")
            found.health.append(time.perf_counter() - begun)
            client.close()
            time.sleep(PAUSE)

    def wait() -> None:
        while time.monotonic() < end:
            begun = time.perf_counter()
            time.sleep(0.005)
            found.late.append(time.perf_counter() - begun - 0.005)

    def weigh() -> None:
        while time.monotonic() < end:
            found.peak = max(found.peak, memory_of(server))
            time.sleep(_LOOK)

    threads = [threading.Thread(target=each) for each in (look, wait, weigh)]
    for number in range(CLIENTS):
        x = np.float32([[number, 0.5, 1 / 3]])
        asked = ("m", {"x": x}, x + x) if number % 2 else ("loop", {"x": x, "k": np.array([1])}, x)
        threads.append(threading.Thread(target=ask, args=(*asked, found.answers)))
    numbers = np.full((1, _LARGE), 1.5, np.float32)
    threads.append(threading.Thread(target=ask, args=("m", {"x": numbers}, numbers + numbers, found.large)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def seconds_to_rest(server: Server, rest: int, most: float) -> tuple[float, int]:
    """How long after an attack health is answered at once again and memory is near that at rest; infinity if never.

    Returns:
        The seconds, and the most memory until then: what an attack began goes on after it.
    """
    begun, peak = time.monotonic(), 0
    while time.monotonic() < begun + most:
        client, asked = server.client(), time.monotonic()
        peak = max(peak, memory_of(server))
        with suppress(OSError):
            is_answered = client.get("/v2/health/live").status == 200 and time.monotonic() - asked < _AT_REST
            if is_answered and memory_of(server) < rest + _NEAR_REST:
                return time.monotonic() - begun, peak
        client.close()
        time.sleep(_LOOK)
    return float("inf"), peak
