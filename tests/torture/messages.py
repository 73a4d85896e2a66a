"""Mutated tf.Example and tf.SequenceExample messages: the native kernels agree with the reference on values or errors.

So do messages with faults in several features: the error is about the same one, whatever the order of the features.

`python tests/torture/messages.py --seconds 60 --seed 1` runs for a time; `--count 1000000 --native-only` runs so many
messages through the native kernels alone, which must neither crash nor run forever.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from contract.example_messages import any_message, legal_inputs, legal_sequence_inputs, mutated
from support import program

import onnx_sparse
from onnx_sparse import KernelError, example_array
from onnx_sparse.reference import FUNCTIONS
from onnx_sparse.schemas import DOMAIN, OPS

Inputs = dict[str, np.ndarray[Any, Any]]

DRAWN: dict[str, Callable[[np.random.Generator], Inputs]] = {
    "ParseExample": legal_inputs,
    "ParseSequenceExample": legal_sequence_inputs,
}

#: Strings are hashed, because ONNX Runtime's Python API cannot return those that are not UTF-8.
_BUCKETS = 2**40

#: How many times the messages of the same legal inputs are changed.
_OF_EACH = 50


def session_of(op_name: str) -> onnx_sparse.InferenceSession:
    """A parser on native kernels whose strings are hashed."""
    op = OPS[op_name]
    outputs = [o.name for o in op.outputs]
    strings = next(o.name for o in op.outputs if o.type == "string")
    nodes = [
        helper.make_node(op.name, [i.name for i in op.inputs], outputs, domain=DOMAIN),
        helper.make_node("StringToHashBucketFast", [strings, "buckets"], ["hashed"], domain=DOMAIN),
    ]
    shown = [("hashed", "int64") if o.name == strings else (o.name, o.type) for o in op.outputs]

    def value(name: str, type_name: str) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.DataType.Value(type_name.upper()), None)

    graph = helper.make_graph(
        nodes,
        "parser",
        [value(i.name, i.type) for i in op.inputs],
        [value(*each) for each in shown],
        [helper.make_tensor("buckets", TensorProto.INT64, [], [_BUCKETS])],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, onnx_sparse.OPSET_VERSION)]
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    model = helper.make_model(graph, ir_version=10, opset_imports=imports)
    return onnx_sparse.InferenceSession(model, options, backend="native")


def native(session: onnx_sparse.InferenceSession, inputs: Inputs, messages: list[bytes]) -> list[Any] | str:
    """The outputs, or the error."""
    try:
        return list(session.run(None, inputs | {"serialized": example_array(messages)}))
    except KernelError as error:
        return str(error)


def reference(op_name: str, inputs: Inputs, messages: list[bytes]) -> list[Any] | str:
    """The same of the reference."""
    try:
        outputs = FUNCTIONS[op_name](*(inputs | {"serialized": np.array(messages, object)}).values())
    except KernelError as error:
        return str(error)
    return [_hashed(output) if output.dtype == object else output for output in outputs]


def _hashed(texts: np.ndarray[Any, Any]) -> Any:
    """The hashes of texts in which a surrogate stands for a byte that is not UTF-8."""
    strings = np.array([text.encode("utf-8", "surrogateescape") for text in texts], object)
    return FUNCTIONS["StringToHashBucketFast"](strings, np.array(_BUCKETS))


def difference(ours: list[Any] | str, expected: list[Any] | str) -> str:
    """How the kernels and the reference differ; "" where they agree."""
    if isinstance(ours, str) or isinstance(expected, str):
        return "" if ours == expected else f"{ours} instead of {expected}"
    for got, want in zip(ours, expected, strict=True):
        if got.dtype != want.dtype or got.shape != want.shape or got.tobytes() != want.tobytes():
            return f"{got} instead of {want}"
    return ""


def fuzz(seed: int, count: int, seconds: float, *, native_only: bool = False) -> tuple[Counter[str], list[str]]:
    """Mutate so many messages, or as many as time allows; what became of them, and the faults."""
    random = np.random.default_rng(seed)
    sessions = {name: session_of(name) for name in DRAWN}
    done: Counter[str] = Counter()
    faults: list[str] = []
    end = time.monotonic() + seconds
    while done.total() < count and time.monotonic() < end:
        for op_name, draw in DRAWN.items():
            inputs = draw(random)
            legal = [text.encode() for text in inputs["serialized"]]
            for _ in range(_OF_EACH if legal else 0):
                messages = _changed(random, inputs, legal)
                ours = native(sessions[op_name], inputs, messages)
                done[f"{op_name} {'refused' if isinstance(ours, str) else 'parsed'}"] += 1
                if not native_only and (wrong := difference(ours, reference(op_name, inputs, messages))):
                    given = {name: value.tolist() for name, value in inputs.items() if name != "serialized"}
                    faults.append(f"{op_name}: {wrong}, of {messages} with {given}")
    return done, faults


def _changed(random: np.random.Generator, inputs: Inputs, legal: list[bytes]) -> list[bytes]:
    """One of the messages mutated, or some of them made with faults in several of their features."""
    messages = list(legal)
    at = int(random.integers(len(messages)))
    if random.random() < 0.5:
        messages[at] = mutated(random, messages[at])
        return messages
    for b in {at, int(random.integers(len(messages)))}:
        messages[b] = any_message(random, inputs)
    return messages


def main() -> int:
    """Fuzz, and print what was done and found."""
    parsed = program.parser(__doc__, seconds=60.0, seed=0)
    parsed.add_argument("--count", type=int, default=10**9, help="how many messages")
    parsed.add_argument(
        "--native-only", action="store_true", help="without the reference, which takes most of the time"
    )
    arguments = parsed.parse_args()
    done, faults = fuzz(arguments.seed, arguments.count, arguments.seconds, native_only=arguments.native_only)
    return program.tell(done | ({"faults, the first of them:": len(faults)} if faults else {}), faults[:10])


if __name__ == "__main__":
    sys.exit(main())
