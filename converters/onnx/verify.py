"""`verify`: runs an ONNX file and what became of it on the same inputs and compares the outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from onnx import ModelProto

from onnx_sparse.converters.errors import first_line
from onnx_sparse.converters.verification.batches import Refused, attempt_batches, compare_batches
from onnx_sparse.converters.verification.comparison import Record, half_floats
from onnx_sparse.converters.verification.isolation import Isolated
from onnx_sparse.converters.verification.layout import Axis, Layout, Size
from onnx_sparse.converters.verification.ragged_inputs import RaggedInputs, recorded_specs
from onnx_sparse.converters.verification.sample_inputs import KINDS
from onnx_sparse.converters.writing.tensor import Array


def verify(
    source: ModelProto,
    model: ModelProto,
    *,
    feeds: Mapping[str, Array] | None = None,
    seed: int = 0,
    batch_count: int = len(KINDS),
    described_by: ModelProto | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[Record]:
    """Run a model and its fused or ragged form in ONNX Runtime on the same inputs and compare the outputs.

    Data types and shapes must be equal, and so must integers and booleans. Floats may differ by 1e-5 of their value
    (4e-3 if the model computes with float16, 3e-2 with bfloat16) plus a tenth of that fraction of the output's largest
    value. NaN equals NaN. A batch that the old model refuses (tf2onnx's refuse batches without entries) is noted.

    Args:
        source: The model that was given to `onnx_sparse.fuse`, `to_ragged`, or both.
        model: The model that was returned.
        feeds: The inputs of a single batch, those of either model. If omitted, inputs are generated, of sizes and ids
            that the operators of the new model ask for.
        seed: The same seed gives the same inputs.
        batch_count: How many batches to run on generated inputs.
        described_by: The fused model before it was lowered.
        progress: Called with what is being run.

    Returns:
        One record per output.

    Raises:
        ConversionError: `feeds` lacks an input.
    """
    from onnx_sparse.sessions.runtime import InferenceSession

    names = [value.name for value in source.graph.input]
    outputs = [value.name for value in model.graph.output]
    described = model if described_by is None else described_by
    ragged = RaggedInputs(described, names)

    def runner(of: ModelProto) -> Callable[[], Callable[[Mapping[str, Array]], list[Array]]]:
        def make() -> Callable[[Mapping[str, Array]], list[Array]]:
            session = InferenceSession(of)
            return lambda batch: [np.asarray(value) for value in session.run(outputs, dict(batch))]

        return make

    with Isolated(runner(source)) as run_old, Isolated(runner(model)) as run_new:

        def run_source(kind: str, batch: Mapping[str, Array]) -> list[Array]:
            if progress is not None:
                progress(f"running the old model on the batch {kind!r}")
            try:
                results: list[Array] = run_old(batch)
            except Exception as error:  # whatever ONNX Runtime raises
                raise Refused("the old model", first_line(error)) from error
            return results

        attempts = attempt_batches(
            ragged.as_sparse(described),
            names,
            run_source,
            feeds=None if feeds is None else ragged.of_source(feeds),
            seed=seed,
            count=batch_count,
            specs=recorded_specs(source),
            layout=_layout(source),
        )
        return compare_batches(
            attempts,
            dict.fromkeys(outputs, ""),
            lambda batch: run_new(ragged.of_model(batch)),
            computed=half_floats(described),
        )


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
