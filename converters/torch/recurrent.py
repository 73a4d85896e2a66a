"""Recurrent layers, which torch.export takes apart: step by step, so that the number of steps is a constant.

While programs are traced and decomposed, torch is told the shapes of their results only, so that they stay whole. ONNX
has an operator for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx_sparse.converters.torch.composites import composed
from onnx_sparse.converters.torch.lazy_imports import require

#: The layers without packed sequences, by their operators in torch.
LAYERS = ("gru", "lstm", "rnn_tanh", "rnn_relu")


def recurrent_layers_whole() -> Any:
    """A context in which recurrent layers stay one operator of torch each.

    Those that ONNX lacks are taken apart: with projections, and of doubles, which ONNX Runtime computes as floats.
    """
    torch = require("torch")
    known, overloads = torch._decomp.decomposition_table, [getattr(torch.ops.aten, name).input for name in LAYERS]
    return composed({each: _shapes(known.get(each, each.decompose)) for each in overloads})


def _shapes(otherwise: Callable[..., Any]) -> Callable[..., Any]:
    def layer(given: Any, states: Any, weights: Any, has_biases: bool, layers: int, *rest: Any) -> Any:
        """New tensors of the shapes of a layer's results."""
        bidirectional = rest[2]
        if not _stays_whole(weights, has_biases, layers, bidirectional):
            return otherwise(given, states, weights, has_biases, layers, *rest)
        hidden = states if isinstance(states, (list, tuple)) else [states]
        width = hidden[0].shape[-1] * (2 if bidirectional else 1)
        return given.new_empty(*given.shape[:2], width), *(state.new_empty(state.shape) for state in hidden)

    return layer


def _stays_whole(weights: Any, has_biases: bool, layers: int, bidirectional: bool) -> bool:
    per_layer = (4 if has_biases else 2) * (2 if bidirectional else 1)  # and one more of projections
    return len(weights) == per_layer * layers and weights[0].dtype != require("torch").float64


def taken_apart(program: Any) -> tuple[str, ...]:
    """The operators of a program's recurrent layers that are taken apart, if one of its layers must be."""
    names = tuple(f"aten.{name}.input" for name in LAYERS)
    calls = [node for node in program.graph.nodes if str(node.target) in names]
    whole = (_stays_whole([w.meta["val"] for w in c.args[2]], c.args[3], c.args[4], c.args[7]) for c in calls)
    return () if all(whole) else names


def apart(model: Any) -> list[str]:
    """The recurrent layers of a module that do not stay whole, by name and class."""
    torch = require("torch")
    return [
        f"{name or 'the module'} ({type(layer).__name__})"
        for name, layer in model.named_modules()
        if isinstance(layer, torch.nn.RNNBase)
        and (layer.proj_size or any(weight.dtype == torch.float64 for weight in layer.parameters()))
    ]
