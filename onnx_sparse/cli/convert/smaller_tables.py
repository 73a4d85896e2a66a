"""`convert --tables`: smaller tables, and how far from the source's answers they lead."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from onnx_sparse.cli import output
from onnx_sparse.cli.convert import verification

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_sparse.models.quantization import TableChange


class SmallerTables:
    """A model whose tables are smaller.

    Attributes:
        model: The model.
        distances: What a verification says about it, which is no failure: its answers differ.
    """

    def __init__(self, model: ModelProto, format: str, arrays: MutableMapping[str, Any]) -> None:
        """Make the tables of a model smaller.

        Raises:
            CommandError: A table cannot be.
        """
        from onnx_sparse.models.quantization import quantize_tables

        self._format = format
        self._changes: list[TableChange] = []
        try:
            self.model = quantize_tables(model, format, arrays=arrays, explain=self._changes.append)
        except ValueError as error:
            raise output.CommandError(error) from error
        self.distances: Sequence[Any] | None = None

    def document(self) -> dict[str, Any]:
        """A part of `--json`'s document."""
        distances = self.distances
        return {
            "format": self._format,
            "changed": [asdict(change) for change in self._changes],
            "distance": None if distances is None else [self._distance(record) for record in distances],
        }

    def show(self) -> None:
        """Print the sizes and distances."""
        from onnx_sparse.cli.files.model_file import size_text

        if not self._changes:
            output.write_line("  tables    none of 64 KiB that only lookups read")
            return
        rows = [
            [c.name, f"[{', '.join(map(str, c.shape))}]", c.format, size_text(c.before), size_text(c.after)]
            for c in self._changes
        ]
        output.write_line()
        output.table(["table", "shape", "is now", ">bytes before", ">bytes now"], rows)
        if self.distances:
            output.write_line()
            distances = [self._distance(record) for record in self.distances]
            output.table(
                ["output", ">max abs distance", ">max rel", ">rms"],
                [
                    [d["output"], *(verification.distance(d[measure]) for measure in ("max_abs", "max_rel", "rms"))]
                    for d in distances
                ],
            )

    @staticmethod
    def _distance(record: Any) -> dict[str, Any]:
        return {"output": record.output, "max_abs": record.max_abs, "max_rel": record.max_rel, "rms": record.rms}
