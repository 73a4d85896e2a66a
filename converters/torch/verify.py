"""`verify`: runs a model in torch and its conversion on the same inputs and compares the outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onnx import ModelProto

from onnx_sparse.converters.errors import ConversionError, first_line
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.torch.input_layout import describe
from onnx_sparse.converters.torch.source import Source, load
from onnx_sparse.converters.verification import verify as verification
from onnx_sparse.converters.verification.batches import Refused
from onnx_sparse.converters.verification.comparison import Record
from onnx_sparse.converters.verification.sample_inputs import KINDS


def verify(
    source: Any,
    model: ModelProto,
    *,
    feeds: Mapping[str, Array] | None = None,
    seed: int = 0,
    batch_count: int = len(KINDS),
    described_by: ModelProto | None = None,
    progress: Callable[[str], None] | None = None,
    input_lines: dict[str, str] | None = None,
) -> list[Record]:
    """Run a program in torch and its model in ONNX Runtime on the same inputs and compare the outputs.

    What is compared how, and how inputs are generated, is said with `onnx_sparse.converters.verification.verify`. torch
    runs in this process.

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
        input_lines: Filled with what each input was taken for when inputs were generated.

    Returns:
        One record per output.

    Raises:
        ConversionError: If torch is not installed, the source cannot be read, or `feeds` lacks an input.
    """
    loaded = load(source)
    outputs = dict.fromkeys((value.name for value in model.graph.output), "")
    specs, layout = describe(loaded)
    return verification.verify(
        _Running(loaded),
        verification.Description(
            "torch", [value.name for value in model.graph.input], outputs, specs, layout, guards=loaded.guard
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
    """A program that runs in torch."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        return self._source.run(feeds)

    def refusal(self, error: Exception) -> Refused:
        return Refused("torch", first_line(error))


def require_agreement(source: Source, model: ModelProto) -> None:
    """Verify a model on generated inputs.

    Raises:
        ConversionError: An output differs, or was not compared; the message has all of these.
    """
    failed = [f"{record.output} {record.verdict}: {record.note}" for record in verify(source, model) if not record.ok]
    if failed:
        raise ConversionError("\n  ".join(["verification fails:", *failed]))
