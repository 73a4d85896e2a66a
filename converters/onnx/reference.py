"""An ONNX file that runs, to be compared with what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from onnx import ModelProto

from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.verification.isolation import Isolated
from onnx_sparse.converters.verification.layout import Axis, Layout, Size
from onnx_sparse.converters.verification.ragged_inputs import recorded_specs
from onnx_sparse.converters.verification.reference import Reference


class OnnxReference(Reference):
    """A model that runs in ONNX Runtime, in a process of its own. tf2onnx's models refuse batches without entries.

    Args:
        source: The model that was given to `onnx_sparse.fuse`, `to_ragged`, or both.
        outputs: Its outputs.
        run: Runs it.
    """

    program = "the old model"

    def __init__(
        self, source: ModelProto, outputs: Sequence[str], run: Callable[[Mapping[str, Array]], list[Array]]
    ) -> None:
        self.inputs, self.outputs = [value.name for value in source.graph.input], dict.fromkeys(outputs, "")
        self.specs, self.layout = recorded_specs(source), _layout(source)
        self._run = run

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Its outputs."""
        return self._run(feeds)


@contextmanager
def reference(source: ModelProto, model: ModelProto) -> Iterator[OnnxReference]:
    """An ONNX file in ONNX Runtime, and what it was converted to."""
    outputs = [value.name for value in model.graph.output]
    with Isolated(lambda: _session(source, outputs)) as run:
        yield OnnxReference(source, outputs, run)


def _session(model: ModelProto, outputs: list[str]) -> Callable[[Mapping[str, Array]], list[Array]]:
    from onnx_sparse.sessions.runtime import InferenceSession

    session = InferenceSession(model)
    return lambda batch: [np.asarray(value) for value in session.run(outputs, dict(batch))]


def _layout(model: ModelProto) -> Layout:
    """The dimensions of inputs that have the size of another one, as they have its symbol."""
    symbols: dict[str, Axis] = {}
    sizes: dict[Axis, Size] = {}
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param:
                first = symbols.setdefault(dim.dim_param, (value.name, axis))
                if first != (value.name, axis):
                    sizes[value.name, axis] = first
    return Layout(sizes=sizes)
