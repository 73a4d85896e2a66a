"""A program that runs in torch, to be compared with its conversion."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import ModelProto

from onnx_sparse.converters.errors import ConversionError
from onnx_sparse.converters.tensor import Array
from onnx_sparse.converters.torch.input_layout import describe
from onnx_sparse.converters.torch.source import IsolatedSource, Source
from onnx_sparse.converters.verification.reference import Reference
from onnx_sparse.converters.verification.verify import verify


class TorchReference(Reference):
    """A program that runs in torch, in a process of its own.

    Args:
        program: The program.
        model: What it was converted to.
    """

    program = "torch"

    def __init__(self, program: IsolatedSource, model: ModelProto) -> None:
        self.inputs = [value.name for value in model.graph.input]
        self.outputs = dict.fromkeys((value.name for value in model.graph.output), "")
        self.specs, self.layout = describe(program.source)
        self._program = program

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Its outputs."""
        return self._program.run(feeds)

    def guard(self, feeds: Mapping[str, Array]) -> str:
        """Why the program does not hold for a batch with which it runs."""
        return self._program.guard(feeds)


def require_agreement(source: Source, model: ModelProto) -> None:
    """Verify a model on generated inputs.

    Raises:
        ConversionError: An output differs, or was not compared; the message has all of these.
    """
    with source.isolated() as program:
        records = verify(TorchReference(program, model), model)
    failed = [f"{record.output} {record.verdict}: {record.note}" for record in records if not record.ok]
    if failed:
        raise ConversionError("\n  ".join(["verification fails:", *failed]))
