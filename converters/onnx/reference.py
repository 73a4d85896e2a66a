"""An ONNX file that runs, to be compared with what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from onnx import ModelProto

from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.verification.batches import Repaired
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
        run_repaired: Runs it as it is, and without what ONNX Runtime computes wrongly.
    """

    program = "the old model"

    def __init__(
        self,
        source: ModelProto,
        outputs: Sequence[str],
        run: Callable[[Mapping[str, Array]], list[Array]],
        run_repaired: Callable[[Mapping[str, Array]], Repaired | None],
    ) -> None:
        self.inputs, self.outputs = [value.name for value in source.graph.input], dict.fromkeys(outputs, "")
        self.specs, self.layout = recorded_specs(source), _layout(source)
        self._run, self._run_repaired = run, run_repaired

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Its outputs."""
        return self._run(feeds)

    def repaired(self, feeds: Mapping[str, Array]) -> Repaired | None:
        """Its outputs without what ONNX Runtime computes wrongly."""
        return self._run_repaired(feeds)


@contextmanager
def reference(source: ModelProto, model: ModelProto) -> Iterator[OnnxReference]:
    """An ONNX file in ONNX Runtime, and what it was converted to."""
    outputs = [value.name for value in model.graph.output]
    with Isolated(lambda: _session(source, outputs)) as run, Isolated(lambda: _repaired(source, outputs)) as repaired:
        yield OnnxReference(source, outputs, run, repaired)


def _session(model: ModelProto, outputs: list[str]) -> Callable[[Mapping[str, Array]], list[Array]]:
    from onnx_sparse.sessions.runtime import InferenceSession

    session = InferenceSession(model)
    return lambda batch: [np.asarray(value) for value in session.run(outputs, dict(batch))]


def _repaired(model: ModelProto, outputs: list[str]) -> Callable[[Mapping[str, Array]], Repaired | None]:
    from onnx_sparse.converters.onnx.fusing import repaired

    made, rules = repaired(model)
    if not rules:
        return lambda batch: None
    run, run_right = _session(model, outputs), _session(made, outputs)
    return lambda batch: Repaired(run(batch), run_right(batch), ", ".join(rules))


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
