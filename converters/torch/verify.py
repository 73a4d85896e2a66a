"""`verify`: runs a model in torch and its conversion on the same inputs and compares the outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import ModelProto

from onnx_sparse.converters.errors import ConversionError, first_line
from onnx_sparse.converters.torch.input_layout import describe
from onnx_sparse.converters.torch.source import Source, load
from onnx_sparse.converters.verification.batches import Refused, attempt_batches, compare_batches
from onnx_sparse.converters.verification.comparison import Record, half_floats
from onnx_sparse.converters.verification.isolation import Isolated
from onnx_sparse.converters.verification.sample_inputs import KINDS
from onnx_sparse.converters.writing.tensor import Array


def verify(
    source: Any,
    model: ModelProto,
    *,
    feeds: Mapping[str, Array] | None = None,
    seed: int = 0,
    batch_count: int = len(KINDS),
    described_by: ModelProto | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[Record]:
    """Run a program in torch and its model in ONNX Runtime on the same inputs and compare the outputs.

    Data types and shapes must be equal, and so must integers and booleans. Floats may differ by 1e-5 of their value
    (4e-3 if the model computes with float16, 3e-2 with bfloat16) plus a tenth of that fraction of the output's largest
    value. NaN equals NaN. An output of which nothing was compared on a batch with rows is not equal, nor is one of a
    program that torch refuses to run.

    ONNX Runtime runs in a process of its own where one can be forked (Linux): a model that ends it is found to differ.
    torch runs in this process.

    Args:
        source: As given to `convert`.
        model: The model that `convert` returned.
        feeds: The inputs of a single batch. If omitted, inputs are generated: an ordinary batch, one with empty bags,
            one without entries, one of one row, one of no rows, and so on in turn; sizes and ids are those that the
            program's operators and symbols ask for.
        seed: The same seed gives the same inputs.
        batch_count: How many batches to run on generated inputs.
        described_by: The model before it was lowered: its operators say what the inputs are for.
        progress: Called with what is being run.

    Returns:
        One record per output.

    Raises:
        ConversionError: If torch is not installed, the source cannot be read, or `feeds` lacks an input.
    """
    from onnx_sparse.sessions.runtime import InferenceSession

    loaded = load(source)
    names = [value.name for value in model.graph.input]
    outputs = [value.name for value in model.graph.output]
    described = model if described_by is None else described_by
    specs, layout = describe(loaded)

    def run_source(kind: str, batch: Mapping[str, Array]) -> list[Array]:
        if progress is not None:
            progress(f"running torch on the batch {kind!r}")
        try:
            return loaded.run(batch)
        except Exception as error:  # whatever torch's kernels raise
            raise Refused("torch", first_line(error)) from error

    def make_run() -> Callable[[Mapping[str, Array]], list[Array]]:
        session = InferenceSession(model)
        return lambda batch: [np.asarray(value) for value in session.run(outputs, dict(batch))]

    attempts = attempt_batches(
        described, names, run_source, feeds=feeds, seed=seed, count=batch_count, specs=specs, layout=layout
    )
    with Isolated(make_run) as run_model:
        return compare_batches(attempts, dict.fromkeys(outputs, ""), run_model, computed=half_floats(described))


def require_agreement(source: Source, model: ModelProto) -> None:
    """Verify a model on generated inputs.

    Raises:
        ConversionError: An output differs, or was not compared; the message has all of these.
    """
    failed = [f"{record.output} {record.verdict}: {record.note}" for record in verify(source, model) if not record.ok]
    if failed:
        raise ConversionError("\n  ".join(["verification fails:", *failed]))
