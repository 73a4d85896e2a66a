"""Layers of nn.RNN, which have an operator each; torch's exporter converts nn.GRU and nn.LSTM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_sparse.converters.errors import Unsupported
from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.torch.handlers.registry import Node, handles

if TYPE_CHECKING:
    from onnx_sparse.converters.torch.emitter import TorchEmitter


@handles("aten.rnn_tanh.input", to="RNN")
def rnn_tanh(node: Node, emit: TorchEmitter) -> tuple[Tensor, Tensor]:
    """Steps [steps, N, width], or batch first, through layers of tanh; and the last state of each."""
    return _layers(node, emit, "Tanh")


@handles("aten.rnn_relu.input", to="RNN")
def rnn_relu(node: Node, emit: TorchEmitter) -> tuple[Tensor, Tensor]:
    """Steps [steps, N, width], or batch first, through layers of relu; and the last state of each."""
    return _layers(node, emit, "Relu")


def _layers(node: Node, emit: TorchEmitter, activation: str) -> tuple[Tensor, Tensor]:
    given, states = node.tensor("input"), node.tensor("hx")
    dropout, trains = node.number("dropout"), node.flag("train")
    if dropout and trains:
        raise Unsupported("dropout in training is random; export in evaluation mode")
    batch_first, directions = node.flag("batch_first"), 2 if node.flag("bidirectional") else 1
    weights = [weight for weight in node.tensors("params") if weight is not None]
    per_direction = 4 if node.flag("has_biases") else 2
    hidden = int(weights[1].shape[-1])  # type: ignore[index,arg-type]
    batch, steps = (given.shape or (None,) * 3)[:2] if batch_first else (given.shape or (None,) * 3)[1::-1]
    x = emit.op("Transpose", given, perm=[1, 0, 2], shape=(steps, batch, given.dim(2))) if batch_first else given
    last = []
    for layer in range(node.integer("num_layers")):
        first = layer * directions * per_direction
        own = [weights[k : k + per_direction] for k in range(first, first + directions * per_direction, per_direction)]
        parts = [_stacked(emit, [direction[k] for direction in own]) for k in range(2)]
        both = [emit.op("Concat", *direction[2:], axis=0, shape=(2 * hidden,)) for direction in own if direction[2:]]
        start, end = emit.constant([layer * directions]), emit.constant([(layer + 1) * directions])
        initial = emit.op("Slice", states, start, end, emit.constant([0]), shape=(directions, batch, hidden))
        made, state = emit.ops(
            "RNN",
            [x, *parts, _stacked(emit, both) if both else None, None, initial],
            [x.dtype] * 2,
            [(steps, directions, batch, hidden), (directions, batch, hidden)],
            activations=[activation] * directions,
            direction="bidirectional" if directions == 2 else "forward",
            hidden_size=hidden,
        )
        turned = emit.op("Transpose", made, perm=[0, 2, 1, 3], shape=(steps, batch, directions, hidden))
        x = emit.op(
            "Reshape", turned, emit.constant([0, 0, directions * hidden]), shape=(steps, batch, directions * hidden)
        )
        last.append(state)
    whole = last[0] if len(last) == 1 else emit.op("Concat", *last, axis=0, shape=states.shape)
    if batch_first:
        x = emit.op("Transpose", x, perm=[1, 0, 2], shape=(batch, steps, directions * hidden))
    return x, whole


def _stacked(emit: TorchEmitter, tensors: list[Tensor]) -> Tensor:
    """Tensors along a new first dimension, one for each direction."""
    parts = [emit.op("Unsqueeze", tensor, emit.constant([0])) for tensor in tensors]
    return parts[0] if len(parts) == 1 else emit.op("Concat", *parts, axis=0)
