"""ONNX's Scan: a step that is done for each element of sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx_sparse.converters.tensor import Tensor
from onnx_sparse.converters.writing.graph_emitter import value_info
from onnx_sparse.converters.writing.inferring_emitter import InferringEmitter

#: Given an emitter, the states and an element of each sequence: the next states and an element of each result.
Step = Callable[[InferringEmitter, Sequence[Tensor], Sequence[Tensor]], tuple[Sequence[Tensor], Sequence[Tensor]]]


def scan(
    emit: InferringEmitter,
    name: str,
    states: Sequence[Tensor],
    sequences: Sequence[Tensor],
    step: Step,
    *,
    backwards: bool,
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The last states, and the results, in the order of the sequences.

    Args:
        emit: Receives the nodes.
        name: The name of the step's graph.
        states: The first states; their types and ranks stay.
        sequences: What the steps read, along the first axis.
        step: Writes the step.
        backwards: Whether the last element comes first.
    """
    inner = emit.body()
    inner.begin(name)
    given = [Tensor(inner.names.fresh(f"{name}/state"), t.dtype, (None,) * t.rank) for t in states]
    elements = [Tensor(inner.names.fresh(f"{name}/element"), t.dtype, (None,) * (t.rank - 1)) for t in sequences]
    following, made = step(inner, given, elements)
    # An output of a graph is made by a node in it.
    outputs = [inner.op("Identity", tensor) for tensor in (*following, *made)]
    graph = inner.graph(name, [value_info(t) for t in (*given, *elements)], [value_info(t) for t in outputs])
    direction = int(backwards)
    results = emit.node(
        "Scan",
        [*states, *sequences],
        [t.dtype for t in outputs],
        [*((None,) * t.rank for t in states), *((None,) * (t.rank + 1) for t in made)],
        body=graph,
        num_scan_inputs=len(sequences),
        scan_input_directions=[direction] * len(sequences),
        scan_output_directions=[direction] * len(made) or None,
    )
    return results[: len(states)], results[len(states) :]
