"""`verify`: runs an ONNX file and what became of it on the same inputs and compares the outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from onnx import ModelProto

from onnx_sparse.converters.errors import first_line
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.verification import verify as verification
from onnx_sparse.converters.verification.batches import Refused
from onnx_sparse.converters.verification.comparison import Record
from onnx_sparse.converters.verification.isolation import Isolated
from onnx_sparse.converters.verification.layout import Axis, Layout, Size
from onnx_sparse.converters.verification.ragged_inputs import recorded_specs
from onnx_sparse.converters.verification.sample_inputs import KINDS


def verify(
    source: ModelProto,
    model: ModelProto,
    *,
    feeds: Mapping[str, Array] | None = None,
    seed: int = 0,
    batch_count: int = len(KINDS),
    described_by: ModelProto | None = None,
    progress: Callable[[str], None] | None = None,
    input_lines: dict[str, str] | None = None,
) -> list[Record]:
    """Run a model and its fused or ragged form in ONNX Runtime on the same inputs and compare the outputs.

    What is compared how, and how inputs are generated, is said with `onnx_sparse.converters.verification.verify`. A
    batch that the old model refuses (tf2onnx's refuse batches without entries) is noted.

    Args:
        source: The model that was given to `onnx_sparse.fuse`, `to_ragged`, or both.
        model: The model that was returned.
        feeds: The inputs of a single batch, for either model. If omitted, inputs are generated, of sizes and ids
            that the operators of the new model ask for.
        seed: The same seed gives the same inputs.
        batch_count: How many batches to run on generated inputs.
        described_by: The fused model before it was lowered.
        progress: Called with what is being run.
        input_lines: Filled with what each input was taken for when inputs were generated.

    Returns:
        One record per output.

    Raises:
        ConversionError: `feeds` lacks an input.
    """
    outputs = dict.fromkeys((value.name for value in model.graph.output), "")
    with Isolated(lambda: _session(source, [*outputs])) as run:
        return verification.verify(
            _Running(run),
            verification.Description(
                "the old model",
                [value.name for value in source.graph.input],
                outputs,
                recorded_specs(source),
                _layout(source),
            ),
            model,
            feeds=feeds,
            seed=seed,
            batch_count=batch_count,
            described_by=described_by,
            progress=progress,
            input_lines=input_lines,
        )


class _Running:
    """An ONNX file that runs in ONNX Runtime, in a process of its own."""

    def __init__(self, run: Isolated) -> None:
        self._run = run

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        results: list[Array] = self._run(feeds)
        return results

    def refusal(self, error: Exception) -> Refused:
        return Refused("the old model", first_line(error))


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
