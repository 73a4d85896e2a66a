"""Mutated requests to a server, in each form that clients send: it answers or refuses each, and stays as it was.

`python tests/torture/requests.py --seconds 60 --seed 1` sends for a time; `--count 2000` so many of each form. A fault
is a status 5xx, or INTERNAL and UNKNOWN of gRPC, an answer that is not JSON, no answer, or a traceback in the log.
"""

from __future__ import annotations

import http.client
import json
import random
import sys
import tempfile
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from cli import test_score as sound
from support import attackers, program
from support.serving_client import Server, inference_body, serving
from torture.mutations import mutated_bytes, mutated_json, mutated_text

Body = tuple[str, bytes, dict[str, str]]

_FEEDS = {
    "items_v": np.array([1, 2, 8, 0, 5]),
    "items_r": np.array([0, 2, 2, 5]),
    "age": np.array([1.5, 2, 30], np.float32),
}
_FIELDS = {np.dtype(np.int64): (b"INT64", 3), np.dtype(np.float32): (b"FP32", 6)}


def _json(content: bytes, source: random.Random) -> bytes:
    """JSON with other values and structure, other words, or other bytes."""
    match source.choice(["json"] * 6 + ["text", "bytes"]):
        case "json":
            return mutated_json(content.decode(), source).encode(errors="replace")
        case "text":
            return mutated_text(content.decode(), source).encode(errors="replace")
    return mutated_bytes(content, source)


def _rows(source: random.Random) -> Body:
    row: dict[str, Any] = {"items": [1, 8], "age": 31}
    return "/v1/models/rows:predict", _json(json.dumps({"instances": [row, row]}).encode(), source), {}


def _columns(source: random.Random) -> Body:
    body = {"inputs": {"items": [[1], []], "age": [3, 4.5]}, "outputs": ["sums"], "signature_name": "serving_default"}
    return "/v1/models/rows:predict", _json(json.dumps(body).encode(), source), {}


def _examples(source: random.Random) -> Body:
    message = sound.price_message(2.5)
    if source.random() < 0.5:
        message = mutated_bytes(message, source)
    content = json.dumps({"instances": [{"examples": {"b64": b64encode(message).decode()}}]}).encode()
    return "/v1/models/messages:predict", content if source.random() < 0.5 else _json(content, source), {}


def _v2(source: random.Random) -> Body:
    body, _ = inference_body(_FEEDS, is_binary=False, id="7", outputs=[{"name": "sums"}])
    return "/v2/models/rows/infer", _json(body, source), {}


def _binary(source: random.Random) -> Body:
    body, headers = inference_body(_FEEDS)
    (name, length), *_ = headers.items()
    head, content = body[: int(length)], body[int(length) :]
    match source.choice(["head", "head", "content", "length", "all"]):
        case "head":
            head = _json(head, source)
            length = str(len(head))
        case "content":
            content = mutated_bytes(content, source)
        case "length":
            length = source.choice(["0", "-1", "x", "", str(len(head) + source.randrange(-9, 99)), "9" * 30])
        case _:
            return "/v2/models/rows/infer", mutated_bytes(body, source), {name: length}
    return "/v2/models/rows/infer", head + content, {name: length}


def _message(*, is_raw: bool) -> bytes:
    request = attackers._field(1, b"rows") + attackers._field(3, b"7")
    for name, array in _FEEDS.items():
        kind, field = _FIELDS[array.dtype]
        tensor = attackers._field(1, name.encode()) + attackers._field(2, kind)
        tensor += attackers._field(3, attackers._varint(array.size))
        content = array.tobytes() if array.dtype != np.int64 else b"".join(map(attackers._varint, array.tolist()))
        request += attackers._field(
            5, tensor if is_raw else tensor + attackers._field(5, attackers._field(field, content))
        )
    return request + b"".join(attackers._field(7, array.tobytes()) for array in _FEEDS.values() if is_raw)


HTTP: dict[str, Callable[[random.Random], Body]] = {
    "rows": _rows,
    "columns": _columns,
    "examples": _examples,
    "v2": _v2,
    "binary": _binary,
}
FORMS = (*HTTP, "grpc raw", "grpc contents")


def fault_of(server: Server, form: str, source: random.Random) -> tuple[str, str]:
    """What became of a mutated request, and what is wrong with that; "" if nothing."""
    if form not in HTTP:
        return _called(server, mutated_bytes(_message(is_raw=form == "grpc raw"), source))
    path, body, headers = HTTP[form](source)
    client = http.client.HTTPConnection(server.http, timeout=60)
    try:
        client.request("POST", path, body, headers)
        response = client.getresponse()
        content = response.read()
    except (OSError, http.client.HTTPException) as error:
        return "lost", f"{form}: {error!r} for {body!r} with {headers}"
    finally:
        client.close()
    done = "answered" if response.status == 200 else "refused"
    is_known = response.status < 500 and (content.startswith(b"{") or response.status == 200)
    return done, "" if is_known else f"{form}: {response.status} {content[:300]!r} for {body!r} with {headers}"


def _called(server: Server, message: bytes) -> tuple[str, str]:
    import grpc

    with grpc.insecure_channel(server.grpc) as channel:
        try:
            channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(message, timeout=60)
        except grpc.RpcError as error:
            is_known = error.code().name in ("INVALID_ARGUMENT", "NOT_FOUND")
            return "refused", "" if is_known else f"grpc: {error.code()} {error.details()} for {message!r}"
    return "answered", ""


def fuzz(seed: int, count: int, seconds: float) -> tuple[Counter[str], list[str]]:
    """Send so many mutated requests of each form, or as many as time allows; what became of them, and the faults."""
    done: Counter[str] = Counter()
    faults: list[str] = []
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as name:
        models = Path(name, "rows.onnx"), Path(name, "messages.onnx")
        onnx.save(sound.pooling_model(), models[0])
        onnx.save(sound.price_model(), models[1])
        with serving(*models) as server:
            for number in range(count):
                if time.monotonic() > end or server.process.poll() is not None:
                    break
                for form in FORMS:
                    what, fault = fault_of(server, form, random.Random(f"{seed} {form} {number}"))
                    done[f"{form} {what}"] += 1
                    faults += [fault] if fault else []
            if server.process.poll() is not None:
                faults.append(f"the server ended with {server.process.returncode}")
            server.process.terminate()
            _, log = server.process.communicate(timeout=60)
            if "Traceback" in log or "unexpected" in log:
                faults.append(f"log: {log[-3000:]}")
    return done, faults


def main() -> int:
    """Fuzz, and print what was done and found."""
    parsed = program.parser(__doc__, seconds=60.0, seed=0)
    parsed.add_argument("--count", type=int, default=10**9, help="how many of each form")
    arguments = parsed.parse_args()
    done, faults = fuzz(arguments.seed, arguments.count, arguments.seconds)
    return program.tell(done | ({"faults, the first of them:": len(faults)} if faults else {}), faults[:10])


if __name__ == "__main__":
    sys.exit(main())
