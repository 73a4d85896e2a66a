"""LSTM, GRU and RNN over sequences, and the single cells as sequences of one step."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.openvino.handlers.registry import Node, handles
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.emitter import Emitter

#: The gates in ONNX's order, as positions in OpenVINO's: LSTM fico to iofc, GRU zrh to zrh.
_GATES = {"LSTM": (1, 3, 0, 2), "GRU": (0, 1, 2), "RNN": (0,)}
_ACTIVATIONS = {"LSTM": "sigmoid,tanh,tanh", "GRU": "sigmoid,tanh", "RNN": "tanh"}
#: The types that ONNX Runtime takes; others are computed in float32.
_KERNELS = (TensorProto.FLOAT, TensorProto.FLOAT16)
_NAMES = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}
#: These have no parameters.
_IGNORED = ("activations_alpha", "activations_beta")


def _attributes(node: Node, kind: str, directions: int) -> dict[str, Any]:
    names = node.text("activations", _ACTIVATIONS[kind]).replace(" ", "").split(",")
    if not set(names) <= _NAMES.keys():
        raise Unsupported(f"activations {', '.join(names)}; {', '.join(_NAMES)} are converted")
    attributes: dict[str, Any] = {
        "hidden_size": node.integer("hidden_size"),
        "activations": [_NAMES[name] for name in names] * directions,
    }
    if node.number("clip", 0.0) not in (0.0, float("inf")):
        attributes["clip"] = node.number("clip")
    if kind == "GRU":
        attributes["linear_before_reset"] = int(node.flag("linear_before_reset", False))
    return attributes


def _in_onnx_order(emit: Emitter, tensor: Tensor, kind: str) -> Tensor:
    """Weights [directions, gates * hidden, ...] with the gates in ONNX's order."""
    gates = _GATES[kind]
    if gates == tuple(range(len(gates))):
        return tensor
    parts = emit.node("Split", [tensor], [tensor.dtype] * len(gates), axis=1, num_outputs=len(gates))
    return emit.op("Concat", *(parts[gate] for gate in gates), axis=1)


def _bias(emit: Emitter, bias: Tensor, kind: str, *, separate: bool) -> Tensor:
    """ONNX's two biases, of which OpenVINO has the sum. With linear_before_reset, GRU's candidate gate keeps two."""
    if not separate:
        ordered = _in_onnx_order(emit, bias, kind)
        return emit.op("Concat", ordered, emit.op("Sub", ordered, ordered), axis=1)
    update, reset, outer, inner = emit.node("Split", [bias], [bias.dtype] * 4, axis=1, num_outputs=4)
    zero = emit.op("Sub", update, update)
    return emit.op("Concat", update, reset, outer, zero, zero, inner, axis=1)


def _recurrent(
    node: Node, emit: Emitter, kind: str, x: Tensor, states: list[Tensor], lengths: Tensor | None, rest: list[Tensor]
) -> tuple[Tensor, ...]:
    """From x [batch, time, size] and states [batch, directions, hidden] to OpenVINO's outputs, also batch first."""
    direction = node.choice("direction", ("forward", "reverse", "bidirectional"), "forward")
    if x.dtype not in _KERNELS:
        x, *states = (emit.cast(t, TensorProto.FLOAT) for t in (x, *states))
        rest = [emit.cast(t, TensorProto.FLOAT) for t in rest]
    attributes = _attributes(node, kind, 2 if direction == "bidirectional" else 1)
    weights, recurrence = (_in_onnx_order(emit, t, kind) for t in rest[:2])
    bias = _bias(emit, rest[2], kind, separate=bool(attributes.get("linear_before_reset")))
    # ONNX has time first; ONNX Runtime has no kernel for its batch-first layout.
    first = [emit.op("Transpose", t, perm=[1, 0, 2]) for t in (x, *states)]
    steps = None if lengths is None else emit.cast(lengths, TensorProto.INT32)
    made = emit.node(
        kind,
        [first[0], weights, recurrence, bias, steps, *first[1:]],
        [x.dtype] * (1 + len(states)),
        direction=direction,
        **attributes,
    )
    output = emit.op("Transpose", made[0], perm=[2, 1, 0, 3])  # [time, directions, batch, hidden]
    return (output, *(emit.op("Transpose", t, perm=[1, 0, 2]) for t in made[1:]))


#: The operators by their layers, and how many states they have.
_SEQUENCES = {"LSTMSequence-5": "LSTM", "GRUSequence-5": "GRU", "RNNSequence-5": "RNN"}
_CELLS = {"LSTMCell-4": "LSTM", "GRUCell-3": "GRU", "RNNCell-1": "RNN"}  # RNNCell-0 is in layers of opset1
_STATES = {"LSTM": 2, "GRU": 1, "RNN": 1}


@handles(*_SEQUENCES, to=_SEQUENCES, ignored=_IGNORED)
def sequence(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """All steps of a sequence, and the last states."""
    kind = _SEQUENCES[node.op_type]
    count = _STATES[kind]
    states = [node[1 + k] for k in range(count)]
    rest = [node[2 + count + k] for k in range(3)]
    return _recurrent(node, emit, kind, node[0], states, node[1 + count], rest)


@handles(*_CELLS, to=_CELLS, ignored=_IGNORED)
def cell(node: Node, emit: Emitter) -> tuple[Tensor, ...]:
    """The states after one step."""
    kind = _CELLS[node.op_type]
    count = _STATES[kind]
    axis = emit.constant([1])
    front = emit.constant([0])
    states = [emit.op("Unsqueeze", node[1 + k], axis) for k in range(count)]
    rest = [emit.op("Unsqueeze", node[1 + count + k], front) for k in range(3)]
    made = _recurrent(node, emit, kind, emit.op("Unsqueeze", node[0], axis), states, None, rest)
    return tuple(emit.op("Squeeze", t, axis) for t in made[1:])
